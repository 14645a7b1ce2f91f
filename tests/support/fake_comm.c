/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_comm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "support/check.h"

static shoal_status control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                            size_t len_bytes)
{
    fake_wire *wire = *(fake_wire **)state;
    assert_true(wire->count < FAKE_FRAMES);
    fake_frame *frame = &wire->sent[wire->count++];
    *frame = (fake_frame){.to = peer, .kind = kind, .len_bytes = len_bytes};
    memcpy(frame->bytes, bytes, len_bytes < FAKE_BYTES ? len_bytes : FAKE_BYTES);
    return wire->answer;
}

static shoal_status add_peer(void *state, uint32_t peer, const char *address)
{
    fake_wire *wire = *(fake_wire **)state;
    (void)address;
    wire->adds++;
    wire->added = peer;
    return wire->answer;
}

static int no_fd(const void *state)
{
    (void)state;
    return -1;
}

static void progress(void *state, uint64_t now_us)
{
    (void)state;
    (void)now_us;
}

static void drop_peer(void *state, uint32_t peer, bool polite)
{
    fake_wire *wire = *(fake_wire **)state;
    (void)polite;
    wire->drops++;
    wire->dropped = peer;
}

static const shoali_transport_row row = {.name = "fake",
                                         .add_peer = add_peer,
                                         .control = control,
                                         .fd = no_fd,
                                         .progress = progress,
                                         .drop_peer = drop_peer};

shoal_comm *fake_comm_make(uint32_t me, uint32_t size, fake_wire *wire)
{
    shoal_comm *comm = shoali_alloc(sizeof *comm);
    fake_wire **state = shoali_alloc(sizeof(fake_wire *));
    assert_non_null(comm);
    assert_non_null(state);
    memset(wire, 0, sizeof *wire);
    *state = wire;
    comm->me = me;
    comm->size = comm->ranks = comm->workers = size;
    comm->peer_timeout_us = FAKE_TIMEOUT_US;
    comm->peers = shoali_alloc_array(size, sizeof *comm->peers);
    assert_non_null(comm->peers);
    comm->links.control = (shoali_link){.comm = comm, .row = &row, .state = state, .open = true};
    comm->loop.now_us = shoali_now_us();
    comm->ears.early_last = &comm->ears.early;
    comm->flights.free = comm->flights.returned_first = comm->flights.returned_last = SHOALI_NONE;
    comm->ops.me = me;
    comm->ops.size = comm->ops.ranks = size;
    comm->ops.now_us = &comm->loop.now_us;
    comm->ops.busy = &comm->loop.busy;
    comm->ops.peers = shoali_alloc_array(size, sizeof *comm->ops.peers);
    assert_non_null(comm->ops.peers);
    for (uint32_t i = 0; i < size; i++) {
        shoali_peer *peer = &comm->peers[i];
        snprintf(peer->host, sizeof peer->host, "h%u", i);
        comm->ops.peers[i].host = peer->host;
        peer->up = true;
        peer->via = SHOALI_NONE;
        peer->links = 1;
        peer->heard_us = comm->loop.now_us;
        peer->waiting_first = peer->waiting_last = SHOALI_NONE;
    }
    return comm;
}

void fake_comm_free(shoal_comm *comm)
{
    shoali_free(comm->links.control.state);
    shoali_free(comm->ops.peers);
    shoali_free(comm->peers);
    shoali_free(comm);
}
