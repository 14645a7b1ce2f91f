/* SPDX-License-Identifier: Apache-2.0 */
/* One training step: batch -> forward and backward, handing finished gradient ranges to the
 * protocol -> verdict -> optimiser -> metrics. Set-up and end are in setup.c. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "folder/apart.h"
#include "folder/events.h"
#include "model/model.h"
#include "trace/trace.h"
#include "train/train.h"
#include "worker/admm.h"
#include "worker/codec_choice.h"
#include "worker/hybrid.h"
#include "worker/simulated.h"

/* Backward FLOPs of the layer whose gradients start at offset, of the whole step's: for the
 * emulated compute time. The first one's has no input gradient to compute. */
static double flops_from(const shoal_train *train, size_t offset)
{
    for (uint32_t i = 0; i < train->model->layer_count; i++) {
        const shoali_layer *layer = &train->model->layers[i];
        if (layer->param_count > 0 && layer->param_offset == offset)
            return layer->weight_flops + (offset > 0 ? layer->input_flops : 0);
    }
    return 0;
}

static shoal_status tell_ready(shoal_train *train, size_t offset, size_t count)
{
    size_t row_count;
    const uint32_t *rows = shoali_net_rows(train->net, offset, &row_count);
    return shoal_sync_ready_rows(train->sync, offset, count, rows, row_count);
}

static shoal_status on_ready(void *ctx, size_t offset, size_t count)
{
    shoal_train *train = ctx;
    if (train->pace.slow > 1 || train->pace.deadline_us > 0)
        shoali_pace_layer(&train->pace, flops_from(train, offset));
    if (train->sync == NULL)
        return SHOAL_OK;
    if (!train->desc.no_overlap && !shoali_gradients_due(train) && !shoali_choice_alone(train))
        return tell_ready(train, offset, count);
    train->pass.ranges[train->pass.range_count].offset = offset;
    train->pass.ranges[train->pass.range_count].ready_us = shoali_now_us();
    train->pass.ranges[train->pass.range_count++].count = count;
    return SHOAL_OK;
}

/* The pass has ended now: its parts, whose sum is the whole. */
static void tell_apart(shoal_train *train, uint64_t start_us, shoali_step_times *times)
{
    const shoali_pass_times *pass = &train->pass.times;
    shoali_trace_note(train, SHOALI_TRACE_BACKWARD, pass->turned_us);
    times->compute_us = (double)(shoali_now_us() - start_us);
    shoali_trace_note(train, SHOALI_TRACE_COMPUTE, start_us);
    times->data_us = (double)(pass->made_us - start_us);
    times->forward_us = (double)(pass->turned_us - pass->made_us);
    times->backward_us = times->compute_us - times->data_us - times->forward_us;
}

/* Between backward pass and exchange: which codec. */
static shoal_status choose_codec(shoal_train *train, uint64_t start_us, double compute_us)
{
    double probe_us;
    SHOALI_TRY(shoali_choice_step(train, start_us, compute_us, &probe_us));
    return probe_us > 0 ? shoali_metrics_choice(train, probe_us) : SHOAL_OK;
}

/* The sum is there: whether its codec kept its bound. */
static shoal_status check_codec(shoal_train *train)
{
    shoali_bound_found found;
    SHOALI_TRY(shoali_choice_check(train, &found));
    if (found == SHOALI_BOUND_UNCHECKED)
        return SHOAL_OK;
    return shoali_metrics_codec_check(train, found == SHOALI_BOUND_BROKEN);
}

static shoal_status compute(shoal_train *train, const shoali_share *share, shoali_step_times *times)
{
    uint64_t start = shoali_now_us();
    shoali_loss loss;
    train->pass.range_count = 0;
    if (train->desc.batch_auto) /* what a whole batch should take */
        train->pace.deadline_us = train->desc.compute_ms * 1e3 * share->count / train->desc.batch;
    shoali_pace_step(&train->pace, train->desc.seed, train->members.place, train->workers,
                     train->step);
    shoali_pace_start(&train->pace);
    SHOALI_TRY(shoali_train_pass(train, share, on_ready, train, &loss));
    shoali_pace_layer(&train->pace, train->pace.total_flops - train->pace.done_flops);
    tell_apart(train, start, times);
    if (shoali_gradients_due(train))
        SHOALI_TRY(shoali_gradients_dump(train));
    SHOALI_TRY(choose_codec(train, start, times->compute_us));
    for (uint32_t i = 0; i < train->pass.range_count; i++)
        SHOALI_TRY(tell_ready(train, train->pass.ranges[i].offset, train->pass.ranges[i].count));
    times->samples = loss.count;
    times->loss = loss.count > 0 ? loss.sum / loss.count : 0;
    train->epoch.loss += loss.sum;
    train->epoch.samples += loss.count;
    train->epoch.total_samples += share->total;
    return SHOAL_OK;
}

float shoali_train_clip(const shoal_train *train, const float *grads, float grad_scale)
{
    const double most = train->desc.clip_norm;
    return most > 0 ? shoali_clip_scale(grads, train->param_count, grad_scale, most) : grad_scale;
}

static void update(shoal_train *train, float grad_scale, double lr)
{
    shoali_admm_pull(train, grad_scale);
    grad_scale = shoali_train_clip(train, train->grads, grad_scale);
    shoali_step step = {.count = train->param_count,
                        .params = train->params,
                        .grads = train->grads,
                        .params_out = train->params,
                        .lr = (float)lr,
                        .grad_scale = grad_scale,
                        .iteration = train->step};
    shoali_optim_step(train->update.optim, &step);
}

/* All simulated workers' gradients, one after the other, then their exchange. */
static shoal_status simulate(shoal_train *train, uint64_t epoch, uint64_t in_epoch,
                             shoali_step_times *times, shoal_verdict *verdict_out)
{
    bool finite = true;
    for (uint32_t w = 0; w < train->workers; w++) {
        shoali_share share = shoali_sampler_share(train->data.sampler, epoch, in_epoch, w);
        SHOALI_TRY(compute(train, &share, times));
        train->epoch.total_samples -= w > 0 ? share.total : 0;
        shoali_simulated_keep(train, w);
    }
    SHOALI_TRY(shoali_simulated_sum(train, &finite, &times->sync));
    *verdict_out = (shoal_verdict){
        .apply = finite, .skipped = !finite, .grad_scale = 1 / (float)train->workers};
    return SHOAL_OK;
}

/* Gradients that meet in no sum before they are applied: nobody else has looked at them. */
static shoal_status check_own(const shoal_train *train, shoal_verdict *verdict)
{
    if (!verdict->apply || train->net == NULL || train->simulated != NULL ||
        (train->sync != NULL && !train->loose))
        return SHOAL_OK;
    size_t at = shoali_net_first_nonfinite(train->net);
    if (at == train->param_count)
        return SHOAL_OK;
    verdict->apply = false;
    verdict->skipped = true;
    if (train->desc.nonfinite == SHOAL_NONFINITE_SKIP)
        return SHOAL_OK;
    uint32_t t = 0;
    while (t + 1 < train->tensor_count && train->tensors[t + 1].offset <= at)
        t++;
    shoal_status status = shoali_fail(SHOAL_ENOTFINITE,
                                      "NaN or infinity in this worker's gradient of %s, element "
                                      "%zu, at step %llu",
                                      shoal_model_tensor_name(train->model, t),
                                      at - train->tensors[t].offset,
                                      (unsigned long long)train->step);
    shoali_error_advice("A smaller --lr, or a warm-up, usually helps; --nonfinite skip leaves such "
                        "steps out.");
    return status;
}

static shoal_status goes_over(void)
{
    return shoali_fail(SHOAL_EEPOCH, "a worker goes over to reform");
}

/* Workers whose replicas are equal make the same steps: a polite end in the middle of them is
 * another's failure, and steps without its gradients would be none. */
static shoal_status ends_alone(const shoal_train *train)
{
    shoal_status status = shoali_fail(SHOAL_EPEER,
                                      "another worker has ended before step %llu was exchanged",
                                      (unsigned long long)train->step + 1);
    shoali_error_advice("Its own output says why.");
    return status;
}

/* The update is made: where replicas differ that is a step, whatever becomes of its exchange. */
static shoal_status let_go_on(shoal_train *train, uint64_t *next_step_out)
{
    shoal_verdict next = {0};
    shoal_status status = shoal_sync_after_update(train->sync, &next);
    if (status == SHOAL_OK && next.stop && train->desc.reform && train->loose)
        status = goes_over();
    if (status != SHOAL_OK && train->loose && train->desc.reform) {
        train->step = *next_step_out;
        train->state.unconcluded = true;
    }
    if (status == SHOAL_OK && next.iteration > *next_step_out)
        *next_step_out = next.iteration; /* the protocol leaves out what this worker is behind */
    return status;
}

/* Ask the protocol, update if it says so, and let it go on. */
static shoal_status exchange(shoal_train *train, shoal_verdict verdict, shoali_step_times *times,
                             uint64_t *next_step_out)
{
    uint64_t start = shoali_now_us();
    if (train->sync != NULL) {
        SHOALI_TRY(shoal_sync_before_update(train->sync, &verdict));
        shoali_trace_note(train, SHOALI_TRACE_WAIT, start);
    }
    if (verdict.stop && train->desc.reform)
        return goes_over();
    if (verdict.stop && !train->loose)
        return ends_alone(train);
    SHOALI_TRY(check_own(train, &verdict));
    SHOALI_TRY(verdict.apply ? check_codec(train) : SHOAL_OK);
    start = shoali_now_us();
    if (verdict.apply)
        update(train, verdict.grad_scale, times->lr);
    times->update_us = (double)(shoali_now_us() - start);
    shoali_trace_note(train, SHOALI_TRACE_UPDATE, start);
    times->skipped = verdict.skipped;
    if (train->sync == NULL)
        return SHOAL_OK;
    start = shoali_now_us();
    SHOALI_TRY(let_go_on(train, next_step_out));
    shoali_trace_note(train, SHOALI_TRACE_WAIT, start);
    times->sync = (shoal_sync_stats){.size = sizeof times->sync};
    return shoal_sync_last_stats(train->sync, &times->sync);
}

static void account(shoal_train *train, const shoali_step_times *times)
{
    shoali_totals *t = &train->totals;
    t->steps++;
    t->skipped += times->skipped;
    t->step_us += times->step_us;
    t->compute_us += times->compute_us;
    t->data_us += times->data_us;
    t->forward_us += times->forward_us;
    t->backward_us += times->backward_us;
    t->update_us += times->update_us;
    t->wait_us += (double)times->sync.wait_us;
    t->comm_us += (double)times->sync.comm_us;
    t->encode_us += (double)times->sync.encode_ns / 1e3;
    t->decode_us += (double)times->sync.decode_ns / 1e3;
    t->payload_bytes += (double)times->sync.sent_payload_bytes;
    t->received_bytes += (double)times->sync.received_payload_bytes;
    t->samples += times->total;
    t->raw_bytes += 4.0 * (double)times->sync.dense_elems;
    train->epoch.us += times->step_us;
}

static bool replicas_due(const shoal_train *train)
{
    if (train->sync == NULL || train->desc.check_every == UINT32_MAX || train->loose)
        return false;
    return train->step % train->desc.check_every == 0 || train->step == train->steps;
}

static shoal_status become_mean(shoal_train *train)
{
    SHOALI_TRY(
        shoali_train_reduce(train, train->params, train->param_count, SHOAL_SUM, "mean replica"));
    for (size_t i = 0; i < train->param_count; i++)
        train->params[i] /= (float)train->workers;
    return SHOAL_OK;
}

/* Replicas that differ are tested each for itself before they become one. Who goes over to reform
 * leaves the protocol, and the others' end without it would be none. */
static shoal_status finish(shoal_train *train)
{
    float *accuracy = train->epoch.worker_accuracy;
    if (train->sync == NULL)
        return SHOAL_OK;
    if (train->loose && train->desc.reform)
        shoali_comm_ends(train->comm);
    if (train->loose && !train->desc.no_evaluation)
        SHOALI_TRY(shoali_train_evaluate_alone(train, &accuracy[train->rank]));
    SHOALI_TRY(shoal_sync_finish(train->sync));
    if (!train->loose)
        return SHOAL_OK;
    if (train->desc.reform && shoali_comm_others_go(train->comm))
        return goes_over();
    SHOALI_TRY(shoali_train_drop_lost(train));
    if (shoali_sync_stays_apart(train->sync))
        SHOALI_TRY(become_mean(train));
    return shoali_train_reduce(train, accuracy, train->workers, SHOAL_SUM, "workers' accuracy");
}

/* Who stops within an epoch, and goes on later, is to have what it would have without the stop. */
static shoal_status keep_own_state(shoal_train *train)
{
    size_t count = 0;
    uint64_t epoch, in_epoch;
    const float *state = train->net != NULL ? shoali_net_state(train->net, &count) : NULL;
    shoali_train_place(train, train->step, &epoch, &in_epoch);
    if (count == 0 || in_epoch == 0 || train->loose)
        return SHOAL_OK;
    if (train->state.own == NULL)
        train->state.own = shoali_arena_array(train->arena, count, sizeof *state);
    if (train->state.own == NULL)
        return SHOAL_ENOMEM;
    memcpy(train->state.own, state, count * sizeof *state);
    train->state.own_step = train->step;
    return SHOAL_OK;
}

/* After the last step of an epoch: losses over all workers, test split, a line in the metrics.
 * Where workers need not wait for each other they do not do it for this either, but at the end. */
static shoal_status end_epoch(shoal_train *train, uint32_t epoch)
{
    train->epoch.last_s = train->epoch.us / 1e6;
    train->epoch.over = true;
    if (train->loose && train->step < train->steps)
        return SHOAL_OK;
    bool due = epoch % train->desc.evaluate_every == 0 || train->step == train->steps;
    SHOALI_TRY(keep_own_state(train));
    SHOALI_TRY(shoali_train_evaluate(train, due));
    SHOALI_TRY(shoali_metrics_epoch(train, epoch));
    return SHOAL_OK;
}

static void begin_epoch(shoal_train *train)
{
    train->epoch.over = false;
    train->epoch.loss = train->epoch.us = 0;
    train->epoch.samples = train->epoch.total_samples = 0;
}

static void note_slow(const shoal_train *train, shoal_train_progress *progress_out)
{
    uint32_t rank;
    const char *cause;
    progress_out->slow_rank = -1;
    if (train->comm == NULL || !shoali_comm_slowest(train->comm, &rank, &cause))
        return;
    progress_out->slow_rank = (int32_t)rank;
    snprintf(progress_out->slow_cause, sizeof progress_out->slow_cause, "%s", cause);
}

static void describe_progress(const shoal_train *train, uint32_t epoch, bool skipped,
                              shoal_train_progress *progress_out)
{
    *progress_out = (shoal_train_progress){
        .size = sizeof *progress_out,
        .step = train->step,
        .steps = train->steps,
        .epoch = epoch,
        .epochs = train->desc.epochs,
        .loss = train->epoch.samples > 0 ? train->epoch.loss / (double)train->epoch.samples
                                         : (double)NAN,
        .samples_per_s = (double)train->epoch.total_samples / (train->epoch.us / 1e6),
        .train_loss = train->epoch.train_loss,
        .test_loss = train->epoch.test_loss,
        .test_accuracy = train->epoch.test_accuracy,
        .symbol_error_rate = train->epoch.symbol_error_rate,
        .bits_per_byte = train->epoch.bits_per_byte,
        .epoch_s = train->epoch.last_s,
        .admm_gap = shoali_admm_gap(train),
        .skipped = skipped,
        .done = train->step == train->steps,
        .reports = train->comm == NULL || shoali_comm_is_lowest(train->comm)};
}

/* Batch, gradients, exchange, update. */
static shoal_status make_step(shoal_train *train, uint64_t epoch, uint64_t in_epoch,
                              shoali_step_times *times)
{
    uint64_t start = shoali_now_us();
    shoal_verdict verdict = {.apply = true, .grad_scale = 1};
    shoali_share share = shoali_sampler_share(train->data.sampler, epoch, in_epoch, train->rank);
    times->lr = shoali_lr_at(train->update.lr, train->desc.lr, train->step, train->steps);
    times->epoch = (uint32_t)epoch;
    times->first = share.first_serial;
    times->step_first = epoch * train->data.set->train.count +
                        shoali_sampler_taken(train->data.sampler, epoch, in_epoch);
    times->total = share.total;
    if (train->sync != NULL && shoali_sync_by_samples(train->sync)) {
        shoali_sync_set_samples(train->sync, share.count, train->desc.batch);
        share.weight = share.count > 0 ? 1 : 0; /* the protocol weighs */
    }
    SHOALI_TRY(train->hybrid != NULL      ? shoali_hybrid_compute(train, epoch, in_epoch, times)
               : train->simulated != NULL ? simulate(train, epoch, in_epoch, times, &verdict)
                                          : compute(train, &share, times));
    uint64_t before = train->step, next_step = before + 1;
    SHOALI_TRY(exchange(train, verdict, times, &next_step));
    shoali_trace_step(train, start);
    train->step = next_step < train->steps ? next_step : train->steps;
    train->state.unconcluded = true;
    SHOALI_TRY(shoali_admm_turn(train));
    SHOALI_TRY(shoali_uneven_step(train, &share, times->compute_us, before));
    times->step_us = (double)(shoali_now_us() - start);
    account(train, times);
    shoali_choice_stepped(train, times);
    shoali_straggler_step(train, before, times);
    return shoali_metrics_step(train, times);
}

/* What follows a step: replicas compared, the end of an epoch or of the run, a checkpoint. */
static shoal_status conclude(shoal_train *train, bool ended, uint32_t epochs_done, double step_us)
{
    bool done = train->step == train->steps;
    uint64_t start = shoali_now_us();
    if (replicas_due(train)) {
        SHOALI_TRY(shoali_train_check_replicas(train));
        shoali_trace_note(train, SHOALI_TRACE_CHECK, start);
    }
    if (done)
        SHOALI_TRY(finish(train));
    start = shoali_now_us();
    if (ended) {
        SHOALI_TRY(end_epoch(train, epochs_done));
        shoali_trace_note(train, SHOALI_TRACE_EVALUATE, start);
        start = shoali_now_us();
    }
    SHOALI_TRY(shoali_stop_turn(train, step_us));
    SHOALI_TRY(shoali_apart_settle(train, done));
    if (shoali_checkpoint_due(train, train->step) || train->stop.agreed) {
        SHOALI_TRY(train->loose && !done ? shoali_apart_save(train)
                                         : shoali_checkpoint_save(train));
        shoali_trace_note(train, SHOALI_TRACE_CHECKPOINT, start);
    }
    train->state.unconcluded = false;
    return SHOAL_OK;
}

static shoal_status check_step(const shoal_train *train)
{
    if (train->server)
        return shoali_fail(SHOAL_EINVAL, "a dedicated server calls shoal_train_serve, not _step");
    if (train->step >= train->steps && !train->desc.reform)
        return shoali_fail(SHOAL_EINVAL, "the run has ended after %llu steps",
                           (unsigned long long)train->steps);
    if (train->step < train->steps && train->desc.reform && shoal_comm_reform_wanted(train->comm))
        return shoali_fail(SHOAL_EEPOCH, "a worker wants to join or to reform");
    return SHOAL_OK;
}

shoal_status shoal_train_step(shoal_train *train, shoal_train_progress *progress_out)
{
    uint64_t epoch, in_epoch, now;
    shoali_step_times times = {0};
    SHOALI_TRY(check_step(train));
    bool over = train->step >= train->steps, again = over || train->state.unconcluded;
    shoali_train_place(train, again && train->step > 0 ? train->step - 1 : train->step, &epoch,
                       &in_epoch);
    if (again && train->step == train->from.step) { /* other workers made that step */
        shoali_train_place(train, train->step, &epoch, &in_epoch);
        epoch -= in_epoch == 0 && train->from.sample == 0 && epoch > 0;
    }
    if (!again && (in_epoch == 0 || train->epoch.over))
        begin_epoch(train);
    const shoal_status made = again ? SHOAL_OK : make_step(train, epoch, in_epoch, &times);
    if (made != SHOAL_OK && !train->desc.reform)
        shoali_folder_give_up(train);
    SHOALI_TRY(made);
    train->folder.fresh = false;
    shoali_train_place(train, train->step, &now, &in_epoch);
    bool ended = now > epoch || train->step == train->steps;
    if (train->state.unconcluded)
        SHOALI_TRY(conclude(train, ended, (uint32_t)epoch + 1, times.step_us));
    describe_progress(train, (uint32_t)(ended ? epoch + 1 : epoch), times.skipped, progress_out);
    progress_out->epoch_ended = ended && !over;
    progress_out->stopped = train->stop.agreed;
    note_slow(train, progress_out);
    if (train->trace != NULL)
        train->trace->reports = progress_out->reports;
    return SHOAL_OK;
}

shoal_status shoal_train_serve(shoal_train *train)
{
    if (!train->server)
        return shoali_fail(SHOAL_EINVAL, "only a dedicated server (rank >= workers) serves");
    SHOALI_TRY(shoal_sync_serve(train->sync));
    const uint64_t done = train->loose ? train->steps : train->update.owner_iteration + 1;
    const bool due = train->loose
                         ? train->desc.out != NULL
                         : shoali_checkpoint_due(train, done) && train->update.owner_saved != done;
    if (train->update.owner_used && due)
        SHOALI_TRY(shoali_checkpoint_save_owner(train, done));
    if (train->folder.marks.missed == NULL)
        return SHOAL_OK;
    shoali_comm_lacks(); /* the workers tell the result all the same */
    return shoali_error_set(train->folder.marks.missed);
}

static void describe_summary(const shoal_train *train, double mean[12], float most[1])
{
    const shoali_totals *t = &train->totals;
    double n = t->steps > 0 ? (double)t->steps : 1;
    const double values[12] = {t->step_us / n,   t->compute_us / n,    t->wait_us / n,
                               t->comm_us / n,   t->encode_us / n,     t->decode_us / n,
                               t->update_us / n, t->payload_bytes / n, t->raw_bytes / n,
                               t->step_us,       train->epoch.last_s,  0};
    for (int i = 0; i < 12; i++)
        mean[i] = values[i];
    most[0] = (float)values[0];
}

static void describe_replicas(const shoal_train *train, shoal_train_summary *summary)
{
    const float *accuracy = train->epoch.worker_accuracy;
    summary->worker_accuracy_min = summary->worker_accuracy_max = (double)NAN;
    if (!train->loose || train->desc.no_evaluation)
        return;
    for (uint32_t i = 0; i < train->members.count; i++) {
        double value = (double)accuracy[train->members.ranks[i]];
        summary->worker_accuracy_min = fmin(summary->worker_accuracy_min, value);
        summary->worker_accuracy_max = fmax(summary->worker_accuracy_max, value);
    }
}

/* What the run was to leave beside its result. */
static shoal_status last_files(shoal_train *train, bool reports)
{
    const shoal_status kept = shoali_metrics_finish(train);
    shoal_error error;
    shoali_error_get(&error);
    const shoal_status ended = reports ? shoali_events_end(train) : SHOAL_OK;
    if (train->folder.marks.missed != NULL)
        return shoali_error_set(train->folder.marks.missed);
    return kept != SHOAL_OK ? shoali_error_set(&error) : ended;
}

shoal_status shoal_train_summarise(shoal_train *train, shoal_train_summary *summary_out)
{
    double v[12];
    float most[1];
    describe_summary(train, v, most);
    SHOALI_TRY(shoali_train_sum(train, v, 12, "summary"));
    SHOALI_TRY(shoali_train_reduce(train, most, 1, SHOAL_MAX, "summary"));
    SHOALI_TRY(shoali_straggler_collect(train));
    const shoal_status traced = shoali_trace_collect(train);
    shoal_error error;
    shoali_error_get(&error);
    if (traced != SHOAL_OK && traced != SHOAL_EIO)
        return traced;
    double n = train->sync != NULL || train->hybrid != NULL ? train->members.count : 1,
           ms = 1e-3 / n;
    *summary_out = (shoal_train_summary){
        .size = sizeof *summary_out,
        .workers = train->comm != NULL ? train->members.count : train->workers,
        .ranks = train->workers,
        .reporter = train->comm != NULL ? train->members.ranks[0] : 0,
        .steps = train->step,
        .params = train->info.param_count,
        .test_loss = train->epoch.test_loss,
        .test_accuracy = train->epoch.test_accuracy,
        .symbol_error_rate = train->epoch.symbol_error_rate,
        .bits_per_byte = train->epoch.bits_per_byte,
        .train_loss = train->epoch.train_loss,
        .seconds = v[9] * 1e-6 / n,
        .epoch_s = v[10] / n,
        .step_ms = v[0] * ms,
        .compute_ms = v[1] * ms,
        .wait_ms = v[2] * ms,
        .comm_ms = v[3] * ms,
        .encode_ms = v[4] * ms,
        .decode_ms = v[5] * ms,
        .update_ms = v[6] * ms,
        .slowest_step_ms = (double)most[0] / 1e3,
        .payload_bytes = v[7],
        .raw_bytes = v[8],
        .skipped = train->totals.skipped,
        .trace_error_us = train->trace != NULL ? train->trace->error_us : (double)NAN};
    describe_replicas(train, summary_out);
    shoal_status status = last_files(train, train->rank == summary_out->reporter);
    if (traced != SHOAL_OK)
        status = shoali_error_set(&error);
    if (status == SHOAL_EIO)
        shoali_comm_lacks();
    return status;
}
