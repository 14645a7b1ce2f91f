/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol machine's ears. What arrives before it listens is kept for it: other ranks may be
 * faster. */
#include "alive/listen.h"

#include <string.h>

#include "alive/alive.h"
#include "base/error.h"
#include "wire/messages.h"

typedef struct shoali_early {
    struct shoali_early *next;
    uint32_t endpoint;
    size_t len_bytes;
    uint8_t bytes[];
} early_message;

void shoali_listen_init(shoali_ears *ears)
{
    ears->early_last = &ears->early;
}

void shoali_listen_free(shoali_ears *ears)
{
    while (ears->early != NULL) {
        early_message *message = ears->early;
        ears->early = message->next;
        shoali_free(message);
    }
    ears->early_last = &ears->early;
    ears->early_bytes = 0;
}

void shoali_listen_message(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                           size_t len_bytes)
{
    if (comm->ears.listening) {
        if (comm->ears.listener.on_message != NULL)
            comm->ears.listener.on_message(comm->ears.listener.ctx, endpoint, bytes, len_bytes);
        return;
    }
    early_message *message = NULL;
    if (comm->ears.early_bytes + len_bytes <= SHOALI_EARLY_BYTES)
        message = shoali_alloc(sizeof *message + len_bytes);
    if (message == NULL) {
        shoali_peer_gone(comm, endpoint, SHOAL_EPEER,
                         "it sends protocol messages, and nobody here listens");
        return;
    }
    message->endpoint = endpoint;
    message->len_bytes = len_bytes;
    memcpy(message->bytes, bytes, len_bytes);
    comm->ears.early_bytes += len_bytes;
    *comm->ears.early_last = message;
    comm->ears.early_last = &message->next;
}

typedef struct change {
    shoal_comm *comm;
    const shoali_comm_listener *listener; /* NULL: detach */
    shoal_status status;
} change;

static void attach(void *arg)
{
    change *c = arg;
    shoal_comm *comm = c->comm;
    if (comm->ears.listening) {
        c->status = SHOAL_EINVAL;
        return;
    }
    comm->ears.listening = true;
    comm->ears.tells_all = comm->ears.tells_all || c->listener->goes_on;
    comm->ears.listener = *c->listener;
    for (const early_message *m = comm->ears.early; m != NULL; m = m->next)
        shoali_listen_message(comm, m->endpoint, m->bytes, m->len_bytes);
    shoali_listen_free(&comm->ears);
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const shoali_peer *peer = &comm->peers[i];
        if (atomic_load(&peer->state) != SHOALI_PEER_HERE &&
            comm->ears.listener.on_peer_down != NULL)
            comm->ears.listener.on_peer_down(comm->ears.listener.ctx, i, peer->lost_status,
                                             peer->lost_text);
    }
}

static void detach(void *arg)
{
    ((change *)arg)->comm->ears.listening = false;
}

shoal_status shoali_comm_attach(shoal_comm *comm, const shoali_comm_listener *listener)
{
    change c = {comm, listener, SHOAL_OK};
    if (atomic_load(&comm->loop.forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    shoali_loop_call(&comm->loop, attach, &c);
    return c.status == SHOAL_OK
               ? SHOAL_OK
               : shoali_fail(c.status, "this communicator has a protocol machine already");
}

void shoali_comm_detach(shoal_comm *comm)
{
    change c = {comm, NULL, SHOAL_OK};
    if (!atomic_load(&comm->loop.forked))
        shoali_loop_call(&comm->loop, detach, &c);
}

shoal_status shoali_comm_send(shoal_comm *comm, uint32_t endpoint, const void *bytes,
                              size_t len_bytes)
{
    if (endpoint >= comm->size || endpoint == comm->me || len_bytes > SHOALI_CONTROL_MAX_BYTES)
        return shoali_fail(SHOAL_EINVAL, "a message of %zu bytes to rank %u", len_bytes, endpoint);
    return comm->links.control.row->control(comm->links.control.state, endpoint,
                                            SHOALI_MESSAGE_protocol, bytes, len_bytes);
}
