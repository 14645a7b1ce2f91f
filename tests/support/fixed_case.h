/* SPDX-License-Identifier: Apache-2.0 */
/* Random words, matrices and cells for fixed point, and the golden vectors made of them. */
#ifndef SHOALI_TESTS_SUPPORT_FIXED_CASE_H
#define SHOALI_TESTS_SUPPORT_FIXED_CASE_H

#include <stdbool.h>
#include <stdio.h>

#include "kernel/fixed.h"

typedef struct draw {
    uint64_t seed, stream, at;
} draw;

/** Uniform among the words of so many bits; one in four is the largest or smallest. */
int32_t draw_word(draw *d, unsigned bits);
void draw_words(draw *d, unsigned bits, uint32_t count, int16_t *out);
/** log2 k */
unsigned fixed_levels(uint32_t k);
/** The block that slots are the spectrum of, by the definition. */
void fixed_invert(uint32_t k, const double *slots, double *x);

enum { FIXED_MOST = 4096, FIXED_CELLS = 8, FIXED_IN = 6 };

/** A matrix of random words, and what they stand for. */
typedef struct random_matrix {
    shoali_fixed_matrix m;
    int16_t w[FIXED_MOST];
    double entries[FIXED_MOST]; /* [rows][cols], words of y per word of x */
} random_matrix;

/** Shifts are such that sums hardly reach the largest words of y. */
void random_matrix_make(random_matrix *r, draw *d, uint32_t bits, uint32_t rows, uint32_t cols,
                        uint32_t k);

/** One direction with all its words. */
typedef struct random_cells {
    shoali_fixed_cells l;
    random_matrix x, r, p;
    int16_t bias[4 * FIXED_CELLS], peephole[3 * FIXED_CELLS];
    uint32_t bits, out;
} random_cells;

/** gates 3: a gru. proj 0: none. */
void random_cells_make(random_cells *c, draw *d, uint32_t bits, uint32_t k, uint32_t gates,
                       uint32_t proj, bool peephole);

/** innet/vectors/fixed.txt */
void fixed_vectors_write(FILE *f);

#endif
