/* SPDX-License-Identifier: Apache-2.0 */
/* shoal calibrate --fit: factors on a cluster's efficiencies from measured steps. */
#ifndef SHOAL_CLI_CALIBRATE_FIT_H
#define SHOAL_CLI_CALIBRATE_FIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fit_args {
    const char *csv, *cluster, *out;
    double hold; /* share of the rows; below 0: a quarter of them where there are enough */
    uint64_t seed;
    bool json;
} fit_args;

/** @return exit code; errors are printed. */
int calibrate_fit(const fit_args *args);

#endif
