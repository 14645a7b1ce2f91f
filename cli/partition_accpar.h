/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOAL_CLI_PARTITION_ACCPAR_H
#define SHOAL_CLI_PARTITION_ACCPAR_H

#include <stdbool.h>
#include <stdint.h>

/** Find and print AccPar's plan; returns the exit code. accelerators: "180x2,420x2", TFLOP/s. */
int partition_accpar(const char *model, uint32_t batch, const char *accelerators,
                     double bytes_per_s, bool json);

#endif
