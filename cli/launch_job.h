/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a launcher: launch.c starts a job and looks after it, launch_process.c is what happens
 * in a process that it has made. */
#ifndef SHOAL_CLI_LAUNCH_JOB_H
#define SHOAL_CLI_LAUNCH_JOB_H

#include "launch.h"
#include "remote.h"

enum { LAUNCH_TOKEN_CHARS = 64, LAUNCH_NAME_CHARS = 16, LAUNCH_LINE_BYTES = 8192 };

typedef struct launch_process {
    pid_t pid;      /* 0: ended */
    int code;       /* exit code, 128 + signal if killed */
    int output;     /* read end of its output with tag_output, else -1 */
    int input;      /* on another host: the way of the token and of signals; else -1 */
    bool has_place; /* a spare that has taken one */
    size_t used;    /* bytes of an unfinished line */
    char *line;
} launch_process;

typedef struct launch_job {
    const launch_desc *desc;
    lab_desc lab;
    remote_hosts remote;
    char token[LAUNCH_TOKEN_CHARS + 1];
    char name[LAUNCH_NAME_CHARS + 1]; /* no other launcher's; a rank is NAME.INDEX */
    char address[256];
    uint16_t port, store_port; /* MASTER_PORT, for the command's own use; rank 0's store */
    launch_process *ranks;     /* and behind them the aggregators */
    uint32_t alive;            /* ranks; aggregators have no end of their own */
    char (*aggregators)[80];   /* addresses */
    int *reserved;             /* [aggregators] ports kept */
    int64_t stop_at_ms;        /* when the next harder signal is due; -1: all is well */
    int next_signal;
    int patience_ms; /* with hosts: left to wait for logins before others begin */
    bool survives;   /* as desc says, or a rank did (SHOAL_LAUNCHER_FD) */
    bool keeps;      /* the same */
    int word[2];     /* of ranks to us: a pipe; -1: none */
    int ledger; /* without hosts: who was killed or failed, and when, for the others; -1: none */
    bool lacks; /* a rank has told its result, and a file beside it is missing */
    bool told_to_end; /* by a signal to the launcher */
    bool asked;       /* to keep its state, too */
    bool early;       /* a rank that was asked ended by the signal */
    bool through;     /* a member has ended well */
    bool killed;      /* a rank was, by a signal */
    uint32_t members; /* that have a place in the job and are alive */
    int code;
} launch_job;

/** Ranks and aggregators. */
uint32_t launch_processes(const launch_job *job);
/** The lab's hosts that there are for aggregators alone. */
uint32_t launch_own_hosts(const launch_job *job);
/** A port of the kernel's choice, bound until the descriptor is closed. */
uint16_t launch_reserve_port(int *reserved_out);
/** Addresses for all aggregators. False: no memory. */
bool launch_place_aggregators(launch_job *job);
void launch_forget_aggregators(launch_job *job);
/** Start a rank, or behind them an aggregator. False: errno says why not. */
bool launch_start(launch_job *job, uint32_t rank);

#endif
