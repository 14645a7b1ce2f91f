/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous: every rank brings one record and leaves with everyone's. Runs on the thread that
 * creates the comm, before any other thread of it exists, and is over before the first operation.
 *
 * tcp://host:port   rank 0 keeps a store there until all records are in and handed out:
 *     others                       rank 0
 *     handshake (wire/handshake.h: token, job, version)
 *     record              ->
 *                         <-       waiting (who is missing), whenever that changes
 *                         <-       record, one for each rank, once all are there
 *                         <-       or abort: status and text, the same for all
 * file:///path      rank 0 writes a call to path, rank i answers in path.i, rank 0 writes the table
 *                   to path. */
#ifndef SHOALI_MEET_MEET_H
#define SHOALI_MEET_MEET_H

#include <stdatomic.h>

#include "meet/launch.h"
#include "relay/relay.h"
#include "wire/control.h"

enum { SHOALI_MEET_VERDICT_US = 500 * 1000 };

typedef struct shoali_meeting {
    const char *place;   /* "tcp://host:port" | "file:///path" */
    const char *another; /* how the user names another place, as in shoali_launch */
    const char *job;
    const shoali_token *token;
    const shoali_record *mine;
    uint64_t started_us, deadline_us; /* of shoali_now_us */
    const shoal_error *refusal; /* rank 0: why there can be no job, for all who come; or NULL */
    uint32_t ranks;             /* with refusal: so many endpoints come by themselves */
    const atomic_bool *cancel;  /* set by another thread: give up; or NULL */
    const int *listener;        /* rank 0: listens there already; NULL: at place */
    shoali_relay *relay; /* for whom no address of rank 0 works, here or elsewhere; or NULL */
} shoali_meeting;

/**
 * Exchange records. records_out[world_size] is in order of rank, mine included; all agree with
 * mine.
 * @return SHOAL_OK | EINVAL (place) | ETIMEDOUT: names the missing ranks | EMISMATCH, EVERSION:
 *         names both sides | EAUTH | EEPOCH: who is there belongs to the running job (door.h)
 */
SHOAL_MUST_USE shoal_status shoali_meet(const shoali_meeting *meeting, shoali_record *records_out);

/** ECANCELLED, if somebody has given up meanwhile. */
SHOAL_MUST_USE shoal_status shoali_meet_cancelled(const atomic_bool *cancel);

/** May these two be in one job? Wire version, tables of kinds, job, size, workers, seed and chunk
 * must be equal. */
SHOAL_MUST_USE shoal_status shoali_meet_agree(const shoali_record *a, const shoali_record *b);

/** "tcp://host:port" or "tcp://[v6]:port" taken apart. False: malformed. */
bool shoali_meet_parse(const char *place, char *host_out, size_t host_bytes, char *port_out,
                       size_t port_bytes);

/** "rank 3", "ranks 3, 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 12 more": those for which in is false.
 * Returns how many. */
uint32_t shoali_meet_missing(const bool *in, uint32_t size, char *text_out, size_t text_bytes);

/* The two ends of tcp:// and the file. */
SHOAL_MUST_USE shoal_status shoali_meet_serve(const shoali_meeting *meeting,
                                              shoali_record *records_out);
SHOAL_MUST_USE shoal_status shoali_meet_visit(const shoali_meeting *meeting,
                                              shoali_record *records_out);
SHOAL_MUST_USE shoal_status shoali_meet_in_file(const shoali_meeting *meeting, const char *path,
                                                shoali_record *records_out);

#endif
