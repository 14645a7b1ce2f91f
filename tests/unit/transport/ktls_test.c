/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's TLS: keys as RFC 8448 has them, and a connection that is handed over where the
 * kernel can, and works as well where it cannot. */
#include "transport/ktls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/check.h"
#include "support/hex.h"
#include "transport/stream.h"
#include "transport/tls.h"

enum { BYTES = 300000 };

static const uint8_t token[] = "the secret of this job";

/* RFC 8448, section 3: application traffic of the client and of the server. */
static void keys_are_those_of_the_rfc(void **state)
{
    (void)state;
    static const struct {
        const char *secret, *key, *nonce;
    } known[] = {{"9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
                  "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"},
                 {"a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
                  "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct tls12_crypto_info_aes_gcm_128 info;
        uint8_t secret[SHOALI_KTLS_SECRET_BYTES], key[16], nonce[12], none[8] = {0};
        assert_int_equal(hex_parse(known[i].secret, secret, sizeof secret), sizeof secret);
        assert_int_equal(hex_parse(known[i].key, key, sizeof key), sizeof key);
        assert_int_equal(hex_parse(known[i].nonce, nonce, sizeof nonce), sizeof nonce);
        assert_true(shoali_ktls_info(secret, &info));
        assert_int_equal(info.info.version, 0x0304);
        assert_int_equal(info.info.cipher_type, TLS_CIPHER_AES_GCM_128);
        assert_memory_equal(info.key, key, sizeof key);
        assert_memory_equal(info.salt, nonce, sizeof info.salt);
        assert_memory_equal(info.iv, nonce + sizeof info.salt, sizeof info.iv);
        assert_memory_equal(info.rec_seq, none, sizeof none);
    }
}

typedef struct line {
    shoali_tls_keys *keys[2];
    shoali_tls *tls[2];
    int fd[2];
} line;

/* Over TCP, which alone can be the kernel's. */
static void line_open(line *l, const bool kernel[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
    l->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(l->fd[0], (const struct sockaddr *)&at, length), 0);
    l->fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(l->fd[i], F_SETFL, O_NONBLOCK), 0);
        assert_ok(shoali_tls_keys_create(token, sizeof token, &l->keys[i]));
        if (kernel[i])
            shoali_tls_keys_use_kernel(l->keys[i]);
        assert_ok(shoali_tls_create(l->keys[i], l->fd[i], i == 0, &l->tls[i]));
    }
    shoal_status done[2] = {SHOAL_PENDING, SHOAL_PENDING};
    while (done[0] != SHOAL_OK || done[1] != SHOAL_OK)
        for (int i = 0; i < 2; i++) {
            if (done[i] == SHOAL_PENDING)
                done[i] = shoali_tls_handshake(l->tls[i]);
            assert_true(done[i] == SHOAL_PENDING || done[i] == SHOAL_OK);
        }
}

static void line_close(line *l)
{
    for (int i = 0; i < 2; i++) {
        shoali_tls_destroy(l->tls[i]);
        shoali_tls_keys_destroy(l->keys[i]);
        close(l->fd[i]);
    }
}

/* What one end says in pieces arrives at the other. */
static void say(line *l, int from)
{
    static uint8_t said[BYTES], heard[BYTES];
    size_t sent = 0, got = 0;
    for (size_t i = 0; i < BYTES; i++)
        said[i] = (uint8_t)(i * 31 + i / 251 + (size_t)from);
    memset(heard, 0, sizeof heard);
    while (got < BYTES) {
        size_t half = (BYTES - sent) / 2;
        struct iovec out[2] = {{said + sent, half}, {said + sent + half, BYTES - sent - half}};
        ssize_t n = sent < BYTES ? shoali_tls_write(l->tls[from], out, 2) : 0;
        assert_true(n >= 0 || n == SHOALI_STREAM_LATER);
        sent += n > 0 ? (size_t)n : 0;
        struct pollfd there = {.fd = l->fd[1 - from], .events = POLLIN};
        if (!shoali_tls_unread(l->tls[1 - from]))
            assert_true(poll(&there, 1, 10000) >= 0);
        struct iovec in = {heard + got, BYTES - got};
        n = shoali_tls_read(l->tls[1 - from], &in, 1, true);
        assert_true(n >= 0 || n == SHOALI_STREAM_LATER);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(said, heard, BYTES);
}

/* Either end, or both, would like the kernel: what it sends, OpenSSL reads, and the other way. */
static void it_is_used_where_it_is(void **state)
{
    (void)state;
    static const bool wishes[4][2] = {{false, false}, {true, false}, {false, true}, {true, true}};
    bool here = shoali_ktls_here();
    print_message("this kernel %s TLS\n", here ? "has" : "has no");
    for (size_t k = 0; k < 4; k++) {
        line l;
        line_open(&l, wishes[k]);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(shoali_tls_kernel_sends(l.tls[i]), here && wishes[k][i]);
            assert_int_equal(shoali_tls_kernel_receives(l.tls[i]), here && wishes[k][i]);
        }
        for (int round = 0; round < 2; round++) {
            say(&l, 0);
            say(&l, 1);
        }
        shutdown(l.fd[0], SHUT_WR);
        uint8_t byte;
        struct iovec in = {&byte, 1};
        struct pollfd there = {.fd = l.fd[1], .events = POLLIN};
        assert_int_equal(poll(&there, 1, 10000), 1);
        assert_int_equal(shoali_tls_read(l.tls[1], &in, 1, true), SHOALI_STREAM_END);
        line_close(&l);
    }
}

/* A byte on the line that nobody encrypted is noticed by either. */
static void a_strange_record_is_refused(void **state)
{
    (void)state;
    static const uint8_t record[] = {23, 3,  3,  0,  20, 1,  2,  3,  4,  5,  6,  7, 8,
                                     9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    for (int kernel = 0; kernel < 2; kernel++) {
        line l;
        uint8_t byte;
        struct iovec in = {&byte, 1};
        line_open(&l, (const bool[2]){false, kernel == 1});
        assert_int_equal(send(l.fd[0], record, sizeof record, MSG_NOSIGNAL), sizeof record);
        struct pollfd there = {.fd = l.fd[1], .events = POLLIN};
        assert_int_equal(poll(&there, 1, 10000), 1);
        assert_int_equal(shoali_tls_read(l.tls[1], &in, 1, true), SHOALI_STREAM_FAILED);
        assert_int_equal(errno, EBADMSG);
        line_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(keys_are_those_of_the_rfc),
        CHECK_TEST(it_is_used_where_it_is),
        CHECK_TEST(a_strange_record_is_refused),
    };
    return CHECK_RUN(tests);
}
