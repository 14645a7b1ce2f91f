/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal train makes of its options before anything starts. */
#ifndef SHOAL_CLI_TRAIN_CHECKS_H
#define SHOAL_CLI_TRAIN_CHECKS_H

#include <stdbool.h>

#include "shoal/train.h"

/** An impossible pair of codec and collective is an error before anything starts. */
bool train_codec_is_carried(const shoal_train_desc *train);

/** Model spec with --circulant's keys ("k=8", "k=8,conv=4") added: "mlp:circulant=8". Owned by the
 * caller; NULL: the option is not of that form, or no memory. */
char *train_circulate(const char *model, const char *option);

#endif
