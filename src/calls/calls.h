/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, as drivers of protocols and the trainer use them beyond include/shoal/shoal.h. */
#ifndef SHOALI_CALLS_CALLS_H
#define SHOALI_CALLS_CALLS_H

#include "ops/extras.h"
#include "ops/residual.h"
#include "shoal/shoal.h"

/** Somebody waits for it now: extras->pace_us is over. The progress thread. */
void shoali_op_hurry(shoal_op *op);
/** As shoal_op_start; with extras->on_done, op_out may be NULL. Any thread. */
SHOAL_MUST_USE shoal_status shoali_op_start(shoal_comm *comm, const shoal_op_desc *desc,
                                            const shoali_op_extras *extras, shoal_op **op_out);

/** Start a public operation and wait for its end, beside whoever waits in next_done. */
SHOAL_MUST_USE shoal_status shoali_comm_run(shoal_comm *comm, const shoal_op_desc *desc,
                                            shoal_op_stats *stats_out);

/** Residuals of error feedback, by tensor key, and states of transforms, by a hash of codec and
 * tensor table: for checkpoints. Blocks while operations are open: call between steps. */
size_t shoali_comm_residuals(shoal_comm *comm, shoali_residual *out,
                             size_t capacity); /* returns how many there are */
SHOAL_MUST_USE shoal_status shoali_comm_set_residual(shoal_comm *comm, uint64_t key,
                                                     const float *values, size_t count);
/** On top of `want`, a rank's gradients [tensors]: what error feedback adds before it encodes them
 * in this codec. Delivered + what is owed then = the sum of what all ranks wanted. Nothing where
 * the codec has no feedback. Call between steps. @return SHOAL_OK | EINVAL | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_comm_add_owed(shoal_comm *comm, const char *codec,
                                                 const shoal_tensor *tensors, uint32_t count,
                                                 float *want);
/** Drop them all, states of transforms, too. Blocks while operations are open. */
void shoali_comm_forget_residuals(shoal_comm *comm);

#endif
