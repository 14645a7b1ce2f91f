/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

void shoal_train_count(const shoal_train *train, shoal_train_totals *totals_out)
{
    const shoali_totals *t = &train->totals;
    *totals_out = (shoal_train_totals){.size = sizeof *totals_out,
                                       .steps = t->steps,
                                       .skipped = t->skipped,
                                       .samples = t->samples,
                                       .step_s = t->step_us * 1e-6,
                                       .compute_s = t->compute_us * 1e-6,
                                       .data_s = t->data_us * 1e-6,
                                       .forward_s = t->forward_us * 1e-6,
                                       .backward_s = t->backward_us * 1e-6,
                                       .wait_s = t->wait_us * 1e-6,
                                       .update_s = t->update_us * 1e-6,
                                       .exchange_s = t->comm_us * 1e-6,
                                       .encode_s = t->encode_us * 1e-6,
                                       .decode_s = t->decode_us * 1e-6,
                                       .sent_bytes = t->payload_bytes,
                                       .received_bytes = t->received_bytes,
                                       .dense_bytes = t->raw_bytes,
                                       .checkpoint_step = train->folder.saved.step,
                                       .membership = train->members.epoch,
                                       .workers = train->comm != NULL ? train->members.count
                                                                      : train->workers,
                                       .lost = train->lost.count};
}
