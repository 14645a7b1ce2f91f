/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal train says of a run. */
#ifndef SHOAL_CLI_TRAIN_REPORT_H
#define SHOAL_CLI_TRAIN_REPORT_H

#include <stdint.h>

#include "shoal/train.h"

/** What codec "auto" compared and chose; nothing where there is nothing. */
void train_codec_table(const shoal_train *train);

/** The whole run. planned: elements per step that the plan says, if there is one. */
void train_report_table(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                        const shoal_train_summary *s);
/** The same as one JSON object. @return exit code */
int train_report_json(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                      const shoal_train_summary *s);

#endif
