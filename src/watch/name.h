/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs and their status sockets are called: JOB.NUMBER.RANK.RANDOM, where the number is one
 * that all ranks of a job share and no other job has. */
#ifndef SHOALI_WATCH_NAME_H
#define SHOALI_WATCH_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_WATCH_JOB_CHARS = 32, SHOALI_WATCH_LABEL_BYTES = 64 };

/** The name of a job that nobody gave one. */
#define SHOALI_JOB_UNNAMED "shoal"

/** What users are told: the job's name without its epoch; for one without a name PROGRAM-NUMBER,
 * the number from where its ranks meet. */
void shoali_watch_label(const char *job, const char *program, const char *rendezvous,
                        char out[SHOALI_WATCH_LABEL_BYTES]);
/** A name as a part of a file's: letters, digits, '-' and '_'. */
void shoali_watch_plain(const char *label, char out[SHOALI_WATCH_JOB_CHARS + 1]);

typedef struct shoali_watch_name {
    char job[SHOALI_WATCH_JOB_CHARS + 1]; /* plain */
    uint32_t number, rank, random;
} shoali_watch_name;
/** False: longer than out. */
bool shoali_watch_name_format(const shoali_watch_name *name, char *out, size_t bytes);
/** False: no socket of ours is called so. */
bool shoali_watch_name_parse(const char *file, shoali_watch_name *name_out);

#endif
