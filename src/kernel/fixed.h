/* SPDX-License-Identifier: Apache-2.0 */
/* Block-circulant networks in fixed point: the reference that programs on small machines and the
 * hardware blocks (innet/rtl) agree with to the last bit. This header and fixed.c need nothing but
 * <stdint.h>: no heap, no floating point, no C library. An export carries both as they are.
 *
 * Words. W (`bits`) is 12 or 16. A word of n bits is a signed integer in [-2^(n-1), 2^(n-1)); with
 * F fraction bits it stands for word / 2^F. F is a constant of each tensor, found before. All words
 * of inputs, outputs, weights, biases have W bits; words inside grow, so nothing else overflows.
 *
 *     round(v, s)   (v + 2^(s-1)) >> s, arithmetic shift: half goes up. s = 0: v
 *     sat(v, n)     v, or the nearest of -2^(n-1) and 2^(n-1) - 1
 *
 * These are all the roundings that there are; every other sum and product is exact. So each word
 * is a function of integers, whatever order or width a machine computes it in.
 *
 * Spectra. A real block of k = 2^L words (k 1 .. 64) has k slots: 0 the sum (DC), 1 the alternating
 * sum (Nyquist), 2f and 2f + 1 real and imaginary part of bin f, 0 < f < k / 2.
 *
 * rfft, n from 2 to k, E and O the spectra of the even and odd words, w = exp(-2 pi i / n):
 *     n = 1   X[0] = x[0]
 *     n = 2   X[0] = x[0] + x[1]      X[1] = x[0] - x[1]
 *     n > 2   X[0] = E[0] + O[0]      X[1] = E[0] - O[0]
 *             bin n/4:                re = E[1]              im = -O[1]
 *             bin f < n/4:            re = E.re + t.re       im = E.im + t.im
 *             bin n/2 - f:            re = E.re - t.re       im = t.im - E.im
 *             t.re = round(c * O.re + s * O.im, 15)   t.im = round(c * O.im - s * O.re, 15)
 * with c, s = 2^15 cos, sin(2 pi f / n), rounded to nearest (shoali_fixed_cos; never 1). For
 * f = n/8 c = s, and one product of the sum does. X has W + L bits; nothing is shifted on the way.
 *
 * irfft, the same butterflies backwards, n from k to 2; its results are k times the block:
 *     n = 2   x[0] = X[0] + X[1]      x[1] = X[0] - X[1]
 *     n > 2   E[0] = X[0] + X[1]      O[0] = X[0] - X[1]
 *             E[1] = 2 * bin n/4 re   O[1] = -2 * bin n/4 im
 *             with a = bin f, b = bin n/2 - f, 0 < f < n/4, d = (a.re - b.re, a.im + b.im):
 *             E.re = a.re + b.re      E.im = a.im - b.im
 *             O.re = round(c * d.re - s * d.im, 15)   O.im = round(s * d.re + c * d.im, 15)
 * Its words fit n + L + max(0, ceil((L - 2) / 2)) bits if those of X fit n bits.
 *
 * Product y = M x, M of p x q blocks, k slots W[i][slot][j] of W bits each:
 *   1. X[j] = rfft of block j of x (zeros behind its end).
 *   2. Per output block i, over all j, exactly:  slots 0 and 1: sum of W X; bins: sums of
 *      W.re X.re - W.im X.im and W.re X.im + W.im X.re. 2 W + L + 1 + ceil(log2 q) bits hold them.
 *   3. Y = sat(round(sum, shift[bin]), W + L + 2). Each bin has a shift of its own: its weights'
 *      fraction + x's fraction - y's fraction (0 .. 40).
 *   4. y = round(irfft(Y), L). Not saturated: sums of products are, once.
 * k = 1 is a dense row: X = x, y = Y.
 *
 * Activations are straight lines over 96 segments, each 1/8 wide, of [0, 12) (fixed.c has them).
 * With v of F fraction bits (F < 4: v and F are first raised to 4, exactly), m = |v|,
 * segment g = m >> (F - 3), r = m - (g << (F - 3)):
 *     line(v, F) = min(32767, base[g] + round(slope[g] * r, F + 2));  g > 95: 32767
 *     sigmoid  u = v < 0 ? 32768 - line(v, F) : line(v, F);     sat(round(u, 16 - W), W)
 *     tanh     u = 2 * line(v, F - 1) - 32768;                  u = sat(round(u, 16 - W), W),
 *              negated for v < 0
 * Results have F = W - 1.
 *
 * Cells. A = W - 4 are the fraction bits of what enters a gate. h' and c' are of the frame before,
 * 0 before the first one; products are those of step 4.
 *     lstm  ai, af = x part + h' part + bias + round(peephole * c', peephole_shift)
 *           az = x part + h' part + bias          i, f = sigmoid(sat(ai, W)), sigmoid(sat(af, W))
 *           z = tanh(sat(az, W)) or sigmoid       c = sat(round(f * c' + i * z, W - 1), W + 4)
 *           ao = x part + h' part + bias + round(peephole * c, peephole_shift)
 *           o = sigmoid(sat(ao, W))               m = sat(round(o * tanh(c), W - 1), W)
 *           h = m, or sat(projection m, W)
 *     gru   z, r = sigmoid(sat(x part + h' part + bias, W))     g = sat(round(r * h', W - 1), W)
 *           v = tanh(sat(x part + candidate g + bias, W))
 *           h = sat(round(h' * 2^(W-1) + z * (v - h'), W - 1), W)
 * c has W + 4 bits, W - 1 of them fraction; h and m W bits and W - 1 (a projection's h: its own).
 *
 * Images are planes, [channels][height][width]. A convolution is the product of steps 1 to 4 with
 * the window of each place: taps from left to right and down, of each the channels, behind them
 * zeros to a whole block; zeros outside the image; y = sat(M window + bias, W). Pools look at what
 * of a window is inside the image: the largest word, or round(sum * r, 16) with n words and r the
 * rounded 2^16 / n.
 *
 * Formulas of the cells: nn/lstm.c, nn/gru.c. Golden vectors: innet/vectors/fixed.txt. */
#ifndef SHOALI_KERNEL_FIXED_H
#define SHOALI_KERNEL_FIXED_H

#include <stdint.h>

#ifndef SHOALI_FIXED_API /* an export has everything static, in one file */
#define SHOALI_FIXED_API extern
#define SHOALI_FIXED_TABLE
#define SHOALI_FIXED_EXTERN_TABLES
#endif

enum {
    SHOALI_FIXED_BLOCK_MAX = 64,
    SHOALI_FIXED_SEGMENTS = 96,
    SHOALI_FIXED_GATE = 4, /* W - 4 fraction bits enter a gate, W + 4 bits are a cell */
    SHOALI_FIXED_SHIFT_MAX = 40
};

/** A matrix of rows x cols in blocks of k: p = ceil(rows / k), q = ceil(cols / k). */
typedef struct shoali_fixed_matrix {
    uint32_t rows, cols;
    uint32_t block;                                /* k */
    const int16_t *w;                              /* [p][k][q] spectra; k = 1: [rows][cols] */
    uint8_t shift[SHOALI_FIXED_BLOCK_MAX / 2 + 1]; /* of step 3; bin k / 2 is slot 1 */
} shoali_fixed_matrix;

/** Windows over planes: of a convolution, a pool. */
typedef struct shoali_fixed_window {
    uint32_t channels, height, width; /* of what comes in */
    uint32_t out_height, out_width;   /* places */
    uint32_t kernel, stride, pad;     /* pixels */
} shoali_fixed_window;

/** One direction of a layer with memory. */
typedef struct shoali_fixed_cells {
    uint32_t count;          /* H */
    shoali_fixed_matrix x;   /* lstm [4H][in]: input, forget, cell, output; gru [3H][in]: update,
                                reset, candidate */
    shoali_fixed_matrix r;   /* lstm [4H][out]; gru [2H][H] */
    shoali_fixed_matrix p;   /* lstm: projection [out][H], rows 0: none; gru: candidate [H][H] */
    const int16_t *bias;     /* [4H], [3H], W - 4 fraction bits */
    const int16_t *peephole; /* [3][H] of input, forget, output; 0: none */
    uint8_t peephole_shift;
} shoali_fixed_cells;

typedef enum {
    SHOALI_FIXED_MATRIX, /* y = sat(M x + bias, W) */
    SHOALI_FIXED_RELU,   /* max(x, 0) */
    SHOALI_FIXED_TANH,
    SHOALI_FIXED_ONEHOT, /* x is a token; y 1 in its place */
    SHOALI_FIXED_LSTM,
    SHOALI_FIXED_GRU,
    SHOALI_FIXED_CONV, /* y = sat(M window + bias, W) */
    SHOALI_FIXED_MAXPOOL,
    SHOALI_FIXED_AVGPOOL
} shoali_fixed_kind;

typedef struct shoali_fixed_layer {
    uint8_t kind;               /* shoali_fixed_kind */
    uint8_t in_frac, out_frac;  /* fraction bits of a frame's words */
    uint8_t directions;         /* of cells: 1 or 2 */
    uint8_t reverse;            /* cells[0] walk from the last frame; cells[1] always do */
    uint8_t concat;             /* directions side by side; else sat(round(a + b, 1), W) */
    uint8_t sigmoid;            /* z of an lstm */
    uint32_t in, out;           /* words of a frame */
    shoali_fixed_matrix matrix; /* of SHOALI_FIXED_MATRIX; of a convolution, over its window */
    const int16_t *bias;        /* [matrix.rows], out_frac; 0: none */
    shoali_fixed_window window; /* of convolutions and pools */
    shoali_fixed_cells cells[2];
} shoali_fixed_layer;

/** A chain of layers over frames; one without memory may as well have a single frame. */
typedef struct shoali_fixed_net {
    uint32_t bits; /* W */
    uint32_t count;
    const shoali_fixed_layer *layers;
} shoali_fixed_net;

#ifdef SHOALI_FIXED_EXTERN_TABLES
/** 2^15 cos(2 pi i / 64), i = 0 .. 16 (32767 at 0, which nobody reads). */
extern const int16_t shoali_fixed_cos[17];
/** The straight lines: 2^15 at the left, and 2^17 times the slope. */
extern const int16_t shoali_fixed_base[SHOALI_FIXED_SEGMENTS];
extern const int16_t shoali_fixed_slope[SHOALI_FIXED_SEGMENTS];
#endif

SHOALI_FIXED_API int64_t shoali_fixed_round(int64_t v, unsigned shift);
SHOALI_FIXED_API int32_t shoali_fixed_sat(int64_t v, unsigned bits);
SHOALI_FIXED_API void shoali_fixed_rfft(uint32_t k, const int32_t *x, int32_t *slots);
SHOALI_FIXED_API void shoali_fixed_irfft(uint32_t k, const int32_t *slots, int32_t *x);
SHOALI_FIXED_API int32_t shoali_fixed_sigmoid(uint32_t bits, int32_t v, unsigned frac);
SHOALI_FIXED_API int32_t shoali_fixed_tanh(uint32_t bits, int32_t v, unsigned frac);

/** Step 1: slots[k][q] of x[cols]. */
SHOALI_FIXED_API void shoali_fixed_analyse(const shoali_fixed_matrix *m, const int16_t *x,
                                           int32_t *slots);
/** Steps 2 to 4: y[rows], or y += with add. */
SHOALI_FIXED_API void shoali_fixed_multiply(const shoali_fixed_matrix *m, uint32_t bits,
                                            const int32_t *slots, int32_t *y, int add);

/** One frame: h and, of an lstm, c move on. Scratch: shoali_fixed_cell_words, and H halves. */
SHOALI_FIXED_API void shoali_fixed_lstm(const shoali_fixed_cells *l, uint32_t bits, int sigmoid,
                                        const int16_t *x, int16_t *h, int32_t *c, int32_t *words,
                                        int16_t *halves);
SHOALI_FIXED_API void shoali_fixed_gru(const shoali_fixed_cells *l, uint32_t bits, const int16_t *x,
                                       int16_t *h, int32_t *words, int16_t *halves);
SHOALI_FIXED_API uint32_t shoali_fixed_cell_words(const shoali_fixed_cells *l);

/** Memory that run wants for so many frames: int32 words and int16 halves. */
SHOALI_FIXED_API void shoali_fixed_sizes(const shoali_fixed_net *net, uint32_t frames,
                                         uint64_t *words_out, uint64_t *halves_out);
/** Before the first frame of a sequence: cells at 0. */
SHOALI_FIXED_API void shoali_fixed_reset(const shoali_fixed_net *net, int32_t *words,
                                         int16_t *halves);
/**
 * Go on with so many frames. Forward cells keep their state in memory, so without backward ones a
 * sequence may come in pieces, even frame by frame; backward cells begin at the last frame given.
 * @param x int16[frames][in], y int16[frames][out]; they and the memory do not overlap.
 */
SHOALI_FIXED_API void shoali_fixed_run(const shoali_fixed_net *net, const int16_t *x,
                                       uint32_t frames, int16_t *y, int32_t *words,
                                       int16_t *halves);

#endif
