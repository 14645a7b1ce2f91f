/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo's all-reduce over TCP: -a ring (what PyTorch uses), bcube (the same interface; halving and
 * doubling in groups of two) or halving_doubling (the older interface, which registers its buffers
 * beforehand). */
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>

#include <iostream>

#include "gloo_peer.h"

using algorithm = gloo::AllreduceOptions::Algorithm;

class by_options : public gloo_peer {
  public:
    by_options(const char *folder, algorithm chosen) : gloo_peer(folder), chosen(chosen)
    {
    }

    void all_reduce(float *buf, size_t count) override
    {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(chosen);
        options.setOutput(buf, count);
        options.setReduceFunction([](void *to, const void *a, const void *b, size_t n) {
            gloo::sum<float>(to, a, b, n);
        });
        gloo::allreduce(options);
    }

  private:
    algorithm chosen;
};

class halving_doubling : public gloo_peer {
  public:
    using gloo_peer::gloo_peer;

    void prepare(float *buf, size_t count) override
    {
        work = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
            context, std::vector<float *>{buf}, static_cast<int>(count));
    }

    void all_reduce(float *, size_t) override
    {
        work->run();
    }

  private:
    std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> work;
};

static std::unique_ptr<gloo_peer> choose(const std::string &name, const char *store)
{
    if (name == "ring")
        return std::make_unique<by_options>(store, algorithm::RING);
    if (name == "bcube")
        return std::make_unique<by_options>(store, algorithm::BCUBE);
    if (name == "halving_doubling")
        return std::make_unique<halving_doubling>(store);
    throw std::invalid_argument("-a: wanted ring, bcube or halving_doubling");
}

int main(int argc, char **argv)
{
    measure_options options = measure_parse(argc, argv);
    try {
        return choose(options.algorithm, options.store)->run(options.algorithm, options);
    } catch (const std::exception &error) {
        std::cerr << "gloo_allreduce: " << error.what() << "\n";
        return 1;
    }
}
