/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal train makes of its options before anything starts. */
#ifndef SHOAL_CLI_TRAIN_CHECKS_H
#define SHOAL_CLI_TRAIN_CHECKS_H

#include <stdbool.h>

#include "shoal/train.h"

/** Model spec with --circulant's keys ("k=8", "k=8,conv=4,kx=4") added: "mlp:circulant=8". Owned by
 * the caller; NULL: the option is not of that form, or no memory. */
char *train_circulate(const char *model, const char *option);

/** The same with --precision's; NULL: neither float32 nor bf16, or no memory. */
char *train_round(const char *model, const char *precision);

/** Values of --tos, --bucket and --nonfinite; false: none of them. */
bool train_parse_tos(const char *text, uint8_t *tos_out);
bool train_parse_bucket(const char *text, size_t *bytes_out);
bool train_parse_nonfinite(const char *text, shoal_nonfinite *out);

/** Protocol, codec, collective and workers go together; else the last error says why not. */
bool train_goes_together(const shoal_train_desc *train, const char *admm, uint32_t workers);

/** --dry-run, once nothing has been refused: opens the model, says what would run. own: the name of
 * the resumed run's model, which holds where none is given. */
int train_dry_run(const shoal_train_desc *train, const char *own, uint32_t workers,
                  uint32_t servers);

/** Whether --out may be written to: it holds no run, or one that --resume goes on with. Prints why
 * not. */
bool train_may_write_to(const char *out, const char *resume);

/** Whether a trace (NULL: none) could be written on this host. Prints why not. Creates nothing. */
bool train_may_trace_to(const char *trace);

#endif
