/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of one view at one of its members: as alive/view.c keeps them. */
#include "support/member_world.h"

uint8_t comm_node(const world *w, const world_comm *comm, uint32_t rank)
{
    return w->view[comm->view].nodes[rank];
}

uint32_t comm_size(const world *w, const world_comm *comm)
{
    return w->view[comm->view].size;
}

void comm_open(world *w, uint8_t node, world_comm *comm, uint16_t view)
{
    const uint64_t now_us = node_now(w, node);
    *comm = (world_comm){.open = true, .view = view};
    for (uint32_t i = 0; i < w->view[view].size; i++) {
        comm->peers[i].heard_us = comm->peers[i].word_us = comm->peers[i].said_us = now_us;
        if (w->view[view].nodes[i] == node)
            comm->me = i;
    }
}

/* What is lost on the way takes with it all that comes behind. */
void comm_say(world *w, world_comm *comm, uint8_t node, uint32_t rank, word_kind kind)
{
    world_peer *peer = &comm->peers[rank];
    const uint8_t to = comm_node(w, comm, rank);
    if (rank == comm->me || peer->lost || peer->left)
        return;
    peer->stuck = peer->stuck || w->cut[node][to];
    if (!peer->stuck)
        world_say(w, node, to, kind, comm->view, 0, 0);
}

void comm_say_all(world *w, world_comm *comm, uint8_t node, word_kind kind)
{
    for (uint32_t i = 0; i < comm_size(w, comm); i++)
        comm_say(w, comm, node, i, kind);
}

static void look_for_proof(world *w, uint8_t node, const world_comm *comm, world_peer *peer,
                           uint32_t rank)
{
    const uint8_t other = comm_node(w, comm, rank);
    const uint64_t now_us = node_now(w, node), proof_us = w->proof_us[other];
    const world_node *n = &w->node[other];
    bool proven = (n->dead || n->state == NODE_ENDED) && proof_us > 0 &&
                  w->now_us >= n->dead_us + proof_us;
    if (peer->death == SHOALI_DEATH_NONE && proven)
        peer->death = shoali_life_end(
            peer->leaving, now_us > peer->word_us ? now_us - peer->word_us : 0, WORLD_TIMEOUT_US);
}

void comm_lose(world *w, uint8_t node, world_comm *comm, uint32_t rank)
{
    world_peer *peer = &comm->peers[rank];
    if (peer->lost || rank == comm->me)
        return;
    look_for_proof(w, node, comm, peer, rank);
    comm_say(w, comm, node, rank, WORD_DOWN);
    peer->lost = true;
}

static void beat(world *w, uint8_t node, world_comm *comm)
{
    const uint64_t now_us = node_now(w, node);
    for (uint32_t i = 0; i < comm_size(w, comm); i++) {
        world_peer *peer = &comm->peers[i];
        if (now_us > peer->heard_us &&
            !shoali_life_speaks(now_us - peer->heard_us, WORLD_TIMEOUT_US))
            continue;
        comm_say(w, comm, node, i, WORD_BEAT);
        if (!w->node[node].member || comm != &w->node[node].comm)
            peer->said_us = now_us;
    }
}

void comm_watch(world *w, uint8_t node, world_comm *comm)
{
    const uint64_t now_us = node_now(w, node);
    if (!comm->open)
        return;
    if (now_us >= comm->beat_us) {
        comm->beat_us = now_us + WORLD_TIMEOUT_US / 10;
        beat(w, node, comm);
    }
    for (uint32_t i = 0; i < comm_size(w, comm); i++) {
        world_peer *peer = &comm->peers[i];
        if (i != comm->me && !peer->lost && !peer->left &&
            now_us > peer->heard_us + WORLD_TIMEOUT_US)
            comm_lose(w, node, comm, i);
        if (peer->lost)
            look_for_proof(w, node, comm, peer, i);
    }
}

void comm_close(world *w, uint8_t node, world_comm *comm, word_kind how)
{
    if (comm->open)
        comm_say_all(w, comm, node, how);
    comm->open = false;
}
