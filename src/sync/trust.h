/* SPDX-License-Identifier: Apache-2.0 */
/* Whose update is let into a round's mean, and by how much: by lengths against the median of the
 * others, then by directions. All that took part have the same updates, so they judge alike.
 *
 *   not finite            refused
 *   above 10 medians      refused
 *   above 1.25 medians    shortened to that
 *   not with the others   refused: its cosine with the sum of the others is below a quarter of the
 *                         median of the others' cosines, where that is above 0.2; else below -0.2
 *
 * With fewer than three that moved at all nobody can tell who is wrong: only what is not finite is
 * refused. */
#ifndef SHOALI_SYNC_TRUST_H
#define SHOALI_SYNC_TRUST_H

#include <stdbool.h>
#include <stdint.h>

enum { SHOALI_TRUST_WORKERS = 64 };

typedef enum shoali_verdict {
    SHOALI_TRUSTED,
    SHOALI_NOT_FINITE,
    SHOALI_TOO_LONG,
    SHOALI_AGAINST
} shoali_verdict;

/** The first look. lengths: norms, NaN where something is not finite; count at most
 *  SHOALI_TRUST_WORKERS. factors_out: what each is multiplied by in the sum. */
void shoali_trust_lengths(const double *lengths, uint32_t count, shoali_verdict *verdicts_out,
                          double *factors_out);
/** The second. products: of each with the sum that the factors make; sum: that one's norm. Those
 *  that are refused get factor 0, and the others so much more that they stand for all. */
void shoali_trust_directions(const double *lengths, const double *products, double sum,
                             uint32_t count, shoali_verdict *verdicts, double *factors);
/** "not finite", for a sentence on an update. */
const char *shoali_trust_text(shoali_verdict verdict);

#endif
