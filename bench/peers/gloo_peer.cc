/* SPDX-License-Identifier: Apache-2.0 */
#include "gloo_peer.h"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>

gloo_peer::gloo_peer(const char *folder)
{
    const char *master = std::getenv("MASTER_ADDR");
    bool lab = master != nullptr && std::strncmp(master, "127.", 4) != 0;
    gloo::transport::tcp::attr attributes;
    attributes.iface = lab ? "eth0" : "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context = std::make_shared<gloo::rendezvous::Context>(measure_env("RANK"),
                                                          measure_env("WORLD_SIZE"));
    context->setTimeout(std::chrono::minutes(5));
    gloo::rendezvous::FileStore store(folder);
    context->connectFullMesh(store, device);
}

static gloo_peer *self(void *ctx)
{
    return static_cast<gloo_peer *>(ctx);
}

static double small(void *ctx, double value, gloo::AllreduceOptions::Func reduce)
{
    gloo::AllreduceOptions options(self(ctx)->context);
    options.setOutput(&value, 1);
    options.setReduceFunction(reduce);
    gloo::allreduce(options);
    return value;
}

static void max_into(void *to, const void *a, const void *b, size_t count)
{
    gloo::max<double>(to, a, b, count);
}

static void sum_into(void *to, const void *a, const void *b, size_t count)
{
    gloo::sum<double>(to, a, b, count);
}

int gloo_peer::run(const char *name, const measure_options &options)
{
    measure_peer peer = {};
    peer.name = name;
    peer.rank = context->rank;
    peer.ranks = context->size;
    peer.ctx = this;
    peer.prepare = [](void *ctx, float *buf, size_t count) { self(ctx)->prepare(buf, count); };
    peer.all_reduce = [](void *ctx, float *buf, size_t n) { self(ctx)->all_reduce(buf, n); };
    peer.barrier = [](void *ctx) {
        gloo::BarrierOptions barrier(self(ctx)->context);
        gloo::barrier(barrier);
    };
    peer.max = [](void *ctx, double value) { return small(ctx, value, max_into); };
    peer.sum = [](void *ctx, double value) { return small(ctx, value, sum_into); };
    return measure_run(&peer, &options);
}
