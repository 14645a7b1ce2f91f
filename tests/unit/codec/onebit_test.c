/* SPDX-License-Identifier: Apache-2.0 */
/* onebit among members whose rounds are summed here, and Adam behind it, against 1-bit Adam written
 * down once more in double; the code of `sign` loses nothing of what it is given. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "nn/optim.h"

enum { N = 3, FIRST = 300, COUNT = 700, BLOCK = 256, WARMUP = 20, STEPS = 120 };
static const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;

static const shoal_tensor table[2] = {
    {.key = 1, .offset = 0, .count = FIRST, .rows = FIRST, .cols = 1, .lr_scale = 1},
    {.key = 2, .offset = FIRST, .count = COUNT - FIRST, .rows = 20, .cols = 20, .lr_scale = 1},
};

/* Of the mean of squares around a member's own target, scaled differently, with noise. */
static double slope(int member, int step, size_t i, double w)
{
    const double target = sin((double)i + member), scale = exp2((double)(i % 7) - 3);
    const uint64_t at = (uint64_t)step * COUNT + i;
    return scale * (w - target + 0.1 * shoali_rng_normal(7, (uint64_t)member, at));
}

/* ---------------------------------------------------------------- the paper's algorithm */

typedef struct reference {
    double w[COUNT], mean[COUNT], square[COUNT], residual[N][COUNT], renewals;
} reference;

static void add_signs(const double *x, double *residual, double *sum)
{
    for (size_t first = 0; first < COUNT; first += BLOCK) {
        const size_t end = first + BLOCK < COUNT ? first + BLOCK : COUNT;
        double scale = 0;
        for (size_t i = first; i < end; i++)
            scale += fabs(x[i]) / (double)(end - first);
        for (size_t i = first; i < end; i++) {
            const double sent = x[i] < 0 ? -scale : scale;
            residual[i] = x[i] - sent;
            sum[i] += sent / N;
        }
    }
}

/* kappa 0: 1-bit Adam. Else 0/1 Adam's steps: k_{j+1} = k_j + 2^floor(j/kappa). */
static bool is_whole(int step, int kappa)
{
    int at = 0;
    for (int j = 0; kappa > 0 && at < step; j++)
        at += 1 << (j / kappa);
    return step < WARMUP && (kappa == 0 || at == step);
}

static void reference_step(reference *r, int step, int kappa, double slopes[N][COUNT])
{
    double next[COUNT] = {0}, x[COUNT];
    const double time = step + 1;
    const bool whole = is_whole(step, kappa);
    r->renewals += whole;
    const double settled = r->renewals;
    for (size_t i = 0; whole && i < COUNT; i++) {
        double g = 0;
        for (int n = 0; n < N; n++)
            g += slopes[n][i] / N;
        next[i] = beta1 * r->mean[i] + (1 - beta1) * g;
        r->square[i] = beta2 * r->square[i] + (1 - beta2) * g * g;
    }
    for (int n = 0; !whole && n < N; n++) {
        for (size_t i = 0; i < COUNT; i++)
            x[i] = beta1 * r->mean[i] + (1 - beta1) * slopes[n][i] + r->residual[n][i];
        add_signs(x, r->residual[n], next);
    }
    for (size_t i = 0; i < COUNT; i++) {
        r->mean[i] = next[i];
        r->w[i] -= lr * (next[i] / (1 - pow(beta1, time))) /
                   (sqrt(r->square[i] / (1 - pow(beta2, settled))) + eps);
    }
}

/* ---------------------------------------------------------------- ours */

typedef struct members {
    shoal_codec *codec, *sign;
    float *state[N], grad[N][COUNT];
} members;

static void open_members(members *m, const char *spec)
{
    assert_ok(shoal_codec_open(spec, &m->codec));
    for (int n = 0; n < N; n++)
        m->state[n] = calloc(1, m->codec->row->state_size(m->codec->params, table, 2));
    m->sign = NULL;
}

static void close_members(members *m)
{
    for (int n = 0; n < N; n++)
        free(m->state[n]);
    shoal_codec_close(m->codec);
    shoal_codec_close(m->sign);
}

/* What arrives of a buffer: all of it. */
static void check_code(members *m, const shoal_round *round)
{
    uint8_t bytes[COUNT];
    float back[COUNT];
    size_t written, read;
    const shoal_codec_at at = {.parts = 1};
    if (m->sign == NULL)
        assert_ok(shoal_codec_open(round->codec, &m->sign));
    assert_ok(
        shoal_codec_encode(m->sign, &at, round->buf, round->count, bytes, sizeof bytes, &written));
    assert_true(written < COUNT / 6);
    assert_ok(shoal_codec_decode(m->sign, &at, bytes, written, back, round->count, false, &read));
    assert_memory_equal(back, round->buf, round->count * sizeof *back);
}

static shoal_round round_of(members *m, int n, uint32_t index)
{
    shoal_round round = {.members = N};
    assert_ok(m->codec->row->next_round(m->codec->params, m->state[n], table, 2, index, m->grad[n],
                                        &round));
    return round;
}

static void exchange(members *m, bool whole)
{
    shoal_round rounds[N];
    for (int n = 0; n < N; n++) {
        rounds[n] = round_of(m, n, 0);
        assert_true(!rounds[n].last && rounds[n].slots == !whole);
        assert_int_equal(rounds[n].count, COUNT + whole);
        assert_true((rounds[n].codec == NULL) == whole);
        if (!whole)
            check_code(m, &rounds[n]);
    }
    for (size_t i = 0; i < rounds[0].count; i++) {
        float sum = 0;
        for (int n = 0; n < N; n++)
            sum += rounds[n].buf[i];
        for (int n = 0; n < N; n++)
            rounds[n].buf[i] = sum;
    }
    for (int n = 0; n < N; n++) {
        const shoal_round end = round_of(m, n, 1);
        assert_true(end.last && end.count == 0);
        assert_memory_equal(m->grad[n], m->grad[0], sizeof m->grad[0]);
    }
}

static void trains_as(const char *codec, const char *adam, int kappa, int steps)
{
    static reference r;
    static double slopes[N][COUNT];
    static float w[COUNT];
    members m;
    shoali_optim *optim;
    double worst = 0, moved = 0;
    memset(&r, 0, sizeof r);
    memset(w, 0, sizeof w);
    open_members(&m, codec);
    assert_ok(shoali_optim_create(adam, table, 2, &optim));
    for (int step = 0; step < steps; step++) {
        for (int n = 0; n < N; n++)
            for (size_t i = 0; i < COUNT; i++) {
                slopes[n][i] = slope(n, step, i, r.w[i]); /* the same for both */
                m.grad[n][i] = (float)slopes[n][i];
            }
        exchange(&m, is_whole(step, kappa));
        reference_step(&r, step, kappa, slopes);
        const shoali_step s = {.count = COUNT,
                               .params = w,
                               .grads = m.grad[0],
                               .params_out = w,
                               .lr = (float)lr,
                               .grad_scale = 1.0f / N,
                               .iteration = (uint64_t)step};
        shoali_optim_step(optim, &s);
    }
    for (size_t i = 0; i < COUNT; i++) {
        worst = fmax(worst, fabs(r.w[i] - (double)w[i]));
        moved = fmax(moved, fabs(r.w[i]));
    }
    assert_true(moved > 0.5);
    assert_true(worst < 2e-3 * moved);
    shoali_optim_destroy(optim);
    close_members(&m);
}

static void trains_as_the_paper_says(void **state)
{
    (void)state;
    trains_as("onebit:warmup=20", "adam:freeze=20", 0, STEPS);
}

/* Of 20 steps 0 to 3, 5, 7, 9, 13 and 17 renew the variance, the others send signs. 60 steps: such
 * early variances make steps so large that floats and doubles part later. */
static void renews_as_the_paper_says(void **state)
{
    (void)state;
    trains_as("onebit:warmup=20,kappa=3", "adam:freeze=20,kappa=3", 3, STEPS / 2);
}

/* ---------------------------------------------------------------- apart */

enum { LOCAL = 4, DOUBLING = 10, LOCAL_STEPS = 90 };

/* Algorithm 1 of the 0/1 Adam paper: x where each member is, x_met where all were, m and u its
 * momentum and the sum of these since then, e what its bits owe. */
typedef struct apart {
    double x[N][COUNT], x_met[COUNT], m[N][COUNT], u[N][COUNT], e[N][COUNT], v[COUNT];
    int since; /* the last meeting */
} apart;

/* After WARMUP the distance is 1, from WARMUP + 10 on 2, from WARMUP + 20 on 4. */
static bool is_meeting(int step)
{
    const int k = step - WARMUP;
    return (k + 1) % (k < DOUBLING ? 1 : k < 2 * DOUBLING ? 2 : LOCAL) == 0;
}

static double moved_by(const apart *r, size_t i, int step, double m)
{
    const int time = step + 1, settled = time < WARMUP ? time : WARMUP;
    return lr * (m / (1 - pow(beta1, time))) / (sqrt(r->v[i] / (1 - pow(beta2, settled))) + eps);
}

static void warm_up(apart *r, int step, double slopes[N][COUNT])
{
    for (size_t i = 0; i < COUNT; i++) {
        double g = 0;
        for (int n = 0; n < N; n++)
            g += slopes[n][i] / N;
        r->v[i] = beta2 * r->v[i] + (1 - beta2) * g * g;
        const double m = beta1 * r->m[0][i] + (1 - beta1) * g;
        for (int n = 0; n < N; n++)
            r->m[n][i] = m;
        r->x_met[i] -= moved_by(r, i, step, m);
        for (int n = 0; n < N; n++)
            r->x[n][i] = r->x_met[i];
    }
}

static void meet(apart *r, int step)
{
    double sum[COUNT] = {0}, x[COUNT];
    for (int n = 0; n < N; n++) {
        for (size_t i = 0; i < COUNT; i++)
            x[i] = r->u[n][i] + r->e[n][i];
        add_signs(x, r->e[n], sum);
        memset(r->u[n], 0, sizeof r->u[n]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        r->x_met[i] -= moved_by(r, i, step, sum[i]);
        for (int n = 0; n < N; n++) {
            r->m[n][i] = sum[i] / r->since;
            r->x[n][i] = r->x_met[i];
        }
    }
    r->since = 0;
}

static void go_apart(apart *r, int step, double slopes[N][COUNT])
{
    r->since++;
    for (int n = 0; n < N; n++)
        for (size_t i = 0; i < COUNT; i++) {
            r->m[n][i] = beta1 * r->m[n][i] + (1 - beta1) * slopes[n][i];
            r->u[n][i] += r->m[n][i];
            r->x[n][i] -= moved_by(r, i, step, r->m[n][i]);
        }
    if (is_meeting(step))
        meet(r, step);
}

static void nothing_travels(members *m)
{
    for (int n = 0; n < N; n++) {
        const shoal_round only = round_of(m, n, 0);
        assert_true(only.last && only.count == 0);
    }
}

static void step_all(members *m, shoali_optim **optim, float w[N][COUNT], int step)
{
    for (int n = 0; n < N; n++) {
        const shoali_step s = {.count = COUNT,
                               .params = w[n],
                               .grads = m->grad[n],
                               .params_out = w[n],
                               .lr = (float)lr,
                               .grad_scale = 1.0f / N,
                               .iteration = (uint64_t)step};
        shoali_optim_step(optim[n], &s);
    }
}

/* Slopes are of where the reference's members are, so that a sign that rounding turns does not turn
 * the next ones. */
static void goes_apart_as_the_paper_says(void **state)
{
    static apart r;
    static double slopes[N][COUNT];
    static float w[N][COUNT];
    members m;
    shoali_optim *optim[N];
    double worst = 0, moved = 0, between = 0;
    (void)state;
    open_members(&m, "onebit:warmup=20,local=4,doubling=10");
    for (int n = 0; n < N; n++)
        assert_ok(shoali_optim_create("adam:freeze=20,local=4,doubling=10", table, 2, &optim[n]));
    for (int step = 0; step < LOCAL_STEPS; step++) {
        for (int n = 0; n < N; n++)
            for (size_t i = 0; i < COUNT; i++) {
                slopes[n][i] = slope(n, step, i, r.x[n][i]);
                m.grad[n][i] = (float)slopes[n][i];
            }
        if (step < WARMUP || is_meeting(step))
            exchange(&m, step < WARMUP);
        else
            nothing_travels(&m);
        (step < WARMUP ? warm_up : go_apart)(&r, step, slopes);
        step_all(&m, optim, w, step);
        if (step < WARMUP || is_meeting(step))
            assert_memory_equal(w[0], w[N - 1], sizeof w[0]);
        for (size_t i = 0; i < COUNT; i++) {
            worst = fmax(worst, fabs(r.x[1][i] - (double)w[1][i]));
            moved = fmax(moved, fabs(r.x[1][i]));
            between = fmax(between, fabs((double)w[1][i] - (double)w[0][i]));
        }
    }
    assert_true(moved > 0.5 && between > 1e-3);
    assert_true(worst < 2e-3 * moved);
    for (int n = 0; n < N; n++)
        shoali_optim_destroy(optim[n]);
    close_members(&m);
}

/* What was asked for is delivered or waits: over all steps the momenta add up. */
static void nothing_is_lost(void **state)
{
    members m;
    double asked[COUNT] = {0}, given[COUNT] = {0};
    (void)state;
    open_members(&m, "onebit:warmup=1,beta=0.5");
    for (int step = 0; step < 30; step++) {
        const float *sums = m.state[0] + 3 + COUNT; /* of momenta */
        for (size_t i = 0; i < COUNT; i++) {
            asked[i] += step > 0 ? 0.5 * (double)sums[i] : 0;
            for (int n = 0; n < N; n++) {
                m.grad[n][i] = (float)shoali_rng_normal(9, (uint64_t)(step * N + n), i);
                asked[i] += step > 0 ? 0.5 * (double)m.grad[n][i] : 0;
            }
        }
        exchange(&m, step < 1);
        for (size_t i = 0; i < COUNT; i++)
            given[i] += step > 0 ? (double)sums[i] : 0;
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (int n = 0; n < N; n++)
            given[i] += (double)(m.state[n] + 3 + 2 * COUNT)[i];
        assert_true(fabs(asked[i] - given[i]) < 1e-4);
    }
    close_members(&m);
}

/* A block with a NaN goes out as NaN, so that whose it is will be named. */
static void what_is_no_number_is_not_hidden(void **state)
{
    members m;
    (void)state;
    open_members(&m, "onebit:warmup=1");
    memset(m.grad, 0, sizeof m.grad);
    exchange(&m, true);
    m.grad[1][400] = NAN;
    for (int n = 0; n < N; n++) {
        const shoal_round round = round_of(&m, n, 0);
        assert_true((isnan(round.buf[400]) != 0) == (n == 1));
        assert_true(round.buf[0] == 0);
    }
    close_members(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(trains_as_the_paper_says),        CHECK_TEST(renews_as_the_paper_says),
        CHECK_TEST(goes_apart_as_the_paper_says),    CHECK_TEST(nothing_is_lost),
        CHECK_TEST(what_is_no_number_is_not_hidden),
    };
    return CHECK_RUN(tests);
}
