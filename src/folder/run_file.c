/* SPDX-License-Identifier: Apache-2.0 */
#include "folder/run_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "files/checkpoint_folder.h"
#include "files/digest.h"
#include "folder/checkpoint_about.h"
#include "folder/written.h"
#include "model/model_text.h"
#include "shoal/version.h"

/* ------------------------------------------------------------------ options */

/* Values are texts as the command takes them, switches are true. NULL: it has none. */
static void put(json_t *options, const char *name, const char *value)
{
    if (value != NULL)
        json_object_set_new(options, name, json_string(value));
}

static void put_count(json_t *options, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    if (value > 0)
        put(options, name, text);
}

static void put_real(json_t *options, const char *name, double value)
{
    char text[32];
    for (int digits = 6; digits <= 17; digits++) { /* as short as it can be */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (value > 0)
        put(options, name, text);
}

static void put_switch(json_t *options, const char *name, bool on)
{
    if (on)
        json_object_set_new(options, name, json_true());
}

/* No path is relative to the folder that somebody was in. */
static void put_path(json_t *options, const char *name, const char *path)
{
    char here[SHOALI_PATH_BYTES], whole[SHOALI_PATH_BYTES];
    if (path == NULL || path[0] == '/' || getcwd(here, sizeof here) == NULL ||
        shoali_path_join(whole, here, path) != SHOAL_OK)
        put(options, name, path);
    else if (realpath(path, here) != NULL)
        put(options, name, here);
    else
        put(options, name, whole); /* what is not made yet has no real path */
}

static void put_batch(json_t *options, const shoal_train_desc *d)
{
    char text[24];
    snprintf(text, sizeof text, "%s%u", d->batch_auto ? "auto:" : "", d->batch);
    put(options, "batch", text);
}

static void put_exchange(const shoal_train_desc *d, json_t *o)
{
    if (d->bucket_bytes == SIZE_MAX)
        put(o, "bucket", "model");
    else
        put_count(o, "bucket", d->bucket_bytes);
    put(o, "check-every", d->check_every == UINT32_MAX ? "0" : NULL);
    if (d->check_every != UINT32_MAX)
        put_count(o, "check-every", d->check_every);
    put_count(o, "tos", d->tos);
    put_switch(o, "no-overlap", d->no_overlap);
}

static void put_own(const shoal_train *train, json_t *o)
{
    const shoal_train_desc *d = &train->desc;
    put(o, "model", d->model);
    put_path(o, "data", d->data);
    put_path(o, "plan", d->plan);
    put(o, "sync", d->sync);
    put(o, "collective", d->collective);
    put(o, "codec", d->codec);
    put(o, "optimizer", d->optimizer);
    put(o, "schedule", d->schedule);
    put_real(o, "lr", d->lr);
    put(o, "augment", d->augment);
    put_real(o, "clip-norm", d->clip_norm);
    put_real(o, "label-smoothing", d->label_smoothing);
    put_batch(o, d);
    put_count(o, "epochs", d->epochs);
    put_count(o, "steps", d->max_steps);
    put_count(o, "seed", d->seed);
    put_count(o, d->simulate > 0 ? "simulate" : "workers", train->workers);
    put(o, "nonfinite", d->nonfinite == SHOAL_NONFINITE_SKIP ? "skip" : "stop");
    put_count(o, "checkpoint-every", d->checkpoint_every);
    if (!d->no_evaluation)
        put_count(o, "eval-every", d->evaluate_every);
    put_real(o, "compute-ms", d->compute_ms);
    put_path(o, "dump-gradients", d->dump_gradients);
    if (d->dump_gradients != NULL)
        put_count(o, "dump-every", d->dump_every);
    put(o, "on-loss", d->reform ? "reform" : "stop");
    put_switch(o, "no-exchange", d->no_exchange);
    put_switch(o, "no-eval", d->no_evaluation);
    if (!d->no_exchange && d->simulate == 0) /* else they say nothing, and are refused */
        put_exchange(d, o);
}

/* Those of the caller, and over them what this run makes of its desc. */
static shoal_status make_options(const shoal_train *train, json_t **options_out)
{
    const char *text = train->desc.options;
    json_t *options = text == NULL ? json_object() : NULL;
    if (text != NULL)
        SHOALI_TRY(shoali_json_parse("shoal_train_desc.options", text, strlen(text), &options));
    if (!json_is_object(options)) {
        json_decref(options);
        return shoali_fail(SHOAL_EINVAL, "shoal_train_desc.options is no JSON object");
    }
    put_own(train, options);
    *options_out = options;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ writing */

static json_t *describe_model(const shoal_train *train)
{
    json_t *model = shoali_model_to_json(train->model);
    if (model == NULL)
        return NULL;
    json_object_set_new(model, "spec", json_string(train->desc.model));
    json_object_set_new(model, "params", json_integer((json_int_t)train->info.param_count));
    json_object_set_new(model, "classes", json_integer(train->info.classes));
    return model;
}

static json_t *describe_data(const shoal_train *train)
{
    const shoali_dataset *d = train->data.set;
    json_t *mean = json_array(), *deviation = json_array();
    bool images = !d->sequences && d->ids == 0;
    for (uint32_t c = 0; images && c < d->channels; c++) {
        json_array_append_new(mean, json_real((double)d->mean[c]));
        json_array_append_new(deviation, json_real(1 / (double)d->inv_deviation[c]));
    }
    json_t *data = json_pack("{s:s, s:i, s:i, s:i, s:s, s:o, s:o}", "format", d->format, "train",
                             (int)d->train.count, "test", (int)d->test.count, "classes",
                             (int)d->classes, "sha256", train->folder.data_sha256, "mean", mean,
                             "deviation", deviation);
    if (data != NULL)
        put_path(data, "path", train->desc.data);
    return data;
}

static json_t *describe_cluster(const shoal_train *train)
{
    shoal_view view = {
        .size = sizeof view, .workers = train->workers, .rank_count = train->workers};
    char host[65] = "";
    if (train->comm != NULL && shoal_comm_view(train->comm, &view) != SHOAL_OK)
        return NULL;
    gethostname(host, sizeof host - 1);
    return json_pack("{s:i, s:i, s:s}", "workers", (int)view.workers, "servers",
                     (int)(view.rank_count - view.workers), "rank_0", host);
}

/* When, UTC; of a run that goes on in its folder, when it did at first. */
static void set_began(const shoal_train *train, char began[32])
{
    const time_t now = time(NULL);
    struct tm utc;
    json_t *before = NULL;
    const char *first = NULL;
    strftime(began, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (shoali_folder_goes_on(train) && shoali_run_file_is_there(train->desc.out) &&
        shoali_run_file_read(train->desc.out, &before) == SHOAL_OK)
        first = json_string_value(json_object_get(before, "began"));
    if (first != NULL)
        snprintf(began, 32, "%s", first);
    json_decref(before);
}

static json_t *describe(const shoal_train *train, json_t *options)
{
    char began[32];
    set_began(train, began);
    json_t *run = json_pack("{s:s, s:s, s:s, s:I, s:I, s:O, s:o, s:o, s:o}", "format",
                            SHOALI_RUN_FORMAT, "shoal", shoal_version(), "began", began,
                            "from_step", (json_int_t)train->step, "steps", (json_int_t)train->steps,
                            "options", options, "model", describe_model(train), "data",
                            describe_data(train), "cluster", describe_cluster(train));
    if (run == NULL)
        return NULL;
    put_path(run, "resumed", train->desc.resume);
    put_path(run, "start", train->desc.start);
    put(run, "admm", train->desc.admm);
    return run;
}

/* Of all but the digest's own member. */
static bool digest_of(json_t *run, char text_out[SHOALI_DIGEST_CHARS + 1])
{
    json_t *rest = json_copy(run);
    json_object_del(rest, "sha256");
    char *text = shoali_json_text(rest, JSON_COMPACT | JSON_SORT_KEYS);
    shoali_digest digest;
    shoali_digest_begin(&digest);
    if (text != NULL)
        shoali_digest_add(&digest, text, strlen(text));
    bool ok = text != NULL && shoali_digest_text(&digest, text_out);
    shoali_digest_end(&digest);
    shoali_free(text);
    json_decref(rest);
    return ok;
}

shoal_status shoali_run_file_write(const shoal_train *train)
{
    json_t *options = NULL;
    SHOALI_TRY(make_options(train, &options));
    json_t *run = describe(train, options);
    json_decref(options);
    return shoali_run_file_put(train->desc.out, run);
}

shoal_status shoali_run_file_put(const char *dir, json_t *run)
{
    char path[SHOALI_PATH_BYTES], digest[SHOALI_DIGEST_CHARS + 1], *text = NULL;
    const shoal_status joined = shoali_path_join(path, dir, "run.json");
    if (joined == SHOAL_OK && run != NULL && digest_of(run, digest) &&
        json_object_set_new(run, "sha256", json_string(digest)) == 0)
        text = shoali_json_text(run, JSON_INDENT(2));
    json_decref(run);
    if (joined != SHOAL_OK)
        return joined;
    shoal_status status = text != NULL ? shoali_write_line(path, text)
                                       : shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    shoali_free(text);
    return status;
}

/* ------------------------------------------------------------------ reading */

static shoal_status check(const char *path, json_t *run)
{
    char digest[SHOALI_DIGEST_CHARS + 1];
    const char *said = json_string_value(json_object_get(run, "sha256")),
               *form = json_string_value(json_object_get(run, "format"));
    if (form == NULL || said == NULL || !json_is_object(json_object_get(run, "options")))
        return shoali_fail(SHOAL_ECORRUPT, "%s describes no run", path);
    if (strcmp(form, SHOALI_RUN_FORMAT) != 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s is of another version of Shoal: its format is "
                           "\"%.32s\", this one reads \"%s\"",
                           path, form, SHOALI_RUN_FORMAT);
    if (!digest_of(run, digest))
        return shoali_fail(SHOAL_ENOMEM, "no memory to check %s", path);
    if (strcmp(digest, said) == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_ECORRUPT,
                                      "%s is damaged: it is not what was written (SHA-256)", path);
    shoali_error_advice("Move it away and give all options anew to go on without it.");
    return status;
}

shoal_status shoali_run_file_read(const char *dir, json_t **run_out)
{
    char path[SHOALI_PATH_BYTES];
    json_t *run = NULL;
    SHOALI_TRY(shoali_path_join(path, dir, "run.json"));
    SHOALI_TRY(shoali_json_load(path, &run));
    shoal_status status = check(path, run);
    if (status == SHOAL_OK)
        *run_out = run;
    else
        json_decref(run);
    return status;
}

shoal_status shoali_run_file_check_real(const char *dir)
{
    json_t *run = NULL;
    if (!shoali_run_file_is_there(dir) || shoali_run_file_read(dir, &run) != SHOAL_OK)
        return SHOAL_OK; /* who goes on says what is wrong */
    const bool simulated = json_is_string(json_object_get(run, "clock"));
    json_decref(run);
    return simulated ? shoali_fail(SHOAL_EINVAL,
                                   "%s is of a simulation (shoal sim): it holds no weights, and "
                                   "nothing goes on from it",
                                   dir)
                     : SHOAL_OK;
}

bool shoali_run_file_is_there(const char *dir)
{
    char path[SHOALI_PATH_BYTES];
    return shoali_path_join(path, dir, "run.json") == SHOAL_OK && access(path, F_OK) == 0;
}

static shoal_status take(shoal_train *train, const json_t *run)
{
    shoal_train_desc *d = &train->desc;
    json_t *model = json_object_get(run, "model");
    const char *spec = json_string_value(json_object_get(model, "spec")),
               *path = json_string_value(json_object_get(json_object_get(run, "data"), "path"));
    const char *start = json_string_value(json_object_get(run, "start"));
    if (spec == NULL || path == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s/run.json names no model or no data", d->resume);
    if (d->start == NULL && start != NULL) /* until there is a checkpoint */
        d->start = shoali_arena_strdup(train->arena, start);
    if (d->data == NULL)
        d->data = shoali_arena_strdup(train->arena, path);
    if (d->model == NULL && d->plan == NULL) {
        json_t *layers = json_pack("{s:O, s:O, s:O, s:O}", "name", json_object_get(model, "name"),
                                   "input", json_object_get(model, "input"), "init",
                                   json_object_get(model, "init"), "layers",
                                   json_object_get(model, "layers"));
        char *text = shoali_json_text(layers, JSON_COMPACT);
        json_decref(layers);
        d->model = shoali_arena_strdup(train->arena, spec);
        train->folder.model_json = text != NULL ? shoali_arena_strdup(train->arena, text) : NULL;
        shoali_free(text);
        if (train->folder.model_json == NULL)
            return shoali_fail(SHOAL_ECORRUPT, "%s/run.json describes no model", d->resume);
    }
    return d->data != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_run_file_complete(shoal_train *train)
{
    json_t *run = NULL;
    const shoal_train_desc *d = &train->desc;
    const bool said = (d->model != NULL || d->plan != NULL) && d->data != NULL;
    if (d->resume == NULL || (said && !shoali_run_file_is_there(d->resume)))
        return SHOAL_OK;
    SHOALI_TRY(shoali_run_file_read(d->resume, &run));
    shoal_status status = take(train, run);
    json_decref(run);
    return status;
}
