/* SPDX-License-Identifier: Apache-2.0 */
/* shoal calibrate --fit: factors on a cluster's efficiencies from measured steps. */
#ifndef SHOAL_CLI_CALIBRATE_FIT_H
#define SHOAL_CLI_CALIBRATE_FIT_H

#include <stdbool.h>

/** @return exit code; errors are printed. */
int calibrate_fit(const char *csv, const char *cluster, const char *out, bool json);

#endif
