/* SPDX-License-Identifier: Apache-2.0 */
/* A sharded parameter server in its usual form: every rank is a worker and also the server of one
 * shard. Workers push shard s to server s; each server adds what arrives and sends the sum back.
 * Transport is Gloo's point-to-point messages over TCP.
 *
 *   rank 0: shard 0 of 1, 2, 3 in, sums of shard 0 out      (rank 1: shard 1, ...) */
#include <gloo/math.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "gloo_peer.h"

class ps_sharded : public gloo_peer {
  public:
    using gloo_peer::gloo_peer;

    void prepare(float *, size_t count) override
    {
        inbox.assign(context->size, std::vector<float>(shard(count, context->rank).second));
    }

    void all_reduce(float *buf, size_t count) override
    {
        int me = context->rank, ranks = context->size;
        auto mine = shard(count, me);
        std::vector<span> pushed(ranks), arriving(ranks), pulled(ranks), answered(ranks);
        for (int step = 1; step < ranks; step++) {
            int other = (me + step) % ranks;
            auto theirs = shard(count, other);
            arriving[other] = bytes(inbox[other].data(), mine.second);
            arriving[other]->recv(other, PUSH);
            pulled[other] = bytes(buf + theirs.first, theirs.second);
            pulled[other]->recv(other, PULL);
            pushed[other] = bytes(buf + theirs.first, theirs.second);
            pushed[other]->send(other, PUSH);
        }
        float *sum = buf + mine.first;
        for (int step = 1; step < ranks; step++) {
            int other = (me + ranks - step) % ranks; /* who sent to us first */
            arriving[other]->waitRecv();
            gloo::sum<float>(sum, sum, inbox[other].data(), mine.second);
        }
        for (int step = 1; step < ranks; step++) {
            int other = (me + step) % ranks;
            answered[other] = bytes(sum, mine.second);
            answered[other]->send(other, PULL);
        }
        for (int step = 1; step < ranks; step++) {
            int other = (me + step) % ranks;
            pushed[other]->waitSend();
            pulled[other]->waitRecv();
            answered[other]->waitSend();
        }
    }

  private:
    enum { PUSH = 1, PULL = 2 };
    using span = std::unique_ptr<gloo::transport::UnboundBuffer>;
    std::vector<std::vector<float>> inbox; /* one per worker: gradients of our shard */

    /* (first element, elements) of the shard that `rank` serves */
    std::pair<size_t, size_t> shard(size_t count, int rank) const
    {
        size_t ranks = context->size, base = count / ranks, more = count % ranks, r = rank;
        return {r * base + std::min(r, more), base + (r < more)};
    }

    span bytes(float *at, size_t count)
    {
        return context->createUnboundBuffer(at, count * sizeof(float));
    }
};

int main(int argc, char **argv)
{
    measure_options options = measure_parse(argc, argv);
    try {
        return ps_sharded(options.store).run("ps_sharded", options);
    } catch (const std::exception &error) {
        std::cerr << "ps_sharded: " << error.what() << "\n";
        return 1;
    }
}
