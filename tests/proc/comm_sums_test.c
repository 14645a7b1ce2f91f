/* SPDX-License-Identifier: Apache-2.0 */
/* terngrad between real processes: scales measured and shared, sums in ever more bits, exactly the
 * bytes that the format promises, the same bits on every rank. */
#include "support/ranks.h"

#include <math.h>

#include "base/rng.h"

enum { FIRST = 1000, SECOND = 37, COUNT = FIRST + SECOND };
static const int64_t LIMIT_US = 20000000;

static const shoal_tensor tensors[2] = {
    {.key = 1, .offset = 0, .count = FIRST, .lr_scale = 1},
    {.key = 2, .offset = FIRST, .count = SECOND, .lr_scale = 1}};

static void fill(const rank_env *env, float *buf)
{
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = (float)shoali_rng_normal(17, env->rank, i) * (i < FIRST ? 1e-3f : 1.0f);
}

static shoal_op_stats reduce(shoal_comm *comm, const char *collective, const char *codec,
                             float *buf)
{
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoal_op_stats stats = {.size = sizeof stats};
    desc.buf = buf;
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.collective = collective;
    desc.push_codec = codec;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, &stats));
    return stats;
}

static void check_same(const rank_env *env, shoal_comm *comm, const float *buf)
{
    float others[COUNT];
    shoal_op *op = NULL;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    memcpy(others, buf, sizeof others);
    desc.kind = SHOAL_BROADCAST;
    desc.buf = others;
    desc.count = COUNT;
    rank_ok(shoal_op_start(comm, &desc, &op));
    rank_ok(shoal_op_wait(&op, -1, NULL));
    rank_check(memcmp(others, buf, sizeof others) == 0);
    (void)env;
}

static float total(shoal_comm *comm, uint64_t mine)
{
    float sum = (float)mine;
    rank_ok(shoal_allreduce(comm, &sum, 1, NULL, NULL));
    return sum;
}

static size_t coded(uint32_t parts)
{
    uint32_t bits = parts == 1 ? 2 : (uint32_t)ceil(log2(2.0 * parts + 1));
    return (FIRST * bits + 7) / 8 + (SECOND * bits + 7) / 8;
}

/* One server: N - 1 contributions in 2 bits, N - 1 sums in ceil(log2(2N+1)); the scales go round a
 * ring as float32, once. Ring: a sum of k ranks in ceil(log2(2k+1)) bits on its k-th hop. */
static void exchange(const rank_env *env)
{
    static const char *const specs[] = {"ring", "direct", "worker_aggregator", "gather",
                                        "halving_doubling"};
    shoal_comm *comm = rank_join(env);
    const uint64_t n = env->size, measured = 2 * (n - 1) * sizeof(float) * 2;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        float buf[COUNT];
        fill(env, buf);
        shoal_op_stats stats = reduce(comm, specs[i], "terngrad", buf);
        check_same(env, comm, buf);
        float sent = total(comm, stats.sent_payload_bytes);
        if (strcmp(specs[i], "worker_aggregator") == 0)
            rank_check(sent == (float)((n - 1) * (coded(1) + coded(env->size)) + measured));
        if (strcmp(specs[i], "gather") == 0)
            rank_check(sent == (float)((n - 1) * n * coded(1) + measured));
        for (size_t e = 0; e < COUNT; e++)
            rank_check(isfinite(buf[e]));
    }
    shoal_comm_destroy(comm);
}

static void bytes_are_as_promised_and_bits_the_same(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 5; size++)
        ranks_run(size, "file", NULL, exchange, NULL, LIMIT_US);
}

/* The mean over many operations is the sum, within its spread. */
static void average(const rank_env *env)
{
    enum { OPS = 200 };
    static const char *const specs[] = {"terngrad:clip=0", "terngrad:clip=0,scaler=own",
                                        "terngrad:clip=0,scaler=global"};
    static double mean[COUNT];
    shoal_comm *comm = rank_join(env);
    for (size_t s = 0; s < 3; s++) {
        double error = 0, largest = 0;
        memset(mean, 0, sizeof mean);
        for (int k = 0; k < OPS; k++) {
            float buf[COUNT];
            fill(env, buf);
            (void)reduce(comm, "ring", specs[s], buf);
            for (size_t e = 0; e < COUNT; e++)
                mean[e] += (double)buf[e] / OPS;
        }
        for (size_t e = FIRST; e < COUNT; e++) {
            double sum = 0;
            for (uint32_t rank = 0; rank < env->size; rank++)
                sum += (double)(float)shoali_rng_normal(17, rank, e);
            error += (mean[e] - sum) * (mean[e] - sum) / SECOND;
            largest = fmax(largest, fabs(mean[e] - sum));
        }
        /* s < 4, so an element's variance is below 4 per rank (own: the ring draws its sums
         * again, of larger scale); of the mean below that / OPS. */
        rank_check(error < 12.0 * env->size / OPS && largest < 6 * sqrt(12.0 * env->size / OPS));
    }
    shoal_comm_destroy(comm);
}

static void the_mean_of_many_is_the_sum(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, average, NULL, LIMIT_US);
}

/* Ranks of deviations 1, 3, 5, ...: sums are whole multiples of 2.5 times the root of the sigmas'
 * mean square, which is worked out from all ranks' values, and of nothing larger. */
static void share_rms(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    double square = 0;
    for (uint32_t rank = 0; rank < env->size; rank++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < FIRST; i++) {
            double x = shoali_rng_normal(17, rank, i) * (1 + 2.0 * rank);
            sum += x, squares += x * x;
        }
        square += squares / FIRST - pow(sum / FIRST, 2);
    }
    const double scale = 2.5 * sqrt(square / env->size);
    static const char *const specs[] = {"ring", "direct", "worker_aggregator", "halving_doubling"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        float buf[COUNT];
        size_t odd = 0;
        for (size_t e = 0; e < COUNT; e++)
            buf[e] = (float)(shoali_rng_normal(17, env->rank, e) * (1 + 2.0 * env->rank));
        (void)reduce(comm, specs[i], "terngrad:scaler=rms", buf);
        check_same(env, comm, buf);
        for (size_t e = 0; e < FIRST; e++) {
            double steps = (double)buf[e] / scale;
            rank_check(fabs(steps - rint(steps)) < 1e-4 && fabs(steps) < env->size + 1e-3);
            odd += fmod(fabs(rint(steps)), 2) == 1;
        }
        rank_check(odd > FIRST / 20);
    }
    rank_ok(
        shoal_barrier(comm)); /* the root of a broadcast may be through before the others begin */
    shoal_comm_destroy(comm);
}

static void ranks_share_the_rms_of_their_sigmas(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 5; size++)
        ranks_run(size, "file", NULL, share_rms, NULL, LIMIT_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_are_as_promised_and_bits_the_same),
        CHECK_TEST(ranks_share_the_rms_of_their_sigmas),
        CHECK_TEST(the_mean_of_many_is_the_sum),
    };
    return CHECK_RUN(tests);
}
