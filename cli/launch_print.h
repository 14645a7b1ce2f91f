/* SPDX-License-Identifier: Apache-2.0 */
/* What to hand to a scheduler instead of starting ranks from here. */
#ifndef SHOAL_CLI_LAUNCH_PRINT_H
#define SHOAL_CLI_LAUNCH_PRINT_H

#include "launch.h"

/** A batch script for sbatch: ranks tasks of the command under srun. */
void print_slurm(const launch_desc *desc);
/** A headless service and an indexed job for kubectl, the token in a secret. */
void print_k8s(const launch_desc *desc);

#endif
