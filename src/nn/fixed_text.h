/* SPDX-License-Identifier: Apache-2.0 */
/* A net in fixed point as C source: kernel/fixed.[ch] as they are, tables, and two functions. */
#ifndef SHOALI_NN_FIXED_TEXT_H
#define SHOALI_NN_FIXED_TEXT_H

#include <stdio.h>

#include "nn/fixed_net.h"

/** NAME.h: the code, sizes as macros, NAME_reset and NAME_run. It includes "NAME_weights.h".
 * @param about what it is of, for the comment; one line.
 * @param frames most frames of a sample. */
void shoali_fixed_write_code(FILE *to, const shoali_fixed_model *model, const char *name,
                             const char *about, uint32_t frames);
/** NAME_weights.h: the tables. */
void shoali_fixed_write_weights(FILE *to, const shoali_fixed_model *model, const char *name);

#endif
