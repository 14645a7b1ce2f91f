/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: real concurrency of both ends, and a real death. */
#include "support/net.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

enum { FRAMES = 3000, LONGEST = 150000, SOURCES = 8, IN_FLIGHT = 6 };

static const char *const specs[] = {"tcp",       "tcp:lanes=2,checksum",
                                    "shm",       "shm:ring_bytes=8k",
                                    "libfabric", "libfabric:provider=shm"};
/* The last one only lives: who is killed there may hold a lock of the provider's, on which others
 * spin (docs/libfabric.md). */
enum { SPECS = sizeof specs / sizeof specs[0], THAT_DIE = SPECS - 1 };

typedef struct pair {
    net n;
    uint32_t me;
    int wire;
    pid_t child;
} pair;

/* Fork; each side opens its node and learns the other's address over the wire. */
static void start(pair *p, const char *spec)
{
    int wires[2];
    char other[SHOALI_ADDRESS_BYTES];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires), 0);
    *p = (pair){.child = fork()};
    assert_true(p->child >= 0);
    p->me = p->child == 0;
    p->wire = wires[p->me];
    close(wires[1 - p->me]);
    shoali_transport_args args = net_args(p->me, 2);
    assert_ok(net_open_node(&p->n, p->me, spec, &args));
    net_node *node = &p->n.nodes[p->me];
    assert_int_equal(write(p->wire, node->address, sizeof node->address), sizeof node->address);
    assert_int_equal(read(p->wire, other, sizeof other), sizeof other);
    assert_ok(node->row->add_peer(node->state, 1 - p->me, other));
    NET_UNTIL(&p->n, node->ups[1 - p->me] == 1);
}

/* Send and receive FRAMES of random length at once; check every byte as it comes. */
static void exchange(pair *p)
{
    net_node *node = &p->n.nodes[p->me];
    uint8_t *sources = malloc(SOURCES * LONGEST);
    shoali_rng rng = {check_seed(), 8 + p->me, 0};
    uint32_t sent = 0;
    size_t checked = 0;
    for (uint32_t s = 0; s < SOURCES; s++)
        net_fill(sources + s * LONGEST, LONGEST, s);
    uint64_t end_us = net_deadline();
    while (node->complete < FRAMES || node->sent_ok < FRAMES) {
        net_check_deadline(end_us, "all frames", __FILE__, __LINE__);
        while (sent < FRAMES && sent - node->sent_ok < IN_FLIGHT) {
            uint32_t len = (uint32_t)(shoali_rng_next(&rng) % LONGEST) >>
                           shoali_rng_next(&rng) % 14;
            shoal_data head = {77, sent, sent % SOURCES, len, 0, false};
            assert_ok(node->row->send(node->state, 1 - p->me, 0, &head,
                                      sources + sent % SOURCES * LONGEST, sent));
            sent++;
        }
        net_turn(&p->n, 1000000);
        for (; checked < node->body_count && node->bodies[checked].state == NET_COMPLETE;
             checked++) {
            net_body *body = &node->bodies[checked];
            assert_true(net_is_filled(body->bytes, body->head.len_bytes, body->head.chunk));
            free(body->bytes);
            body->bytes = NULL;
        }
    }
    assert_int_equal(node->body_count, FRAMES);
    free(sources);
}

static void both_directions_at_once(void **state)
{
    (void)state;
    for (size_t s = 0; s < SPECS; s++) {
        if (!net_is_here(specs[s]))
            continue;
        pair p;
        int exit_status;
        start(&p, specs[s]);
        exchange(&p);
        if (p.child == 0) {
            NET_UNTIL(&p.n, p.n.nodes[1].downs[0] == 1); /* the parent leaves first */
            bool polite = p.n.nodes[1].why[0] == SHOAL_OK && p.n.nodes[1].complete == FRAMES;
            net_close(&p.n);
            _exit(polite ? 0 : 1);
        }
        net_close(&p.n);
        assert_int_equal(waitpid(p.child, &exit_status, 0), p.child);
        assert_int_equal(exit_status, 0);
        close(p.wire);
    }
}

static void a_killed_process_is_noticed_at_once(void **state)
{
    (void)state;
    for (size_t s = 0; s < THAT_DIE; s++) {
        if (!net_is_here(specs[s]))
            continue;
        pair p;
        uint8_t *body = calloc(1, 1 << 20);
        start(&p, specs[s]);
        if (p.child == 0) {
            for (;;)
                net_turn(&p.n, 1000000);
        }
        net_node *node = &p.n.nodes[0];
        for (uint32_t i = 0; i < 200; i++) {
            shoal_data head = {77, i, 0, 1 << 20, 0, false};
            assert_ok(node->row->send(node->state, 1, 0, &head, body, i));
        }
        NET_UNTIL(&p.n, node->sent_ok > 2);
        assert_int_equal(kill(p.child, SIGKILL), 0);
        NET_UNTIL(&p.n, node->downs[1] == 1);
        assert_int_equal(node->why[1], SHOAL_EPEER); /* the end of file; silence is ETIMEDOUT */
        assert_int_equal(node->sent_ok + node->sent_failed, 200);
        assert_int_equal(waitpid(p.child, NULL, 0), p.child);
        net_close(&p.n);
        close(p.wire);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(both_directions_at_once),
        CHECK_TEST(a_killed_process_is_noticed_at_once),
    };
    return CHECK_RUN(tests);
}
