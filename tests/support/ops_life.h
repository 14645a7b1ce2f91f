/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose operations (src/ops itself, with the flows of src/collective) run in virtual time
 * over a network in memory that delays, reorders, cuts, breaks and loses: what comm/ does around
 * operations, and no more. One seed is one life: who sums what with whom, what happens to them at
 * which event, how wrong their clocks run, and who comes when those that are left reform.
 *
 * Rules, checked all the time:
 *   - what ends OK holds what the members of that epoch brought, each once, in the same bits on all
 *   - an owner's job sees each element at most once
 *   - every wait ends: by its deadline, and soon after another member has failed
 *   - whoever fails says why, and about whom, and that has happened
 *   - a buffer is not touched once its operation has ended, and nothing stays behind: those that
 *     are left go on, in this epoch or in the next
 *   - what nobody troubles ends OK
 *   - steps that a codec counts are counted once, by all alike, also by those who come */
#ifndef SHOALI_TESTS_SUPPORT_OPS_LIFE_H
#define SHOALI_TESTS_SUPPORT_OPS_LIFE_H

#include "base/rng.h"
#include "ops/ops.h"

enum {
    LIFE_RANKS = 6,
    LIFE_ACTS = 7,
    LIFE_SHAPES = 4,
    LIFE_COUNT = 64,
    LIFE_STRIKES = 4,
    LIFE_SILENCE_US = 2500 * 1000,
    LIFE_NOBODY = 255
};

/** Traits of what may be run. */
enum {
    FORM_SERVED = 1,  /* the last member serves, and brings nothing */
    FORM_OWNER = 2,   /* may have owners' jobs */
    FORM_TROUBLE = 4, /* may be given NaN, or something else by one of them */
    FORM_MAX = 8,     /* may look for the largest */
    FORM_TOY = 16,
    FORM_TRANSFORM = 32,
    FORM_KEEPS = 64,   /* residuals: not twice at a time */
    FORM_COUNTS = 128, /* steps, in a state: among all, and one of a life */
};

/** What ends well on all members holds: */
typedef enum life_sum {
    SUM_EXACT, /* the sum */
    SUM_NEAR,  /* something near it */
    SUM_KEPT,  /* with the members' residuals: the sum */
    SUM_ANY
} life_sum;

/** A row of the table of what may be run. */
typedef struct life_form {
    shoal_op_kind kind;
    const char *collective, *codec;
    life_sum sum;
    uint32_t traits; /* FORM_* */
} life_form;

/** A form among members: what repeats. */
typedef struct life_shape {
    const life_form *form;
    uint32_t members[LIFE_RANKS], member_count, contributors, root;
    size_t count;
    shoal_tensor tensors[2];
    uint32_t tensor_count;
    shoal_reduce reduce;
    bool prepared;
    int64_t timeout_us;
} life_shape;

/** A rank's part in an act. */
typedef struct life_part {
    struct life *life;
    bool starts, started, ended, fails;
    uint64_t start_us, end_us;
    shoal_status status;
    shoal_error error;
    shoal_op_stats stats;
    float steps_before, steps_after;         /* that it counts */
    float buf[LIFE_COUNT], left[LIFE_COUNT]; /* left: as it was at the end */
    uint8_t owned[LIFE_COUNT];
} life_part;

/** One operation, on all of its members. */
typedef struct life_act {
    const life_shape *shape;
    uint32_t bad, odd; /* the rank that brings NaN; that starts something else */
    uint32_t fails;    /* whose owner's job fails, if it has one */
    uint32_t garbles;  /* whose coded bytes arrive as nothing that decodes */
    bool last;         /* when all trouble is over */
    life_part part[LIFE_RANKS];
} life_act;

typedef struct life_rank {
    shoali_ops ops;
    shoali_residual_store *kept; /* from one epoch to the next */
    uint64_t clock_us;           /* what its clock shows now: life_local */
    uint64_t rate;               /* of its clock, in 1/1000 */
    uint64_t jump_at_us, jump_us;
    char host[16];
    bool busy, dead, gone, leaving, hangs; /* gone: it has cancelled all; hangs: starts no more */
    bool among_plans, open;                /* open: ops is in use */
    uint32_t number;                       /* in this epoch */
    uint64_t paused_until_us, paused_us, wake_us;
    bool lost[LIFE_RANKS], left[LIFE_RANKS], leaves[LIFE_RANKS]; /* what it knows of others */
    shoal_op_plan *plans[LIFE_SHAPES];
} life_rank;

typedef enum life_event_kind {
    EVENT_CONTROL,
    EVENT_DATAGRAM,
    EVENT_LEAVE, /* of a frame: the transport takes it */
    EVENT_PLACE,
    EVENT_BODY,
    EVENT_SENT,
    EVENT_JOB,
    EVENT_DOWN,
    EVENT_BROKE,
    EVENT_LEAVING,
    EVENT_GOODBYE,
    EVENT_START,
    EVENT_WAKE
} life_event_kind;

/** A data frame, until the life ends. */
typedef struct life_frame {
    struct life_frame *next;
    shoal_op *op; /* the sender's; NULL: it has come back */
    uint32_t from, to, member;
    shoal_data head;
    const void *body;
    uint64_t cookie;
    bool early, handed, recalled, cut, returning;
    uint8_t *copy, *place;
} life_frame;

typedef struct life_event {
    uint64_t at_us, order;
    life_event_kind kind;
    uint32_t to, from; /* to: at whom it happens */
    union {
        life_frame *frame;
        shoali_job *job;
        uint32_t act;
    };
    uint16_t control;
    size_t len_bytes;
    uint8_t *bytes;
} life_event;

typedef struct life {
    shoali_rng rng;
    uint64_t seed, now_us, order, events;
    uint32_t size, epoch_size; /* size: all that there have been, newcomers with them */
    uint32_t who[LIFE_RANKS];  /* by number in this epoch */
    life_rank rank[LIFE_RANKS];
    life_shape shape[LIFE_SHAPES];
    life_act act[LIFE_ACTS];
    uint32_t shapes, acts, running; /* running: whose code does */
    /* trouble */
    uint64_t strike_at[LIFE_STRIKES];
    uint32_t strikes, struck;
    bool calm, slow, reopened; /* reopened: in its second epoch */
    bool in_turn;              /* each starts the next one when the last has ended */
    double loss;
    bool dead_line[LIFE_RANKS][LIFE_RANKS];             /* nothing arrives any more */
    uint64_t breaks_until_us[LIFE_RANKS][LIFE_RANKS];   /* from, to: one link of two is broken */
    bool hurt[LIFE_RANKS], cancelled[LIFE_RANKS], left; /* that may be named; somebody left */
    uint64_t control_us[LIFE_RANKS][LIFE_RANKS];
    life_frame *frames;
    life_event *heap;
    uint32_t count, capacity;
    uint64_t ended_ok, ended_badly;
    char violation[400];
    bool trace;
} life;

/** Live one life. @return true: no rule was broken; else l->violation says which */
bool life_live(life *l, uint64_t seed, bool trace);
void life_free(life *l);

/* between the files */
void life_break(life *l, const char *format, ...) SHOAL_PRINTF(2, 3);
void life_tell(const life *l, const char *format, ...) SHOAL_PRINTF(2, 3);
uint64_t life_random(life *l, uint64_t below);
uint64_t life_delay(life *l);
/** What a rank's clock shows at an instant; the first instant at which it shows that or more. */
uint64_t life_local(const life *l, uint32_t rank, uint64_t at_us);
uint64_t life_instant(const life *l, uint32_t rank, uint64_t local_us);
void life_at(life *l, uint64_t at_us, life_event event);
/** Make the operations of an epoch: of the ranks in who. */
void life_open(life *l);
void life_close(life *l);
/** To whom it happens; then its timers, and ends. */
void life_happen(life *l, const life_event *event);
void life_finish_round(life *l, uint32_t rank);
/** Until nothing is left to happen. */
void life_run(life *l);
void life_say(life *l, uint32_t from, life_event_kind kind); /* to all others */
/** silent: nobody hears what was under way, and all are told late. */
void life_die(life *l, uint32_t rank, bool silent);
/** Half of what is on its way is lost. */
void life_cut(life *l, uint32_t from, uint32_t to);
/** More trouble: now. */
void life_strike(life *l);
void life_start(life *l, uint32_t rank, uint32_t act);
uint32_t life_index_of(const life *l, const life_act *act);
uint32_t life_member_of(const life_act *act, uint32_t rank); /* SHOALI_NONE: none */
bool life_has_owner(const life_shape *s);
/** What a rank brings. */
float life_value(const life *l, const life_act *act, uint32_t rank, size_t i);
/** What a rank keeps of an act that counts steps; NULL: nothing. */
float *life_counted(const life *l, const life_act *act, uint32_t rank);
/** When all is over. */
void life_check(life *l, const life_act *act);
void life_over(life *l, uint32_t rank, shoal_op *op);
void life_go_on(life *l, uint32_t rank, const life_act *ended);
#endif
