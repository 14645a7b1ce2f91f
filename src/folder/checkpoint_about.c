/* SPDX-License-Identifier: Apache-2.0 */
#include "folder/checkpoint_about.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "model/model_text.h"
#include "worker/codec_choice.h"
#include "worker/together.h"

enum { NUMBER_BYTES = 24, OWNERS_BYTES = 512 };

static bool has_pixels(const shoali_dataset *dataset)
{
    return !dataset->sequences && dataset->ids == 0;
}

void shoali_channels_text(const shoali_dataset *dataset, bool deviation, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t c = 0; has_pixels(dataset) && c < dataset->channels && used < bytes; c++) {
        double value = deviation ? 1 / (double)dataset->inv_deviation[c] : (double)dataset->mean[c];
        used += (size_t)snprintf(out + used, bytes - used, "%s%.17g", c > 0 ? " " : "", value);
    }
}

static int set_number(json_t *about, const char *key, uint64_t value)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_object_set_new(about, key, json_string(text));
}

/* Where it is: workers other than these find the rest of the epoch by it. */
static int set_place(const shoal_train *train, uint64_t steps_done, json_t *about)
{
    uint64_t epoch, in_epoch;
    shoali_train_place(train, steps_done, &epoch, &in_epoch);
    return set_number(about, "step", steps_done) | set_number(about, "epoch", epoch) |
           set_number(about, "taken", shoali_sampler_taken(train->data.sampler, epoch, in_epoch));
}

static int set_model(const shoal_train *train, json_t *about)
{
    json_t *model = shoali_model_to_json(train->model);
    char *text = shoali_json_text(model, JSON_COMPACT);
    int bad = text != NULL ? json_object_set_new(about, "layers", json_string(text)) : -1;
    shoali_free(text);
    json_decref(model);
    return bad | json_object_set_new(about, "model", json_string(train->desc.model));
}

static int set_data(const shoal_train *train, json_t *about)
{
    char mean[SHOALI_CHANNELS_BYTES], deviation[SHOALI_CHANNELS_BYTES];
    shoali_channels_text(train->data.set, false, mean, sizeof mean);
    shoali_channels_text(train->data.set, true, deviation, sizeof deviation);
    int bad = set_number(about, "classes", train->data.set->classes);
    if (train->folder.data_sha256[0] != '\0') /* rank 0's alone */
        bad |= json_object_set_new(about, "data_sha256", json_string(train->folder.data_sha256));
    return mean[0] == '\0' ? bad
                           : bad | json_object_set_new(about, "mean", json_string(mean)) |
                                 json_object_set_new(about, "deviation", json_string(deviation));
}

void shoali_owners_text(const shoal_train *train, char *out, size_t bytes)
{
    enum { USUAL = 4 << 20 };
    const shoal_train_desc *d = &train->desc;
    const size_t bucket = d->bucket_bytes > 0 ? d->bucket_bytes : USUAL;
    snprintf(out, bytes, "--sync %s --collective %s --bucket %zu%s", d->sync, d->collective, bucket,
             train->hybrid != NULL ? " --plan" : "");
    if (d->bucket_bytes == SIZE_MAX)
        snprintf(out, bytes, "--sync %s --collective %s --bucket model", d->sync, d->collective);
}

/* Where the state of the optimiser is divided among ranks. */
static int set_owners(const shoal_train *train, json_t *about)
{
    char text[OWNERS_BYTES];
    shoal_view view = {.size = sizeof view};
    if (train->comm != NULL && shoal_comm_view(train->comm, &view) != SHOAL_OK)
        return -1;
    if (!train->update.owner_used && view.rank_count <= view.workers)
        return 0;
    shoali_owners_text(train, text, sizeof text);
    return json_object_set_new(about, "owners", json_string(text));
}

/* Which ranks have a file of their own beside this: workers that are there, and servers. */
static int set_ranks(const shoal_train *train, json_t *about)
{
    shoal_view view = {.size = sizeof view, .rank_count = train->workers};
    if (train->comm != NULL && shoal_comm_view(train->comm, &view) != SHOAL_OK)
        return -1;
    const uint32_t workers = train->desc.simulate > 0 ? 1 : train->members.count;
    const size_t most = (size_t)workers + view.rank_count - train->workers,
                 bytes = most * NUMBER_BYTES + 1;
    char *text = shoali_alloc(bytes);
    if (text == NULL)
        return -1;
    size_t used = 0;
    for (size_t i = 0; i < most; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i > 0 ? " " : "",
                                 i < workers ? train->members.ranks[i]
                                             : train->workers + (uint32_t)(i - workers));
    const int bad = json_object_set_new(about, "ranks", json_string(text));
    shoali_free(text);
    return bad;
}

static int set_metrics(const shoal_train *train, bool own, json_t *about)
{
    const shoali_metrics_at *at = &train->folder.marks.at;
    if (!own || at->bytes == 0)
        return 0;
    return json_object_set_new(about, "metrics", json_string(at->file)) |
           json_object_set_new(about, "metrics_sha256", json_string(at->sha256)) |
           set_number(about, "metrics_bytes", at->bytes);
}

json_t *shoali_about_make(const shoal_train *train, uint64_t steps_done, bool own)
{
    json_t *about = json_pack("{s:s, s:s, s:s*, s:s*}", "format", "shoal-1", "optimizer",
                              shoali_optim_spec(train->update.optim), "chosen_codec",
                              shoali_choice_made(train), "codec_ladder",
                              shoali_choice_ladder(train));
    if (about == NULL ||
        (set_place(train, steps_done, about) | set_model(train, about) | set_data(train, about) |
         set_ranks(train, about) | set_owners(train, about) | set_metrics(train, own, about) |
         set_number(about, "seed", train->desc.seed) |
         set_number(about, "workers", train->workers) | set_number(about, "steps", train->steps)) ==
            0)
        return about;
    json_decref(about);
    return NULL;
}

/* ------------------------------------------------------------------ reading */

shoal_status shoali_about_number(const shoali_safetensors *file, const char *path, const char *key,
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

void shoali_about_metrics(const shoali_safetensors *file, shoali_metrics_at *at_out)
{
    const char *name = shoali_safetensors_metadata(file, "metrics"),
               *digest = shoali_safetensors_metadata(file, "metrics_sha256"),
               *bytes = shoali_safetensors_metadata(file, "metrics_bytes");
    *at_out = (shoali_metrics_at){0};
    if (name == NULL || digest == NULL || bytes == NULL)
        return;
    at_out->bytes = strtoull(bytes, NULL, 10);
    snprintf(at_out->file, sizeof at_out->file, "%s", name);
    snprintf(at_out->sha256, sizeof at_out->sha256, "%s", digest);
}

shoal_status shoali_about_model(const shoali_safetensors *file, const char *path,
                                shoal_model **model_out)
{
    const char *layers = shoali_safetensors_metadata(file, "layers"),
               *spec = shoali_safetensors_metadata(file, "model");
    if (layers != NULL)
        return shoali_model_from_json(path, layers, model_out);
    *model_out = NULL;
    return spec != NULL ? shoal_model_open(spec, model_out) : SHOAL_OK;
}

/* One number per channel. */
static bool read_channels(const char *text, uint32_t channels, double *out)
{
    for (uint32_t c = 0; c < channels && text != NULL; c++) {
        char *end = NULL;
        out[c] = strtod(text, &end);
        if (end == text || !isfinite(out[c]))
            return false;
        text = end;
    }
    return text != NULL && *text == '\0';
}

shoal_status shoali_about_standardise(const shoali_safetensors *file, const char *path,
                                      const char *data, shoali_dataset *dataset)
{
    double mean[SHOALI_DATA_CHANNELS_MAX], deviation[SHOALI_DATA_CHANNELS_MAX];
    const char *means = shoali_safetensors_metadata(file, "mean"),
               *deviations = shoali_safetensors_metadata(file, "deviation");
    uint64_t classes = 0;
    if (shoali_safetensors_metadata(file, "classes") == NULL) {
        if (has_pixels(dataset))
            shoali_log(WARN,
                       "%s does not say how its samples were standardised: mean and "
                       "deviation are those of the train split in %s",
                       path, data);
        return SHOAL_OK;
    }
    SHOALI_TRY(shoali_about_number(file, path, "classes", &classes));
    if (dataset->classes > classes)
        return shoali_fail(SHOAL_EINVAL, "%s was trained on %" PRIu64 " classes, %s has %u", path,
                           classes, data, dataset->classes);
    if ((means != NULL && deviations != NULL) != has_pixels(dataset))
        return shoali_fail(SHOAL_EINVAL, "%s was trained on %s, %s has %s", path,
                           means != NULL ? "images" : "sequences or ids", data,
                           means != NULL ? "sequences or ids" : "images");
    if (means == NULL)
        return SHOAL_OK;
    bool good = read_channels(means, dataset->channels, mean) &&
                read_channels(deviations, dataset->channels, deviation);
    for (uint32_t c = 0; good && c < dataset->channels; c++)
        good = deviation[c] > 0;
    if (!good)
        return shoali_fail(SHOAL_EINVAL,
                           "%s holds mean \"%.64s\" and deviation \"%.64s\", which are not of the "
                           "%u channels in %s",
                           path, means, deviations, dataset->channels, data);
    for (uint32_t c = 0; c < dataset->channels; c++) {
        dataset->mean[c] = (float)mean[c];
        dataset->inv_deviation[c] = (float)(1 / deviation[c]);
    }
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ going on */

bool shoali_same_layers(const shoal_model *a, const shoal_model *b)
{
    if (a->layer_count != b->layer_count || a->input.channels != b->input.channels ||
        a->input.height != b->input.height || a->input.width != b->input.width)
        return false;
    for (uint32_t i = 0; i < a->layer_count; i++)
        if (strcmp(a->layers[i].spec, b->layers[i].spec) != 0)
            return false;
    return true;
}

static shoal_status check_model(const shoal_train *train, const shoali_safetensors *file,
                                const char *path)
{
    shoal_model *of = NULL;
    if (shoali_safetensors_metadata(file, "layers") == NULL)
        return SHOAL_OK; /* older: the tensors' names and sizes are all there is */
    SHOALI_TRY(shoali_about_model(file, path, &of));
    bool same = of != NULL && shoali_same_layers(of, train->model);
    shoal_model_close(of);
    if (same)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "%s is of model %s, whose layers are others "
                                      "than those of %s",
                                      path, shoali_safetensors_metadata(file, "model"),
                                      train->desc.model);
    shoali_error_advice("Leave the model out to go on with its own; --start begins a new run with "
                        "another's weights.");
    return status;
}

static shoal_status check_data(const shoal_train *train, const shoali_safetensors *file,
                               const char *path)
{
    const char *digest = shoali_safetensors_metadata(file, "data_sha256");
    if (digest == NULL || train->folder.data_sha256[0] == '\0' ||
        strcmp(digest, train->folder.data_sha256) == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "%s was trained on other samples than those "
                                      "in %s (SHA-256 %.12s..., now %.12s...)",
                                      path, train->desc.data, digest, train->folder.data_sha256);
    shoali_error_advice("--data names where they are now; --start begins a new run with its "
                        "weights on other samples.");
    return status;
}

shoal_status shoali_about_check(const shoal_train *train, const shoali_safetensors *file,
                                const char *path)
{
    uint64_t seed = 0;
    const char *optimizer = shoali_safetensors_metadata(file, "optimizer");
    SHOALI_TRY(shoali_about_number(file, path, "seed", &seed));
    if (seed != train->desc.seed || optimizer == NULL ||
        strcmp(optimizer, shoali_optim_spec(train->update.optim)) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s was written with --seed %" PRIu64
                           " --optimizer %s, this run has --seed %" PRIu64
                           " --optimizer %s; use the same to resume",
                           path, seed, optimizer != NULL ? optimizer : "?", train->desc.seed,
                           shoali_optim_spec(train->update.optim));
    SHOALI_TRY(check_model(train, file, path));
    return check_data(train, file, path);
}
