/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of src/ops; nobody else includes it. */
#ifndef SHOALI_OPS_INNER_H
#define SHOALI_OPS_INNER_H

#include "ops/ops.h"

/* plan.c */
/** The collective for a few floats: what counts is how many hops they make one after the other. */
const char *shoali_op_few_hops(uint32_t members);

/* run.c */
/** One that no caller has made: it is freed unless this is OK. */
SHOAL_MUST_USE shoal_status shoali_run_start_own(shoal_op *op);
void shoali_run_go_on(shoal_op *op); /* what it waited for is known */
void shoali_run_flow(shoal_op *op);  /* whatever came before is over: start the flow */
void shoali_run_end(shoal_op *op,
                    shoal_status status); /* nothing refers to the buffer; OK, or failing was set */

/* end.c */
void shoali_run_keep_error(shoal_op *op); /* the last error becomes the operation's */

/* flow.c: between an operation and its flow. */
SHOAL_MUST_USE shoal_status shoali_run_open_flow(shoal_op *op);
void shoali_run_close_flow(shoal_op *op);
void shoali_run_add_stats(shoal_op *op);

/* agree.c */
void shoali_agree_enter(shoal_op *op);   /* tell, and look who came before */
bool shoali_agree_aborted(shoal_op *op); /* a member has failed it already: it is failed here */
void shoali_agree_spread(shoal_op *op);  /* ABORT to all members, with op->error */
void shoali_agree_ask(shoal_op *op);
void shoali_agree_timed_out(shoal_op *op); /* sets the last error */
void shoali_agree_remember(shoal_op *op);  /* it ends now */

/* gauge.c: measured rates of all links. */
/** True: op waits for them, or has failed for want of them. */
bool shoali_gauge_wanted(shoal_op *op);
const shoali_rates *shoali_gauge_rates(const shoali_ops *ops); /* NULL: not known */
void shoali_gauge_free(shoali_ops *ops);

/* rounds.c: what an operation does before or instead of its flow. */
bool shoali_rounds_begin(shoal_op *op); /* false: nothing to do, start the flow */
void shoali_rounds_fail(shoal_op *op);
/** Make an operation on behalf of op, with what is left of its time; NULL: op has failed. */
shoal_op *shoali_rounds_child(shoal_op *op, shoal_op_desc *desc, uint32_t round, bool check_finite);

/* steps.c: a transform that counts steps, of which all members have to have taken as many. */
/** Before its first round among these members: they are to agree. */
bool shoali_steps_open(const shoal_op *op);
/** op->rounds.steps is what this member puts into the maximum of all. */
void shoali_steps_look(shoal_op *op);
void shoali_steps_agreed(shoal_op *op); /* the owner's thread */
void shoali_steps_go_on(shoal_op *op);  /* from there: a long job */

/* hosts.c: inside each host first. */
void shoali_hosts_begin(shoal_op *op);
/** The stage that runs, or comes next, is the one between hosts. */
bool shoali_hosts_between(const shoal_op *op);
void shoali_hosts_stage_done(shoal_op *op);
/** The rows of a child's sum, before its flow is gone. */
void shoali_hosts_take_rows(shoal_op *child);

/* serve.c: operations at an aggregator, and what asks it to enter them. */
void shoali_serve_ask(const shoal_op *op); /* before its READY */
/** False: malformed, or this is no aggregator. */
bool shoali_serve_on_request(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes,
                             size_t len_bytes);
/** Within the job's memory? The flow has started. */
SHOAL_MUST_USE shoal_status shoali_serve_admit(shoal_op *op);
void shoali_serve_release(shoal_op *op);
void shoali_serve_free(shoali_ops *ops);

/* keep.c */
SHOAL_MUST_USE shoal_status shoali_keep_residuals(shoal_op *op); /* op->residuals; NULL: none */
void shoali_keep_release(shoal_op *op);                      /* nothing refers to them any more */
SHOAL_MUST_USE shoal_status shoali_keep_state(shoal_op *op); /* op->rounds.transform */
void shoali_keep_reset(shoal_op *op);                        /* it has failed on its way */

#endif
