/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator does in a round, when it wakes, and for what it is not woken. */
#include "comm/inner.h"

#include "alive/alive.h"
#include "support/check.h"
#include "support/fake_comm.h"

enum { FD = 1000, OTHER_FD = 1001 };
static fake_wire wire;

static struct {
    uint64_t wake_us;
    uint32_t rounds, timers, messages;
    uint64_t timer_us;
} seen;

static int fd_of(const void *state)
{
    (void)state;
    return FD;
}

static uint64_t next_wake_us(const void *state)
{
    (void)state;
    return seen.wake_us;
}

static void progress(void *state, uint64_t now_us)
{
    (void)state;
    (void)now_us;
    seen.rounds++;
}

static shoali_transport_row row;

static shoal_comm *make(uint32_t size)
{
    shoal_comm *comm = fake_comm_make(0, size, &wire);
    const uint64_t now_us = comm->loop.now_us;
    memset(&seen, 0, sizeof seen);
    seen.wake_us = UINT64_MAX;
    row = *comm->links.control.row;
    row.fd = fd_of;
    row.next_wake_us = next_wake_us;
    row.progress = progress;
    comm->links.control.row = &row;
    assert_ok(shoali_round_init(comm));
    comm->loop.now_us = now_us;
    comm->view.next_beat_us = UINT64_MAX;
    comm->view.joined = true;
    return comm;
}

static void unmake(shoal_comm *comm)
{
    shoali_loop_free(&comm->loop);
    fake_comm_free(comm);
}

static uint64_t timer_of(void *ctx)
{
    (void)ctx;
    return seen.timer_us;
}

static void on_timer(void *ctx, uint64_t now_us)
{
    (void)ctx;
    (void)now_us;
    seen.timers++;
}

/* The earliest of all that may fall due. */
static void it_wakes_for_whatever_comes_first(void **state)
{
    (void)state;
    shoal_comm *comm = make(3);
    const shoali_loop_host *host = &comm->loop.host;
    assert_true(host->next_us(comm) == UINT64_MAX);
    comm->view.next_beat_us = 900;
    assert_int_equal(host->next_us(comm), 900);
    seen.wake_us = 800;
    assert_int_equal(host->next_us(comm), 800);
    comm->ears.listener = (shoali_comm_listener){.next_wake_us = timer_of};
    seen.timer_us = 700;
    assert_int_equal(host->next_us(comm), 800); /* it does not listen yet */
    comm->ears.listening = true;
    assert_int_equal(host->next_us(comm), 700);
    unmake(comm);
}

static void a_protocol_s_timer_runs_once_it_is_due(void **state)
{
    (void)state;
    shoal_comm *comm = make(3);
    comm->ears.listening = true;
    comm->ears.listener = (shoali_comm_listener){.next_wake_us = timer_of, .on_timer = on_timer};
    comm->look_us = UINT64_MAX; /* nobody watches */
    seen.timer_us = comm->loop.now_us + 1;
    comm->loop.host.round(comm);
    assert_true(seen.timers == 0 && seen.rounds == 1);
    comm->loop.now_us++;
    comm->loop.host.round(comm);
    assert_true(seen.timers == 1 && seen.rounds == 2);
    unmake(comm);
}

/* Only what the control connections say to one of many that is in nothing with them. */
static void what_is_not_urgent_waits(void **state)
{
    (void)state;
    struct shoal_op op = {.comm = NULL};
    shoali_door *door = (shoali_door *)(uintptr_t)&seen; /* somewhere */
    shoal_comm *comm = make(17);
    const shoali_loop_host *host = &comm->loop.host;
    assert_true(host->can_wait(comm, FD));
    assert_false(host->can_wait(comm, OTHER_FD)); /* somebody asks for the status */
    comm->ops.open = &op;
    assert_false(host->can_wait(comm, FD));
    comm->ops.open = NULL;
    comm->ears.listening = true;
    assert_false(host->can_wait(comm, FD));
    comm->ears.listening = false;
    comm->door = door; /* members may change */
    assert_false(host->can_wait(comm, FD));
    comm->door = NULL;
    comm->view.joined = false;
    assert_false(host->can_wait(comm, FD));
    comm->view.joined = true;
    comm->size = 16; /* few: nothing is gained */
    assert_false(host->can_wait(comm, FD));
    comm->size = 17;
    assert_true(host->can_wait(comm, FD));
    unmake(comm);
}

static void only_what_no_transport_says_is_from_somebody_who_watches(void **state)
{
    (void)state;
    shoal_comm *comm = make(2);
    comm->loop.host.heard(comm, FD);
    assert_false(comm->watched);
    comm->loop.host.heard(comm, OTHER_FD);
    assert_true(comm->watched);
    unmake(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_wakes_for_whatever_comes_first),
        CHECK_TEST(a_protocol_s_timer_runs_once_it_is_due),
        CHECK_TEST(what_is_not_urgent_waits),
        CHECK_TEST(only_what_no_transport_says_is_from_somebody_who_watches),
    };
    return CHECK_RUN(tests);
}
