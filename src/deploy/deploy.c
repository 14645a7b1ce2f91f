/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint on the test split, in float32 and in fixed point. A trainer that never steps brings
 * model, data and net. */
#include "deploy/deploy.h"
#include "folder/checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/new_file.h"
#include "files/weights.h"
#include "files/weights_hf.h"
#include "folder/checkpoint_about.h"
#include "folder/run_file.h"
#include "model/import_model.h"
#include "model/model.h"
#include "train/train.h"

/* ---------------------------------------------------------------- opening */

static bool has(const shoali_safetensors *file, const char *name)
{
    const char *found;
    size_t count = 0;
    for (size_t i = 0; (found = shoali_safetensors_name(file, i, &count)) != NULL; i++)
        if (strcmp(found, name) == 0)
            return true;
    return false;
}

/* Of the average, where the run kept one: it is what the run tested, too. */
static shoal_status read_weights(shoal_train *train, const shoali_safetensors *file,
                                 const char *from)
{
    size_t state_count = 0;
    float *state = shoali_net_state(train->net, &state_count);
    if (shoali_weights_are_foreign(file))
        return shoali_weights_read(from, file, train->model, train->params, state, NULL);
    for (uint32_t i = 0; i < train->tensor_count; i++)
        SHOALI_TRY(shoali_safetensors_read(file, shoal_model_tensor_name(train->model, i),
                                           train->params + train->tensors[i].offset,
                                           train->tensors[i].count));
    static const char average[] = "optimizer." SHOALI_OPTIM_AVERAGE;
    if (has(file, average))
        SHOALI_TRY(shoali_safetensors_read(file, average, train->params, train->param_count));
    return state_count > 0 ? shoali_safetensors_read(file, "batchnorm.state", state, state_count)
                           : SHOAL_OK;
}

static shoal_status open_parts(shoal_deploy *d, const shoali_safetensors *file, const char *data)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    const char *json = d->desc.model == NULL ? shoali_safetensors_metadata(file, "layers") : NULL;
    desc.model = d->desc.model != NULL ? d->desc.model : shoali_safetensors_metadata(file, "model");
    desc.data = data;
    desc.batch = d->desc.batch;
    desc.no_exchange = true;
    if (desc.model == NULL)
        return shoali_fail(SHOAL_EINVAL, "%s does not say of which model it is; name it",
                           d->desc.from);
    SHOALI_TRY(shoali_train_create_as(NULL, &desc, json, &d->train));
    SHOALI_TRY(shoali_about_standardise(file, d->desc.from, desc.data, d->train->data.set));
    const uint32_t layers = d->train->model->layer_count;
    d->most = shoali_arena_array(d->train->arena, layers + 1u, sizeof *d->most);
    return d->most != NULL ? read_weights(d->train, file, d->desc.from) : SHOAL_ENOMEM;
}

/* Where the run's own data set is. */
static shoal_status open_with_its_data(shoal_deploy *d, const shoali_safetensors *file)
{
    json_t *run = NULL;
    if (shoali_checkpoint_is_file(d->desc.from))
        return shoali_fail(SHOAL_EINVAL,
                           "on which data? %s alone does not say; its run folder does",
                           d->desc.from);
    SHOALI_TRY(shoali_run_file_read(d->desc.from, &run));
    const char *path = json_string_value(json_object_get(json_object_get(run, "data"), "path"));
    shoal_status status = path != NULL ? open_parts(d, file, path)
                                       : shoali_fail(SHOAL_ECORRUPT, "%s/run.json names no data",
                                                     d->desc.from);
    json_decref(run);
    return status;
}

/* A model and its weights in a file of another tool's. */
static shoal_status open_onnx(shoal_deploy *d)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    size_t count = 0;
    desc.model = d->desc.model != NULL ? d->desc.model : d->desc.from;
    desc.data = d->desc.data;
    desc.batch = d->desc.batch;
    desc.no_exchange = true;
    if (desc.data == NULL)
        return shoali_fail(SHOAL_EINVAL, "on which data? %s does not say", d->desc.from);
    SHOALI_TRY(shoali_train_create_as(NULL, &desc, NULL, &d->train));
    shoal_train *train = d->train;
    d->most = shoali_arena_array(train->arena, train->model->layer_count + 1u, sizeof *d->most);
    return d->most == NULL ? SHOAL_ENOMEM
                           : shoali_onnx_read_weights(d->desc.from, train->model, train->params,
                                                      shoali_net_state(train->net, &count));
}

shoal_status shoal_deploy_open(const shoal_deploy_desc *desc, shoal_deploy **deploy_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->from == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_deploy_desc: size is not sizeof, or from is "
                                         "missing; start from SHOAL_DEPLOY_DESC_INIT");
    shoali_safetensors *file = NULL;
    const bool onnx = shoali_checkpoint_is_onnx(desc->from);
    if (!onnx)
        SHOALI_TRY(shoali_checkpoint_open(desc->from, &file));
    shoal_deploy *d = shoali_alloc(sizeof *d);
    shoal_status status = d != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        d->desc = *desc;
        d->desc.batch = desc->batch > 0 ? desc->batch : 16;
        d->desc.calibrate = desc->calibrate > 0 ? desc->calibrate : 64;
        status = onnx                 ? open_onnx(d)
                 : desc->data != NULL ? open_parts(d, file, desc->data)
                                      : open_with_its_data(d, file);
    }
    shoali_safetensors_close(file);
    if (status == SHOAL_OK)
        *deploy_out = d;
    else
        shoal_deploy_close(d);
    return status;
}

void shoal_deploy_close(shoal_deploy *d)
{
    if (d == NULL)
        return;
    shoali_fixed_destroy(d->fixed);
    shoal_train_destroy(d->train);
    shoali_free(d);
}

/* ---------------------------------------------------------------- samples */

static shoali_batch fill(shoal_deploy *d, const shoali_split *split, uint32_t at, uint32_t end)
{
    shoal_train *t = d->train;
    const uint32_t count = end - at < t->data.test_batch ? end - at : t->data.test_batch;
    for (uint32_t i = 0; i < count; i++)
        t->data.order[i] = at + i;
    shoali_train_fill(t, split, t->data.order, count, 0, &t->data.test_crop);
    return (shoali_batch){.x = t->data.x,
                          .labels = t->data.labels,
                          .count = count,
                          .weight = 1,
                          .lengths = t->data.lengths};
}

static shoal_status calibrate(shoal_deploy *d)
{
    const shoali_split *split = &d->train->data.set->train;
    const uint32_t end = d->desc.calibrate < split->count ? d->desc.calibrate : split->count;
    for (uint32_t at = 0; at < end;) {
        const shoali_batch batch = fill(d, split, at, end);
        SHOALI_TRY(shoali_net_magnitudes(d->train->net, &batch, d->most));
        at += batch.count;
    }
    d->calibrated = true;
    return SHOAL_OK;
}

shoal_status shoali_deploy_fix(shoal_deploy *d, uint32_t bits)
{
    if (d->fixed != NULL && d->fixed->net.bits == bits)
        return SHOAL_OK;
    if (!d->calibrated)
        SHOALI_TRY(calibrate(d));
    shoali_fixed_destroy(d->fixed);
    d->fixed = NULL;
    return shoali_fixed_create(d->train->model, d->train->params, bits, d->most, &d->fixed);
}

/* ---------------------------------------------------------------- fixed point */

/* Memory of one sample at a time. */
typedef struct run {
    shoal_arena *arena;
    uint32_t frames; /* of the longest sample */
    int16_t *x, *y, *halves;
    int32_t *words;
    float *scores; /* of a batch */
} run;

static shoal_status open_run(const shoal_deploy *d, run *r)
{
    const shoali_fixed_model *f = d->fixed;
    uint64_t words = 0, halves = 0;
    *r = (run){.arena = shoali_arena_create(1 << 16),
               .frames = d->train->model->sequence ? d->train->info.input.height : 1};
    if (r->arena == NULL)
        return SHOAL_ENOMEM;
    shoali_fixed_sizes(&f->net, r->frames, &words, &halves);
    r->x = shoali_arena_array(r->arena, (size_t)r->frames * f->in, sizeof *r->x);
    r->y = shoali_arena_array(r->arena, (size_t)r->frames * f->out, sizeof *r->y);
    r->words = shoali_arena_array(r->arena, words, sizeof *r->words);
    r->halves = shoali_arena_array(r->arena, halves, sizeof *r->halves);
    r->scores = shoali_arena_array(r->arena, (size_t)d->train->data.test_batch * r->frames * f->out,
                                   sizeof *r->scores);
    return r->x == NULL || r->y == NULL || r->words == NULL || r->halves == NULL ||
                   r->scores == NULL
               ? SHOAL_ENOMEM
               : SHOAL_OK;
}

static void run_batch(const shoal_deploy *d, const run *r, const shoali_batch *batch)
{
    const shoali_fixed_model *f = d->fixed;
    const float unit = ldexpf(1, -(int)f->out_frac);
    for (uint32_t n = 0; n < batch->count; n++) {
        const uint32_t frames = batch->lengths != NULL ? batch->lengths[n] : r->frames;
        shoali_fixed_quantise(batch->x + (size_t)n * r->frames * f->in, (size_t)frames * f->in,
                              f->in_frac, f->net.bits, r->x);
        shoali_fixed_reset(&f->net, r->words, r->halves);
        shoali_fixed_run(&f->net, r->x, frames, r->y, r->words, r->halves);
        float *scores = r->scores + (size_t)n * r->frames * f->out;
        for (size_t i = 0; i < (size_t)frames * f->out; i++)
            scores[i] = (float)r->y[i] * unit;
    }
}

/* ---------------------------------------------------------------- evaluation */

static shoal_status run_split(shoal_deploy *d, const run *fixed, shoali_loss *all)
{
    const shoali_split *split = &d->train->data.set->test;
    uint32_t end = split->count;
    if (d->desc.samples > 0 && d->desc.samples < end)
        end = d->desc.samples;
    for (uint32_t at = 0; at < end;) {
        const shoali_batch batch = fill(d, split, at, end);
        shoali_loss loss;
        if (fixed != NULL) {
            run_batch(d, fixed, &batch);
            SHOALI_TRY(shoali_net_judge(d->train->net, &batch, fixed->scores, &loss));
        } else {
            SHOALI_TRY(shoali_net_evaluate(d->train->net, &batch, &loss));
        }
        all->sum += loss.sum;
        all->correct += loss.correct;
        all->count += loss.count;
        all->labels += loss.labels;
        all->symbols += loss.symbols;
        all->edits += loss.edits;
        at += batch.count;
    }
    return SHOAL_OK;
}

shoal_status shoal_deploy_evaluate(shoal_deploy *d, uint32_t bits, shoal_deploy_result *result_out)
{
    shoali_loss all = {0};
    run fixed = {0};
    shoal_status status = SHOAL_OK;
    if (bits > 0) {
        SHOALI_TRY(shoali_deploy_fix(d, bits));
        status = open_run(d, &fixed);
    }
    if (status == SHOAL_OK)
        status = run_split(d, bits > 0 ? &fixed : NULL, &all);
    shoali_arena_destroy(fixed.arena);
    if (status != SHOAL_OK)
        return status;
    if (all.count == 0)
        return shoali_fail(SHOAL_EINVAL, "no test samples in %s", d->train->desc.data);
    bool errors = all.symbols > 0 && !d->train->data.set->tokens;
    *result_out = (shoal_deploy_result){
        .size = sizeof *result_out,
        .samples = all.count,
        .labels = all.labels,
        .loss = all.sum / all.count,
        .accuracy = 100.0 * all.correct / all.labels,
        .symbols = errors ? all.symbols : 0,
        .edits = errors ? all.edits : 0,
        .symbol_error_rate = errors ? 100.0 * all.edits / all.symbols : (double)NAN,
        .bits_per_byte = d->train->model->masked
                             ? (double)NAN
                             : shoali_dataset_bits_per_byte(d->train->data.set,
                                                            &d->train->data.set->test, all.count,
                                                            all.sum / all.count)};
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- as others read it */

static shoal_status write_config(const shoal_deploy *d, const shoali_hf_view *view,
                                 const char *folder)
{
    char path[PATH_MAX];
    if (view->family == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: a folder with config.json is for models of %s, which model %s is "
                           "not; name a file",
                           folder, shoali_hf_families(), d->train->info.name);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the folder %s", folder);
    if ((size_t)snprintf(path, sizeof path, "%sconfig.json", folder) >= sizeof path - 32)
        return shoali_fail(SHOAL_EINVAL, "%.64s...: a path that is too long", folder);
    return shoali_hf_config(view, path);
}

static shoal_status write_folder(const shoal_deploy *d, const char *folder)
{
    char path[PATH_MAX];
    shoali_hf_view view;
    SHOALI_TRY(shoali_hf_open(d->train->model, &view));
    const shoal_status status = write_config(d, &view, folder);
    shoali_hf_close(&view);
    if (status != SHOAL_OK)
        return status;
    snprintf(path, sizeof path, "%smodel.safetensors", folder);
    return shoal_deploy_weights(d, path);
}

shoal_status shoal_deploy_weights(const shoal_deploy *d, const char *path)
{
    size_t count = 0;
    char target[PATH_MAX];
    if (path == NULL || *path == '\0')
        return shoali_fail(SHOAL_EINVAL, "shoal_deploy_weights: which file?");
    if (path[strlen(path) - 1] == '/')
        return write_folder(d, path);
    SHOALI_TRY(shoali_new_file_target(path, target));
    const float *state = shoali_net_state(d->train->net, &count);
    return shoali_weights_write(target, d->train->model, d->train->params, state);
}

/* ---------------------------------------------------------------- as hardware sees it */

static const char *const roles[2][2][3] = {
    {{"input", "recurrent", "project"}, {"back_input", "back_recurrent", "back_project"}},
    {{"input", "recurrent", "candidate"}, {"back_input", "back_recurrent", "back_candidate"}}};

/* Matrix i of one layer, and its role in the model's tensors. */
static const shoali_fixed_matrix *matrix_of(const shoali_fixed_layer *layer, uint32_t i,
                                            const char **role_out)
{
    const bool gru = layer->kind == SHOALI_FIXED_GRU;
    *role_out = "weight";
    if (layer->kind == SHOALI_FIXED_MATRIX || layer->kind == SHOALI_FIXED_CONV)
        return i == 0 ? &layer->matrix : NULL;
    if ((!gru && layer->kind != SHOALI_FIXED_LSTM) || i >= 3u * layer->directions)
        return NULL;
    const shoali_fixed_cells *l = &layer->cells[i / 3];
    *role_out = roles[gru][i / 3][i % 3];
    return i % 3 == 0 ? &l->x : i % 3 == 1 ? &l->r : &l->p;
}

const shoali_fixed_matrix *shoali_deploy_matrix(const shoal_deploy *d, uint32_t i,
                                                char name_out[96], uint32_t *places_out)
{
    for (uint32_t l = 0; d->fixed != NULL && l < d->fixed->net.count; l++) {
        const char *role, *layer = d->train->model->layers[d->fixed->sources[l]].name;
        const shoali_fixed_window *window = &d->fixed->layers[l].window;
        const shoali_fixed_matrix *m;
        *places_out = window->kernel > 0 ? window->out_height * window->out_width : 1;
        for (uint32_t j = 0; (m = matrix_of(&d->fixed->layers[l], j, &role)) != NULL; j++) {
            if (m->rows == 0 || i-- > 0)
                continue;
            snprintf(name_out, 96, "%s.%s", layer, role);
            return m;
        }
    }
    return NULL;
}

bool shoal_deploy_matrix_of(const shoal_deploy *d, uint32_t i, shoal_deploy_matrix *matrix_out)
{
    shoal_deploy_matrix out = {.size = sizeof out};
    const shoali_fixed_matrix *m = shoali_deploy_matrix(d, i, out.name, &out.places);
    if (m == NULL)
        return false;
    const uint32_t k = m->block;
    out.rows = m->rows;
    out.cols = m->cols;
    out.block = k;
    out.block_rows = (m->rows + k - 1) / k;
    out.block_cols = (m->cols + k - 1) / k;
    out.block_products = (uint64_t)out.block_rows * out.block_cols;
    out.weights = out.block_products * k;
    out.multipliers = k > 1 ? 2 * k - 2 : 1;
    *matrix_out = out;
    return true;
}

uint64_t shoal_deploy_cycles(const shoal_deploy_matrix *matrix, uint32_t elements, uint32_t latency)
{
    const uint64_t e = elements > 0 ? elements : 1;
    const uint64_t once = (matrix->block_products + e - 1) / e;
    return once * (matrix->places > 0 ? matrix->places : 1) + matrix->block_cols + latency;
}
