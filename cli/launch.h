/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of a job: on this machine, in a lab, or on other hosts through the user's own
 * ssh. Each rank gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT) and the job token by descriptor (SHOAL_TOKEN_FD), or by a file that
 * only the user can read on other hosts. */
#ifndef SHOAL_CLI_LAUNCH_H
#define SHOAL_CLI_LAUNCH_H

#include "lab.h"
#include "remote.h"

/** What a job that was asked to end and has kept its state ends with: start it again. */
enum { LAUNCH_AGAIN = 85 };
/** What a rank of our own launcher ends with where it has told its result, and a file beside it is
 * missing: the job's is CLI_FAILED, also where lost ranks cost nothing. */
enum { LAUNCH_LACKS = 86 };

typedef struct launch_desc {
    const char *verb;      /* for messages */
    uint32_t ranks;        /* all processes, dedicated servers included */
    uint32_t aggregators;  /* daemons beside them, in SHOAL_AGGREGATORS; ended with the last rank */
    bool colocated;        /* in the lab: on the ranks' hosts, instead of hosts of their own */
    const char *in_switch; /* in the lab: on its switch, which sums in its kernel: auto, on or off;
                              NULL: not there */
    const lab_desc *lab;   /* NULL: this machine's own network */
    const char *hosts;     /* "a,b:4": remote hosts with optional slots; NULL: here */
    const char *path;      /* with hosts: the folder of shoal there; NULL: as here, or in PATH */
    bool itself;           /* argv[0] is this very program */
    char *forward[REMOTE_MAX_FORWARD]; /* with hosts: "NAME=VALUE" for the ranks; the caller's */
    uint32_t forward_count;
    uint16_t port;   /* MASTER_PORT, and the next one for rank 0's store; 0: free ones */
    char **argv;     /* the command, NULL-terminated */
    bool tag_output; /* put "[rank] " before each line */
    double grace_s;  /* how long the others may go on after one failed (they name the culprit) */
    bool survives; /* the job goes on without lost ranks: it is done when one that began with it is.
                        Ranks may say so as well (SHOAL_LAUNCHER_FD) */
    bool keeps;    /* SIGTERM asks ranks to keep their state: they have a minute for it */
    uint32_t servers; /* of the ranks, behind the workers: they have no result */
    uint32_t spares;  /* of the ranks, the last: they wait for a place (SHOAL_SPARE) */
    bool quiet;       /* say nothing about ranks that fail by themselves */
    bool tacit;       /* with hosts: do not say what starts where */
    bool bad;         /* an option was wrong: printed */
} launch_desc;

/** --hosts, --path, --export and --port, for a launch_desc as input: a child of a verb's argp. */
extern const struct argp launch_argp;
/** Take one of them; text is borrowed. 1: taken, 0: a bad value, -1: none of these. */
int launch_take(launch_desc *desc, int key, const char *text);
/** Whether these and --lab go together. False: printed why not. */
bool launch_options_fit(launch_desc *desc);
/** Whether desc says nothing of how ranks are started, where somebody else's launcher has started
 * this one already, who would have to be told. False: printed what, and what to do. */
bool launch_leaves_it(const launch_desc *desc);
/** Ranks where no number is given: the hosts' slots, or one. 0: printed what is wrong. */
uint32_t launch_usual_ranks(const launch_desc *desc);
/** Free what parsing them has made. */
void launch_forget_options(launch_desc *desc);

/** Run the job to its end. @return exit code: 0 only if every rank's was 0; CLI_PEER_LOST if a rank
 * was killed. */
int launch_run(const launch_desc *desc);

#endif
