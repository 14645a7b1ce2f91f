/* SPDX-License-Identifier: Apache-2.0 */
/* What `shoal report` reads of a run folder, and what it makes of it. Everything in a folder is
 * hostile: lines, names and counts are bounded, and what is left out is counted. */
#ifndef SHOAL_CLI_REPORT_H
#define SHOAL_CLI_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report_line.h"
#include "report_series.h"

enum {
    REPORT_RUNS_MOST = 16,
    REPORT_FILES_MOST = 4096, /* of metrics, and of names of ranks in them */
    REPORT_LINE_MOST = 1 << 16,
    REPORT_CODECS_MOST = 32,
    REPORT_LINKS_MOST = 4096,
    REPORT_EPOCHS_MOST = 512,
    REPORT_EVENTS_MOST = 400,
    REPORT_WARNINGS_MOST = 200,
    REPORT_PARTS_MOST = 256, /* of a run that was resumed */
    REPORT_NOTES_MOST = 100,
    REPORT_SLOW_MOST = 6 /* causes have a culprit each */
};

/** The last steps of a rank, for who waited for whom; slot: step % size. */
typedef struct report_ring {
    uint32_t size, *turn; /* 1 + step / size of what is in a slot; 0: nothing */
    float *compute_us, *wait_us, *step_us;
} report_ring;

/** A step after which a run was resumed. */
typedef struct report_part {
    uint64_t step;
    bool others; /* by other workers than those before, so ranks have other names */
} report_part;

/** A file of metrics, by its name. */
typedef struct report_file {
    char name[64];
    uint64_t epoch; /* of the members, with which it begins */
    uint32_t rank;
} report_file;

/** A rank under one name: what is in its file between two reforms of the members. */
typedef struct report_rank {
    const report_file *file;
    uint64_t part, epoch; /* since it was resumed by others; of the members */
    uint32_t rank;
    bool leads; /* its clock is the run's */
    uint64_t steps, skipped, not_finite;
    uint64_t first_step, last_step, last_at_us, dense_steps;
    double sum[REPORT_KEYS]; /* of what is in the steps' lines */
    double step_us_most;
    uint32_t codec; /* of report_run.codecs */
    report_ring ring;
} report_rank;

/** A codec from a step on; bytes of all ranks. */
typedef struct report_codec {
    char name[96];
    uint64_t from_step, steps;
    double sent, dense;
} report_codec;

typedef struct report_run {
    const char *folder;
    json_t *look;                     /* as `shoal runs --json` says it */
    json_t *run;                      /* run.json; NULL: it cannot be read */
    json_t *notes;                    /* what is damaged or not there: sentences */
    json_t *events, *warnings, *slow; /* lines of events.jsonl */
    json_t *epochs, *links;           /* lines of metrics */
    uint64_t events_left_out, warnings_left_out, links_left_out;
    report_part parts[REPORT_PARTS_MOST];
    uint32_t part_count;
    json_int_t workers, members_epoch; /* by the events so far */
    bool together, together_known, ended;
    report_file *files;
    report_rank *ranks; /* by part, epoch and rank */
    uint32_t file_count, rank_count, ranks_left_out;
    uint64_t led_part, led_epoch; /* the last that has a leading rank, */
    bool led;                     /* if any has */
    report_codec codecs[REPORT_CODECS_MOST];
    uint32_t codec_count;
    report_series loss, step_ms; /* of all ranks, and of the one that leads */
    double time_s;               /* of the steps that the leading rank has made */
} report_run;

/** Read a folder for a verb. @return exit code; what is wrong within the folder is in run->notes */
int report_read(const char *verb, const char *folder, report_run *run);
/** Its metrics, of which there may be a file per rank; events come before them. */
bool report_read_metrics(report_run *run);
void report_read_events(report_run *run);
void report_free(report_run *run);
bool report_is_running(const report_run *run);
void report_note(report_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Whether a line of a link was written under the same names of ranks. */
bool report_is_of(const json_t *link, const report_rank *rank);

/** A whole line without its end, in text[REPORT_LINE_MOST]. False: the file has ended. *good_out:
 * not longer than that, and no half line at the end; *length_out bytes. */
bool report_next_line(FILE *file, char *text, size_t *length_out, bool *good_out);

/** All facts of a run, as --json prints them and pages show them; adds to the notes. */
json_t *report_facts(report_run *run);
/** Its part "waits": who waits for whom. NULL: not known, and a note says why. */
json_t *report_waits(report_run *run);
/** Its part "spread", of its part "ranks": least, median, largest, where there are many. */
json_t *report_spread(const json_t *ranks);
/** Its part "verdict". */
json_t *report_verdict(const report_run *run, const json_t *waits);

/** Its part "help": what would help, by simulating the run with something changed. NULL: a run of
 * one rank. */
json_t *report_help(const report_run *run);

/** One page of all runs' facts. Write errors stay in the stream. */
void report_page(FILE *out, json_t *runs);

#endif
