/* SPDX-License-Identifier: Apache-2.0 */
/* What to hand to a scheduler instead of starting ranks from here. */
#ifndef SHOAL_CLI_LAUNCH_PRINT_H
#define SHOAL_CLI_LAUNCH_PRINT_H

#include "launch.h"

typedef struct print_desc {
    const launch_desc *launch; /* its ranks are members and spares */
    bool requeue;              /* the command ends with LAUNCH_AGAIN when it is asked to end */
    const char *kind;          /* of print_k8s: "job", "jobset" or "trainjob" */
} print_desc;

/** A batch script for sbatch: ranks tasks of the command under srun. */
void print_slurm(const print_desc *desc);
/** Objects for kubectl, the token in a secret. @return exit code */
int print_k8s(const print_desc *desc);

#endif
