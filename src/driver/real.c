/* SPDX-License-Identifier: Apache-2.0 */
/* The three calls of include/shoal/sync.h. The caller's thread only leaves notes for the progress
 * thread and waits for verdicts; the machine runs there (real_host.c). */
#include "driver/real.h"
#include "driver/trusted.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "collective/schedule.h"
#include "shoal/codec.h"
#include "shoal/job.h"

enum { BUCKET_BYTES = 4 << 20, STOP_US = 10 * 1000 * 1000 };

/* ---------------------------------------------------------------- create */

static shoal_status check_tensors(const shoal_sync_desc *desc)
{
    size_t covered;
    if (desc->params == NULL || desc->grads == NULL || desc->count == 0 || desc->tensors == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_sync_create: no parameters, gradients or tensors");
    SHOALI_TRY(shoali_table_check(desc->tensors, desc->tensor_count, &covered));
    if (covered != desc->count)
        return shoali_fail(SHOAL_EINVAL, "the tensors cover %zu of %zu elements", covered,
                           desc->count);
    return SHOAL_OK;
}

/* Bad specs are refused here, not by the first operation. */
static shoal_status open_specs(shoal_sync *sync, const shoal_sync_desc *desc,
                               const shoali_sync_row *row)
{
    const char *spec = desc->sync != NULL ? desc->sync : row != NULL ? row->name : "all_reduce";
    const char *collective = desc->collective != NULL ? desc->collective : "ring";
    shoali_collective opened;
    shoal_codec *codec;
    if (row != NULL)
        SHOALI_TRY(shoali_sync_open_row(row, spec, &sync->protocol));
    else
        SHOALI_TRY(shoali_sync_open(spec, &sync->protocol));
    SHOALI_TRY(shoal_codec_open(desc->codec != NULL ? desc->codec : "identity", &codec));
    snprintf(sync->codec, sizeof sync->codec, "%s", shoal_codec_spec(codec));
    sync->world.coding = shoali_coding_of(codec);
    shoali_sync_coded_by(&sync->protocol, shoal_codec_traits(codec));
    shoal_codec_close(codec);
    sync->density.choosing = shoali_by_density_named(collective);
    snprintf(sync->collective, sizeof sync->collective, "%s", collective);
    if (sync->density.choosing)
        return SHOAL_OK;
    SHOALI_TRY(shoali_collective_open(collective, &opened));
    snprintf(sync->collective, sizeof sync->collective, "%s", opened.spec);
    sync->sends_rows = (opened.traits & SHOALI_COLL_ROWS) != 0;
    shoali_collective_close(&opened);
    return SHOAL_OK;
}

static shoal_status describe_world(shoal_sync *sync, const shoal_sync_desc *desc)
{
    shoal_view view = {.size = sizeof view};
    size_t bytes = desc->bucket_bytes > 0 ? desc->bucket_bytes : BUCKET_BYTES;
    SHOALI_TRY(shoal_comm_view(sync->comm, &view));
    sync->endpoints = shoali_alloc_array(view.rank_count, sizeof *sync->endpoints);
    sync->ops.final_members = shoali_alloc_array(view.rank_count, sizeof *sync->ops.final_members);
    sync->hosts = shoali_alloc_array(view.rank_count, sizeof *sync->hosts);
    if (sync->endpoints == NULL || sync->hosts == NULL || sync->ops.final_members == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < view.rank_count; i++) {
        sync->endpoints[i] = i;
        sync->hosts[i] = shoali_comm_neighbour(sync->comm, i);
    }
    sync->world = (shoali_world){
        .params = sync->protocol.params,
        .epoch = view.epoch,
        .me = view.endpoint,
        .role = view.rank < view.workers ? SHOALI_WORKER : SHOALI_SERVER,
        .workers = view.workers,
        .servers = view.rank_count - view.workers,
        .endpoints = sync->endpoints,
        .hosts = sync->hosts,
        .tensors = sync->table,
        .tensor_count = desc->tensor_count,
        .count = desc->count,
        .rows_apart = sync->sends_rows,
        .bucket_elems = bytes >= sizeof(float) ? bytes / sizeof(float) : 1,
        .coding = sync->world.coding,
        .nonfinite = desc->nonfinite,
        .seed = shoali_comm_seed(sync->comm),
        .iteration = desc->iteration,
    };
    if (sync->density.choosing)
        return shoali_real_auto_open(sync, sync->collective, view.aggregators);
    if (view.epoch == 0)
        return SHOAL_OK;
    char asked[SHOALI_COLLECTIVE_SPEC]; /* a reform left others than it was chosen for */
    memcpy(asked, sync->collective, sizeof asked);
    return shoali_collective_among(asked, view.workers, true, sync->collective);
}

static shoal_status make(shoal_sync *sync, const shoal_sync_desc *desc, const shoali_sync_row *own)
{
    SHOALI_TRY(check_tensors(desc));
    SHOALI_TRY(open_specs(sync, desc, own));
    sync->table = shoali_alloc_array(desc->tensor_count, sizeof *sync->table);
    sync->ops.table = shoali_alloc_array(desc->tensor_count, sizeof *sync->ops.table);
    sync->notes.capacity = desc->tensor_count +
                           4; /* a step's READY, BEFORE and AFTER; START, STOP */
    sync->notes.ring = shoali_alloc_array(sync->notes.capacity, sizeof *sync->notes.ring);
    sync->drain = shoali_comm_task(shoali_real_drain, sync);
    sync->rows = shoali_alloc_array(desc->tensor_count, sizeof *sync->rows);
    if (sync->table == NULL || sync->ops.table == NULL || sync->notes.ring == NULL ||
        sync->drain == NULL || sync->rows == NULL)
        return SHOAL_ENOMEM;
    memcpy(sync->table, desc->tensors, desc->tensor_count * sizeof *sync->table);
    SHOALI_TRY(describe_world(sync, desc));
    const shoal_job job = {.size = sizeof job,
                           .sync = desc->sync,
                           .codec = desc->codec,
                           .collective = sync->collective,
                           .workers = sync->world.workers};
    if (own == NULL)
        SHOALI_TRY(shoal_job_check(&job));
    const shoali_sync_row *row = sync->protocol.row;
    uint32_t slots = row->slots != NULL ? row->slots(&sync->world) : 0;
    SHOALI_TRY(shoali_tensors_init(&sync->tensors, desc->params, desc->grads, desc->count, slots));
    sync->machine.state = shoali_alloc(row->state_size(&sync->world));
    sync->low = desc->count;
    sync->tos = desc->tos;
    sync->idle = true;
    sync->pid = getpid();
    sync->wait_limit_us = 2 * shoali_comm_op_timeout_us(sync->comm);
    return sync->machine.state != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void free_sync(shoal_sync *sync)
{
    shoali_real_host_fini(sync);
    shoali_real_auto_fini(sync);
    shoali_trusted_tell(&sync->tensors);
    shoali_tensors_fini(&sync->tensors);
    shoali_sync_close(&sync->protocol);
    shoali_free(sync->sgd.velocity);
    shoali_free(sync->notes.ring);
    shoali_free(sync->table);
    shoali_free(sync->rows);
    shoali_free(sync->drain);
    shoali_free(sync->endpoints);
    shoali_free(sync->hosts);
    pthread_cond_destroy(&sync->changed);
    pthread_mutex_destroy(&sync->lock);
    shoali_free(sync);
}

static shoal_sync *allocate(shoal_comm *comm)
{
    shoal_sync *sync = shoali_alloc(sizeof *sync);
    pthread_condattr_t attributes;
    if (sync == NULL)
        return NULL;
    sync->comm = comm;
    shoali_real_host_init(&sync->machine);
    pthread_mutex_init(&sync->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sync->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return sync;
}

/* ---------------------------------------------------------------- notes and waits */

static shoal_status check_process(const shoal_sync *sync)
{
    if (sync == NULL)
        return shoali_fail(SHOAL_EINVAL, "no protocol");
    if (sync->pid != getpid())
        return shoali_fail(SHOAL_EFORKED, "this protocol belongs to the parent process");
    return SHOAL_OK;
}

/* Leave a note; the queue has room for all that a caller may say before it has to wait. */
static shoal_status leave_note(shoal_sync *sync, const shoali_real_note *note)
{
    pthread_mutex_lock(&sync->lock);
    bool full = sync->notes.count == sync->notes.capacity, post = !full && !sync->notes.posted;
    if (!full) {
        uint32_t at = (sync->notes.first + sync->notes.count++) % sync->notes.capacity;
        sync->notes.ring[at] = *note;
    }
    sync->notes.posted |= post;
    pthread_mutex_unlock(&sync->lock);
    if (full)
        return shoali_fail(SHOAL_EINVAL, "more ranges are ready than there are tensors");
    if (!post)
        return SHOAL_OK;
    shoal_status status = shoali_comm_post_task(sync->comm, sync->drain);
    if (status != SHOAL_OK) {
        pthread_mutex_lock(&sync->lock);
        sync->notes.posted = false;
        pthread_mutex_unlock(&sync->lock);
    }
    return status;
}

/* With the lock: sleep until something changes; false: until_us has come (UINT64_MAX: never). */
static bool sleep_until(shoal_sync *sync, uint64_t until_us)
{
    if (until_us == UINT64_MAX) {
        pthread_cond_wait(&sync->changed, &sync->lock);
        return true;
    }
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};
    return pthread_cond_timedwait(&sync->changed, &sync->lock, &until) != ETIMEDOUT;
}

/* Operations have deadlines and peers are watched: this one is for a machine that waits for
 * nothing. */
static shoal_status too_long(const shoal_sync *sync)
{
    shoal_status status = shoali_fail(
        SHOAL_ETIMEDOUT, "protocol %s gave no answer in iteration %llu", sync->protocol.spec,
        (unsigned long long)sync->verdict.iteration);
    shoali_error_about(-1, NULL, sync->protocol.row->name, sync->wait_limit_us);
    return status;
}

/* Leave a note and wait for the verdict on it. Finishing takes as long as the slowest worker, and
 * peers are watched: it has no limit of its own. */
static shoal_status ask(shoal_sync *sync, shoali_event_kind kind, shoal_verdict *verdict_out)
{
    uint64_t began_us = shoali_now_us(), limit_us = (uint64_t)sync->wait_limit_us;
    uint64_t until_us = kind == SHOALI_EV_FINISH ? UINT64_MAX : began_us + limit_us;
    bool in_time = true;
    shoal_error error = {.status = SHOAL_OK};
    pthread_mutex_lock(&sync->lock);
    sync->answered = false;
    pthread_mutex_unlock(&sync->lock);
    bool after = kind == SHOALI_EV_AFTER;
    SHOALI_TRY(leave_note(sync, &(shoali_real_note){.kind = kind,
                                                    .offset = after ? sync->samples : 0,
                                                    .count = after ? sync->batch : 0}));
    pthread_mutex_lock(&sync->lock);
    while (!sync->answered && !sync->over && in_time)
        in_time = sleep_until(sync, until_us);
    bool done = sync->answered || sync->over;
    if (done && !sync->answered)
        error = sync->error;
    if (done && error.status == SHOAL_OK)
        *verdict_out = sync->verdict;
    pthread_mutex_unlock(&sync->lock);
    sync->wait_us += shoali_now_us() - began_us;
    if (!done)
        return too_long(sync);
    return error.status != SHOAL_OK ? shoali_error_set(&error) : SHOAL_OK;
}

/* What ended the protocol, if it has ended with an error. */
static shoal_status ended(shoal_sync *sync)
{
    shoal_error error;
    pthread_mutex_lock(&sync->lock);
    error = sync->error;
    pthread_mutex_unlock(&sync->lock);
    return error.status != SHOAL_OK ? shoali_error_set(&error) : SHOAL_OK;
}

/* Meet all ranks, servers too: everybody listens before anybody speaks, and all agree on the number
 * of this protocol, even where an earlier one failed on some of them. */
static shoal_status meet(shoal_sync *sync)
{
    uint64_t *next = shoali_comm_protocols(sync->comm);
    float number = (float)*next;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.reduce = SHOAL_MAX;
    desc.buf = &number;
    desc.count = 1;
    desc.label = "start of a protocol";
    SHOALI_TRY(shoali_comm_run(sync->comm, &desc, NULL));
    sync->instance = (uint64_t)number;
    *next = sync->instance + 1;
    return SHOAL_OK;
}

/* Residuals and states of codecs go by tensor keys: what operations or another protocol have left
 * would enter this one's first sums. What a reform has brought is of the same training.
 *
 * A worker's machine starts at once, so that a protocol that does not fit is refused here; a
 * server's waits for serve, as it needs its optimiser. */
static shoal_status begin(shoal_sync *sync, bool keep)
{
    const shoali_comm_listener listener = shoali_real_listener(sync);
    SHOALI_TRY(shoali_comm_attach(sync->comm, &listener));
    if (!keep && (sync->world.epoch == 0 || *shoali_comm_protocols(sync->comm) > 0))
        shoali_comm_forget_residuals(sync->comm);
    shoal_status status = meet(sync);
    if (status == SHOAL_OK && sync->world.role == SHOALI_WORKER)
        status = leave_note(sync, &(shoali_real_note){.kind = SHOALI_EV_START});
    pthread_mutex_lock(&sync->lock);
    while (sync->notes.posted)
        (void)sleep_until(sync, UINT64_MAX);
    pthread_mutex_unlock(&sync->lock);
    if (status == SHOAL_OK)
        status = ended(sync);
    if (status != SHOAL_OK)
        shoali_comm_detach(sync->comm);
    return status;
}

static shoal_status create(shoal_comm *comm, const shoal_sync_desc *desc,
                           const shoali_sync_row *row, bool keep, shoal_sync **sync_out)
{
    if (comm == NULL || desc == NULL || sync_out == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "shoal_sync_create: start from SHOAL_SYNC_DESC_INIT");
    shoal_sync *sync = allocate(comm);
    if (sync == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = make(sync, desc, row);
    if (status == SHOAL_OK && (sync->protocol.traits & SHOALI_SYNC_SURVIVES) != 0)
        shoali_comm_goes_on();
    if (status == SHOAL_OK)
        status = begin(sync, keep);
    if (status != SHOAL_OK) {
        free_sync(sync);
        return status;
    }
    *sync_out = sync;
    return SHOAL_OK;
}

shoal_status shoali_sync_create_row(shoal_comm *comm, const shoal_sync_desc *desc,
                                    const shoali_sync_row *row, shoal_sync **sync_out)
{
    return create(comm, desc, row, true, sync_out);
}

shoal_status shoal_sync_create(shoal_comm *comm, const shoal_sync_desc *desc, shoal_sync **sync_out)
{
    return create(comm, desc, NULL, false, sync_out);
}

/* Wait until nothing refers to the protocol any more; false: something still does. */
static bool wait_idle(shoal_sync *sync)
{
    uint64_t until_us = shoali_now_us() + STOP_US;
    bool in_time = true;
    pthread_mutex_lock(&sync->lock);
    while (!(sync->over && sync->idle && !sync->notes.posted) && in_time)
        in_time = sleep_until(sync, until_us);
    bool idle = sync->over && sync->idle && !sync->notes.posted;
    pthread_mutex_unlock(&sync->lock);
    return idle;
}

void shoal_sync_destroy(shoal_sync *sync)
{
    shoali_sync_end(sync, NULL);
}

static float *carried_slot(const shoal_sync *sync)
{
    uint32_t slot;
    const shoali_sync_row *row = sync->protocol.row;
    if (row->carries == NULL || !row->carries(&sync->world, &slot))
        return NULL;
    return sync->tensors.slots + slot * sync->tensors.count;
}

void shoali_sync_carry(shoal_sync *sync, const float *carried)
{
    memcpy(carried_slot(sync), carried, sync->tensors.count * sizeof *carried);
}

void shoali_sync_end(shoal_sync *sync, float *carried_out)
{
    if (sync == NULL || sync->pid != getpid())
        return;
    if (sync->world.role == SHOALI_WORKER || sync->serving)
        (void)leave_note(sync, &(shoali_real_note){.kind = SHOALI_EV_STOP});
    else
        sync->over = true; /* its machine never started */
    bool idle = wait_idle(sync);
    shoali_comm_detach(sync->comm);
    if (carried_out != NULL)
        memcpy(carried_out, carried_slot(sync), sync->tensors.count * sizeof *carried_out);
    if (idle)
        free_sync(sync);
    else /* an operation that will not end still writes to its buffers: keep what it refers to */
        shoali_log(ERROR, "protocol %s does not end; its memory is left behind",
                   sync->protocol.spec);
}

/* ---------------------------------------------------------------- the three calls */

/* The tensor that begins there; NULL: none. */
static const shoal_tensor *tensor_from(const shoal_sync *sync, size_t offset)
{
    uint32_t low = 0, high = sync->world.tensor_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sync->table[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sync->world.tensor_count && sync->table[low].offset == offset ? &sync->table[low]
                                                                               : NULL;
}

shoal_status shoal_sync_ready(shoal_sync *sync, size_t offset, size_t count)
{
    return shoal_sync_ready_rows(sync, offset, count, NULL, 0);
}

shoal_status shoal_sync_ready_rows(shoal_sync *sync, size_t offset, size_t count,
                                   const uint32_t *rows, size_t row_count)
{
    SHOALI_TRY(check_process(sync));
    const shoal_tensor *tensor = tensor_from(sync, offset);
    if (count == 0 || offset > sync->low || count != sync->low - offset || tensor == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "elements [%zu, +%zu) are not whole tensors that end at %zu, where the "
                           "last range began",
                           offset, count, sync->low);
    SHOALI_TRY(ended(sync));
    if (rows != NULL && count != tensor->count)
        return shoali_fail(SHOAL_EINVAL, "rows of elements [%zu, +%zu), which are several tensors",
                           offset, count);
    SHOALI_TRY(
        leave_note(sync, &(shoali_real_note){SHOALI_EV_READY, offset, count, rows, row_count}));
    sync->low = offset;
    return SHOAL_OK;
}

shoal_status shoal_sync_before_update(shoal_sync *sync, shoal_verdict *verdict_out)
{
    SHOALI_TRY(check_process(sync));
    if (sync->low > 0)
        SHOALI_TRY(shoal_sync_ready(sync, 0, sync->low));
    return ask(sync, SHOALI_EV_BEFORE, verdict_out);
}

shoal_status shoal_sync_after_update(shoal_sync *sync, shoal_verdict *next_out)
{
    SHOALI_TRY(check_process(sync));
    SHOALI_TRY(ask(sync, SHOALI_EV_AFTER, next_out));
    sync->low = sync->world.count;
    pthread_mutex_lock(&sync->lock);
    sync->last_stats = sync->stats;
    sync->last_stats.size = sizeof sync->last_stats;
    sync->last_stats.wait_us = sync->wait_us;
    sync->stats = (shoal_sync_stats){0};
    pthread_mutex_unlock(&sync->lock);
    sync->wait_us = 0;
    return SHOAL_OK;
}

shoal_status shoal_sync_finish(shoal_sync *sync)
{
    shoal_verdict verdict;
    SHOALI_TRY(check_process(sync));
    return ask(sync, SHOALI_EV_FINISH, &verdict);
}

shoal_status shoal_sync_last_stats(shoal_sync *sync, shoal_sync_stats *stats_out)
{
    SHOALI_TRY(check_process(sync));
    if (stats_out->size != sizeof *stats_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_sync_stats: set size first");
    *stats_out = sync->last_stats;
    stats_out->size = sizeof *stats_out;
    return SHOAL_OK;
}

shoal_status shoal_sync_serve(shoal_sync *sync)
{
    SHOALI_TRY(check_process(sync));
    if (sync->world.role != SHOALI_SERVER)
        return shoali_fail(SHOAL_EINVAL, "rank %u is a worker: only ranks from %u on serve",
                           sync->world.me, sync->world.workers);
    if (sync->serving)
        return shoali_fail(SHOAL_EINVAL, "a server serves once");
    sync->serving = true;
    SHOALI_TRY(leave_note(sync, &(shoali_real_note){.kind = SHOALI_EV_START}));
    pthread_mutex_lock(&sync->lock);
    while (!sync->over) /* as long as the job lasts; lost workers and failures end it */
        (void)sleep_until(sync, UINT64_MAX);
    pthread_mutex_unlock(&sync->lock);
    return ended(sync);
}

/* ---------------------------------------------------------------- for the trainer */

/* An owner job of the public ABI's: plain SGD on the caller's parameters. */
static shoal_status step_sgd(void *user, float *sum_in_weights_out, size_t offset, size_t count,
                             uint64_t iteration, float scale)
{
    const shoal_sync *sync = user;
    const float *params = sync->tensors.params + offset;
    float *velocity = sync->sgd.velocity + offset;
    (void)iteration;
    for (size_t i = 0; i < count; i++) {
        velocity[i] = sync->sgd.momentum * velocity[i] + scale * sum_in_weights_out[i];
        sum_in_weights_out[i] = params[i] - sync->sgd.lr * velocity[i];
    }
    return SHOAL_OK;
}

shoal_status shoal_sync_set_sgd(shoal_sync *sync, double lr, double momentum)
{
    SHOALI_TRY(check_process(sync));
    if (!(lr >= 0 && lr < 1e9) || !(momentum >= 0 && momentum < 1e9))
        return shoali_fail(SHOAL_EINVAL, "shoal_sync_set_sgd: lr %g, momentum %g", lr, momentum);
    if (sync->sgd.velocity == NULL)
        sync->sgd.velocity = shoali_alloc_array(sync->tensors.count, sizeof *sync->sgd.velocity);
    if (sync->sgd.velocity == NULL)
        return SHOAL_ENOMEM;
    sync->sgd.lr = (float)lr;
    sync->sgd.momentum = (float)momentum;
    shoali_sync_set_owner(sync, step_sgd, sync);
    return SHOAL_OK;
}

void shoali_sync_set_owner(shoal_sync *sync, shoali_owner owner, void *user)
{
    sync->owner = owner;
    sync->owner_user = user;
}

void shoali_sync_set_watcher(shoal_sync *sync,
                             void (*watcher)(void *user, const shoali_sync_bucket *bucket),
                             void *user)
{
    sync->watcher = watcher;
    sync->watcher_user = user;
}

shoal_status shoali_sync_set_codec(shoal_sync *sync, const char *spec)
{
    const uint32_t need = SHOALI_SYNC_EXACT, not_this = SHOALI_SYNC_OWNER;
    shoal_codec *codec;
    SHOALI_TRY(check_process(sync));
    if ((sync->protocol.traits & (need | not_this)) != need)
        return shoali_fail(SHOAL_EINVAL,
                           "protocol %s cannot change its codec on the way; all_reduce can",
                           sync->protocol.spec);
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    pthread_mutex_lock(&sync->lock); /* the next note carries it to the progress thread */
    snprintf(sync->codec, sizeof sync->codec, "%s", shoal_codec_spec(codec));
    pthread_mutex_unlock(&sync->lock);
    shoal_codec_close(codec);
    return SHOAL_OK;
}

bool shoali_sync_by_samples(const shoal_sync *sync)
{
    return (sync->protocol.traits & SHOALI_SYNC_SAMPLES) != 0;
}

void shoali_sync_set_samples(shoal_sync *sync, uint32_t samples, uint32_t batch)
{
    sync->samples = samples;
    sync->batch = batch;
}

bool shoali_sync_is_exact(const shoal_sync *sync)
{
    return (sync->protocol.traits & SHOALI_SYNC_EXACT) != 0;
}

bool shoali_sync_is_apart(const shoal_sync *sync)
{
    return (sync->protocol.traits & SHOALI_SYNC_APART) != 0;
}

/* A protocol without a final average (asynchronous servers) has no list that all agreed upon: what
 * this rank knows has to do, and a death at that very moment fails the next operation. */
uint32_t shoali_sync_final_members(const shoal_sync *sync, uint32_t *out)
{
    uint32_t count = 0;
    shoali_lost_peer why;
    if (sync->ops.final_count > 0) {
        memcpy(out, sync->ops.final_members, sync->ops.final_count * sizeof *out);
        return sync->ops.final_count;
    }
    for (uint32_t i = 0; i < sync->world.workers; i++)
        if (!shoali_comm_lost_peer(sync->comm, i, &why))
            out[count++] = i;
    return count;
}
