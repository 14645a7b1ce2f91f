/* SPDX-License-Identifier: Apache-2.0 */
/* demo among members whose rounds are summed here, against DeMo written down once more in double:
 * cosines by their formula, coefficient by coefficient. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "codec/codec.h"

enum { N = 3, ROWS = 21, COLS = 19, MATRIX = ROWS * COLS, VECTOR = 21, RAW = 5 };
enum { COUNT = MATRIX + RAW + VECTOR, CODED = MATRIX + VECTOR, SIDE = 8, K = 5, STEPS = 50 };
static const double decay = 0.9;

static const shoal_tensor table[3] = {
    {.key = 1, .offset = 0, .count = MATRIX, .rows = ROWS, .cols = COLS, .lr_scale = 1},
    {.key = 2, .offset = MATRIX, .count = RAW, .rows = RAW, .cols = 1, .flags = SHOAL_TENSOR_RAW},
    {.key = 3, .offset = MATRIX + RAW, .count = VECTOR, .rows = VECTOR, .cols = 1, .lr_scale = 1},
};

/* ---------------------------------------------------------------- the paper's algorithm */

/* Each is worked out once. */
static double wave(size_t k, size_t i, size_t n)
{
    static double known[SIDE + 1][SIDE][SIDE];
    double *one = &known[n][k][i];
    if (*one == 0)
        *one = sqrt((k == 0 ? 1.0 : 2.0) / (double)n) *
               cos(M_PI / (double)n * ((double)i + 0.5) * (double)k);
    return *one;
}

/* Of a tile at (r, c), h x w, in a matrix of `cols`. */
typedef struct spot {
    size_t offset, cols, r, c, h, w;
} spot;

static double *at(double *x, const spot *s, size_t i, size_t j)
{
    return x + s->offset + (s->r + i) * s->cols + s->c + j;
}

static double coefficient(double *x, const spot *s, size_t k, size_t l)
{
    double sum = 0;
    for (size_t i = 0; i < s->h; i++)
        for (size_t j = 0; j < s->w; j++)
            sum += wave(k, i, s->h) * wave(l, j, s->w) * *at(x, s, i, j);
    return sum;
}

static void add_wave(double *x, const spot *s, size_t k, size_t l, double a)
{
    for (size_t i = 0; i < s->h; i++)
        for (size_t j = 0; j < s->w; j++)
            *at(x, s, i, j) += a * wave(k, i, s->h) * wave(l, j, s->w);
}

/* The K largest of m's coefficients leave it and go into sum. */
static void extract(double *m, double *sum, const spot *s)
{
    double all[SIDE * SIDE];
    bool gone[SIDE * SIDE] = {false};
    const size_t n = s->h * s->w;
    for (size_t i = 0; i < n; i++)
        all[i] = coefficient(m, s, i / s->w, i % s->w);
    for (size_t k = 0; k < K && k < n; k++) {
        size_t most = n;
        for (size_t i = 0; i < n; i++)
            if (!gone[i] && (most == n || fabs(all[i]) > fabs(all[most])))
                most = i;
        gone[most] = true;
        add_wave(sum, s, most / s->w, most % s->w, all[most]);
        add_wave(m, s, most / s->w, most % s->w, -all[most]);
    }
}

/* sum: what the members together send, as it is after the inverse. */
static void reference_step(double m[N][COUNT], float grad[N][COUNT], double sum[COUNT])
{
    memset(sum, 0, COUNT * sizeof *sum);
    for (int n = 0; n < N; n++) {
        for (size_t i = 0; i < COUNT; i++)
            m[n][i] = decay * m[n][i] + (double)grad[n][i];
        for (size_t r = 0; r < ROWS; r += SIDE)
            for (size_t c = 0; c < COLS; c += SIDE) {
                const spot s = {0,
                                COLS,
                                r,
                                c,
                                ROWS - r < SIDE ? ROWS - r : SIDE,
                                COLS - c < SIDE ? COLS - c : SIDE};
                extract(m[n], sum, &s);
            }
        for (size_t c = 0; c < VECTOR; c += SIDE) {
            const spot s = {MATRIX + RAW, VECTOR, 0, c, 1, VECTOR - c < SIDE ? VECTOR - c : SIDE};
            extract(m[n], sum, &s);
        }
    }
}

/* ---------------------------------------------------------------- ours */

typedef struct members {
    shoal_codec *codec;
    float *state[N], grad[N][COUNT];
} members;

static void open_members(members *m, const char *spec)
{
    assert_ok(shoal_codec_open(spec, &m->codec));
    for (int n = 0; n < N; n++)
        m->state[n] = calloc(1, m->codec->row->state_size(m->codec->params, table, 3));
}

static void close_members(members *m)
{
    for (int n = 0; n < N; n++)
        free(m->state[n]);
    shoal_codec_close(m->codec);
}

static shoal_round round_of(members *m, int n, uint32_t index)
{
    shoal_round round = {.members = N};
    assert_ok(m->codec->row->next_round(m->codec->params, m->state[n], table, 3, index, m->grad[n],
                                        &round));
    return round;
}

static void sum_up(const shoal_round *rounds)
{
    for (size_t i = 0; i < rounds[0].count; i++) {
        float sum = 0;
        for (int n = 0; n < N; n++)
            sum += rounds[n].buf[i];
        for (int n = 0; n < N; n++)
            rounds[n].buf[i] = sum;
    }
}

static void exchange(members *m)
{
    shoal_round rounds[N];
    for (int n = 0; n < N; n++) {
        size_t nonzero = 0;
        rounds[n] = round_of(m, n, 0);
        assert_true(!rounds[n].last && rounds[n].slots && rounds[n].count == CODED);
        assert_string_equal(rounds[n].codec, "nonzero");
        for (size_t i = 0; i < CODED; i++)
            nonzero += rounds[n].buf[i] != 0;
        assert_true(nonzero <= (9 + 3) * K && nonzero >= (9 + 3) * K - 3);
    }
    sum_up(rounds);
    for (int n = 0; n < N; n++) {
        rounds[n] = round_of(m, n, 1);
        assert_true(!rounds[n].last && !rounds[n].slots && rounds[n].count == RAW);
    }
    sum_up(rounds);
    for (int n = 0; n < N; n++) {
        const shoal_round end = round_of(m, n, 2);
        assert_true(end.last && end.count == 0);
        assert_memory_equal(m->grad[n], m->grad[0], sizeof m->grad[0]);
    }
}

/* Signs are the paper's but where its sum is nothing but rounding; RAW tensors are summed. */
static void steps_as_the_paper_says(void **state)
{
    static double momentum[N][COUNT], sum[COUNT];
    members m;
    size_t compared = 0;
    (void)state;
    open_members(&m, "demo:chunk=8,k=5,beta=0.9");
    for (uint64_t step = 0; step < STEPS; step++) {
        double raw[RAW] = {0};
        for (uint64_t n = 0; n < N; n++)
            for (size_t i = 0; i < COUNT; i++)
                m.grad[n][i] = (float)shoali_rng_normal(check_seed(), step * N + n, i);
        for (size_t i = 0; i < N * RAW; i++)
            raw[i % RAW] += (double)m.grad[i / RAW][MATRIX + i % RAW];
        reference_step(momentum, m.grad, sum);
        exchange(&m);
        for (size_t i = 0; i < COUNT; i++) {
            const bool as_it_is = i >= MATRIX && i < MATRIX + RAW;
            if (as_it_is)
                assert_true(fabs((double)m.grad[0][i] - raw[i - MATRIX]) < 1e-5);
            else if (fabs(sum[i]) > 1e-4)
                assert_true((double)m.grad[0][i] == (sum[i] > 0 ? N : -N));
            compared += !as_it_is && fabs(sum[i]) > 1e-4;
        }
    }
    assert_true(compared > STEPS * CODED * 99 / 100);
    for (int n = 0; n < N; n++)
        for (size_t i = 0; i < COUNT; i++)
            if (i < MATRIX || i >= MATRIX + RAW)
                assert_true(fabs(momentum[n][i] - (double)m.state[n][i]) < 1e-4);
    close_members(&m);
}

/* A tile with a NaN goes out as NaN, so that whose it is will be named; no other one does. */
static void what_is_no_number_is_not_hidden(void **state)
{
    members m;
    (void)state;
    open_members(&m, "demo:chunk=8,k=5");
    memset(m.grad, 0, sizeof m.grad);
    m.grad[1][3 * COLS + 9] = NAN; /* tile 1 of the first row of tiles */
    for (int n = 0; n < N; n++) {
        const shoal_round round = round_of(&m, n, 0);
        for (size_t i = 0; i < CODED; i++)
            assert_true((isnan(round.buf[i]) != 0) == (n == 1 && i / (SIDE * SIDE) == 1));
    }
    close_members(&m);
}

static void keys_have_limits(void **state)
{
    (void)state;
    shoal_codec *codec;
    assert_status(shoal_codec_open("demo:chunk=65", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open("demo:k=0", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open("demo:beta=1", &codec), SHOAL_EINVAL);
    assert_ok(shoal_codec_open("demo:chunk=4,k=100", &codec)); /* all of a tile */
    assert_true(shoal_codec_bytes_per_elem(codec, 1) == 4);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(steps_as_the_paper_says),
        CHECK_TEST(what_is_no_number_is_not_hidden),
        CHECK_TEST(keys_have_limits),
    };
    return CHECK_RUN(tests);
}
