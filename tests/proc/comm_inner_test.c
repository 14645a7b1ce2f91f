/* SPDX-License-Identifier: Apache-2.0 */
/* What drivers of protocols use: owner jobs, residuals, rounds before a flow, messages, threads of
 * a communicator. */
#include "support/ranks.h"

#include <math.h>
#include <poll.h>

#include "base/log.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "support/toycodec.h"
#include "support/toytransform.h"

enum { COUNT = 4000, SECOND = 1000 * 1000, LIMIT_US = 20 * SECOND };

static float gradient(uint32_t rank, uint32_t step, size_t i)
{
    return (float)shoali_rng_double(7, rank * 100 + step, i) * 2 - 1;
}

static shoal_status run(shoal_comm *comm, const shoal_op_desc *desc, const shoali_op_extras *extras)
{
    shoal_op *op = NULL;
    shoal_status status = shoali_op_start(comm, desc, extras, &op);
    return status == SHOAL_OK ? shoal_op_wait(&op, -1, NULL) : status;
}

/* The same bits everywhere: the sum of all ranks' copies of a hash is size times one's own. */
static void check_same_bits(const rank_env *env, shoal_comm *comm, const float *buf, size_t count)
{
    float hash = (float)(shoali_hash(buf, count * sizeof *buf, 0) & 0xffff), sum = hash;
    rank_ok(shoal_allreduce(comm, &sum, 1, NULL, NULL));
    rank_check(sum == hash * (float)env->size);
}

/* ------------------------------------------------------------------ owner jobs */

static shoal_status twice_the_sum(void *ctx, float *sum_in_weights_out, size_t offset, size_t count)
{
    (void)offset;
    *(size_t *)ctx += count;
    for (size_t i = 0; i < count; i++)
        sum_in_weights_out[i] *= 2;
    return SHOAL_OK;
}

static shoal_status broken(void *ctx, float *sum_in_weights_out, size_t offset, size_t count)
{
    (void)ctx, (void)sum_in_weights_out, (void)offset, (void)count;
    return SHOAL_EIO; /* without a text of its own */
}

static void owners(const rank_env *env)
{
    rank_env own = *env;
    own.desc.chunk_elems = 500;
    own.desc.servers = env->size > 1 ? 1 : 0;
    shoal_comm *comm = rank_join(&own);
    static float buf[COUNT];
    size_t owned = 0;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoali_op_extras extras = {.owner = twice_the_sum, .owner_ctx = &owned, .check_finite = true};
    const uint32_t workers = env->size > 1 ? env->size - 1 : 1;
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = env->rank < workers ? (float)(i % 10) : -100;
    desc.buf = buf;
    desc.count = COUNT;
    desc.collective = workers < env->size ? "worker_aggregator:dedicated" : "worker_aggregator";
    desc.contributors = workers;
    rank_ok(run(comm, &desc, &extras));
    rank_check(env->rank + 1 < env->size ? owned == 0 : owned == COUNT);
    for (size_t i = 0; i < COUNT && env->rank < workers; i++)
        rank_check(buf[i] == (float)(2 * workers * (i % 10)));
    extras.owner = broken;
    rank_status(run(comm, &desc, &extras), SHOAL_EIO);
    shoal_comm_destroy(comm);
}

static void owner_jobs_run_where_sums_are_complete(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++)
        ranks_run(size, "file", NULL, owners, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ what no encoder writes */

static const shoali_codec_row *forged;
static uint16_t forgery;

/* The codec's own bytes, but for one element of what this rank brings. */
static shoal_status forge(const void *params, const shoal_codec_at *at, const float *src,
                          size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const shoal_status status = forged->encode(params, at, src, count, dst, capacity, written_out);
    if (status == SHOAL_OK && at->parts == 1)
        memcpy(dst + *written_out - sizeof forgery, &forgery, sizeof forgery);
    return status;
}

static const shoali_codec_row *row_named(const char *name)
{
    for (size_t i = 0; i < shoali_codec_count(); i++)
        if (strcmp(shoali_codec_row_at(i)->name, name) == 0)
            return shoali_codec_row_at(i);
    return NULL;
}

static void forgeries(const rank_env *env)
{
    static const struct {
        const char *codec, *collective;
        uint16_t bits;
    } cases[] = {{"fp16", "ring", 0x7e00},   {"bf16", "ring", 0xffc0},
                 {"fp16", "direct", 0x7c00}, {"bf16", "direct", 0x7f80},
                 {"topk", "gather", 0x7fc0}, {"randomk", "gather", 0xff80}};
    static float buf[COUNT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_env own = *env;
        char job[16];
        snprintf(job, sizeof job, "forgery %zu", i);
        own.desc.job = job;
        shoal_comm *comm = rank_join(&own);
        shoali_codec_row row = *(forged = row_named(cases[i].codec));
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        shoali_op_extras extras = {.check_finite = true, .codec_row = &row};
        forgery = cases[i].bits;
        row.encode = env->rank == 0 ? forge : row.encode;
        for (size_t j = 0; j < COUNT; j++)
            buf[j] = gradient(env->rank, 1, j);
        desc.buf = buf;
        desc.count = COUNT;
        desc.push_codec = cases[i].codec;
        desc.collective = cases[i].collective;
        rank_status(run(comm, &desc, &extras), SHOAL_ECORRUPT);
        rank_check(shoal_last_error()->rank == 0);
        rank_error_has("endpoint 0");
        shoal_comm_destroy(comm);
    }
}

/* Whoever adds up what is not finite would be blamed for it by the next. */
static void who_sends_what_is_not_finite_is_blamed(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 3; size++)
        ranks_run(size, "file", NULL, forgeries, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ residuals and rounds */

static void feedback(const rank_env *env)
{
    rank_env own = *env;
    own.desc.chunk_elems = 300;
    shoal_comm *comm = rank_join(&own);
    static float buf[COUNT];
    static double delivered[COUNT], brought[COUNT];
    const shoal_tensor tensors[] = {
        {.key = 9, .offset = 0, .count = 1500, .lr_scale = 1},
        {.key = 4, .offset = 1500, .count = COUNT - 1500, .lr_scale = 1}};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoali_op_extras extras = {
        .check_finite = true, .error_feedback = true, .codec_row = &toy_codec_row};
    desc.buf = buf;
    desc.count = COUNT;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.push_codec = "toy:q=0.25,ef";
    for (uint32_t step = 0; step < 5; step++) {
        for (size_t i = 0; i < COUNT; i++) {
            buf[i] = gradient(env->rank, step, i);
            brought[i] += (double)buf[i];
        }
        rank_ok(run(comm, &desc, &extras));
        for (size_t i = 0; i < COUNT; i++)
            delivered[i] += (double)buf[i];
        check_same_bits(env, comm, buf, COUNT);
    }
    shoali_residual kept[3];
    rank_check(shoali_comm_residuals(comm, kept, 3) == 2);
    rank_check(kept[0].key == 4 && kept[0].count == COUNT - 1500 && kept[1].key == 9 &&
               kept[1].count == 1500);
    /* what all brought = what was delivered + what all keep */
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = (float)(brought[i] -
                         (double)(i < 1500 ? kept[1].values[i] : kept[0].values[i - 1500]));
    rank_ok(shoal_allreduce(comm, buf, COUNT, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++)
        rank_check(fabs((double)buf[i] - delivered[i]) < 1e-4);
    const float ones[2] = {1, 1};
    rank_ok(shoali_comm_set_residual(comm, 11, ones, 2));
    rank_check(shoali_comm_residuals(comm, kept, 3) == 3 && kept[2].key == 11 &&
               kept[2].values[1] == 1);
    shoal_comm_destroy(comm);
}

static void nothing_is_lost_with_error_feedback(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 4; size++)
        ranks_run(size, "file", NULL, feedback, NULL, LIMIT_US);
}

/* The power that `auto` must come to: from the largest rms, which is the last rank's. */
static int power_of(const rank_env *env, float scale)
{
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += pow((double)(scale * (float)env->size * gradient(env->size - 1, 0, i)), 2);
    int power = ilogb(0x1p-10 / sqrt(sum / COUNT));
    return power < 0 ? 0 : power > 16 ? 16 : power;
}

static void fill_scaled(const rank_env *env, float scale, float *buf)
{
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = scale * (float)(env->rank + 1) * gradient(env->rank, 0, i);
}

static void measured(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float automatic[COUNT], chosen[COUNT];
    static const float scales[] = {1e-6f, 1e-4f, 50.0f};
    for (int s = 0; s < 3; s++) {
        char spec[64];
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        const shoali_op_extras extras = {.check_finite = true};
        fill_scaled(env, scales[s], automatic);
        fill_scaled(env, scales[s], chosen);
        desc.count = COUNT;
        desc.buf = automatic;
        desc.push_codec = "inceptionn:prescale=auto";
        rank_ok(run(comm, &desc, &extras));
        snprintf(spec, sizeof spec, "inceptionn:prescale=%d", power_of(env, scales[s]));
        desc.buf = chosen;
        desc.push_codec = spec;
        rank_ok(run(comm, &desc, &extras));
        rank_check(memcmp(automatic, chosen, sizeof chosen) == 0);
        check_same_bits(env, comm, automatic, COUNT);
        desc.push_codec = "inceptionn:prescale=auto";
        if (env->rank == 0)
            chosen[20] = nanf("");
        rank_status(run(comm, &desc, &extras), SHOAL_ENOTFINITE);
        rank_error_has("tensor 1, element 20");
    }
    shoal_comm_destroy(comm);
}

static void measures_are_shared_before_the_first_encode(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 4; size++)
        ranks_run(size, "file", NULL, measured, NULL, LIMIT_US);
}

static void transformed(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static float buf[200];
    const shoal_tensor tensors[] = {
        {.key = 1, .offset = 0, .count = 80, .rows = 8, .cols = 10, .lr_scale = 1},
        {.key = 2, .offset = 80, .count = 120, .rows = 6, .cols = 20, .lr_scale = 1}};
    shoal_op *ops[4];
    float sum[200];
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    shoali_op_extras extras = {.check_finite = true, .codec_row = &toy_transform_row};
    for (size_t i = 0; i < 200;
         i++) { /* multiples of one product of two vectors: nothing is lost */
        size_t row = i < 80 ? i / 10 : (i - 80) / 20, col = i < 80 ? i % 10 : (i - 80) % 20;
        buf[i] = (float)((env->rank + 1) * (row + 1) * (col % 4 + 1));
        sum[i] = (float)(env->size * (env->size + 1) / 2 * (row + 1) * (col % 4 + 1));
    }
    desc.buf = buf;
    desc.count = 200;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.push_codec = "toy_transform";
    rank_ok(run(comm, &desc, &extras));
    for (size_t i = 0; i < 200; i++)
        rank_check(fabsf(buf[i] - sum[i]) <= 1e-4f * sum[i]);
    check_same_bits(env, comm, buf, 200);
    /* several at once, each with its own table: their rounds interleave in any order */
    static float bufs[4][40];
    for (uint32_t k = 0; k < 4; k++) {
        shoal_tensor one = {.key = 10 + k, .count = 40, .rows = 4, .cols = 10, .lr_scale = 1};
        for (size_t i = 0; i < 40; i++)
            bufs[k][i] = (float)(i % 10 + 1);
        desc.buf = bufs[k];
        desc.count = 40;
        desc.tensors = &one;
        desc.tensor_count = 1;
        rank_ok(shoali_op_start(comm, &desc, &extras, &ops[k]));
    }
    for (uint32_t k = 4; k-- > 0;) {
        rank_ok(shoal_op_wait(&ops[k], -1, NULL));
        for (size_t i = 0; i < 40; i++)
            rank_check(fabsf(bufs[k][i] - (float)(env->size * (i % 10 + 1))) <
                       1e-3f * (float)env->size * 10);
    }
    shoal_comm_destroy(comm);
}

static void a_transform_is_rounds_of_its_own(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++)
        ranks_run(size, "file", NULL, transformed, NULL, LIMIT_US);
}

/* ------------------------------------------------------------------ messages and threads */

typedef struct ears {
    shoal_comm *comm;
    uint32_t me, size;
    atomic_uint heard, downs, posted, worked, timers;
    uint64_t wake_us;
    uint32_t next[RANKS_MAX]; /* progress thread only: numbers come in order from each */
} ears;

static void on_message(void *ctx, uint32_t endpoint, const void *bytes, size_t len_bytes)
{
    ears *e = ctx;
    uint32_t number;
    rank_check(len_bytes == sizeof number && endpoint < e->size);
    memcpy(&number, bytes, sizeof number);
    rank_check(number == e->next[endpoint]++);
    atomic_fetch_add(&e->heard, 1);
}

static void on_peer_down(void *ctx, uint32_t endpoint, shoal_status why, const char *text)
{
    ears *e = ctx;
    rank_check(endpoint == 0 && why == SHOAL_OK && strstr(text, "goodbye") != NULL);
    atomic_fetch_add(&e->downs, 1);
}

static void on_timer(void *ctx, uint64_t now_us)
{
    ears *e = ctx;
    rank_check(now_us >= e->wake_us);
    e->wake_us = atomic_fetch_add(&e->timers, 1) < 2 ? now_us + 2000 : UINT64_MAX;
}

static uint64_t next_wake_us(void *ctx)
{
    return ((ears *)ctx)->wake_us;
}

static void send_numbers(void *arg)
{
    ears *e = arg;
    for (uint32_t number = 0; number < 20; number++)
        for (uint32_t i = 0; i < e->size; i++)
            if (i != e->me)
                rank_ok(shoali_comm_send(e->comm, i, &number, sizeof number));
    rank_check(shoali_comm_send(e->comm, e->me, "", 0) == SHOAL_EINVAL);
    atomic_fetch_add(&e->posted, 1);
}

static shoal_status work(void *arg)
{
    (void)arg;
    return SHOAL_ECORRUPT;
}

static void worked(void *arg, shoal_status status)
{
    rank_check(status == SHOAL_ECORRUPT);
    atomic_fetch_add(&((ears *)arg)->worked, 1);
}

static void on_done(void *ctx, shoal_status status, const shoal_error *error,
                    const shoal_op_stats *stats)
{
    (void)error, (void)stats;
    rank_check(status == SHOAL_OK);
    atomic_fetch_add(&((ears *)ctx)->worked, 1);
}

static void wait_until(const atomic_uint *counter, uint32_t value)
{
    for (int ms = 0; atomic_load(counter) < value; ms++) {
        rank_check(ms < 10000);
        (void)poll(NULL, 0, 1);
    }
}

static void talking(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    static ears e;
    static float buf[10];
    e = (ears){.comm = comm, .me = env->rank, .size = env->size};
    const shoali_comm_listener listener = {&e,       on_message,   on_peer_down,
                                           on_timer, next_wake_us, false};
    rank_ok(shoali_comm_post(comm, send_numbers, &e));
    wait_until(&e.posted, 1);
    rank_ok(shoal_barrier(comm)); /* so that messages come before the listener does */
    rank_ok(shoali_comm_attach(comm, &listener));
    rank_status(shoali_comm_attach(comm, &listener), SHOAL_EINVAL);
    wait_until(&e.heard, 20 * (env->size - 1));
    wait_until(&e.timers, 3);
    rank_ok(shoali_comm_work(comm, work, worked, &e));
    wait_until(&e.worked, 1);
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    const shoali_op_extras extras = {.on_done = on_done, .done_ctx = &e};
    desc.buf = buf;
    desc.count = 10;
    rank_ok(shoali_op_start(comm, &desc, &extras, NULL));
    wait_until(&e.worked, 2);
    shoal_op *op = NULL;
    rank_status(shoal_comm_next_done(comm, 0, &op), SHOAL_PENDING);
    rank_check(shoali_comm_seed(comm) == 1 && shoali_comm_op_timeout_us(comm) == 300LL * SECOND);
    rank_ok(shoal_barrier(comm));
    if (env->rank != 0)
        wait_until(&e.downs, 1);
    atomic_fetch_add(&env->board->ready, env->rank != 0);
    shoali_comm_detach(comm);
    if (env->rank != 0)
        rank_wait_ready(env, env->size - 1); /* rank 0 alone leaves first */
    shoal_comm_destroy(comm);
}

static void a_protocol_hears_everything_in_order(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, talking, NULL, LIMIT_US);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(owner_jobs_run_where_sums_are_complete),
        CHECK_TEST(who_sends_what_is_not_finite_is_blamed),
        CHECK_TEST(nothing_is_lost_with_error_feedback),
        CHECK_TEST(measures_are_shared_before_the_first_encode),
        CHECK_TEST(a_transform_is_rounds_of_its_own),
        CHECK_TEST(a_protocol_hears_everything_in_order),
    };
    return CHECK_RUN(tests);
}
