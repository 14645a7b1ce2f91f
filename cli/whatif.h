/* SPDX-License-Identifier: Apache-2.0 */
/* `shoal whatif`: a run that was measured, as a simulation that takes as long, and the same with
 * something changed. What a run folder says is not believed: counts and times are bounded. */
#ifndef SHOAL_CLI_WHATIF_H
#define SHOAL_CLI_WHATIF_H

#include "report.h"
#include "shoal/model.h"
#include "shoal/sim.h"

enum { WHATIF_WORKERS_MOST = 1024, WHATIF_NOTES_MOST = 12, WHATIF_SKIPPED = 4 };
/** Steps that a run must have behind the first WHATIF_SKIPPED, which are not counted. */
enum { WHATIF_STEPS_LEAST = 8 };

/** All that decides how long a step takes. */
typedef struct whatif_world {
    uint32_t workers, hosts;
    double *compute_s;      /* [workers] forward and backward pass */
    uint32_t *host_workers; /* [hosts] */
    double *nic_bytes_s;    /* [hosts] */
    double payload_share;   /* of it that gradients get */
    double latency_s, loss;
    double jitter;   /* a pass takes 1 +- jitter times as long, uniform */
    double backward; /* share of it in which gradients become ready */
    double update_s, other_s;
    double inflate; /* every byte counts so often: what the codec really sent */
    const char *sync, *collective, *codec;
    size_t bucket_bytes;
    uint32_t chunk_elems;
} whatif_world;

/** What a simulation of it says; seconds per step, means over workers. */
typedef struct whatif_step {
    double step_s, own_s; /* own: computing, updating, the rest; less a wait */
    double sent_bytes;    /* by a worker and step */
} whatif_step;

typedef struct whatif_run {
    whatif_world world;
    whatif_step measured;
    double error_s; /* of measured.step_s: two standard deviations of its mean */
    double compute_s, wait_s;
    uint64_t steps;  /* counted */
    uint32_t batch;  /* of a worker */
    bool together;   /* workers make each step together */
    bool lab, paced; /* an emulated network; computing lasts as long as was asked */
    bool one_host;   /* all ranks are on one, and no lab is between them */
    bool slowed;     /* some worker was made slow: --lab slow, throttle */
    shoal_model *model;
    const char *name; /* of the model */
    json_t *notes;    /* sentences */
} whatif_run;

/** What is changed; NULL and 0: nothing. */
typedef struct whatif_change {
    const char *sync, *collective, *codec, *straggler;
    const char *bandwidth; /* "1gbit" or "4x" */
    double latency_us;     /* < 0: as it is */
    uint32_t workers;
    double compute;     /* times as fast; 0: as it is */
    uint64_t link_bits; /* what the links did in the run; 0: as its folder says */
} whatif_change;

/** The answer. */
typedef struct whatif_answer {
    whatif_step base, changed; /* simulated */
    double step_s, low_s, high_s;
    uint32_t workers;
} whatif_answer;

/** Take what was measured of a run that report_read has read; what is wrong is printed. link_bits:
 * what its links did; 0: as its folder says. @return exit code; whatif_close in any case. */
int whatif_take(const report_run *run, uint64_t link_bits, whatif_run *out);
void whatif_close(whatif_run *run);
void whatif_note(whatif_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The links of a world by the folder, or as the change says; whatif_take calls it. @return exit
 * code */
int whatif_links(const report_run *run, uint64_t link_bits, whatif_run *out);
/** An option of run.json as text; "": a switch; NULL: it is not there. */
const char *whatif_option(const report_run *run, const char *name);

/** The median of what is above 0, which is sorted to the front; 0: nothing is. */
double whatif_median(double *values, size_t count);

/** Make a world of a run's with the change. Prints what cannot be. @return exit code; the world's
 * arrays are to be freed by whatif_world_free, in any case. */
int whatif_apply(whatif_run *run, const whatif_change *change, whatif_world *out);
void whatif_world_free(whatif_world *world);
/** Simulate a step. @return exit code; what cannot be is printed. */
int whatif_simulate(const whatif_run *run, const whatif_world *world, whatif_step *out);
/** The whole of it. @return exit code */
int whatif_ask(whatif_run *run, const whatif_change *change, whatif_answer *out);

#endif
