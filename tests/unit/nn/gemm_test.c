/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/gemm.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/arena.h"
#include "support/check.h"

typedef struct product {
    bool turn_a, turn_b;
    int m, n, k;
    float scale, keep;
} product;

static const product products[] = {
    {false, false, 3, 5, 7, 1, 0},       {false, true, 64, 33, 40, 0.5f, 0},
    {true, false, 31, 64, 17, 1, 1},     {true, true, 40, 24, 65, -2, 0.25f},
    {false, true, 1, 257, 128, 1, 0},    {true, false, 128, 1, 256, 1, 1},
    {false, false, 129, 130, 131, 1, 0}, {false, true, 16, 16, 17, 1, 1},
};
enum { COUNT = sizeof products / sizeof products[0], PAD = 3 };

static float at(const float *x, bool turned, int step, int row, int col)
{
    return turned ? x[(size_t)col * (size_t)step + (size_t)row]
                  : x[(size_t)row * (size_t)step + (size_t)col];
}

/* Beside the definition in double; rows have values between them that nobody touches, and what is
 * not kept may be no number. */
static void products_are_those_of_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const product *p = &products[i];
        const int a_step = (p->turn_a ? p->m : p->k) + PAD,
                  b_step = (p->turn_b ? p->k : p->n) + PAD, c_step = p->n + PAD;
        float *a = check_floats((size_t)a_step * (size_t)(p->turn_a ? p->k : p->m), 3 * i);
        float *b = check_floats((size_t)b_step * (size_t)(p->turn_b ? p->n : p->k), 3 * i + 1);
        float *c = check_floats((size_t)c_step * (size_t)p->m, 3 * i + 2);
        float *before = check_floats((size_t)c_step * (size_t)p->m, 3 * i + 2);
        for (int j = 0; p->keep == 0 && j < p->m; j++)
            c[(size_t)j * (size_t)c_step] = NAN;
        shoali_gemm(p->turn_a, p->turn_b, p->m, p->n, p->k, p->scale, a, a_step, b, b_step, p->keep,
                    c, c_step);
        for (int r = 0; r < p->m; r++) {
            const size_t row = (size_t)r * (size_t)c_step;
            for (int col = 0; col < p->n; col++) {
                double sum = 0;
                for (int k = 0; k < p->k; k++)
                    sum += (double)at(a, p->turn_a, a_step, r, k) *
                           (double)at(b, p->turn_b, b_step, k, col);
                const double want = p->scale * sum + p->keep * before[row + (size_t)col];
                if (!(fabs(want - c[row + (size_t)col]) < 1e-5 * p->k))
                    fail_msg("product %zu at %d, %d: %g, wanted %g", i, r, col,
                             (double)c[row + (size_t)col], want);
            }
            assert_memory_equal(c + row + p->n, before + row + p->n, PAD * sizeof *c);
        }
        shoali_free(before);
        shoali_free(c);
        shoali_free(b);
        shoali_free(a);
    }
}

/* No number stays none, and the same values give the same bits. */
static void what_is_no_number_stays_so(void **state)
{
    (void)state;
    enum { SIDE = 48 };
    float *a = check_floats(SIDE * SIDE, 1), *b = check_floats(SIDE * SIDE, 2);
    float c[SIDE * SIDE], again[SIDE * SIDE];
    a[5 * SIDE + 7] = NAN;
    shoali_gemm(false, false, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
    shoali_gemm(false, false, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, again, SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_int_equal(isnan(c[i]), i / SIDE == 5);
    assert_memory_equal(c, again, sizeof c);
    shoali_free(b);
    shoali_free(a);
}

static volatile sig_atomic_t rang;

static void ring(int number)
{
    (void)number;
    rang++;
}

/* oneDNN's products of matrices keep data where the stack should be: a signal that comes in between
 * leaves its frame in the heap, and malloc ends the process sooner or later. */
static void signals_come_between_products(void **state)
{
    (void)state;
    enum { M = 128, N = 256, K = 128, TIMES = 3000, US = 100 };
    const struct itimerval often = {{0, US}, {0, US}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    struct sigaction before;
    float *a = check_floats(M * K, 1), *b = check_floats(K * N, 2), *c = check_floats(M * N, 3);
    float *first = check_floats(M * N, 3);
    shoali_gemm(false, false, M, N, K, 1, a, K, b, N, 0, first, N);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < TIMES || rang < 10; i++) {
        shoali_gemm(false, false, M, N, K, 1, a, K, b, N, 0, c, N);
        free(malloc(16640)); /* as large as what it packs: looks at what lies beside */
        assert_memory_equal(c, first, M * N * sizeof *c);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    print_message("%d signals\n", (int)rang);
    shoali_free(first);
    shoali_free(c);
    shoali_free(b);
    shoali_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(products_are_those_of_the_definition),
                                       CHECK_TEST(what_is_no_number_stays_so),
                                       CHECK_TEST(signals_come_between_products)};
    return CHECK_RUN(tests);
}
