/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/checkpoints/step-N/common.safetensors (rank 0: weights, batch-norm statistics, optimiser
 * state) and rank-R.safetensors (residuals of error feedback by tensor key; the optimiser state
 * where owners hold it). When all workers have written, rank 0 names the folder in
 * OUT/checkpoints/latest; the two newest stay. A dedicated server writes its own later, before it
 * takes up the next step: until then the one before is the newest that is whole. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "files/checkpoint_folder.h"
#include "files/safetensors.h"
#include "folder/checkpoint.h"
#include "folder/checkpoint_about.h"
#include "folder/events.h"
#include "folder/run_file.h"
#include "folder/written.h"
#include "worker/admm.h"
#include "worker/hybrid.h"

enum { NAME_BYTES = 160 };

bool shoali_checkpoint_due(const shoal_train *train, uint64_t steps_done)
{
    uint64_t every = train->desc.checkpoint_every;
    if (train->desc.out == NULL || steps_done == 0)
        return false;
    if (every > 0 && steps_done % every == 0)
        return true;
    uint64_t epoch, in_epoch;
    shoali_train_place(train, steps_done, &epoch, &in_epoch);
    return steps_done == train->steps || (every == 0 && in_epoch == 0 && epoch > 0);
}

/* A list of tensors under construction; names live in the arena. */
typedef struct list {
    shoal_arena *arena;
    shoali_named_tensor *items;
    size_t count, capacity;
} list;

static shoal_status add(list *l, const float *data, size_t count, uint32_t rows, const char *prefix,
                        const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    char *kept = shoali_arena_strdup(l->arena, full);
    if (kept == NULL || l->count == l->capacity)
        return shoali_fail(SHOAL_ENOMEM, "no memory for a checkpoint's table");
    l->items[l->count++] = (shoali_named_tensor){
        .name = kept, .data = data, .count = count, .rows = rows};
    return SHOAL_OK;
}

static shoal_status list_create(list *l, size_t capacity)
{
    *l = (list){.arena = shoali_arena_create(4096), .capacity = capacity};
    l->items = l->arena != NULL ? shoali_arena_array(l->arena, capacity, sizeof *l->items) : NULL;
    return l->items != NULL ? SHOAL_OK : shoali_fail(SHOAL_ENOMEM, "no memory for a checkpoint");
}

/* state: of these values instead of the optimiser's own; NULL: its own. */
static shoal_status add_optimiser(const shoal_train *train, list *l, const float *state)
{
    uint32_t slots = 0;
    const float *own = shoali_optim_state(train->update.optim, &slots);
    size_t count = train->param_count;
    state = state != NULL ? state : own;
    for (uint32_t slot = 0; slot < slots; slot++)
        SHOALI_TRY(add(l, state + slot * count, count, 0, "optimizer.",
                       shoali_optim_slot_name(train->update.optim, slot)));
    return SHOAL_OK;
}

static shoal_status write_list(const shoal_train *train, list *l, const char *path,
                               uint64_t steps_done, bool own, bool apart)
{
    json_t *about = shoali_about_make(train, steps_done, own);
    bool made = about != NULL &&
                (!apart || json_object_set_new(about, "replicas", json_string("apart")) == 0);
    shoal_status status = made ? shoali_safetensors_write(path, l->items, l->count, about)
                               : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    json_decref(about);
    return status;
}

static shoal_status add_weights(const shoal_train *train, list *l, const float *params,
                                const char *prefix)
{
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        const shoal_tensor *t = &train->tensors[i];
        SHOALI_TRY(add(l, params + t->offset, t->count, t->rows, prefix,
                       shoal_model_tensor_name(train->model, i)));
    }
    return SHOAL_OK;
}

static shoal_status fill_common(const shoal_train *train, list *l, const shoali_replica *of)
{
    size_t state_count = 0;
    const float *state = train->net != NULL ? shoali_net_state(train->net, &state_count) : NULL;
    SHOALI_TRY(add_weights(train, l, of->params, ""));
    state = of->state != NULL ? of->state : state;
    if (state_count > 0)
        SHOALI_TRY(add(l, state, state_count, 0, "", "batchnorm.state"));
    float *dual, *target = shoali_admm_state(train, &dual);
    if (target != NULL) {
        SHOALI_TRY(add(l, target, train->param_count, 0, "", "admm.target"));
        SHOALI_TRY(add(l, dual, train->param_count, 0, "", "admm.dual"));
    }
    return train->update.owner_used ? SHOAL_OK : add_optimiser(train, l, of->optimiser);
}

shoal_status shoali_checkpoint_write_common(const shoal_train *train, const char *folder,
                                            uint64_t steps_done, const shoali_replica *of)
{
    list l;
    char path[SHOALI_PATH_BYTES];
    SHOALI_TRY(shoali_path_join(path, folder, "common.safetensors"));
    shoal_status status = list_create(&l, train->tensor_count + 8);
    if (status == SHOAL_OK)
        status = fill_common(train, &l, of);
    if (status == SHOAL_OK)
        status = write_list(train, &l, path, steps_done, false, of->mean);
    shoali_arena_destroy(l.arena);
    return status;
}

/* Each worker's statistics of batch norm are of its own samples until a test averages them. */
static shoal_status add_own_state(const shoal_train *train, list *l)
{
    size_t count = 0;
    const float *state = train->net != NULL ? shoali_net_state(train->net, &count) : NULL;
    if (count == 0 || train->server)
        return SHOAL_OK;
    const bool kept = train->state.own != NULL && train->state.own_step == train->step;
    return add(l, kept ? train->state.own : state, count, 0, "", "batchnorm.own");
}

static shoal_status fill_rank(const shoal_train *train, list *l, const shoali_residual *residuals,
                              size_t count, bool replica)
{
    for (size_t i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%016" PRIx64, residuals[i].key);
        SHOALI_TRY(add(l, residuals[i].values, residuals[i].count, 0, "residual.", key));
    }
    if (replica || !(train->loose || train->workers == 1))
        SHOALI_TRY(add_own_state(train, l));
    if (replica)
        SHOALI_TRY(add_weights(train, l, train->params, SHOALI_REPLICA_PREFIX));
    return replica || train->update.owner_used ? add_optimiser(train, l, NULL) : SHOAL_OK;
}

shoal_status shoali_checkpoint_write_rank(const shoal_train *train, const char *folder,
                                          uint64_t steps_done, bool replica)
{
    list l;
    char path[SHOALI_PATH_BYTES];
    SHOALI_TRY(shoali_path_number(path, folder, "rank-", train->rank, ".safetensors"));
    bool any = train->comm != NULL && !train->server; /* a server hands out weights, never deltas */
    size_t count = any ? shoali_comm_residuals(train->comm, NULL, 0) : 0;
    SHOALI_TRY(list_create(&l, count + (replica ? train->tensor_count : 0) + 8));
    shoali_residual *residuals = shoali_arena_array(l.arena, count + 1, sizeof *residuals);
    shoal_status status = residuals != NULL ? SHOAL_OK
                                            : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    if (status == SHOAL_OK && count > 0)
        count = shoali_comm_residuals(train->comm, residuals, count);
    if (status == SHOAL_OK)
        status = fill_rank(train, &l, residuals, count, replica);
    if (status == SHOAL_OK)
        status = write_list(train, &l, path, steps_done, true, false);
    shoali_arena_destroy(l.arena);
    return status;
}

/* ------------------------------------------------------------------ together */

static shoal_status write_own(shoal_train *train, shoali_checkpoint which, const char *folder)
{
    const uint64_t began_us = shoali_now_us();
    char made[SHOALI_PATH_BYTES];
    shoal_status status = shoali_checkpoint_make(train->desc.out, which, made);
    if (status == SHOAL_OK)
        status = shoali_metrics_mark(train);
    if (status == SHOAL_OK)
        status = shoali_checkpoint_write_rank(train, folder, train->step, false);
    train->slow.disk_us += (double)(shoali_now_us() - began_us); /* the part that each rank has */
    return status;
}

/* This worker's file and, of place 0, the common one. By a plan all of them collect the weights,
 * also who has found no room. */
static shoal_status write_parts(shoal_train *train, shoali_checkpoint which, const char *folder)
{
    shoal_error why;
    float *whole = NULL;
    shoal_status status = write_own(train, which, folder);
    shoali_error_get(&why);
    if (train->hybrid != NULL)
        SHOALI_TRY(shoali_hybrid_collect(train, &whole));
    const shoali_replica of = {.params = whole != NULL ? whole : train->params};
    if (status != SHOAL_OK)
        shoali_error_set(&why);
    else if (train->members.place == 0)
        status = shoali_checkpoint_write_common(train, folder, train->step, &of);
    shoali_free(whole);
    return status;
}

shoal_status shoali_checkpoint_missed(shoal_train *train, uint64_t step, shoal_status status)
{
    if (status != SHOAL_EIO)
        return status;
    const shoal_error *why = shoal_last_error();
    shoali_log(WARN, "checkpoint of step %" PRIu64 ": %s%s", step, why->text,
               step != train->steps ? "; the training goes on" : "");
    if (step != train->steps)
        return SHOAL_OK;
    if (train->folder.marks.missed == NULL)
        train->folder.marks.missed = shoali_arena_alloc(train->arena, sizeof *why);
    if (train->folder.marks.missed == NULL)
        return SHOAL_ENOMEM;
    *train->folder.marks.missed = *why;
    return SHOAL_OK;
}

/* One of them has found no room: the files of all go, as they stand in the way of the next. */
static shoal_status give_up(shoal_train *train, shoali_checkpoint which, shoal_status own)
{
    if (train->stop.agreed)
        return own != SHOAL_OK ? own
                               : shoali_fail(SHOAL_EIO, "another rank could not write its part of "
                                                        "the checkpoint, and says why");
    if (shoali_checkpoint_order(which, train->folder.saved) != 0)
        shoali_checkpoint_drop(train->desc.out, which, train->rank, train->members.place == 0);
    return shoali_checkpoint_missed(train, train->step, own);
}

/* ------------------------------------------------------------------ a dedicated server's part */

/* Whether what is common to all is there. */
static bool is_there(const shoal_train *train, shoali_checkpoint which)
{
    char folder[SHOALI_PATH_BYTES], path[SHOALI_PATH_BYTES];
    return shoali_checkpoint_path(train->desc.out, which, folder) == SHOAL_OK &&
           shoali_path_join(path, folder, "common.safetensors") == SHOAL_OK &&
           access(path, F_OK) == 0;
}

/* The newest older one: a server that found no room has withdrawn those without its file. */
static shoali_checkpoint still_there(const shoal_train *train, shoali_checkpoint bound)
{
    shoali_checkpoint older = bound;
    do
        older = shoali_checkpoint_before(train->desc.out, &older);
    while (older.step > 0 && !is_there(train, older));
    return older;
}

/* The workers have gone on since they wrote it, or gave it up: then it goes without this file. Of
 * hosts that share no folder only their own knows what they gave up. */
static bool is_given_up(const shoal_train *train, shoali_checkpoint which)
{
    return which.step != train->steps && shoali_run_file_is_there(train->desc.out) &&
           !is_there(train, which);
}

/* No room for the server's file. The optimiser's state is nowhere else, so the whole checkpoint
 * goes; of the last one, which the workers may be writing now, the weights stay. */
static void withdraw(const shoal_train *train, shoali_checkpoint which)
{
    const bool all = which.step != train->steps;
    shoali_checkpoint_drop(train->desc.out, which, train->rank, all);
    if (all && shoali_run_file_is_there(train->desc.out))
        shoali_checkpoint_name_again(train->desc.out, still_there(train, which));
}

shoal_status shoali_checkpoint_save_owner(shoal_train *train, uint64_t steps_done)
{
    char folder[SHOALI_PATH_BYTES];
    shoal_error why;
    const shoali_checkpoint which = {.step = steps_done, .epoch = train->members.epoch};
    if (is_given_up(train, which))
        return SHOAL_OK;
    shoal_status status = shoali_checkpoint_make(train->desc.out, which, folder);
    if (status == SHOAL_OK)
        status = shoali_checkpoint_write_rank(train, folder, steps_done, false);
    if (status != SHOAL_EIO)
        return status;
    if (is_given_up(train, which)) /* by another server, as this one wrote */
        return SHOAL_OK;
    shoali_error_get(&why);
    withdraw(train, which);
    shoali_error_set(&why);
    return shoali_checkpoint_missed(train, steps_done, status);
}

/* ------------------------------------------------------------------ all parts */

/* All have written it. */
shoal_status shoali_checkpoint_announce(shoal_train *train, shoali_checkpoint which,
                                        const char *folder, uint64_t began_us)
{
    const shoali_checkpoint saved = train->folder.saved;
    const shoali_checkpoint before = is_there(train, saved) ? saved : still_there(train, which);
    train->folder.saved = which;
    if (train->members.place != 0)
        return SHOAL_OK;
    shoali_checkpoint_tidy(folder, train->workers); /* servers may come later */
    shoal_status status = shoali_checkpoint_name_latest(train->desc.out, which);
    if (status == SHOAL_OK) {
        shoali_checkpoint_keep(train->desc.out, which, before);
        status = shoali_events_add(train, "checkpoint",
                                   json_pack("{s:I, s:f}", "step", (json_int_t)which.step,
                                             "seconds",
                                             (double)(shoali_now_us() - began_us) * 1e-6));
    }
    return shoali_checkpoint_missed(train, which.step, status);
}

shoal_status shoali_checkpoint_save(shoal_train *train)
{
    char folder[SHOALI_PATH_BYTES];
    const shoali_checkpoint which = {.step = train->step, .epoch = train->members.epoch};
    const uint64_t began_us = shoali_now_us();
    shoal_error why;
    SHOALI_TRY(shoali_checkpoint_path(train->desc.out, which, folder));
    const shoal_status own = write_parts(train, which, folder);
    if (own != SHOAL_OK && own != SHOAL_EIO)
        return own;
    shoali_error_get(&why);
    float missed = own != SHOAL_OK; /* latest may only name a folder that is complete */
    SHOALI_TRY(train->desc.no_exchange
                   ? shoali_train_meet(train, &missed, 1, SHOAL_SUM, "checkpoint")
                   : shoali_train_reduce(train, &missed, 1, SHOAL_SUM, "checkpoint"));
    shoali_error_set(&why);
    if (missed > 0)
        return give_up(train, which, own);
    return shoali_checkpoint_announce(train, which, folder, began_us);
}
