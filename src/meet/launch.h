/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I, of how many, and where do we meet: from the descriptor and the variables of launchers.
 * Reads the environment through a function, so tests bring their own. */
#ifndef SHOALI_MEET_LAUNCH_H
#define SHOALI_MEET_LAUNCH_H

#include "shoal/shoal.h"
#include "wire/handshake.h"

enum { SHOALI_MAX_ENDPOINTS = 4096, SHOALI_RENDEZVOUS_BYTES = 512 };
enum { SHOALI_DEFAULT_JOIN_US = 30 * 1000 * 1000 };

/** As getenv: NULL when name is not set. */
typedef const char *(*shoali_env)(void *ctx, const char *name);
/** The process's own; ctx is not looked at. */
const char *shoali_getenv(void *ctx, const char *name);

typedef struct shoali_launch {
    uint32_t rank, world_size, workers;
    /** "tcp://host:port" | "file:///path"; "" for a job of one rank. */
    char rendezvous[SHOALI_RENDEZVOUS_BYTES];
    const char *another; /* "with --port": how the user names another point; static */
    char why[320];       /* one line for the log: which source won, and which lost */
    char ledger[256];    /* the launcher's file of who has ended, "": none; proof.h */
} shoali_launch;

/**
 * Rank and size come together from the first of: the descriptor, SHOAL_RANK and SHOAL_WORLD_SIZE,
 * torchrun (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), PMIx (PMIX_RANK), PMI (PMI_*), Slurm
 * (SLURM_PROCID, SLURM_NTASKS). The meeting point from the first of: the descriptor,
 * SHOAL_RENDEZVOUS, MASTER_ADDR and MASTER_PORT + 1 (torch's own store holds MASTER_PORT), the
 * first host of Slurm's step with a port made of the job's id, a file in /tmp when Open MPI says
 * that all ranks share this host.
 * @return SHOAL_OK | EINVAL: nothing found (lists what was looked for), a malformed value, rank >=
 *         size
 */
SHOAL_MUST_USE shoal_status shoali_launch_find(const shoal_comm_desc *desc, shoali_env env,
                                               void *ctx, shoali_launch *launch_out);

/** First host of a Slurm node list: "node[003-007,9],x" gives "node003". False: malformed or too
 * long. */
bool shoali_launch_first_host(const char *list, char *host_out, size_t host_bytes);

/** What ranks tell shoal's launcher (SHOAL_LAUNCHER_FD, a pipe): a letter and a number, 16 bits
 * little-endian; cli/launch.c reads it. */
enum { SHOALI_LAUNCHER_WORD = 3 };
/** Tell shoal's launcher, if one started this process, that the job goes on without lost ranks: it
 * then waits for the others to end. */
void shoali_launch_survives(shoali_env env, void *ctx);
/** That this process, when it is asked to end, keeps its state first and then ends with a code of
 * its own: the launcher gives it the time, and ends with that code. */
void shoali_launch_keeps(shoali_env env, void *ctx);
/** That this process has done its part and could not write a file beside the result: the launcher
 * ends with 1, also where the job goes on without who fails. */
void shoali_launch_lacks(shoali_env env, void *ctx);
/** And this process, a spare (SHOAL_SPARE: its number among the launcher's ranks), that it has
 * taken a place in the job. */
void shoali_launch_has_place(shoali_env env, void *ctx);

/** The job's secret; text with spaces at its ends cut off. */
typedef struct shoali_token {
    uint8_t bytes[SHOALI_MAX_TOKEN_BYTES];
    size_t len_bytes; /* 0: none was given */
} shoali_token;
/** From the descriptor, else the file SHOAL_TOKEN_FILE, else the descriptor number SHOAL_TOKEN_FD,
 * else none. */
SHOAL_MUST_USE shoal_status shoali_token_find(const shoal_comm_desc *desc, shoali_env env,
                                              void *ctx, shoali_token *token_out);

#endif
