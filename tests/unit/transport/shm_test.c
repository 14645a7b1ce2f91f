/* SPDX-License-Identifier: Apache-2.0 */
/* What is special about shared memory: who may come in, and what a member may not do to us. */
#include "support/net.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "transport/shm.h"
#include "wire/bytes.h"

static shoali_shm *shm_of(net *n, uint32_t node)
{
    return n->nodes[node].state;
}

static void collect(void *ctx, shoali_log_level level, const char *line)
{
    (void)level;
    strncat(ctx, line, 4095 - strlen(ctx));
}

static void only_one_host_and_network_share_memory(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    char address[SHOALI_ADDRESS_BYTES];
    shoali_address other;
    assert_ok(net_open_node(&n, 0, "shm", &args));
    const shoali_transport_row *row = n.nodes[0].row;
    assert_ok(shoali_address_parse(n.nodes[0].address, &other));
    other.netns++; /* a lab: shm would go round its shaped links */
    shoali_address_format(&other, address);
    assert_status(row->add_peer(n.nodes[0].state, 1, address), SHOAL_ENOTSUP);
    other.netns--;
    other.boot[3] ^= 1;
    shoali_address_format(&other, address);
    assert_status(row->add_peer(n.nodes[0].state, 1, address), SHOAL_ENOTSUP);
    snprintf(address, sizeof address, "host=a port=4000 ip=10.0.0.1 boot=b netns=1");
    assert_status(row->add_peer(n.nodes[0].state, 1, address), SHOAL_ENOTSUP);
    assert_status(row->add_peer(n.nodes[0].state, 1, "nonsense"), SHOAL_EINVAL);
    net_close(&n);
}

static void ring_size_is_checked(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    assert_status(net_open_node(&n, 0, "shm:ring_bytes=5000", &args), SHOAL_EINVAL);
    assert_error_has("power of two");
}

static void an_early_caller_waits(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args first = net_args(0, 2), second = net_args(1, 2);
    assert_ok(net_open_node(&n, 0, "shm", &first));
    assert_ok(net_open_node(&n, 1, "shm", &second));
    assert_ok(n.nodes[1].row->add_peer(n.nodes[1].state, 0, n.nodes[0].address));
    NET_UNTIL(&n, n.nodes[1].ups[0] == 1);
    assert_ok(net_send(&n, 1, 0, 1, (const uint8_t *)"", 0));
    n.skew_us += 7000000; /* longer than strangers have */
    for (int i = 0; i < 5; i++)
        net_turn(&n, 1000);
    assert_int_equal(n.nodes[0].ups[1] + n.nodes[0].body_count, 0);
    assert_ok(n.nodes[0].row->add_peer(n.nodes[0].state, 1, n.nodes[1].address));
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1 && n.nodes[0].complete == 1);
    net_close(&n);
}

static void another_token_or_job_is_refused(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        net n = {0};
        char log[4096] = "";
        shoali_transport_args first = net_args(0, 2), second = net_args(1, 2);
        if (round == 0)
            second.token_bytes = 10;
        else
            second.job = "another";
        shoali_log_set_sink(collect, log);
        assert_ok(net_open_node(&n, 0, "shm", &first));
        assert_ok(net_open_node(&n, 1, "shm", &second));
        net_add_all(&n);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        NET_UNTIL(&n, shm_of(&n, 0)->refused == 1);
        assert_int_equal(n.nodes[1].why[0], SHOAL_EAUTH);
        assert_non_null(strstr(log, round == 0 ? "wrong token" : "job 'another'"));
        assert_int_equal(n.nodes[0].downs[1], 0);
        n.skew_us += 11000000;
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
        assert_int_equal(n.nodes[0].why[1], SHOAL_ETIMEDOUT);
        shoali_log_set_sink(NULL, NULL);
        net_close(&n);
    }
}

/* ---------------------------------------------------------------- strangers and hostile members */

static int call(const net *n, uint32_t node)
{
    shoali_address address;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    assert_ok(shoali_address_parse(n->nodes[node].address, &address));
    size_t len = strlen(address.unix_name);
    memcpy(to.sun_path + 1, address.unix_name, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
                     0);
    return fd;
}

static void strangers_are_turned_away(void **state)
{
    (void)state;
    enum { STRANGERS = 30 };
    net n;
    char log[4096] = "";
    int silent[STRANGERS];
    shoali_rng rng = {check_seed(), 7, 0};
    shoali_log_set_sink(collect, log);
    net_open(&n, 2, "shm");
    for (int i = 0; i < STRANGERS; i++) {
        uint8_t bytes[200];
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] = (uint8_t)shoali_rng_next(&rng);
        int fd = call(&n, 0);
        assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        silent[i] = call(&n, 0);
        net_turn(&n, 0);
        close(fd);
    }
    NET_UNTIL(&n, shm_of(&n, 0)->refused >= STRANGERS);
    assert_true(shm_of(&n, 0)->stranger_count <= 20); /* 16 and two per endpoint */
    n.skew_us += 6000000;
    NET_UNTIL(&n, shm_of(&n, 0)->stranger_count == 0);
    assert_ok(net_send(&n, 0, 1, 1, (const uint8_t *)"", 0));
    NET_UNTIL(&n, n.nodes[1].complete == 1);
    shoali_log_set_sink(NULL, NULL);
    for (int i = 0; i < STRANGERS; i++)
        close(silent[i]);
    net_close(&n);
}

static void another_user_is_turned_away(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    net n;
    char log[4096] = "";
    int exit_status;
    shoali_log_set_sink(collect, log);
    net_open(&n, 2, "shm");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte;
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        _exit(read(call(&n, 0), &byte, 1) == 0 ? 0 : 1);
    }
    NET_UNTIL(&n, shm_of(&n, 0)->refused == 1);
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
    assert_non_null(strstr(log, "another user"));
    shoali_log_set_sink(NULL, NULL);
    net_close(&n);
}

/* Join node 0 as endpoint 1 by hand, up to the message that passes descriptors. */
static int join_by_hand(net *n)
{
    shoali_handshake h;
    shoali_transport_args args = net_args(0, 2);
    shoali_hello hello = {
        .purpose = SHOALI_PURPOSE_MEMORY, .endpoint = 1, .incarnation = 7, .job = "test"};
    assert_ok(net_open_node(n, 0, "shm", &args));
    assert_ok(n->nodes[0].row->add_peer(n->nodes[0].state, 1, n->nodes[0].address));
    int fd = call(n, 0);
    shoali_handshake_start(&h, true, &hello, args.token, args.token_bytes);
    while (!h.done || h.out_len > 0) {
        uint8_t bytes[SHOALI_HELLO_BYTES];
        if (h.out_len > 0)
            assert_int_equal(send(fd, h.out, h.out_len, MSG_NOSIGNAL), h.out_len);
        h.out_len = 0;
        net_turn(n, 0);
        ssize_t got = h.done ? 0 : recv(fd, bytes, shoali_handshake_want(&h), MSG_DONTWAIT);
        if (got > 0) {
            shoal_status status = shoali_handshake_feed(&h, bytes, (size_t)got);
            assert_true(status == SHOAL_OK || status == SHOAL_PENDING);
        }
    }
    return fd;
}

static void pass(int socket, const int *fds, size_t count)
{
    uint8_t body[8] = "RING";
    struct iovec part = {body, sizeof body};
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), sizeof body);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void wrong_descriptors_end_the_peer(void **state)
{
    (void)state;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), unsealed = memfd_create("test", MFD_CLOEXEC);
    assert_true(null >= 0 && unsealed >= 0);
    assert_int_equal(ftruncate(unsealed, 8192), 0);
    const struct {
        size_t count;
        int fds[8];
    } wrong[] = {
        {0, {0}},
        {1, {null}},
        {3, {null, null, null}},
        {3, {unsealed, null, null}},
        {8, {null, null, null, null, null, null, null, null}},
    };
    /* qemu's user mode takes all eight of a message that has room for three, and keeps five */
    const bool counted = getenv("SHOAL_TEST_EMULATED") == NULL;
    size_t before = open_descriptors();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        net n = {0};
        int fd = join_by_hand(&n);
        pass(fd, wrong[i].fds, wrong[i].count);
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
        assert_int_equal(n.nodes[0].why[1], SHOAL_ECORRUPT);
        net_close(&n);
        close(fd);
        if (counted)
            assert_int_equal(open_descriptors(), before);
    }
    close(null);
    close(unsealed);
}

static void nonsense_in_the_ring_ends_the_peer(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        net n = {0};
        shoali_ring ring;
        shoali_bell bell;
        uint8_t header[SHOALI_FRAME_BYTES] = {0};
        int fd = join_by_hand(&n);
        assert_ok(shoali_ring_create(4096, &ring));
        assert_ok(shoali_bell_create(&bell));
        pass(fd, (const int[]){ring.fd, bell.memory_fd, bell.event_fd}, 3);
        NET_UNTIL(&n, n.nodes[0].ups[1] == 1);
        shoali_frame frame = {
            .kind = kind == 1 ? 20 : 1, .summed = kind == 2, .head = {.slot = 77, .len_bytes = 9}};
        if (kind > 0)
            shoali_frame_encode(&frame, header); /* else: no header at all */
        if (kind < 3)
            shoali_ring_write(&ring, header, sizeof header);
        else
            atomic_store(&ring.shared->tail, 1 << 20);
        net_turn(&n, 0);
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1 || (shm_of(&n, 0)->more = true, false));
        assert_int_equal(n.nodes[0].why[1], SHOAL_ECORRUPT);
        shoali_ring_close(&ring);
        shoali_bell_close(&bell);
        close(fd);
        net_close(&n);
    }
}

/* Both ends sound, then a counter between them changes by itself: nobody waits for it. */
static void changed_counters_end_both(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        net n;
        net_open(&n, 2, "shm");
        shoali_shm_link *link = shm_of(&n, 0)->peers[1].link;
        shoali_ring_head *head = kind < 3 ? link->out.shared : link->in.shared;
        atomic_uint_fast64_t *word = kind % 3 == 0 ? &head->tail : &head->head;
        atomic_store(word, kind % 3 == 1 ? 1 << 30 : (uint64_t)-4096);
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1 && n.nodes[1].downs[0] == 1);
        assert_true(n.nodes[0].why[1] == SHOAL_ECORRUPT || n.nodes[1].why[0] == SHOAL_ECORRUPT);
        net_close(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(only_one_host_and_network_share_memory),
        CHECK_TEST(ring_size_is_checked),
        CHECK_TEST(an_early_caller_waits),
        CHECK_TEST(another_token_or_job_is_refused),
        CHECK_TEST(strangers_are_turned_away),
        CHECK_TEST(another_user_is_turned_away),
        CHECK_TEST(wrong_descriptors_end_the_peer),
        CHECK_TEST(nonsense_in_the_ring_ends_the_peer),
        CHECK_TEST(changed_counters_end_both),
    };
    return CHECK_RUN(tests);
}
