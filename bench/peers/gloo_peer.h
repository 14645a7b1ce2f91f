/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo as the two programs need it: connected through a folder, timed by measure.h. */
#ifndef PEERS_GLOO_PEER_H
#define PEERS_GLOO_PEER_H

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "measure.h"

class gloo_peer {
  public:
    /* Connects all ranks in a full mesh; the folder is empty and shared. */
    explicit gloo_peer(const char *folder);
    virtual ~gloo_peer() = default;

    virtual void prepare(float *, size_t)
    {
    }
    virtual void all_reduce(float *buf, size_t count) = 0;

    /* Times all sizes; exit status. */
    int run(const char *name, const measure_options &options);

    std::shared_ptr<gloo::rendezvous::Context> context;
};

#endif
