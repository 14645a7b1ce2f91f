/* SPDX-License-Identifier: Apache-2.0 */
/* powersgd among members whose rounds are summed here: matrices of low rank arrive exactly, others
 * come closer step by step, nothing is lost, and all members get the same bits. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/codec.h"

enum { N = 3, ROWS = 24, COLS = 40, MATRIX = ROWS * COLS, VECTOR = 7, COUNT = MATRIX + VECTOR };

static const shoal_tensor table[] = {
    {.key = 1, .offset = 0, .count = MATRIX, .rows = ROWS, .cols = COLS, .lr_scale = 1},
    {.key = 2, .offset = MATRIX, .count = VECTOR, .rows = VECTOR, .cols = 1, .lr_scale = 1},
};

typedef struct members {
    shoal_codec *codec;
    float *state[N];
    size_t state_floats;
} members;

static void open_members(members *m, const char *spec)
{
    assert_ok(shoal_codec_open(spec, &m->codec));
    size_t bytes = m->codec->row->state_size(m->codec->params, table, 2);
    m->state_floats = bytes / sizeof(float);
    for (int i = 0; i < N; i++)
        m->state[i] = calloc(1, bytes);
}

static void close_members(members *m)
{
    for (int i = 0; i < N; i++)
        free(m->state[i]);
    shoal_codec_close(m->codec);
}

/* One operation; grads become the result. Elements that travelled per member are returned. */
static size_t run(members *m, float grads[N][COUNT])
{
    size_t travelled = 0;
    for (uint32_t index = 0;; index++) {
        shoal_round round[N];
        for (int i = 0; i < N; i++)
            assert_ok(m->codec->row->next_round(m->codec->params, m->state[i], table, 2, index,
                                                grads[i], &round[i]));
        for (size_t j = 0; j < round[0].count; j++) {
            float sum = 0;
            for (int i = 0; i < N; i++)
                sum += round[i].buf[j];
            for (int i = 0; i < N; i++)
                round[i].buf[j] = sum;
        }
        travelled += round[0].count;
        for (int i = 1; i < N; i++)
            assert_true(round[i].count == round[0].count && round[i].last == round[0].last);
        if (round[0].last)
            return travelled;
    }
}

static const float *residual_of(const members *m, int i)
{
    return m->state[i] + m->state_floats - MATRIX;
}

static void low_rank_arrives_exactly(void **state)
{
    (void)state;
    members m;
    static float grads[N][COUNT];
    open_members(&m, "powersgd:rank=2");
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < COUNT; j++) /* the sum over members has rank 2 */
            grads[i][j] = j >= MATRIX
                              ? (float)(i + (int)j)
                              : (float)(sin((double)(j / COLS)) * cos((double)(j % COLS)) +
                                        (i + 1) * (double)(j / COLS) * (double)(j % COLS) * 1e-3);
    static float want[COUNT];
    for (size_t j = 0; j < COUNT; j++)
        want[j] = grads[0][j] + grads[1][j] + grads[2][j];
    assert_int_equal(run(&m, grads), 2 * (ROWS + COLS) + VECTOR);
    for (size_t j = 0; j < COUNT; j++)
        assert_true(fabsf(grads[0][j] - want[j]) < 1e-3f);
    close_members(&m);
}

static void nothing_is_lost_and_all_agree(void **state)
{
    (void)state;
    members m;
    static float grads[N][COUNT];
    static double put_in[COUNT], delivered[COUNT];
    open_members(&m, "powersgd");
    for (uint64_t step = 0; step < 20; step++) {
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < COUNT; j++) {
                grads[i][j] = (float)shoali_rng_normal(check_seed(), step * N + (uint64_t)i, j);
                if (step % 7 == 3)
                    grads[i][j] = 0;
                put_in[j] += (double)grads[i][j];
            }
        run(&m, grads);
        for (int i = 1; i < N; i++)
            assert_memory_equal(grads[i], grads[0], sizeof grads[0]);
        for (size_t j = 0; j < COUNT; j++)
            delivered[j] += (double)grads[0][j];
    }
    for (size_t j = 0; j < COUNT; j++) {
        double kept = 0;
        for (int i = 0; i < N && j < MATRIX; i++)
            kept += (double)residual_of(&m, i)[j];
        assert_true(fabs(delivered[j] + kept - put_in[j]) < 1e-3);
    }
    close_members(&m);
}

/* The same matrix again and again: the power iteration finds its largest directions. */
static void warm_starts_come_closer(void **state)
{
    (void)state;
    members m;
    static float grads[N][COUNT];
    double first = 0, last = 0;
    open_members(&m, "powersgd:rank=1");
    for (int step = 0; step < 12; step++) {
        double error = 0;
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < COUNT; j++)
                grads[i][j] = j % (COLS + 1) == 0 && j < MATRIX
                                  ? 1.0f / (float)(1 + j / COLS) /* singular values 3, 3/2, 1 */
                                  : 0;
        memset(m.state[0] + m.state_floats - MATRIX, 0, MATRIX * sizeof(float));
        memset(m.state[1] + m.state_floats - MATRIX, 0, MATRIX * sizeof(float));
        memset(m.state[2] + m.state_floats - MATRIX, 0, MATRIX * sizeof(float));
        run(&m, grads);
        for (size_t r = 0; r < ROWS; r++)
            error += pow(3.0 / (double)(1 + r) - (double)grads[0][r * (COLS + 1)], 2);
        first = step == 0 ? error : first;
        last = error;
    }
    double best = 0; /* all but the largest */
    for (int r = 1; r < ROWS; r++)
        best += 9.0 / ((1 + r) * (1 + r));
    assert_true(last < best * 1.01 && first > last);
    close_members(&m);
}

static void zeros_do_not_stick(void **state)
{
    (void)state;
    members m;
    static float grads[N][COUNT];
    open_members(&m, "powersgd");
    run(&m, grads);
    for (size_t j = 0; j < COUNT; j++) {
        assert_true(grads[0][j] == 0);
        grads[0][j] = 1, grads[1][j] = grads[2][j] = 0;
    }
    run(&m, grads);
    for (size_t j = 0; j < COUNT; j++)
        assert_true(fabsf(grads[2][j] - 1) < 1e-4f);
    close_members(&m);
}

/* ---------------------------------------------------------------- the algorithm once more
 *
 * PowerSGD (algorithm 1, with error feedback) in double and by the book, on dense matrices: columns
 * made orthogonal by projecting on all before them. It takes over what the codec has after its
 * first step, whose Q is drawn, and then goes its own way. */

enum { RANK = 2 };

typedef struct reference {
    double q[COLS][RANK]; /* summed over members */
    double residual[N][ROWS][COLS];
} reference;

static void reference_basis(reference *ref, const double m[N][ROWS][COLS], double p[ROWS][RANK])
{
    memset(p, 0, sizeof(double[ROWS][RANK]));
    for (int i = 0; i < N; i++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                for (int k = 0; k < RANK; k++)
                    p[r][k] += m[i][r][c] * ref->q[c][k];
    for (int k = 0; k < RANK; k++) {
        double square = 0;
        for (int before = 0; before < k; before++) {
            double along = 0;
            for (int r = 0; r < ROWS; r++)
                along += p[r][k] * p[r][before];
            for (int r = 0; r < ROWS; r++)
                p[r][k] -= along * p[r][before];
        }
        for (int r = 0; r < ROWS; r++)
            square += p[r][k] * p[r][k];
        for (int r = 0; r < ROWS; r++)
            p[r][k] /= sqrt(square);
    }
}

/* One step; the sum that every member should get. */
static void reference_step(reference *ref, float grads[N][COUNT], double sum_out[ROWS][COLS])
{
    static double m[N][ROWS][COLS];
    double p[ROWS][RANK], own[COLS][RANK];
    for (int i = 0; i < N; i++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                m[i][r][c] = (double)grads[i][r * COLS + c] + ref->residual[i][r][c];
    reference_basis(ref, (const double(*)[ROWS][COLS])m, p);
    memset(ref->q, 0, sizeof ref->q);
    for (int i = 0; i < N; i++) {
        memset(own, 0, sizeof own);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                for (int k = 0; k < RANK; k++)
                    own[c][k] += m[i][r][c] * p[r][k];
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++)
                ref->residual[i][r][c] = m[i][r][c] - p[r][0] * own[c][0] - p[r][1] * own[c][1];
        for (int c = 0; c < COLS; c++)
            for (int k = 0; k < RANK; k++)
                ref->q[c][k] += own[c][k];
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            sum_out[r][c] = p[r][0] * ref->q[c][0] + p[r][1] * ref->q[c][1];
}

/* Where the codec stands between two steps. */
static void adopt(reference *ref, const members *m)
{
    const float *q = m->state[0] + 1 + RANK * ROWS + VECTOR;
    for (int c = 0; c < COLS; c++)
        for (int k = 0; k < RANK; k++)
            ref->q[c][k] = (double)q[k * COLS + c];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < MATRIX; j++)
            ref->residual[i][j / COLS][j % COLS] = (double)residual_of(m, i)[j];
}

static void steps_are_those_of_the_paper(void **state)
{
    static float grads[N][COUNT];
    static double want[ROWS][COLS];
    static reference ref;
    members m;
    (void)state;
    open_members(&m, "powersgd:rank=2");
    for (uint64_t step = 0; step < 8; step++) {
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < COUNT; j++) /* two directions stand out, noise on all */
                grads[i][j] = (float)(2 * sin((double)(j / COLS)) * cos((double)(j % COLS)) +
                                      cos((double)(j / COLS)) * sin(2.0 * (double)(j % COLS)) +
                                      0.1 * shoali_rng_normal(check_seed(), step * N + (uint64_t)i,
                                                              j));
        if (step == 1) /* the first step's Q is drawn: from then on nothing is random */
            adopt(&ref, &m);
        if (step > 0)
            reference_step(&ref, grads, want);
        run(&m, grads);
        for (size_t j = 0; step > 0 && j < MATRIX; j++)
            assert_true(fabs((double)grads[1][j] - want[j / COLS][j % COLS]) < 1e-3);
    }
    close_members(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(low_rank_arrives_exactly),     CHECK_TEST(nothing_is_lost_and_all_agree),
        CHECK_TEST(warm_starts_come_closer),      CHECK_TEST(zeros_do_not_stick),
        CHECK_TEST(steps_are_those_of_the_paper),
    };
    return CHECK_RUN(tests);
}
