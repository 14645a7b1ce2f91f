/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of svmlight and libsvm, plain or .gz: a line per sample,
 *
 *     CLASS INDEX:VALUE INDEX:VALUE ... # comment
 *
 * Classes are whole numbers, indices ascend. What is something else (targets of regression, several
 * classes of a sample, qid) is refused with its line. */
#ifndef SHOALI_DATA_SVMLIGHT_TEXT_H
#define SHOALI_DATA_SVMLIGHT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_svmlight {
    uint32_t count;
    int64_t *labels;   /* [count], as in the text */
    uint64_t *starts;  /* [count + 1] */
    float *pairs;      /* [starts[count]][2]: feature from 0 on, value other than 0 */
    uint32_t features; /* the largest + 1 */
    size_t label_room, pair_room;
} shoali_svmlight;

/**
 * @param zero_based indices begin at 0, else at 1.
 * @param text_out   to be freed, whatever is returned.
 * @return SHOAL_OK | EIO | ECORRUPT (file, line, what is wrong) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_svmlight_read(const char *path, bool zero_based,
                                                 shoali_svmlight *text_out);
void shoali_svmlight_free(shoali_svmlight *text);

#endif
