/* SPDX-License-Identifier: Apache-2.0 */
/* A net as files: in fixed point, as C code, its tables, and the same words as safetensors; in
 * float32 as ONNX. */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/plain_file.h"
#include "deploy/deploy.h"
#include "folder/checkpoint_about.h"
#include "model/export_onnx.h"
#include "model/model.h"
#include "nn/fixed_text.h"

enum { PATH_BYTES = 4096, ABOUT_BYTES = 512 };

static shoal_status check_name(const char *name)
{
    bool good = isalpha((unsigned char)name[0]) && strlen(name) <= 64;
    for (const char *c = name; *c != '\0'; c++)
        good = good && (isalnum((unsigned char)*c) || *c == '_');
    return good ? SHOAL_OK
                : shoali_fail(SHOAL_EINVAL,
                              "'%s' is no name for C: a letter, then letters, digits and _", name);
}

static shoal_status path_of(char out[PATH_BYTES], const char *dir, const char *name,
                            const char *suffix)
{
    if (snprintf(out, PATH_BYTES, "%s/%s%s", dir, name, suffix) < PATH_BYTES)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
}

static shoal_status write_c(const shoal_deploy *d, const char *dir, const char *name, bool weights)
{
    char path[PATH_BYTES], about[ABOUT_BYTES];
    shoali_new_file file;
    const uint32_t frames = d->train->model->sequence ? d->train->info.input.height : 1;
    SHOALI_TRY(path_of(path, dir, name, weights ? "_weights.h" : ".h"));
    SHOALI_TRY(shoali_new_file_open(path, &file));
    snprintf(about, sizeof about, "model %s", d->train->info.name);
    if (weights)
        shoali_fixed_write_weights(file.file, d->fixed, name);
    else
        shoali_fixed_write_code(file.file, d->fixed, name, about, frames);
    return shoali_new_file_commit(&file);
}

/* ---------------------------------------------------------------- safetensors */

typedef struct list {
    shoal_arena *arena;
    json_t *about;
    shoali_named_tensor *items;
    size_t count;
} list;

/* One table and, of a matrix, how to read it. */
static shoal_status add(list *l, const char *name, const int16_t *words, size_t count,
                        uint32_t rows, const char *text)
{
    char *kept = shoali_arena_strdup(l->arena, name);
    if (kept == NULL || json_object_set_new(l->about, name, json_string(text)) != 0)
        return SHOAL_ENOMEM;
    l->items[l->count++] = (shoali_named_tensor){
        .name = kept, .words = words, .count = count, .rows = rows};
    return SHOAL_OK;
}

static shoal_status add_matrix(list *l, const char *name, const shoali_fixed_matrix *m)
{
    char text[256];
    int at = snprintf(text, sizeof text, "rows=%u cols=%u block=%u shift=", m->rows, m->cols,
                      m->block);
    for (uint32_t bin = 0; bin <= m->block / 2; bin++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%u", bin > 0 ? "/" : "",
                       m->shift[bin]);
    const size_t count = shoali_fixed_weights(m);
    return add(l, name, m->w, count, (uint32_t)(count / m->block), text);
}

static shoal_status add_vectors(list *l, const shoal_deploy *d, uint32_t i)
{
    static const char *const names[] = {"bias", "back_bias", "peephole", "back_peephole"};
    const shoali_fixed_layer *layer = &d->fixed->layers[i];
    const char *of = d->train->model->layers[d->fixed->sources[i]].name;
    const bool with_cells = layer->kind == SHOALI_FIXED_LSTM || layer->kind == SHOALI_FIXED_GRU;
    char name[96], text[64];
    snprintf(text, sizeof text, "frac=%u", layer->out_frac);
    snprintf(name, sizeof name, "%s.bias", of);
    if (layer->bias != NULL)
        return add(l, name, layer->bias, layer->matrix.rows, 0, text);
    for (uint32_t c = 0; with_cells && c < 2 && c < layer->directions; c++) {
        const shoali_fixed_cells *cells = &layer->cells[c];
        snprintf(text, sizeof text, "frac=%u", d->fixed->net.bits - SHOALI_FIXED_GATE);
        snprintf(name, sizeof name, "%s.%s", of, names[c]);
        SHOALI_TRY(add(l, name, cells->bias,
                       (layer->kind == SHOALI_FIXED_GRU ? 3 : 4) * (size_t)cells->count, 0, text));
        if (cells->peephole == NULL)
            continue;
        snprintf(text, sizeof text, "shift=%u", cells->peephole_shift);
        snprintf(name, sizeof name, "%s.%s", of, names[2 + c]);
        SHOALI_TRY(add(l, name, cells->peephole, 3 * (size_t)cells->count, 0, text));
    }
    return SHOAL_OK;
}

static shoal_status fill(const shoal_deploy *d, list *l)
{
    char name[96];
    uint32_t places;
    const shoali_fixed_matrix *m;
    for (uint32_t i = 0; (m = shoali_deploy_matrix(d, i, name, &places)) != NULL; i++)
        SHOALI_TRY(add_matrix(l, name, m));
    for (uint32_t i = 0; i < d->fixed->net.count; i++)
        SHOALI_TRY(add_vectors(l, d, i));
    return SHOAL_OK;
}

static shoal_status write_safetensors(const shoal_deploy *d, const char *dir, const char *name)
{
    char path[PATH_BYTES], bits[16], in[16], out[16];
    SHOALI_TRY(path_of(path, dir, name, ".safetensors"));
    snprintf(bits, sizeof bits, "%u", d->fixed->net.bits);
    snprintf(in, sizeof in, "%u", d->fixed->in_frac);
    snprintf(out, sizeof out, "%u", d->fixed->out_frac);
    list l = {.arena = shoali_arena_create(4096),
              .about = json_pack("{s:s, s:s, s:s, s:s, s:s}", "format", "shoal-fixed-1", "model",
                                 d->train->desc.model, "bits", bits, "in_frac", in, "out_frac",
                                 out)};
    const size_t most = (size_t)d->fixed->net.count * 10;
    l.items = l.arena != NULL ? shoali_arena_array(l.arena, most, sizeof *l.items) : NULL;
    shoal_status status = l.items != NULL && l.about != NULL ? fill(d, &l) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = shoali_safetensors_write(path, l.items, l.count, l.about);
    json_decref(l.about);
    shoali_arena_destroy(l.arena);
    return status;
}

shoal_status shoal_deploy_export(shoal_deploy *d, uint32_t bits, const char *dir, const char *name)
{
    SHOALI_TRY(check_name(name));
    SHOALI_TRY(shoali_deploy_fix(d, bits));
    SHOALI_TRY(shoali_plain_folder(dir));
    SHOALI_TRY(write_c(d, dir, name, false));
    SHOALI_TRY(write_c(d, dir, name, true));
    return write_safetensors(d, dir, name);
}

/* ---------------------------------------------------------------- ONNX */

shoal_status shoal_deploy_onnx(const shoal_deploy *d, const char *path)
{
    static const char *const keys[] = {"model", "mean", "deviation", NULL};
    size_t count = 0;
    char mean[SHOALI_CHANNELS_BYTES], deviation[SHOALI_CHANNELS_BYTES];
    const char *const values[] = {d->train->info.name, mean, deviation};
    if (path == NULL || *path == '\0')
        return shoali_fail(SHOAL_EINVAL, "shoal_deploy_onnx: which file?");
    shoali_channels_text(d->train->data.set, false, mean, sizeof mean);
    shoali_channels_text(d->train->data.set, true, deviation, sizeof deviation);
    const float *state = shoali_net_state(d->train->net, &count);
    return shoali_onnx_write(path, d->train->model, d->train->params, state,
                             &(shoali_onnx_about){keys, values});
}
