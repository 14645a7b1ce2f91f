/* SPDX-License-Identifier: Apache-2.0 */
/* Where replicas differ and nobody waits for all, nobody waits for a checkpoint either. Each worker
 * writes its file of step N when it has made step N: weights, optimiser, statistics of its own
 * samples. Place 0 looks behind each of its steps whether all have written the oldest one that is
 * open. Then it makes the common file, the mean of all replicas, by reading their files, and lets
 * `latest` name it: until there is a common file the checkpoint is not whole, whoever is killed
 * when.
 *
 * Workers come to step N at different times, so what one holds of the others' in its replica is of
 * whatever step its protocol says. Protocols that mean by iterations (d_psgd, hop, ripples:static)
 * go on from it bit for bit; with others (ad_psgd, ripples:smart) an average that one of two had
 * made before its step N, and the other behind it, is in one replica alone.
 *
 * A worker that is lost writes nothing any more: no checkpoint is whole before the end. */
#include "folder/apart.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "files/checkpoint_folder.h"
#include "folder/checkpoint.h"
#include "folder/events.h"
#include "folder/written.h"

enum { NAME_BYTES = 160 };

/* ------------------------------------------------------------------ the mean */

/* What a replica is made of, one behind the other. */
typedef struct parts {
    size_t slots, state, all; /* where they begin; floats */
    uint32_t slot_count;
} parts;

static parts parts_of(const shoal_train *train)
{
    size_t state_count = 0;
    parts p = {.slots = train->param_count};
    (void)shoali_optim_state(train->update.optim, &p.slot_count);
    (void)shoali_net_state(train->net, &state_count);
    p.state = p.slots + p.slot_count * train->param_count;
    p.all = p.state + state_count;
    return p;
}

size_t shoali_apart_floats(const shoal_train *train)
{
    return parts_of(train).all;
}

static shoal_status read_replica(const shoal_train *train, const shoali_safetensors *file,
                                 float *values_out)
{
    const parts p = parts_of(train);
    char name[NAME_BYTES];
    SHOALI_TRY(shoali_checkpoint_read_weights(train, file, SHOALI_REPLICA_PREFIX, values_out));
    for (uint32_t i = 0; i < p.slot_count; i++) {
        snprintf(name, sizeof name, "optimizer.%s", shoali_optim_slot_name(train->update.optim, i));
        SHOALI_TRY(shoali_safetensors_read(
            file, name, values_out + p.slots + i * train->param_count, train->param_count));
    }
    return p.all > p.state ? shoali_safetensors_read(file, "batchnorm.own", values_out + p.state,
                                                     p.all - p.state)
                           : SHOAL_OK;
}

static shoal_status add_rank(const shoal_train *train, const char *folder, uint32_t rank,
                             float *room, float *sum)
{
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *file = NULL;
    SHOALI_TRY(shoali_path_number(path, folder, "rank-", rank, ".safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &file));
    shoal_status status = read_replica(train, file, room);
    shoali_safetensors_close(file);
    const size_t count = shoali_apart_floats(train);
    for (size_t i = 0; status == SHOAL_OK && i < count; i++)
        sum[i] += room[i];
    return status;
}

shoal_status shoali_apart_mean(const shoal_train *train, const char *folder, float *mean_out)
{
    const size_t count = shoali_apart_floats(train);
    shoal_status status = SHOAL_OK;
    float *room = shoali_alloc_array(count, sizeof *room);
    if (room == NULL)
        return SHOAL_ENOMEM;
    memset(mean_out, 0, count * sizeof *mean_out);
    for (uint32_t rank = 0; rank < train->workers && status == SHOAL_OK; rank++)
        status = add_rank(train, folder, rank, room, mean_out);
    for (size_t i = 0; i < count; i++)
        mean_out[i] /= (float)train->workers;
    shoali_free(room);
    return status;
}

/* ------------------------------------------------------------------ place 0 */

static shoal_status write_common(const shoal_train *train, const char *folder, uint64_t step)
{
    const parts p = parts_of(train);
    float *mean = shoali_alloc_array(p.all, sizeof *mean);
    if (mean == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_apart_mean(train, folder, mean);
    const shoali_replica of = {
        .params = mean, .optimiser = mean + p.slots, .state = mean + p.state, .mean = true};
    if (status == SHOAL_OK)
        status = shoali_checkpoint_write_common(train, folder, step, &of);
    shoali_free(mean);
    return status;
}

static shoali_checkpoint opened(const shoal_train *train, uint32_t i)
{
    return (shoali_checkpoint){.step = train->folder.apart.written[i].step,
                               .epoch = train->members.epoch};
}

/* All have written written[0]. */
static shoal_status complete(shoal_train *train)
{
    char folder[SHOALI_PATH_BYTES];
    const struct shoali_apart_written one = train->folder.apart.written[0];
    const shoali_checkpoint which = opened(train, 0);
    SHOALI_TRY(shoali_checkpoint_path(train->desc.out, which, folder));
    const shoal_status status = write_common(train, folder, one.step);
    if (status == SHOAL_OK)
        return shoali_checkpoint_announce(train, which, folder, one.at_us);
    SHOALI_TRY(shoali_checkpoint_missed(train, one.step, status));
    shoali_checkpoint_drop(train->desc.out, which, train->rank, true);
    return SHOAL_OK;
}

/* Written[i]. */
static bool has_written(const shoal_train *train, uint32_t i, uint32_t rank)
{
    char folder[SHOALI_PATH_BYTES], path[SHOALI_PATH_BYTES];
    return shoali_checkpoint_path(train->desc.out, opened(train, i), folder) == SHOAL_OK &&
           shoali_path_number(path, folder, "rank-", rank, ".safetensors") == SHOAL_OK &&
           access(path, F_OK) == 0;
}

/* Who has written a later one and not this one has found no room for it, and never writes it. */
static bool is_missed(const shoal_train *train, uint32_t rank)
{
    for (uint32_t i = 1; i < train->folder.apart.count; i++)
        if (has_written(train, i, rank))
            return !has_written(train, 0, rank); /* not between the two looks either */
    return false;
}

static shoal_status look(shoal_train *train)
{
    shoali_apart *a = &train->folder.apart;
    while (a->count > 0) {
        while (a->seen < train->workers && has_written(train, 0, a->seen))
            a->seen++;
        if (a->seen < train->workers && !is_missed(train, a->seen))
            return SHOAL_OK;
        if (a->seen < train->workers)
            shoali_checkpoint_drop(train->desc.out, opened(train, 0), train->rank, true);
        else
            SHOALI_TRY(complete(train));
        a->seen = 0;
        a->count--;
        memmove(a->written, a->written + 1, a->count * sizeof *a->written);
    }
    return SHOAL_OK;
}

/* All have made all steps: what is open now stays so. The final checkpoint keeps the newest whole
 * one beside it, whoever wrote that. */
static void settle_for_ever(shoal_train *train)
{
    if (train->folder.apart.count > 0 && !train->folder.apart.given_up)
        shoali_log(WARN,
                   "the checkpoint of step %" PRIu64 " in %s lacks rank %u's file: is this the "
                   "same folder on all hosts?",
                   train->folder.apart.written[0].step, train->desc.out, train->folder.apart.seen);
    train->folder.apart.count = 0;
    if (train->members.place == 0 && train->folder.saved.step == 0)
        train->folder.saved = shoali_checkpoint_latest(train->desc.out);
}

shoal_status shoali_apart_settle(shoal_train *train, bool end)
{
    if (!train->folder.apart.able || train->desc.out == NULL)
        return SHOAL_OK;
    SHOALI_TRY(look(train));
    if (end)
        settle_for_ever(train);
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ each worker */

static bool somebody_is_lost(const shoal_train *train)
{
    shoali_lost_peer why;
    for (uint32_t rank = 0; rank < train->workers && train->comm != NULL; rank++)
        if (rank != train->rank && shoali_comm_lost_peer(train->comm, rank, &why))
            return true;
    return false;
}

static void give_up(shoal_train *train)
{
    if (train->folder.apart.given_up ||
        train->desc.reform) /* these go on with other members soon */
        return;
    train->folder.apart.given_up = true;
    if (shoali_comm_is_lowest(train->comm))
        shoali_log(WARN,
                   "no more checkpoints before the end: a worker is lost, and --sync %s writes "
                   "them with all workers (--on-loss reform: with those that go on)",
                   train->desc.sync);
}

static shoal_status remember(shoali_apart *a, uint64_t step)
{
    if (a->count == a->room) {
        const uint32_t room = 2 * a->room + 4;
        struct shoali_apart_written *more = shoali_realloc(a->written, a->room * sizeof *more,
                                                           room * sizeof *more);
        if (more == NULL)
            return SHOAL_ENOMEM;
        a->written = more;
        a->room = room;
    }
    a->written[a->count++] = (struct shoali_apart_written){step, shoali_now_us()};
    return SHOAL_OK;
}

shoal_status shoali_apart_save(shoal_train *train)
{
    char folder[SHOALI_PATH_BYTES];
    const shoali_checkpoint which = {.step = train->step, .epoch = train->members.epoch};
    if (!train->folder.apart.able)
        return SHOAL_OK;
    if (somebody_is_lost(train)) {
        give_up(train);
        return SHOAL_OK;
    }
    shoal_status status = shoali_checkpoint_make(train->desc.out, which, folder);
    if (status == SHOAL_OK)
        status = shoali_metrics_mark(train);
    if (status == SHOAL_OK)
        status = shoali_checkpoint_write_rank(train, folder, train->step, true);
    if (status != SHOAL_OK) {
        shoali_checkpoint_drop(train->desc.out, which, train->rank, false);
        return shoali_checkpoint_missed(train, train->step, status);
    }
    if (train->members.place != 0)
        return SHOAL_OK;
    SHOALI_TRY(remember(&train->folder.apart, train->step));
    return look(train);
}

void shoali_apart_forget(shoal_train *train)
{
    train->folder.apart.count = train->folder.apart.seen = 0;
    train->folder.apart.given_up = false;
}
