/* SPDX-License-Identifier: Apache-2.0 */
/* shoal train --codec: what "auto" found. */
#ifndef SHOAL_CLI_TRAIN_CODEC_H
#define SHOAL_CLI_TRAIN_CODEC_H

#include "shoal/train.h"

/** The comparison as a table; nothing where there is none. */
void train_codec_table(const shoal_train *train);
/** The same as members of a JSON object, each followed by a comma. */
void train_codec_json(const shoal_train *train);

#endif
