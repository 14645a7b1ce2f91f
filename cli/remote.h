/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on other hosts, through the user's own ssh (or the program that SHOAL_RSH names). */
#ifndef SHOAL_CLI_REMOTE_H
#define SHOAL_CLI_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

enum { REMOTE_MAX_HOSTS = 256, REMOTE_MAX_FORWARD = 64 };

typedef struct remote_hosts {
    char text[4096]; /* the list, cut at its separators */
    const char *names[REMOTE_MAX_HOSTS];
    uint32_t first[REMOTE_MAX_HOSTS], slots[REMOTE_MAX_HOSTS]; /* ranks [first, first + slots) */
    uint32_t count, ranks, spares;                             /* spares: the last of the ranks */
    char *const *forward; /* "NAME=VALUE" for the ranks' environment */
    uint32_t forward_count;
    const char *path; /* the folder of shoal there, first in the PATH; NULL: it lies as here */
    char self[4096];  /* where this very program lies here */
    bool itself;      /* and it is what the ranks run */
} remote_hosts;

/** Where the ranks meet: on the host of rank 0. */
typedef struct remote_meeting {
    const char *address;
    const char *launcher; /* the launcher's name; its rank r is "LAUNCHER.r" */
    uint16_t port, store_port;
} remote_meeting;

/** Ranks that a list asks for by itself: its slots, one for a host without. 0: printed what is
 * wrong. */
uint32_t remote_ranks(const char *verb, const char *text);

/** "NAME" (as it is here) or "NAME=VALUE", for the ranks' environment; out: malloc. Prints the
 * error and returns false. */
bool remote_forward(const char *verb, const char *text, char **out);

/** Where a rank runs: the host's place in the list, and its name. */
uint32_t remote_host_index(const remote_hosts *hosts, uint32_t rank);
const char *remote_host(const remote_hosts *hosts, uint32_t rank);

/** "a,b:4": ranks are dealt in order, slots per host (default: equal parts). Prints the error and
 * returns false. */
bool remote_parse(const char *verb, const char *text, uint32_t ranks, remote_hosts *hosts_out);

/**
 * In a process of its own: replace it by an ssh that asks a host whether the job can start there
 * (hosts.c tells what it answers); does not return.
 * @param port  of rank 0's host: whether it and the next are free, or with 0 two that are, kept
 *              until the end of input; -1: not asked.
 */
void remote_check(const char *verb, const remote_hosts *hosts, uint32_t host, const char *program,
                  int32_t port, int input);

/** In the rank's process: replace it by ssh; does not return. Through input comes the token as a
 * line, then as lines names of signals ("TERM") and of ranks that have ended elsewhere ("dead
 * LAUNCHER.3"); its end is the end of the rank. */
void remote_exec(const remote_hosts *hosts, uint32_t rank, const remote_meeting *at, int input,
                 char **argv);

#endif
