/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of a job: on this machine, in a lab, or on other hosts through the user's own
 * ssh. Each rank gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT) and the job token by descriptor (SHOAL_TOKEN_FD), or by a file that
 * only the user can read on other hosts. */
#ifndef SHOAL_CLI_LAUNCH_H
#define SHOAL_CLI_LAUNCH_H

#include "lab.h"
#include "remote.h"

typedef struct launch_desc {
    const char *verb;      /* for messages */
    uint32_t ranks;        /* all processes, dedicated servers included */
    uint32_t aggregators;  /* daemons beside them, in SHOAL_AGGREGATORS; ended with the last rank */
    bool colocated;        /* in the lab: on the ranks' hosts, instead of hosts of their own */
    const char *in_switch; /* in the lab: on its switch, which sums in its kernel: auto, on or off;
                              NULL: not there */
    const lab_desc *lab;   /* NULL: this machine's own network */
    const char *hosts;     /* "a,b:4": remote hosts with optional slots; NULL: here */
    char *forward[REMOTE_MAX_FORWARD]; /* with hosts: "NAME=VALUE" for the ranks; the caller's */
    uint32_t forward_count;
    uint16_t port;   /* of rank 0's store; 0: a free one */
    char **argv;     /* the command, NULL-terminated */
    bool tag_output; /* put "[rank] " before each line */
    double grace_s;  /* how long the others may go on after one failed (they name the culprit) */
    bool survives; /* the job goes on without lost ranks: it is done when one that began with it is.
                        Ranks may say so as well (SHOAL_LAUNCHER_FD) */
    uint32_t servers; /* of the ranks, behind the workers: they have no result */
    uint32_t spares;  /* of the ranks, the last: they wait for a place (SHOAL_SPARE) */
    bool quiet;       /* say nothing about ranks that fail by themselves */
} launch_desc;

/** One more variable for ranks on other hosts. False: printed why not. */
bool launch_export(launch_desc *desc, const char *text);
void launch_forget_exports(launch_desc *desc);

/** Run the job to its end. @return exit code: 0 only if every rank's was 0; CLI_PEER_LOST if a rank
 * was killed. */
int launch_run(const launch_desc *desc);

#endif
