/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients as they leave the backward pass, in files, for whoever wants to know what a codec makes
 * of them: `shoal train --dump-gradients`, `shoal bench codec --input`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/plain_file.h"
#include "files/safetensors.h"
#include "folder/written.h"

enum { PATH_BYTES = 4096 };

bool shoali_gradients_due(const shoal_train *train)
{
    return train->desc.dump_gradients != NULL && train->rank == 0 &&
           (train->step == 0 || (train->step + 1) % train->desc.dump_every == 0);
}

static bool holds_dumps(const char *folder)
{
    bool any = false;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && !any && (e = readdir(dir)) != NULL;)
        any = strncmp(e->d_name, "step-", 5) == 0;
    if (dir != NULL)
        closedir(dir);
    return any;
}

shoal_status shoali_gradients_begin(shoal_train *train)
{
    const char *folder = train->desc.dump_gradients;
    if (folder == NULL || train->rank != 0)
        return SHOAL_OK;
    SHOALI_TRY(shoali_make_folders(folder));
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", folder);
    train->folder.dump_lock = fd + 1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return shoali_fail(SHOAL_EINVAL, "another run dumps its gradients into %s", folder);
    if (train->desc.resume != NULL || train->members.epoch > 0 || !holds_dumps(folder))
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s holds gradients of another run", folder);
    shoali_error_advice("Take another folder for --dump-gradients, or remove them.");
    return status;
}

void shoali_gradients_end(shoal_train *train)
{
    if (train->folder.dump_lock > 0)
        close(train->folder.dump_lock - 1);
    train->folder.dump_lock = 0;
}

static shoal_status write_step(const shoal_train *train, const char *path,
                               shoali_named_tensor *tensors)
{
    const float *grads = shoali_net_grads(train->net);
    char step[24];
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        const shoal_tensor *t = &train->tensors[i];
        tensors[i] = (shoali_named_tensor){.name = shoal_model_tensor_name(train->model, i),
                                           .data = grads + t->offset,
                                           .count = t->count,
                                           .rows = t->rows};
    }
    snprintf(step, sizeof step, "%" PRIu64, train->step + 1);
    json_t *about = json_pack("{s:s, s:s, s:s}", "format", "shoal-gradients-1", "step", step,
                              "model", train->desc.model);
    shoal_status status = about != NULL
                              ? shoali_safetensors_write(path, tensors, train->tensor_count, about)
                              : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    json_decref(about);
    return status;
}

shoal_status shoali_gradients_dump(const shoal_train *train)
{
    const char *folder = train->desc.dump_gradients;
    char path[PATH_BYTES];
    SHOALI_TRY(shoali_plain_folder(folder));
    if ((size_t)snprintf(path, sizeof path, "%s/step-%06" PRIu64 ".safetensors", folder,
                         train->step + 1) >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "path of gradients is too long: %s", folder);
    shoali_named_tensor *tensors = shoali_alloc_array(train->tensor_count, sizeof *tensors);
    if (tensors == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = write_step(train, path, tensors);
    shoali_free(tensors);
    return status;
}

/* ------------------------------------------------------------------ reading */

typedef struct entry {
    const char *name; /* the file's */
    float *values;
    size_t count;
} entry;

struct shoal_gradients {
    shoali_safetensors *file;
    shoal_arena *arena;
    entry *entries;
    uint32_t count;
};

static shoal_status read_all(shoal_gradients *g)
{
    size_t count;
    while (shoali_safetensors_name(g->file, g->count, &count) != NULL)
        g->count++;
    g->entries = shoali_arena_array(g->arena, (size_t)g->count + 1, sizeof *g->entries);
    if (g->entries == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < g->count; i++) {
        entry *e = &g->entries[i];
        e->name = shoali_safetensors_name(g->file, i, &e->count);
        e->values = shoali_arena_array(g->arena, e->count + 1, sizeof *e->values);
        if (e->values == NULL)
            return SHOAL_ENOMEM;
        SHOALI_TRY(shoali_safetensors_read(g->file, e->name, e->values, e->count));
    }
    return SHOAL_OK;
}

shoal_status shoal_gradients_open(const char *path, shoal_gradients **gradients_out)
{
    if (path == NULL || gradients_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_gradients_open: NULL argument");
    shoal_gradients *g = shoali_alloc(sizeof *g);
    if (g == NULL)
        return SHOAL_ENOMEM;
    g->arena = shoali_arena_create(1 << 16);
    shoal_status status = g->arena != NULL ? shoali_safetensors_open(path, &g->file) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = read_all(g);
    if (status != SHOAL_OK) {
        shoal_gradients_close(g);
        return status;
    }
    *gradients_out = g;
    return SHOAL_OK;
}

const float *shoal_gradients_at(const shoal_gradients *gradients, uint32_t i, const char **name_out,
                                size_t *count_out)
{
    if (i >= gradients->count)
        return NULL;
    *name_out = gradients->entries[i].name;
    *count_out = gradients->entries[i].count;
    return gradients->entries[i].values;
}

void shoal_gradients_close(shoal_gradients *gradients)
{
    if (gradients == NULL)
        return;
    shoali_safetensors_close(gradients->file);
    shoali_arena_destroy(gradients->arena);
    shoali_free(gradients);
}
