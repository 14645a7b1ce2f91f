/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport promises, whatever its kind: run over the table, with the settings that
 * change its insides. */
#include "support/net.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"

/* Rows of the table, and other settings of some of them. */
static const char *const more_specs[] = {"tcp:lanes=3",
                                         "tcp:checksum",
                                         "tcp:tls=on",
                                         "tcp:tls=on,lanes=3",
                                         "tcp:tls=on,ktls",
                                         "fault:reorder=0.3,delay_us=300",
                                         "libfabric:provider=shm",
                                         "libfabric:window=2,fragment_bytes=4k"};

static size_t spec_count(void)
{
    return shoali_transport_count() + sizeof more_specs / sizeof more_specs[0];
}

static const char *spec_at(size_t i)
{
    size_t rows = shoali_transport_count();
    return i < rows ? shoali_transport_row_at(i)->name : more_specs[i - rows];
}

#define FOR_EACH_SPEC(spec)                                  \
    for (size_t spec_i = 0; spec_i < spec_count(); spec_i++) \
        for (const char *spec = spec_at(spec_i); spec != NULL && net_is_here(spec); spec = NULL)

static bool has_control(const net *n)
{
    return (n->nodes[0].row->traits & SHOALI_TRANSPORT_CONTROL) != 0;
}

static shoal_peer_stats stats_of(const net *n, uint32_t node, uint32_t peer)
{
    shoal_peer_stats stats = {.size = sizeof stats};
    n->nodes[node].row->peer_stats(n->nodes[node].state, peer, &stats);
    return stats;
}

/* ---------------------------------------------------------------- delivery */

static const uint32_t lengths[] = {0,     1,      31,      32,      33,      1000,
                                   4095,  4096,   8191,    8192,    16384,   65535,
                                   65536, 262144, 1048583, 3 << 20, 1 << 16, 7};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], LONGEST = 3 << 20 };

static void every_length_arrives_in_both_directions(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t *bodies[LENGTHS], message[SHOALI_CONTROL_MAX_BYTES];
        uint64_t payload = 0;
        net_open(&n, 2, spec);
        net_fill(message, sizeof message, 9);
        size_t controls = 0;
        for (uint32_t i = 0; i < LENGTHS; i++) {
            bodies[i] = malloc(lengths[i] + 1);
            net_fill(bodies[i], lengths[i], i);
            payload += lengths[i];
            assert_ok(net_send(&n, 0, 1, i, bodies[i], lengths[i]));
            assert_ok(net_send(&n, 1, 0, i, bodies[i], lengths[i]));
            if (has_control(&n) && lengths[i] <= sizeof message) {
                assert_ok(n.nodes[0].row->control(n.nodes[0].state, 1, (uint16_t)(20 + i), message,
                                                  lengths[i]));
                controls++;
            }
        }
        for (uint32_t i = 0; i < 2; i++)
            NET_UNTIL(&n, n.nodes[i].complete == LENGTHS && n.nodes[i].sent_ok == LENGTHS);
        NET_UNTIL(&n, n.nodes[1].controls == controls);
        for (uint32_t i = 0; i < 2; i++) {
            shoal_peer_stats stats = stats_of(&n, i, 1 - i);
            net_check_bodies(&n.nodes[i]);
            assert_int_equal(n.nodes[i].cookie_sum, LENGTHS * (LENGTHS - 1) / 2);
            assert_int_equal(stats.sent_payload_bytes, payload);
            assert_int_equal(stats.received_payload_bytes, payload);
            assert_int_equal(stats.sent_frames, LENGTHS);
            assert_int_equal(stats.received_frames, LENGTHS);
            assert_true(stats.sent_wire_bytes >= payload &&
                        stats.sent_wire_bytes <= payload + 64 * LENGTHS);
            assert_int_equal(stats.sent_wire_bytes, stats.received_wire_bytes);
        }
        if (has_control(&n)) {
            assert_true(net_is_filled(n.nodes[1].last_control, n.nodes[1].last_control_bytes, 9));
            assert_int_equal(n.nodes[1].last_kind, 20 + LENGTHS - 1);
        }
        net_close(&n);
        for (uint32_t i = 0; i < LENGTHS; i++)
            free(bodies[i]);
    }
}

static void random_traffic_between_four_arrives(void **state)
{
    (void)state;
    enum { FRAMES = 1200, BODY = 40000 };
    FOR_EACH_SPEC(spec)
    {
        net n;
        shoali_rng rng = {check_seed(), 3, 0};
        size_t expected[NET_NODES] = {0};
        uint8_t *bodies = malloc(BODY * 16);
        for (uint32_t m = 0; m < 16; m++)
            net_fill(bodies + m * BODY, BODY, m);
        net_open(&n, 4, spec);
        for (uint32_t i = 0; i < FRAMES; i++) {
            uint32_t from = shoali_rng_next(&rng) % 4,
                     to = (from + 1 + shoali_rng_next(&rng) % 3) % 4;
            uint32_t len = (uint32_t)(shoali_rng_next(&rng) % BODY) >> shoali_rng_next(&rng) % 12;
            shoal_data head = {1, i, i % 16, len, 0, false};
            assert_ok(n.nodes[from].row->send(n.nodes[from].state, to, 0, &head,
                                              bodies + i % 16 * BODY, i));
            expected[to]++;
            if (shoali_rng_next(&rng) % 8 == 0)
                net_turn(&n, 0);
        }
        for (uint32_t i = 0; i < 4; i++) {
            NET_UNTIL(&n, n.nodes[i].complete == expected[i]);
            for (size_t b = 0; b < n.nodes[i].body_count; b++) {
                const net_body *body = &n.nodes[i].bodies[b];
                assert_true(net_is_filled(body->bytes, body->head.len_bytes, body->head.chunk));
            }
        }
        net_close(&n);
        free(bodies);
    }
}

/* ---------------------------------------------------------------- bodies nobody wants, peers
 * nobody has */

static void unwanted_bodies_are_skipped_and_counted(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t *body = malloc(LONGEST);
        net_fill(body, LONGEST, 5);
        net_open(&n, 2, spec);
        for (uint32_t i = 0; i < LENGTHS; i++) {
            shoal_data unwanted = {NET_UNWANTED_SLOT, i, 0, lengths[i], 0, false},
                       wanted = {77, i, 0, 100, 0, false};
            assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &unwanted, body, 0));
            assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &wanted, body, 0));
        }
        NET_UNTIL(&n, n.nodes[1].complete == LENGTHS && n.nodes[0].sent_ok == 2 * LENGTHS);
        NET_UNTIL(&n, stats_of(&n, 1, 0).dropped_frames == LENGTHS);
        assert_int_equal(n.nodes[1].refused, LENGTHS);
        for (size_t b = 0; b < n.nodes[1].body_count; b++)
            assert_true(net_is_filled(n.nodes[1].bodies[b].bytes, 100, 5));
        net_close(&n);
        free(body);
    }
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        shoal_data head = {1, 1, 1, 4, 0, false}, huge = {1, 1, 1, UINT32_MAX, 0, false};
        net_open(&n, 2, spec);
        const shoali_transport_row *row = n.nodes[0].row;
        void *node = n.nodes[0].state;
        assert_status(row->send(node, 0, 0, &head, "body", 1), SHOAL_EPEER);
        assert_status(row->send(node, 9, 0, &head, "body", 1), SHOAL_EPEER);
        assert_status(row->send(node, 1, 0, &huge, "body", 1), SHOAL_EINVAL);
        assert_status(row->add_peer(node, 1, n.nodes[1].address), SHOAL_EINVAL);
        assert_status(row->add_peer(node, 0, n.nodes[0].address), SHOAL_EINVAL);
        assert_status(row->add_peer(node, 2, n.nodes[1].address), SHOAL_EINVAL);
        if (has_control(&n)) {
            assert_status(row->control(node, 1, 1, "x", 1), SHOAL_EINVAL);
            assert_status(row->control(node, 1, 20, "x", SHOALI_CONTROL_MAX_BYTES + 1),
                          SHOAL_EINVAL);
            assert_status(row->control(node, 9, 20, "x", 1), SHOAL_EPEER);
        } else {
            assert_status(row->control(node, 1, 20, "x", 1), SHOAL_ENOTSUP);
        }
        row->drop_peer(node, 1, true);
        assert_status(row->send(node, 1, 0, &head, "body", 1), SHOAL_EPEER);
        row->drop_peer(node, 1, true);
        assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, 0);
        net_close(&n);
    }
}

/* ---------------------------------------------------------------- ends */

static void a_goodbye_comes_after_all_data(void **state)
{
    (void)state;
    enum { FRAMES = 12, BODY = 1 << 20 };
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t *body = malloc(BODY);
        net_fill(body, BODY, 1);
        net_open(&n, 2, spec);
        for (uint32_t i = 0; i < FRAMES; i++) {
            shoal_data head = {77, i, 1, BODY, 0, false};
            assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &head, body, i));
        }
        NET_UNTIL(&n, n.nodes[0].sent_ok == FRAMES);
        net_close_node(&n, 0);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        assert_int_equal(n.nodes[1].why[0], SHOAL_OK);
        assert_int_equal(n.nodes[1].complete, FRAMES);
        assert_int_equal(n.nodes[1].unplaced, 0);
        for (size_t b = 0; b < FRAMES; b++)
            assert_true(net_is_filled(n.nodes[1].bodies[b].bytes, BODY, 1));
        net_close(&n);
        assert_int_equal(n.nodes[1].downs[0], 1);
        free(body);
    }
}

static void an_end_without_goodbye_is_a_death(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        net_open(&n, 3, spec);
        n.nodes[1].row->drop_peer(n.nodes[1].state, 0, false);
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
        assert_int_equal(n.nodes[0].why[1], SHOAL_EPEER);
        assert_non_null(strstr(n.nodes[0].text[1], "rank 1"));
        assert_int_equal(n.nodes[0].downs[2] + n.nodes[2].downs[0] + n.nodes[2].downs[1], 0);
        net_close(&n);
        assert_int_equal(n.nodes[1].downs[0], 0); /* it dropped the peer itself: no event */
    }
}

static void dropping_a_peer_gives_everything_back(void **state)
{
    (void)state;
    enum { FRAMES = 40, BODY = 1 << 20 };
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t *body = malloc(BODY);
        net_fill(body, BODY, 1);
        net_open(&n, 2, spec);
        for (uint32_t i = 0; i < FRAMES; i++) {
            shoal_data head = {77, i, 1, BODY, 0, false};
            assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &head, body, i));
            assert_ok(n.nodes[1].row->send(n.nodes[1].state, 0, 0, &head, body, i));
        }
        NET_UNTIL(&n, n.nodes[1].body_count > 3);
        n.nodes[0].row->drop_peer(n.nodes[0].state, 1, false);
        assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, FRAMES);
        assert_int_equal(n.nodes[0].cookie_sum, FRAMES * (FRAMES - 1) / 2);
        assert_int_equal(n.nodes[0].body_count, n.nodes[0].complete + n.nodes[0].unplaced);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        assert_int_equal(n.nodes[1].why[0], SHOAL_EPEER);
        assert_int_equal(n.nodes[1].sent_ok + n.nodes[1].sent_failed, FRAMES);
        assert_int_equal(n.nodes[1].body_count, n.nodes[1].complete + n.nodes[1].unplaced);
        for (size_t b = 0; b < n.nodes[1].body_count; b++)
            if (n.nodes[1].bodies[b].state == NET_COMPLETE)
                assert_true(net_is_filled(n.nodes[1].bodies[b].bytes, BODY, 1));
        net_close(&n);
        free(body);
    }
}

static void drop_from(net_node *node, uint32_t peer)
{
    node->on_place = NULL;
    node->row->drop_peer(node->state, peer, false);
}

static void a_peer_may_be_dropped_from_inside_a_callback(void **state)
{
    (void)state;
    enum { FRAMES = 20, BODY = 3000 };
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t body[BODY] = {0};
        net_open(&n, 2, spec);
        n.nodes[1].on_place = drop_from;
        for (uint32_t i = 0; i < FRAMES; i++) {
            shoal_data head = {77, i, 1, BODY, 0, false};
            assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &head, body, i));
        }
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
        assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, FRAMES);
        assert_int_equal(n.nodes[1].body_count, n.nodes[1].complete + n.nodes[1].unplaced);
        net_close(&n);
    }
}

/* ---------------------------------------------------------------- what it costs and survives */

static void an_idle_transport_sleeps(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        uint8_t body[70000] = {0};
        net_open(&n, 2, spec);
        assert_ok(net_send(&n, 0, 1, 1, body, sizeof body));
        NET_UNTIL(&n, n.nodes[1].complete == 1 && n.nodes[0].sent_ok == 1);
        for (int i = 0; i < 3; i++)
            net_turn(&n, 0);
        for (uint32_t i = 0; i < 2; i++) {
            struct pollfd fd = {.fd = n.nodes[i].row->fd(n.nodes[i].state), .events = POLLIN};
            assert_int_equal(poll(&fd, 1, 0), 0);
            assert_true(n.nodes[i].row->next_wake_us(n.nodes[i].state) > net_now_us(&n));
        }
        net_close(&n);
    }
}

static void a_forked_child_lets_go(void **state)
{
    (void)state;
    FOR_EACH_SPEC(spec)
    {
        net n;
        int hold[2], exit_status;
        net_open(&n, 2, spec);
        assert_int_equal(pipe(hold), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            char byte;
            close(hold[1]);
            for (uint32_t i = 0; i < 2; i++)
                n.nodes[i].row->forked(n.nodes[i].state);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1); /* lives until the parent is done */
        }
        assert_ok(net_send(&n, 0, 1, 1, (const uint8_t *)"", 0));
        NET_UNTIL(&n, n.nodes[1].complete == 1);
        n.nodes[0].row->drop_peer(n.nodes[0].state, 1, false);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1); /* the child does not keep the connection alive */
        close(hold[1]);
        close(hold[0]);
        assert_int_equal(waitpid(child, &exit_status, 0), child);
        assert_int_equal(exit_status, 0);
        net_close(&n);
    }
}

/* Open, join, exchange, close, with the k-th allocation failing: an error or success, never a
 * crash, hang or leak. */
static bool exchange_with_failing_allocation(const char *spec, size_t k)
{
    static uint8_t body[20000];
    net n = {0};
    bool opened = true;
    shoali_alloc_fail_at(k);
    for (uint32_t i = 0; i < 2 && opened; i++) {
        shoali_transport_args args = net_args(i, 2);
        shoal_status status = net_open_node(&n, i, spec, &args);
        opened = status == SHOAL_OK;
        if (!opened)
            assert_int_equal(status, SHOAL_ENOMEM);
    }
    for (uint32_t i = 0; i < 2 && opened; i++)
        opened = n.nodes[i].row->add_peer(n.nodes[i].state, 1 - i, n.nodes[1 - i].address) ==
                 SHOAL_OK;
    if (opened) {
        bool done = false;
        for (uint32_t step = 0; step < 3 && !done; step++) {
            uint64_t end_us = net_deadline();
            while (!done && (step == 0 ? n.nodes[0].ups[1] == 0 || n.nodes[1].ups[0] == 0
                                       : n.nodes[1].complete + n.nodes[0].complete < 2 * step)) {
                net_check_deadline(end_us, "a result with a failing allocation", __FILE__,
                                   __LINE__);
                net_turn(&n, 1000);
                n.skew_us += 20000; /* pauses after a failure need not be waited for */
                done = n.nodes[0].downs[1] + n.nodes[1].downs[0] + n.nodes[0].sent_failed +
                           n.nodes[1].sent_failed >
                       0;
            }
            for (uint32_t i = 0; i < 2 && !done; i++)
                done = net_send(&n, i, 1 - i, step, body, sizeof body) != SHOAL_OK;
        }
    }
    bool failed = shoali_alloc_fail_at(0) >= k;
    net_close(&n);
    return failed;
}

static void hush(void *ctx, shoali_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    shoali_log_set_sink(hush, NULL); /* refused connections are what we want here */
    FOR_EACH_SPEC(spec)
    {
        if (strncmp(spec, "libfabric:", 10) == 0)
            continue; /* an endpoint of libfabric takes its time; the row itself is enough */
        size_t k = 1;
        while (exchange_with_failing_allocation(spec, k))
            assert_true(++k < 200);
        assert_true(k > 5);
    }
    shoali_log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_length_arrives_in_both_directions),
        CHECK_TEST(random_traffic_between_four_arrives),
        CHECK_TEST(unwanted_bodies_are_skipped_and_counted),
        CHECK_TEST(wrong_calls_are_refused),
        CHECK_TEST(a_goodbye_comes_after_all_data),
        CHECK_TEST(an_end_without_goodbye_is_a_death),
        CHECK_TEST(dropping_a_peer_gives_everything_back),
        CHECK_TEST(a_peer_may_be_dropped_from_inside_a_callback),
        CHECK_TEST(an_idle_transport_sleeps),
        CHECK_TEST(a_forked_child_lets_go),
        CHECK_TEST(any_allocation_may_fail),
    };
    return CHECK_RUN(tests);
}
