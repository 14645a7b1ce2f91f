/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets made here: free of licences, reproducible, and hard enough to tell methods apart.
 *
 * Digits are drawn from the outlines of Debian's fonts and distorted: size, rotation, shear,
 * aspect, place, an elastic grid, blur, contrast, noise. Every fifth font is kept for the test set,
 * so a network is tested on shapes that it has never seen. The files are genuine IDX files under
 * MNIST's names, which every loader of MNIST reads. An image depends on (seed, split, number,
 * fonts) only: the same call gives the same bytes as long as the font packages are the same.
 *
 * Making them takes seconds to minutes, so it goes in steps and the caller shows progress:
 *
 *     shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
 *     desc.dir = "data/digits";
 *     shoal_status status = shoal_digits_open(&desc, &digits);
 *     while (status == SHOAL_OK && (status = shoal_digits_step(digits, &progress)) ==
 * SHOAL_PENDING) status = SHOAL_OK; // show progress.done of progress.total
 *     shoal_digits_close(digits);
 */
#ifndef SHOAL_DATA_H
#define SHOAL_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_digits shoal_digits;

/** What to make. Zero means the default in brackets; start from SHOAL_DIGITS_DESC_INIT. */
typedef struct shoal_digits_desc {
    size_t size;          /* sizeof(shoal_digits_desc) */
    const char *dir;      /* where the four files go; made if it is not there */
    uint64_t seed;        /* [1] */
    uint32_t train_count; /* [40000] images */
    uint32_t test_count;  /* [8000] images */
    double hard;          /* [1] how much everything is distorted, 0.1 .. 4 */
} shoal_digits_desc;
#define SHOAL_DIGITS_DESC_INIT                      \
    {                                               \
        sizeof(shoal_digits_desc), NULL, 0, 0, 0, 0 \
    }

/** How far it is. */
typedef struct shoal_digits_progress {
    uint64_t done, total;             /* images */
    uint32_t train_fonts, test_fonts; /* faces in use */
} shoal_digits_progress;

/**
 * Find the fonts and begin. Nothing is seen in dir until all is done.
 * @param digits_out owned by the caller; shoal_digits_close.
 * @return SHOAL_OK | EINVAL | ENOTSUP (font packages are missing: the advice names them) | EIO |
 * ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_digits_open(const shoal_digits_desc *desc,
                                                        shoal_digits **digits_out);

/**
 * Draw some more images, about 20 ms worth.
 * @return PENDING: call again | OK: the files are there, whole, under their names | EIO
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_digits_step(shoal_digits *digits,
                                                        shoal_digits_progress *progress_out);

/** Free everything; what is not finished is removed. NULL is allowed. */
SHOAL_API void shoal_digits_close(shoal_digits *digits);

#ifdef __cplusplus
}
#endif
#endif
