/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a calibration: the cluster that is being written. */
#ifndef SHOALI_CALIBRATE_CALIBRATE_H
#define SHOALI_CALIBRATE_CALIBRATE_H

#include "model/cluster.h"
#include "shoal/predict.h"

struct shoal_calibration {
    shoal_arena *arena;
    shoali_cluster cluster;
    shoali_accelerator accelerator;
    double budget_s; /* of one measurement */
    double peak;     /* best GEMM so far, FLOP/s */
    double drift;    /* largest relative deviation among repetitions so far */
};

/** Seconds of one call of run(ctx): median of repetitions that fill budget_s; *spread_out their
 * relative median deviation. Lists and figures live in calibration. */
double shoali_calibrate_time(shoal_calibration *calibration, void (*run)(void *ctx), void *ctx,
                             double *spread_out);

/* calibrate_machine.c, calibrate_models.c */
SHOAL_MUST_USE shoal_status shoali_calibrate_machine(shoal_calibration *calibration);
/** After the machine: its peak is what shares are of. */
SHOAL_MUST_USE shoal_status shoali_calibrate_convolutions(shoal_calibration *calibration);
SHOAL_MUST_USE shoal_status shoali_calibrate_codecs(shoal_calibration *calibration,
                                                    const char *specs);
SHOAL_MUST_USE shoal_status shoali_calibrate_model(shoal_calibration *calibration,
                                                   const char *model, uint32_t batch);

#endif
