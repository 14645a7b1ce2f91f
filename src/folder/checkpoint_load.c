/* SPDX-License-Identifier: Apache-2.0 */
/* Going on from a checkpoint (checkpoint.c), and beginning with another run's weights. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "files/checkpoint_folder.h"
#include "files/safetensors.h"
#include "files/weights.h"
#include "folder/checkpoint.h"
#include "folder/checkpoint_about.h"
#include "folder/run_file.h"
#include "folder/written.h"
#include "model/import_model.h"
#include "worker/admm.h"
#include "worker/codec_choice.h"
#include "worker/hybrid.h"
#include "worker/project.h"

enum { NAME_BYTES = 160 };

static bool ends_in(const char *from, const char *suffix)
{
    const char *dot = strrchr(from, '.');
    return dot != NULL && strcmp(dot, suffix) == 0;
}

bool shoali_checkpoint_is_file(const char *from)
{
    return ends_in(from, ".safetensors");
}

bool shoali_checkpoint_is_onnx(const char *from)
{
    return ends_in(from, ".onnx");
}

shoal_status shoali_checkpoint_open(const char *from, shoali_safetensors **file_out)
{
    char folder[SHOALI_PATH_BYTES], path[SHOALI_PATH_BYTES];
    if (shoali_checkpoint_is_file(from))
        return shoali_safetensors_open(from, file_out);
    shoali_checkpoint which = shoali_checkpoint_before(from, NULL);
    while (which.step > 0) {
        SHOALI_TRY(shoali_checkpoint_path(from, which, folder));
        SHOALI_TRY(shoali_path_join(path, folder, "common.safetensors"));
        shoal_status status = shoali_safetensors_open(path, file_out);
        const shoali_checkpoint older = shoali_checkpoint_before(from, &which);
        if (status == SHOAL_OK || older.step == 0)
            return status;
        shoali_log(WARN, "%s", shoal_last_error()->text);
        which = older;
    }
    SHOALI_TRY(shoali_path_join(path, from, "model.safetensors")); /* as Hugging Face has folders */
    if (access(path, F_OK) == 0)
        return shoali_safetensors_open(path, file_out);
    return shoali_fail(SHOAL_EIO, "no checkpoint in %s/checkpoints, and no model.safetensors",
                       from);
}

static shoal_status read_optimiser(shoal_train *train, const shoali_safetensors *file)
{
    uint32_t slots = 0;
    float *state = shoali_optim_state(train->update.optim, &slots);
    size_t count = train->param_count;
    for (uint32_t slot = 0; slot < slots; slot++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "optimizer.%s",
                 shoali_optim_slot_name(train->update.optim, slot));
        SHOALI_TRY(shoali_safetensors_read(file, name, state + slot * count, count));
    }
    return SHOAL_OK;
}

static bool has_optimiser(const shoali_safetensors *file)
{
    size_t count = 0;
    const char *name;
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++) {
        if (strncmp(name, "optimizer.", 10) == 0)
            return true;
    }
    return false;
}

/* By a plan: whole tensors, one after the other, of which each worker keeps its part. */
static shoal_status load_parts(shoal_train *train, const shoali_safetensors *file)
{
    float *whole = shoali_alloc_array(shoali_hybrid_largest(train), sizeof *whole);
    shoal_status status = whole != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    for (uint32_t i = 0; i < train->tensor_count && status == SHOAL_OK; i++) {
        status = shoali_safetensors_read(file, shoal_model_tensor_name(train->model, i), whole,
                                         train->tensors[i].count);
        if (status == SHOAL_OK)
            shoali_hybrid_set(train, i, whole);
    }
    shoali_free(whole);
    return status;
}

shoal_status shoali_checkpoint_read_weights(const shoal_train *train,
                                            const shoali_safetensors *file, const char *prefix,
                                            float *params_out)
{
    char name[NAME_BYTES];
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        const shoal_tensor *t = &train->tensors[i];
        snprintf(name, sizeof name, "%s%s", prefix, shoal_model_tensor_name(train->model, i));
        SHOALI_TRY(shoali_safetensors_read(file, name, params_out + t->offset, t->count));
    }
    return SHOAL_OK;
}

static shoal_status load_weights(shoal_train *train, const shoali_safetensors *file)
{
    if (train->hybrid != NULL)
        return load_parts(train, file);
    return shoali_checkpoint_read_weights(train, file, "", train->params);
}

/* Where the run is. Workers other than those that wrote it, or with other batches, divide the rest
 * of the epoch anew. */
static shoal_status load_place(shoal_train *train, const shoali_safetensors *file, const char *path)
{
    uint64_t epoch, in_epoch, was_epoch, taken;
    SHOALI_TRY(shoali_about_number(file, path, "step", &train->step));
    if (train->hybrid != NULL || shoali_safetensors_metadata(file, "taken") == NULL)
        return SHOAL_OK;
    SHOALI_TRY(shoali_about_number(file, path, "epoch", &was_epoch));
    SHOALI_TRY(shoali_about_number(file, path, "taken", &taken));
    shoali_train_place(train, train->step, &epoch, &in_epoch);
    if (epoch == was_epoch && shoali_sampler_taken(train->data.sampler, epoch, in_epoch) == taken)
        return SHOAL_OK;
    if (taken >= train->data.set->train.count)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %" PRIu64 " samples of an epoch of %u are taken",
                           path, taken, train->data.set->train.count);
    train->from.step = train->step;
    train->from.epoch = was_epoch;
    train->from.sample = (uint32_t)taken;
    SHOALI_TRY(
        shoali_sampler_reshard(train->data.sampler, train->workers, was_epoch, (uint32_t)taken));
    shoali_train_plan_steps(train);
    return SHOAL_OK;
}

static shoal_status load_common(shoal_train *train, const shoali_safetensors *file,
                                const char *path)
{
    size_t state_count = 0;
    float *state = train->net != NULL ? shoali_net_state(train->net, &state_count) : NULL;
    SHOALI_TRY(shoali_about_check(train, file, path));
    SHOALI_TRY(load_place(train, file, path));
    SHOALI_TRY(load_weights(train, file));
    if (state_count > 0)
        SHOALI_TRY(shoali_safetensors_read(file, "batchnorm.state", state, state_count));
    float *dual, *target = shoali_admm_state(train, &dual);
    if (target != NULL) {
        SHOALI_TRY(shoali_safetensors_read(file, "admm.target", target, train->param_count));
        SHOALI_TRY(shoali_safetensors_read(file, "admm.dual", dual, train->param_count));
    }
    return has_optimiser(file) && train->hybrid == NULL ? read_optimiser(train, file) : SHOAL_OK;
}

static shoal_status read_residual(shoal_train *train, const shoali_safetensors *file,
                                  const char *name, size_t count)
{
    uint64_t key = 0;
    if (train->comm == NULL || !shoali_number_after(name, "residual.", 16, &key))
        return SHOAL_OK;
    float *values = shoali_alloc_array(count, sizeof *values);
    if (values == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_safetensors_read(file, name, values, count);
    if (status == SHOAL_OK)
        status = shoali_comm_set_residual(train->comm, key, values, count);
    shoali_free(values);
    return status;
}

static shoal_status read_own(shoal_train *train, const shoali_safetensors *file, const char *name,
                             size_t count)
{
    size_t state_count = 0;
    float *state = train->net != NULL ? shoali_net_state(train->net, &state_count) : NULL;
    if (strcmp(name, "batchnorm.own") != 0)
        return read_residual(train, file, name, count);
    return state_count > 0 ? shoali_safetensors_read(file, name, state, state_count) : SHOAL_OK;
}

static shoal_status load_rank(shoal_train *train, const shoali_safetensors *file, const char *path,
                              bool apart)
{
    uint64_t step = 0;
    size_t count = 0;
    const char *name;
    SHOALI_TRY(shoali_about_number(file, path, "step", &step));
    shoali_about_metrics(file, &train->folder.marks.at);
    if (step != train->step)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s is of step %" PRIu64 ", the weights are of step %" PRIu64, path,
                           step, train->step);
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        SHOALI_TRY(read_own(train, file, name, count));
    if (apart)
        SHOALI_TRY(
            shoali_checkpoint_read_weights(train, file, SHOALI_REPLICA_PREFIX, train->params));
    return has_optimiser(file) ? read_optimiser(train, file) : SHOAL_OK;
}

/* Whether a rank wrote a file of its own, as the common one says; an older version's does not. */
static bool wrote(const shoali_safetensors *common, uint32_t rank)
{
    const char *list = shoali_safetensors_metadata(common, "ranks");
    char *end = NULL;
    for (; list != NULL && *list != '\0'; list = end) {
        const unsigned long one = strtoul(list, &end, 10);
        if (end == list)
            return false;
        if (one == rank)
            return true;
    }
    return list == NULL;
}

/* As the first rank that wrote a file has them, all have. */
static bool has_residuals(const char *folder, const shoali_safetensors *common)
{
    const char *list = shoali_safetensors_metadata(common, "ranks"), *name;
    const uint32_t first = list != NULL ? (uint32_t)strtoul(list, NULL, 10) : 0;
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *file = NULL;
    size_t count;
    bool any = false;
    if (shoali_path_number(path, folder, "rank-", first, ".safetensors") != SHOAL_OK ||
        shoali_safetensors_open(path, &file) != SHOAL_OK)
        return true; /* nobody knows */
    for (size_t i = 0; !any && (name = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        any = strncmp(name, "residual.", 9) == 0;
    shoali_safetensors_close(file);
    return any;
}

/* The file of this rank, where it has one and wants it. */
static shoal_status load_own(shoal_train *train, const char *folder,
                             const shoali_safetensors *common, uint64_t workers)
{
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *file = NULL;
    const bool apart = shoali_safetensors_metadata(common, "replicas") != NULL;
    const bool counts = strstr(train->desc.codec, "kappa=") != NULL ||
                        strstr(train->desc.codec, "local=") != NULL;
    if (workers != train->workers && counts) {
        shoal_status none = shoali_fail(SHOAL_EINVAL,
                                        "%s is of %" PRIu64 " workers, this run has %u: codec %s "
                                        "would count its steps anew, the optimiser would not",
                                        folder, workers, train->workers, train->desc.codec);
        shoali_error_advice("Go on with as many workers as before, or without kappa= and local=.");
        return none;
    }
    if (workers != train->workers) {
        if (train->rank == 0 && (apart || has_residuals(folder, common)))
            shoali_log(WARN, "%s is of %" PRIu64 " workers, this run has %u: %s", folder, workers,
                       train->workers,
                       apart ? "all begin with the mean of their replicas"
                             : "residuals of error feedback are dropped");
        return SHOAL_OK;
    }
    if (!wrote(common, train->rank) && train->server) /* one that the run before had not */
        return SHOAL_OK;
    if (!wrote(common, train->rank)) {
        shoali_log(WARN, "%s is of a run that had lost this rank: its residuals are zero", folder);
        return SHOAL_OK;
    }
    SHOALI_TRY(shoali_path_number(path, folder, "rank-", train->rank, ".safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &file));
    shoal_status status = load_rank(train, file, path, apart);
    shoali_safetensors_close(file);
    return status;
}

/* State that is divided among ranks fits the same ranks, divided in the same way. */
static shoal_status check_owners(const shoal_train *train, const shoali_safetensors *common,
                                 const char *path, uint64_t workers)
{
    char own[512];
    const char *owners = shoali_safetensors_metadata(common, "owners");
    if (owners == NULL && has_optimiser(common) != train->update.owner_used)
        return SHOAL_OK;
    shoali_owners_text(train, own, sizeof own);
    if (workers != train->workers)
        return shoali_fail(SHOAL_EINVAL,
                           "%s is of %" PRIu64 " workers whose servers keep the optimiser's "
                           "state: this run has %u, use as many",
                           path, workers, train->workers);
    if (owners != NULL && strcmp(owners, own) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s holds the optimiser's state as %s divides it among ranks: this "
                           "run has %s, use the same",
                           path, owners, own);
    return wrote(common, train->rank)
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "%s lacks rank %u's part of the optimiser's state", path,
                             train->rank);
}

static shoal_status load_both(shoal_train *train, const char *folder, const char *path,
                              const shoali_safetensors *file)
{
    uint64_t workers = 0;
    SHOALI_TRY(shoali_about_number(file, path, "workers", &workers));
    SHOALI_TRY(load_common(train, file, path));
    if (workers == train->workers)
        shoali_choice_resume(train, shoali_safetensors_metadata(file, "chosen_codec"),
                             shoali_safetensors_metadata(file, "codec_ladder"));
    SHOALI_TRY(check_owners(train, file, path, workers));
    return load_own(train, folder, file, workers);
}

/* ------------------------------------------------------------------ which one */

/* Whether this rank can read all that it needs of a checkpoint; else the last error says what it
 * cannot. */
static shoal_status check_whole(const shoal_train *train, const char *folder)
{
    char path[SHOALI_PATH_BYTES];
    shoali_safetensors *common = NULL, *own = NULL;
    uint64_t workers = 0;
    SHOALI_TRY(shoali_path_join(path, folder, "common.safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &common));
    shoal_status status = shoali_about_number(common, path, "workers", &workers);
    if (status == SHOAL_OK && workers == train->workers && wrote(common, train->rank)) {
        status = shoali_path_number(path, folder, "rank-", train->rank, ".safetensors");
        if (status == SHOAL_OK)
            status = shoali_safetensors_open(path, &own);
    }
    shoali_safetensors_close(own);
    shoali_safetensors_close(common);
    return status;
}

/* The newest one before *which that rank 0 sees: all look at the same ones. */
static shoal_status next_candidate(shoal_train *train, bool first, shoali_checkpoint *which)
{
    enum { PIECES = 4, BITS = 16 };
    float pieces[2 * PIECES] = {0};
    if (train->rank == 0) {
        const shoali_checkpoint found = shoali_checkpoint_before(train->desc.resume,
                                                                 first ? NULL : which);
        for (int i = 0; i < PIECES; i++) { /* exact in floats */
            pieces[i] = (float)(found.step >> i * BITS & UINT16_MAX);
            pieces[PIECES + i] = (float)(found.epoch >> i * BITS & UINT16_MAX);
        }
    }
    SHOALI_TRY(shoali_train_meet(train, pieces, 2 * PIECES, SHOAL_SUM, "checkpoint"));
    *which = (shoali_checkpoint){0};
    for (int i = 0; i < PIECES; i++) {
        which->step |= (uint64_t)pieces[i] << i * BITS;
        which->epoch |= (uint64_t)pieces[PIECES + i] << i * BITS;
    }
    return SHOAL_OK;
}

/* Say why a checkpoint is passed over: this rank's damage (NULL: none), or it was not finished. */
static void tell(const shoal_train *train, shoali_checkpoint which, const char *folder,
                 const shoal_error *damage)
{
    if (shoali_checkpoint_is_unfinished(train->desc.resume, which)) {
        shoali_log(INFO, "%s was not finished", folder);
        return;
    }
    if (damage != NULL)
        shoali_log(WARN, "%s", damage->text);
    if (train->rank == 0)
        shoali_log(WARN, "%s is damaged on a rank: going on from an older checkpoint", folder);
}

/* Nothing is whole. A run that had finished no checkpoint yet begins once more. */
static shoal_status none_left(shoal_train *train, const shoal_error *damage)
{
    char path[SHOALI_PATH_BYTES];
    train->folder.saved = (shoali_checkpoint){0};
    float begins = 0;
    SHOALI_TRY(shoali_path_join(path, train->desc.resume, "checkpoints/latest"));
    if (train->rank == 0 && access(path, F_OK) != 0)
        begins = shoali_run_file_is_there(train->desc.resume);
    SHOALI_TRY(shoali_train_meet(train, &begins, 1, SHOAL_SUM, "checkpoint"));
    if (begins > 0) {
        shoali_log(INFO, "%s has no checkpoint yet: from the beginning", train->desc.resume);
        return SHOAL_OK;
    }
    return damage->status != SHOAL_OK
               ? shoali_error_set(damage)
               : shoali_fail(SHOAL_EIO, "no checkpoint to go on from in %s/checkpoints",
                             train->desc.resume);
}

shoal_status shoali_checkpoint_choose(shoal_train *train)
{
    char folder[SHOALI_PATH_BYTES];
    shoali_checkpoint which = {0};
    shoal_error damage = {.status = SHOAL_OK};
    for (bool first = true;; first = false) {
        SHOALI_TRY(next_candidate(train, first, &which));
        if (which.step == 0)
            return none_left(train, &damage);
        SHOALI_TRY(shoali_checkpoint_path(train->desc.resume, which, folder));
        const shoal_status status = check_whole(train, folder);
        float damaged = status != SHOAL_OK;
        if (status != SHOAL_OK)
            shoali_error_get(&damage);
        SHOALI_TRY(shoali_train_meet(train, &damaged, 1, SHOAL_MAX, "checkpoint"));
        if (damaged == 0)
            break;
        tell(train, which, folder, status != SHOAL_OK ? &damage : NULL);
    }
    train->folder.saved = which;
    return SHOAL_OK;
}

shoal_status shoali_checkpoint_load(shoal_train *train)
{
    char folder[SHOALI_PATH_BYTES], path[SHOALI_PATH_BYTES];
    shoali_safetensors *file = NULL;
    SHOALI_TRY(shoali_checkpoint_path(train->desc.resume, train->folder.saved, folder));
    SHOALI_TRY(shoali_path_join(path, folder, "common.safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &file));
    shoal_status status = load_both(train, folder, path, file);
    shoali_safetensors_close(file);
    return status;
}

/* ------------------------------------------------------------------ another run's weights */

static shoal_status start_tensors(shoal_train *train, const shoali_safetensors *file,
                                  const shoal_model *from, float *room)
{
    if (from->tensor_count != train->tensor_count)
        return shoali_fail(SHOAL_EINVAL, "models %s and %s have %u and %u tensors", from->name,
                           train->model->name, from->tensor_count, train->tensor_count);
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        shoali_projection projection;
        SHOALI_TRY(shoali_projection_of(from, train->model, i, &projection));
        SHOALI_TRY(shoali_safetensors_read(file, shoal_model_tensor_name(from, i), room,
                                           from->tensors[i].count));
        shoali_project(&projection, room, room + from->param_count,
                       train->params + train->tensors[i].offset);
    }
    return SHOAL_OK;
}

/* A head that the file lacks begins as it would without it. */
static shoal_status start_foreign(shoal_train *train, const shoali_safetensors *file, float *state)
{
    uint32_t fresh = 0;
    SHOALI_TRY(
        shoali_weights_read(train->desc.start, file, train->model, train->params, state, &fresh));
    if (fresh > 0 && train->rank == 0)
        shoali_log(WARN, "%s lacks the head of this model: its %u tensors begin with first weights",
                   train->desc.start, fresh);
    return SHOAL_OK;
}

static shoal_status start_from(shoal_train *train, const shoali_safetensors *file)
{
    shoal_model *from = NULL;
    size_t state_count = 0;
    float *state = shoali_net_state(train->net, &state_count);
    if (shoali_weights_are_foreign(file))
        return start_foreign(train, file, state);
    SHOALI_TRY(shoali_about_model(file, train->desc.start, &from));
    if (from == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s: the checkpoint names no model", train->desc.start);
    float *room = shoali_alloc_array(2 * from->param_count,
                                     sizeof *room); /* a tensor, a tap of it */
    shoal_status status = room != NULL ? start_tensors(train, file, from, room) : SHOAL_ENOMEM;
    shoali_free(room);
    shoal_model_close(from);
    return status == SHOAL_OK && state_count > 0
               ? shoali_safetensors_read(file, "batchnorm.state", state, state_count)
               : status;
}

shoal_status shoali_checkpoint_start(shoal_train *train)
{
    shoali_safetensors *file = NULL;
    if (train->hybrid != NULL)
        return shoali_fail(SHOAL_ENOTSUP, "by a plan a run cannot start with another's weights");
    float arrived = 1; /* the run that is to be there may be this process's last one */
    SHOALI_TRY(shoali_train_meet(train, &arrived, 1, SHOAL_SUM, "start"));
    if (shoali_checkpoint_is_onnx(train->desc.start)) {
        size_t count = 0;
        return shoali_onnx_read_weights(train->desc.start, train->model, train->params,
                                        shoali_net_state(train->net, &count));
    }
    SHOALI_TRY(shoali_checkpoint_open(train->desc.start, &file));
    shoal_status status = start_from(train, file);
    shoali_safetensors_close(file);
    return status;
}
