/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/checkpoints/step-N/common.safetensors (rank 0: weights, batch-norm statistics, optimiser
 * state) and rank-R.safetensors (residuals of error feedback by tensor key; the optimiser state
 * where owners hold it). When all ranks have written, rank 0 names the folder in
 * OUT/checkpoints/latest; the two newest stay. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "train/admm.h"
#include "train/codec_choice.h"
#include "train/deploy.h"
#include "train/hybrid.h"
#include "train/project.h"
#include "train/safetensors.h"
#include "train/trainer.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 160 };

static shoal_status join(char out[PATH_BYTES], const char *folder, const char *name)
{
    if (snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "path is too long: %s", folder);
}

/* FOLDER/PREFIX7SUFFIX */
static shoal_status join_number(char out[PATH_BYTES], const char *folder, const char *prefix,
                                uint64_t number, const char *suffix)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%" PRIu64 "%s", prefix, number, suffix);
    return join(out, folder, name);
}

static shoal_status make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return SHOAL_OK;
    return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", path);
}

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

/* ------------------------------------------------------------------ saving */

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

static shoal_status add_optimiser(const shoal_train *train, list *l)
{
    uint32_t slots = 0;
    const float *state = shoali_optim_state(train->optim, &slots);
    size_t count = train->param_count;
    for (uint32_t slot = 0; slot < slots; slot++)
        SHOALI_TRY(add(l, state + slot * count, count, 0, "optimizer.",
                       shoali_optim_slot_name(train->optim, slot)));
    return SHOAL_OK;
}

static json_t *metadata(const shoal_train *train, uint64_t steps_done)
{
    char step[24], seed[24], workers[16];
    snprintf(step, sizeof step, "%" PRIu64, steps_done);
    snprintf(seed, sizeof seed, "%" PRIu64, train->desc.seed);
    snprintf(workers, sizeof workers, "%u", train->workers);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s*}", "format", "shoal-1", "step", step,
                     "seed", seed, "workers", workers, "model", train->desc.model, "optimizer",
                     shoali_optim_spec(train->optim), "chosen_codec", shoali_choice_made(train));
}

static shoal_status write_list(const shoal_train *train, list *l, const char *path,
                               uint64_t steps_done)
{
    json_t *about = metadata(train, steps_done);
    shoal_status status = about != NULL ? shoali_safetensors_write(path, l->items, l->count, about)
                                        : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    json_decref(about);
    return status;
}

static shoal_status fill_common(const shoal_train *train, list *l, const float *params)
{
    size_t state_count = 0;
    const float *state = train->net != NULL ? shoali_net_state(train->net, &state_count) : NULL;
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        const shoal_tensor *t = &train->tensors[i];
        SHOALI_TRY(add(l, params + t->offset, t->count, t->rows, "",
                       shoal_model_tensor_name(train->model, i)));
    }
    if (state_count > 0)
        SHOALI_TRY(add(l, state, state_count, 0, "", "batchnorm.state"));
    float *dual, *target = shoali_admm_state(train, &dual);
    if (target != NULL) {
        SHOALI_TRY(add(l, target, train->param_count, 0, "", "admm.target"));
        SHOALI_TRY(add(l, dual, train->param_count, 0, "", "admm.dual"));
    }
    return train->owner_used ? SHOAL_OK : add_optimiser(train, l);
}

static shoal_status save_common(const shoal_train *train, const char *folder, const float *params)
{
    list l;
    char path[PATH_BYTES];
    SHOALI_TRY(join(path, folder, "common.safetensors"));
    shoal_status status = list_create(&l, train->tensor_count + 8);
    if (status == SHOAL_OK)
        status = fill_common(train, &l, params);
    if (status == SHOAL_OK)
        status = write_list(train, &l, path, train->step);
    shoali_arena_destroy(l.arena);
    return status;
}

static shoal_status fill_rank(const shoal_train *train, list *l, const shoali_residual *residuals,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%016" PRIx64, residuals[i].key);
        SHOALI_TRY(add(l, residuals[i].values, residuals[i].count, 0, "residual.", key));
    }
    return train->owner_used ? add_optimiser(train, l) : SHOAL_OK;
}

static shoal_status save_rank(const shoal_train *train, const char *folder, uint64_t steps_done)
{
    list l;
    char path[PATH_BYTES];
    SHOALI_TRY(join_number(path, folder, "rank-", train->rank, ".safetensors"));
    bool any = train->comm != NULL && !train->server; /* a server hands out weights, never deltas */
    size_t count = any ? shoali_comm_residuals(train->comm, NULL, 0) : 0;
    SHOALI_TRY(list_create(&l, count + 8));
    shoali_residual *residuals = shoali_arena_array(l.arena, count + 1, sizeof *residuals);
    shoal_status status = residuals != NULL ? SHOAL_OK
                                            : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    if (status == SHOAL_OK && count > 0)
        count = shoali_comm_residuals(train->comm, residuals, count);
    if (status == SHOAL_OK)
        status = fill_rank(train, &l, residuals, count);
    if (status == SHOAL_OK)
        status = write_list(train, &l, path, steps_done);
    shoali_arena_destroy(l.arena);
    return status;
}

static shoal_status step_folder(const shoal_train *train, uint64_t steps_done,
                                char folder[PATH_BYTES])
{
    char above[PATH_BYTES];
    SHOALI_TRY(make_folder(train->desc.out));
    SHOALI_TRY(join(above, train->desc.out, "checkpoints"));
    SHOALI_TRY(make_folder(above));
    SHOALI_TRY(join_number(folder, above, "step-", steps_done, ""));
    SHOALI_TRY(make_folder(folder));
    return shoali_sync_folder_of(folder);
}

static shoal_status name_latest(const char *out, uint64_t step)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    SHOALI_TRY(join(path, out, "checkpoints/latest"));
    SHOALI_TRY(join(temporary, out, "checkpoints/latest.tmp"));
    FILE *file = fopen(temporary, "we");
    bool ok = file != NULL && fprintf(file, "step-%" PRIu64 "\n", step) > 0 && fflush(file) == 0 &&
              fsync(fileno(file)) == 0;
    int error = errno;
    if (file != NULL)
        fclose(file);
    if (!ok || rename(temporary, path) != 0)
        return shoali_fail_os(SHOAL_EIO, ok ? errno : error, "cannot write %s", path);
    return shoali_sync_folder_of(path);
}

/* What killed processes left behind, and all that is ours unless only_temporary. */
static void clear_folder(const char *path, bool only_temporary)
{
    char file[PATH_BYTES];
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        bool ours = dot != NULL && strcmp(dot, ".safetensors") == 0 && !only_temporary;
        if ((ours || strstr(entry->d_name, ".safetensors.tmp") != NULL) &&
            (size_t)snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < sizeof file)
            unlink(file);
    }
    if (dir != NULL)
        closedir(dir);
}

static void remove_folder(const char *path)
{
    clear_folder(path, false);
    rmdir(path); /* stays if it holds anything that is not ours */
}

/* The number in a name made of prefix and number; a line's end may follow. */
static bool number_after(const char *name, const char *prefix, int base, uint64_t *value_out)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || !isxdigit((unsigned char)name[length]))
        return false;
    char *end = NULL;
    errno = 0;
    *value_out = strtoull(name + length, &end, base);
    return end != name + length && errno == 0 && (*end == '\0' || *end == '\n');
}

/* Keep the newest two. */
static void remove_old(const char *out, uint64_t newest)
{
    char above[PATH_BYTES], folder[PATH_BYTES];
    uint64_t second = 0, step = 0;
    if (join(above, out, "checkpoints") != SHOAL_OK)
        return;
    for (int pass = 0; pass < 2; pass++) {
        DIR *dir = opendir(above);
        for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
            if (!number_after(entry->d_name, "step-", 10, &step) || step >= newest)
                continue;
            if (pass == 0)
                second = step > second ? step : second;
            else if (step < second && join_number(folder, above, "step-", step, "") == SHOAL_OK)
                remove_folder(folder);
        }
        if (dir != NULL)
            closedir(dir);
    }
}

shoal_status shoali_checkpoint_save(shoal_train *train)
{
    char folder[PATH_BYTES];
    SHOALI_TRY(step_folder(train, train->step, folder));
    SHOALI_TRY(save_rank(train, folder, train->step));
    float *whole = NULL;
    if (train->hybrid != NULL)
        SHOALI_TRY(shoali_hybrid_collect(train, &whole));
    shoal_status status = SHOAL_OK;
    if (train->place == 0)
        status = save_common(train, folder, whole != NULL ? whole : train->params);
    shoali_free(whole);
    if (status != SHOAL_OK)
        return status;
    float arrived = 1; /* latest may only name a folder that is complete */
    SHOALI_TRY(shoali_train_reduce(train, &arrived, 1, SHOAL_SUM, "checkpoint"));
    if (train->place != 0)
        return SHOAL_OK;
    clear_folder(folder, true); /* nobody writes into it any more */
    SHOALI_TRY(name_latest(train->desc.out, train->step));
    remove_old(train->desc.out, train->step);
    return SHOAL_OK;
}

shoal_status shoali_checkpoint_save_owner(shoal_train *train, uint64_t steps_done)
{
    char folder[PATH_BYTES];
    SHOALI_TRY(step_folder(train, steps_done, folder));
    return save_rank(train, folder, steps_done);
}

/* ------------------------------------------------------------------ loading */

static shoal_status find_latest(const char *from, char folder[PATH_BYTES])
{
    char path[PATH_BYTES], name[64] = "";
    uint64_t step = 0;
    SHOALI_TRY(join(path, from, "checkpoints/latest"));
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return shoali_fail_os(SHOAL_EIO, errno, "no checkpoint to go on from: %s", path);
    bool ok = fgets(name, sizeof name, file) != NULL && number_after(name, "step-", 10, &step);
    fclose(file);
    if (!ok)
        return shoali_fail(SHOAL_ECORRUPT, "%s names no checkpoint", path);
    return join_number(folder, from, "checkpoints/step-", step, "");
}

shoal_status shoali_checkpoint_open(const char *from, shoali_safetensors **file_out)
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    const char *dot = strrchr(from, '.');
    if (dot != NULL && strcmp(dot, ".safetensors") == 0)
        return shoali_safetensors_open(from, file_out);
    SHOALI_TRY(find_latest(from, folder));
    SHOALI_TRY(join(path, folder, "common.safetensors"));
    return shoali_safetensors_open(path, file_out);
}

static shoal_status read_number(const shoali_safetensors *file, const char *path, const char *key,
                                uint64_t *value_out)
{
    const char *text = shoali_safetensors_metadata(file, key);
    char *end = NULL;
    uint64_t value = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0')
        return shoali_fail(SHOAL_ECORRUPT, "%s: metadata lack a number for \"%s\"", path, key);
    *value_out = value;
    return SHOAL_OK;
}

static shoal_status read_optimiser(shoal_train *train, const shoali_safetensors *file)
{
    uint32_t slots = 0;
    float *state = shoali_optim_state(train->optim, &slots);
    size_t count = train->param_count;
    for (uint32_t slot = 0; slot < slots; slot++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "optimizer.%s", shoali_optim_slot_name(train->optim, slot));
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

static shoal_status load_weights(shoal_train *train, const shoali_safetensors *file)
{
    if (train->hybrid != NULL)
        return load_parts(train, file);
    for (uint32_t i = 0; i < train->tensor_count; i++)
        SHOALI_TRY(shoali_safetensors_read(file, shoal_model_tensor_name(train->model, i),
                                           train->params + train->tensors[i].offset,
                                           train->tensors[i].count));
    return SHOAL_OK;
}

static shoal_status load_common(shoal_train *train, const shoali_safetensors *file,
                                const char *path)
{
    uint64_t seed = 0;
    size_t state_count = 0;
    float *state = train->net != NULL ? shoali_net_state(train->net, &state_count) : NULL;
    const char *optimizer = shoali_safetensors_metadata(file, "optimizer");
    SHOALI_TRY(read_number(file, path, "step", &train->step));
    SHOALI_TRY(read_number(file, path, "seed", &seed));
    if (seed != train->desc.seed || optimizer == NULL ||
        strcmp(optimizer, shoali_optim_spec(train->optim)) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s was written with --seed %" PRIu64
                           " --optimizer %s; use the same to resume",
                           path, seed, optimizer != NULL ? optimizer : "?");
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
    if (train->comm == NULL || !number_after(name, "residual.", 16, &key))
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

static shoal_status load_rank(shoal_train *train, const shoali_safetensors *file, const char *path)
{
    uint64_t step = 0;
    size_t count = 0;
    const char *name;
    SHOALI_TRY(read_number(file, path, "step", &step));
    if (step != train->step)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s is of step %" PRIu64 ", the weights are of step %" PRIu64, path,
                           step, train->step);
    for (size_t i = 0; (name = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        SHOALI_TRY(read_residual(train, file, name, count));
    return has_optimiser(file) ? read_optimiser(train, file) : SHOAL_OK;
}

/* The file of this rank, where it has one and wants it. */
static shoal_status load_own(shoal_train *train, const char *folder, uint64_t workers)
{
    char path[PATH_BYTES];
    shoali_safetensors *file = NULL;
    if (workers != train->workers) {
        shoali_log(WARN,
                   "%s is of %" PRIu64
                   " workers, this run has %u: residuals of error feedback are dropped",
                   folder, workers, train->workers);
        return SHOAL_OK;
    }
    SHOALI_TRY(join_number(path, folder, "rank-", train->rank, ".safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &file));
    shoal_status status = load_rank(train, file, path);
    shoali_safetensors_close(file);
    return status;
}

static shoal_status load_from(shoal_train *train, const char *folder)
{
    char path[PATH_BYTES];
    uint64_t workers = 0;
    shoali_safetensors *file = NULL;
    SHOALI_TRY(join(path, folder, "common.safetensors"));
    SHOALI_TRY(shoali_safetensors_open(path, &file));
    shoal_status status = load_common(train, file, path);
    if (status == SHOAL_OK)
        status = read_number(file, path, "workers", &workers);
    if (status == SHOAL_OK && workers == train->workers)
        shoali_choice_resume(train, shoali_safetensors_metadata(file, "chosen_codec"));
    if (status == SHOAL_OK && has_optimiser(file) != !train->owner_used &&
        workers != train->workers)
        status = shoali_fail(SHOAL_EINVAL,
                             "%s is of %" PRIu64 " workers whose servers keep the optimiser's "
                             "state: this run has %u, use as many",
                             path, workers, train->workers);
    shoali_safetensors_close(file);
    return status == SHOAL_OK ? load_own(train, folder, workers) : status;
}

/* Whether this rank can read all that it needs of a checkpoint; why not is logged. */
static bool is_whole(const shoal_train *train, const char *folder)
{
    char path[2][PATH_BYTES];
    if (join(path[0], folder, "common.safetensors") != SHOAL_OK ||
        join_number(path[1], folder, "rank-", train->rank, ".safetensors") != SHOAL_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        shoali_safetensors *file = NULL;
        if (i == 1 && access(path[i], F_OK) != 0)
            continue; /* a run of fewer workers, or lost: loading says which */
        if (shoali_safetensors_open(path[i], &file) != SHOAL_OK) {
            shoali_log(WARN, "%s", shoal_last_error()->text);
            return false;
        }
        shoali_safetensors_close(file);
    }
    return true;
}

/* The checkpoint before the one that latest names; false: there is none. */
static bool find_older(const char *from, const char *latest, char folder[PATH_BYTES])
{
    char above[PATH_BYTES];
    const char *name = strrchr(latest, '/');
    uint64_t newest = 0, step = 0, best = 0;
    bool found = false;
    if (join(above, from, "checkpoints") != SHOAL_OK || name == NULL ||
        !number_after(name + 1, "step-", 10, &newest))
        return false;
    DIR *dir = opendir(above);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (number_after(entry->d_name, "step-", 10, &step) && step < newest &&
            (!found || step > best)) {
            best = step;
            found = true;
        }
    if (dir != NULL)
        closedir(dir);
    return found && join_number(folder, above, "step-", best, "") == SHOAL_OK;
}

/* The newest one that is whole on all ranks: the one named latest, or the one kept before it. */
shoal_status shoali_checkpoint_load(shoal_train *train)
{
    char newest[PATH_BYTES], older[PATH_BYTES];
    SHOALI_TRY(find_latest(train->desc.resume, newest));
    bool other = find_older(train->desc.resume, newest, older);
    float damaged[1] = {is_whole(train, newest) ? 0 : 1};
    if (train->membership == 0 && !train->server)
        SHOALI_TRY(shoali_train_reduce(train, damaged, 1, SHOAL_MAX, "checkpoint"));
    if (damaged[0] == 0 || !other)
        return load_from(train, newest);
    shoali_log(WARN, "%s is damaged on a rank: going on from %s", newest, older);
    return load_from(train, older);
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
        shoali_project(&projection, room, train->params + train->tensors[i].offset);
    }
    return SHOAL_OK;
}

static shoal_status start_from(shoal_train *train, const shoali_safetensors *file)
{
    const char *spec = shoali_safetensors_metadata(file, "model");
    shoal_model *from = NULL;
    size_t state_count = 0;
    float *state = shoali_net_state(train->net, &state_count);
    if (spec == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s: the checkpoint names no model", train->desc.start);
    SHOALI_TRY(shoal_model_open(spec, &from));
    float *room = shoali_alloc_array(from->param_count, sizeof *room);
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
    SHOALI_TRY(shoali_train_reduce(train, &arrived, 1, SHOAL_SUM, "start"));
    SHOALI_TRY(shoali_checkpoint_open(train->desc.start, &file));
    shoal_status status = start_from(train, file);
    shoali_safetensors_close(file);
    return status;
}
