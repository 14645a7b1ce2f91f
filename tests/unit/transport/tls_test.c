/* SPDX-License-Identifier: Apache-2.0 */
/* TLS by the job's token: alone over a relay that may look and touch, and below the frames of two
 * nodes that do not agree. */
#include "support/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/stream.h"
#include "transport/tcp.h"

static const uint8_t token[] = "the secret of this job", other[] = "the secret of another";

/* Two ends and what goes between them: ends[i] writes into pipe i, which the test carries over. */
typedef struct pair {
    shoali_tls_keys *keys[2];
    shoali_tls *tls[2];
    int here[2], there[2];
} pair;

static void pair_open(pair *p, const uint8_t *token_1, size_t token_1_bytes)
{
    assert_ok(shoali_tls_keys_create(token, sizeof token, &p->keys[0]));
    assert_ok(shoali_tls_keys_create(token_1, token_1_bytes, &p->keys[1]));
    for (int i = 0; i < 2; i++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
                         0);
        p->here[i] = fds[0];
        p->there[i] = fds[1];
        assert_ok(shoali_tls_create(p->keys[i], p->here[i], i == 0, &p->tls[i]));
    }
}

static void pair_close(pair *p)
{
    for (int i = 0; i < 2; i++) {
        shoali_tls_destroy(p->tls[i]);
        shoali_tls_keys_destroy(p->keys[i]);
        close(p->here[i]);
        close(p->there[i]);
    }
}

/* What end `from` has sent goes to the other; returns how many bytes, the last of them in seen. */
static size_t carry(pair *p, int from, uint8_t *seen, size_t capacity)
{
    ssize_t got = recv(p->there[from], seen, capacity, 0);
    if (got <= 0)
        return 0;
    assert_int_equal(send(p->there[1 - from], seen, (size_t)got, MSG_NOSIGNAL), got);
    return (size_t)got;
}

/* Until one end is done or has failed; results_out[i] of each. */
static void shake(pair *p, shoal_status results_out[2])
{
    uint8_t seen[8192];
    results_out[0] = results_out[1] = SHOAL_PENDING;
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 2; i++) {
            if (results_out[i] == SHOAL_PENDING)
                results_out[i] = shoali_tls_handshake(p->tls[i]);
            (void)carry(p, i, seen, sizeof seen);
        }
}

static void what_is_said_arrives_and_nobody_else_can_read_it(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    pair p;
    shoal_status results[2];
    static uint8_t said[BYTES], heard[BYTES], seen[2 * BYTES];
    pair_open(&p, token, sizeof token);
    shake(&p, results);
    assert_ok(results[0]);
    assert_ok(results[1]);
    net_fill(said, sizeof said, 7);
    size_t sent = 0, got = 0, on_the_way = 0;
    while (got < BYTES) {
        struct iovec out[2] = {
            {said + sent, (BYTES - sent) / 3},
            {said + sent + (BYTES - sent) / 3, BYTES - sent - (BYTES - sent) / 3}};
        ssize_t n = shoali_tls_write(p.tls[0], out, 2);
        assert_true(n >= 0);
        sent += (size_t)n;
        for (size_t m; (m = carry(&p, 0, seen + on_the_way, 4096)) > 0;)
            on_the_way += m;
        struct iovec in = {heard + got, BYTES - got};
        n = shoali_tls_read(p.tls[1], &in, 1, true);
        assert_true(n >= 0);
        got += (size_t)n;
    }
    assert_memory_equal(said, heard, BYTES);
    assert_true(on_the_way > BYTES && on_the_way < BYTES + BYTES / 50);
    for (size_t at = 0; at + 16 <= BYTES; at += 4096)
        assert_null(memmem(seen, on_the_way, said + at, 16));
    assert_false(shoali_tls_unread(p.tls[1]));
    pair_close(&p);
}

static void a_changed_bit_is_noticed(void **state)
{
    (void)state;
    pair p;
    shoal_status results[2];
    uint8_t seen[256], heard[64];
    pair_open(&p, token, sizeof token);
    shake(&p, results);
    struct iovec out = {(uint8_t[]){1, 2, 3, 4}, 4}, in = {heard, sizeof heard};
    assert_int_equal(shoali_tls_write(p.tls[0], &out, 1), 4);
    ssize_t got = recv(p.there[0], seen, sizeof seen, 0);
    assert_true(got > 8);
    seen[got - 3] ^= 0x10;
    assert_int_equal(send(p.there[1], seen, (size_t)got, MSG_NOSIGNAL), got);
    assert_int_equal(shoali_tls_read(p.tls[1], &in, 1, true), SHOALI_STREAM_FAILED);
    assert_int_equal(errno, EBADMSG);
    pair_close(&p);
}

static void another_token_is_noticed_at_both_ends(void **state)
{
    (void)state;
    pair p;
    shoal_status results[2];
    pair_open(&p, other, sizeof other);
    shake(&p, results);
    assert_int_equal(results[0], SHOAL_EAUTH);
    assert_int_equal(results[1], SHOAL_EAUTH);
    assert_error_has("does not hold this job's token");
    pair_close(&p);
}

/* Everything that the dialler said in one session, said again in another. */
static void a_recording_opens_nothing(void **state)
{
    (void)state;
    pair p;
    shoal_status results[2] = {SHOAL_PENDING, SHOAL_PENDING};
    uint8_t seen[8192], recorded[8192];
    size_t length = 0;
    pair_open(&p, token, sizeof token);
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 2; i++) {
            if (results[i] == SHOAL_PENDING)
                results[i] = shoali_tls_handshake(p.tls[i]);
            size_t got = carry(&p, i, seen, sizeof seen);
            if (i == 0 && length + got <= sizeof recorded) {
                memcpy(recorded + length, seen, got);
                length += got;
            }
        }
    assert_ok(results[1]);
    pair_close(&p);
    assert_true(length > 200);
    pair_open(&p, token, sizeof token);
    assert_int_equal(send(p.there[1], recorded, length, MSG_NOSIGNAL), length);
    shoal_status status = SHOAL_PENDING;
    for (int round = 0; round < 10 && status == SHOAL_PENDING; round++)
        status = shoali_tls_handshake(p.tls[1]);
    assert_int_equal(status, SHOAL_EAUTH);
    assert_false(shoali_tls_is_open(p.tls[1]));
    pair_close(&p);
}

static void an_end_is_an_end(void **state)
{
    (void)state;
    pair p;
    shoal_status results[2];
    uint8_t heard[8];
    struct iovec in = {heard, sizeof heard};
    pair_open(&p, token, sizeof token);
    shake(&p, results);
    assert_int_equal(shoali_tls_read(p.tls[1], &in, 1, true), SHOALI_STREAM_LATER);
    assert_int_equal(shutdown(p.there[1], SHUT_WR), 0);
    assert_int_equal(shoali_tls_read(p.tls[1], &in, 1, true), SHOALI_STREAM_END);
    pair_close(&p);
}

/* ---------------------------------------------------------------- nodes that do not agree */

static void collect(void *ctx, shoali_log_level level, const char *line)
{
    char *log = ctx;
    (void)level;
    if (strlen(log) + strlen(line) < 4000)
        strcat(log, line);
}

/* Node 1 calls node 0; both say why not. */
static void expect_refusal(const char *spec_0, const char *spec_1,
                           const shoali_transport_args *args_1, const char *caller_says,
                           const char *listener_says)
{
    net n = {0};
    char log[4096] = "";
    shoali_transport_args args_0 = net_args(0, 2);
    shoali_log_set_sink(collect, log);
    assert_ok(net_open_node(&n, 0, spec_0, &args_0));
    assert_ok(net_open_node(&n, 1, spec_1, args_1));
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[1].why[0], SHOAL_EAUTH);
    assert_non_null(strstr(n.nodes[1].text[0], caller_says));
    NET_UNTIL(&n, shoali_tcp_refused(n.nodes[0].state) > 0);
    assert_non_null(strstr(log, listener_says));
    n.skew_us += 11000000;
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].why[1], SHOAL_EAUTH);
    assert_non_null(strstr(n.nodes[0].text[1], listener_says));
    shoali_log_set_sink(NULL, NULL);
    net_close(&n);
}

static void both_ends_say_why_they_do_not_agree(void **state)
{
    (void)state;
    shoali_transport_args args = net_args(1, 2);
    expect_refusal("tcp:tls=on", "tcp:tls=off", &args, "TLS is wanted here", "speaks without TLS");
    expect_refusal("tcp:tls=off", "tcp:tls=on", &args, "no TLS here", "wants TLS, which is off");
    args.token = other;
    args.token_bytes = sizeof other;
    expect_refusal("tcp:tls=on", "tcp:tls=on", &args, "does not hold this job's token",
                   "does not hold this job's token");
    args = net_args(1, 2);
    args.job = "another";
    expect_refusal("tcp:tls=on", "tcp:tls=on", &args, "belongs to another job", "job 'another'");
}

static void tls_needs_a_token(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    args.token_bytes = 0;
    assert_status(net_open_node(&n, 0, "tcp:tls=on", &args), SHOAL_EINVAL);
    assert_error_has("needs a job token");
    net_close(&n);
}

/* Every connection of a pair: none by itself on one host, all when asked for. */
static void one_host_needs_no_tls_unless_asked(void **state)
{
    (void)state;
    static const char *const specs[] = {"tcp", "tcp:tls=on"};
    for (int i = 0; i < 2; i++) {
        net n;
        shoal_data head = {77, 1, 0, 4, 0, false};
        net_open(&n, 2, specs[i]);
        assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &head, "body", 1));
        NET_UNTIL(&n, n.nodes[1].complete == 1);
        const shoali_tcp *tcp = n.nodes[0].state;
        for (const shoali_conn *c = tcp->peers[1].conns; c != NULL; c = c->next)
            assert_int_equal(c->tls != NULL, i == 1);
        net_close(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_said_arrives_and_nobody_else_can_read_it),
        CHECK_TEST(a_changed_bit_is_noticed),
        CHECK_TEST(another_token_is_noticed_at_both_ends),
        CHECK_TEST(a_recording_opens_nothing),
        CHECK_TEST(an_end_is_an_end),
        CHECK_TEST(both_ends_say_why_they_do_not_agree),
        CHECK_TEST(tls_needs_a_token),
        CHECK_TEST(one_host_needs_no_tls_unless_asked),
    };
    return CHECK_RUN(tests);
}
