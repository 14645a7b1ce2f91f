/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders, as shoal_train_desc.out makes them: what is in one, read without training.
 * shoal_run_look_at says whether it is whole, and how far the run is.
 *
 *     shoal_run *run;
 *     if (shoal_run_open("runs/x", &run) != SHOAL_OK) ...
 *     const char *name, *value;
 *     for (uint32_t i = 0; (value = shoal_run_option(run, i, &name)) != NULL; i++)
 *         printf("--%s %s\n", name, value);
 *     shoal_run_close(run);
 *
 * Threads: a shoal_run does not change, so any number of threads may read it. */
#ifndef SHOAL_RUN_H
#define SHOAL_RUN_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_run shoal_run;

/**
 * Read DIR/run.json.
 * @param run_out owned by the caller; shoal_run_close.
 * @return SHOAL_OK | EIO: there is none | ECORRUPT: it is not as it was written, or of another
 *         version; the text names file and reason | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_run_open(const char *dir, shoal_run **run_out);
/** NULL is allowed. */
SHOAL_API void shoal_run_close(shoal_run *run);

/**
 * Option i with which the run went: what `shoal train` would be given as --NAME VALUE to do the
 * same, defaults included. A list has one option per entry.
 * @param name_out "batch"; both live as long as the run.
 * @return the value, "" for a switch; NULL behind the last one.
 */
SHOAL_API const char *shoal_run_option(const shoal_run *run, uint32_t i, const char **name_out);

/** All of run.json, as text; lives as long as the run. Its members are described in
 * docs/run-folders.md. */
SHOAL_API const char *shoal_run_json(const shoal_run *run);

/* ------------------------------------------------------------------ looking */

/** A run folder as it was found, whole or not, running or not; nothing in it is changed. */
typedef struct shoal_run_look shoal_run_look;

typedef struct shoal_run_summary {
    size_t size;
    /** "running" | "finished": all of its steps are done | "stopped": it would go on | "damaged":
     * what it had finished writing is not as it was written, or not there */
    char state[16];
    char text[512]; /* running: which process tells of it, where; damaged: what; else "" */
    bool resumes;   /* it is not running, and shoal_train_desc.resume would take it */
    char began[32]; /* UTC, as in run.json; "" where that cannot be read, as the next ones */
    char model[96], data[512], sync[96], collective[96], codec[96];
    uint32_t workers, epochs;
    uint64_t steps;        /* of the whole run; 0: not known */
    uint64_t step, epoch;  /* done */
    uint64_t resumes_from; /* step of the newest checkpoint that is whole; 0: the beginning */
    double loss, accuracy; /* the last ones, accuracy on the test split in percent; NAN: none yet */
    uint32_t checkpoints;
    bool simulated; /* shoal_sim_keep wrote it: times are virtual, and nothing goes on from it */
} shoal_run_summary;

typedef struct shoal_run_checkpoint {
    size_t size;
    char name[64]; /* below checkpoints/ */
    uint64_t step, epoch;
    /** "whole" | "unfinished": the run was ended, or is, as it wrote it | "damaged" */
    char state[16];
    char text[512]; /* damaged: what */
    bool latest;    /* `latest` names it */
} shoal_run_checkpoint;

/** Whether a folder is one of a run: it has run.json, or checkpoints. */
SHOAL_API bool shoal_run_is_folder(const char *dir);
/**
 * Look into a run folder. A damaged run is no error.
 * @param quick    believe checkpoints' digests: only their headers are read
 * @param look_out owned by the caller; shoal_run_look_close
 * @return SHOAL_OK | EINVAL: it is no run folder | EIO: it cannot be read | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_run_look_at(const char *dir, bool quick,
                                                        shoal_run_look **look_out);
/** summary_out->size says how much of it the caller knows. @return SHOAL_OK | EINVAL */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_run_look_summary(const shoal_run_look *look,
                                                             shoal_run_summary *summary_out);
/** Checkpoint i, the newest first. @return SHOAL_OK | EINVAL: there are fewer, or the size is not
 * sizeof */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_run_look_checkpoint(
    const shoal_run_look *look, uint32_t i, shoal_run_checkpoint *checkpoint_out);
/** What run.json says; NULL: it cannot be read, and summary and text say why. Lives as long as
 * look. */
SHOAL_API const shoal_run *shoal_run_look_run(const shoal_run_look *look);
/** NULL is allowed. */
SHOAL_API void shoal_run_look_close(shoal_run_look *look);

#ifdef __cplusplus
}
#endif
#endif
