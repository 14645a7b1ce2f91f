/* SPDX-License-Identifier: Apache-2.0 */
/* What is noted of another endpoint as it happens; src/alive acts upon it. */
#include "endpoint/peer.h"

#include <stdio.h>
#include <string.h>

#include "endpoint/endpoint.h"

void shoali_peer_heard(shoal_comm *comm, uint32_t endpoint)
{
    comm->peers[endpoint].heard_us = comm->loop.now_us;
    comm->peers[endpoint].missed = false;
    comm->peers[endpoint].asked_us = 0;
}

/* A transport's text may start with the rank that it is about, as ours will. */
static const char *without_name(const char *text)
{
    const char *end = strncmp(text, "rank ", 5) == 0 ? strchr(text, ')') : NULL;
    end = end != NULL ? strstr(end, ": ") : NULL;
    return end != NULL ? end + 2 : text;
}

void shoali_peer_gone(shoal_comm *comm, uint32_t endpoint, shoal_status why, const char *text)
{
    shoali_peer *peer = &comm->peers[endpoint];
    if (peer->gone && (peer->gone_status != SHOAL_OK || why == SHOAL_OK))
        return;
    peer->gone = true;
    peer->gone_status = why;
    snprintf(peer->gone_text, sizeof peer->gone_text, "%s", text != NULL ? without_name(text) : "");
    comm->view.peers_changed = true;
    comm->loop.busy = true;
}
