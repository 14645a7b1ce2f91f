/* SPDX-License-Identifier: Apache-2.0 */
/* Plan files: {"format": "shoal-plan-1", "model": "sfc", "batch": 256, "levels": 2, "mode":
 * "figure", "method": "optimum", "layers": [{"name": "dense1", "weights": 6422528, "plan": "mm"},
 * ...], "elements": N}. plan has a letter per level, first cut first: d or m. elements and weights
 * are checked when the file is read: a plan of another model, or one that was edited without
 * counting again, is refused. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/new_file.h"
#include "plan/partition.h"

#define FORMAT "shoal-plan-1"

/* Put the file's name before the error just set. */
static shoal_status in_file(const char *what, shoal_status status)
{
    shoal_error error;
    shoali_error_get(&error);
    if (status == SHOAL_ENOMEM)
        return status;
    (void)shoali_fail(status, "%s: %s", what, error.text);
    shoali_error_advice("`shoal partition --model NAME --levels H --out FILE` writes plan files.");
    return status;
}

static shoal_status read_name(const json_t *root, const char *key, const char *(*name)(size_t),
                              uint32_t *index_out)
{
    const char *text;
    SHOALI_TRY(shoali_json_string(root, key, NULL, &text));
    for (uint32_t i = 0; name(i) != NULL; i++) {
        if (strcmp(name(i), text) == 0) {
            *index_out = i;
            return SHOAL_OK;
        }
    }
    return shoali_fail(SHOAL_ECORRUPT, "\"%s\" is \"%.32s\", which is none that there is", key,
                       text);
}

static shoal_status read_head(const json_t *root, shoal_partition_desc *desc)
{
    const char *format;
    uint32_t mode = 0, method = 0;
    uint64_t batch = 0, levels = 0;
    SHOALI_TRY(shoali_json_string(root, "format", "", &format));
    if (strcmp(format, FORMAT) != 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"format\" is not \"" FORMAT "\": this is no plan file");
    SHOALI_TRY(shoali_json_string(root, "model", NULL, &desc->model));
    SHOALI_TRY(shoali_json_u64(root, "batch", 1, 1u << 24, NULL, &batch));
    SHOALI_TRY(shoali_json_u64(root, "levels", 0, SHOAL_PARTITION_LEVELS_MAX, NULL, &levels));
    SHOALI_TRY(read_name(root, "mode", shoal_partition_mode_name, &mode));
    SHOALI_TRY(read_name(root, "method", shoal_partition_method_name, &method));
    desc->batch = (uint32_t)batch;
    desc->levels = (uint32_t)levels;
    desc->mode = (shoal_partition_mode)mode;
    desc->method = (shoal_partition_method)method;
    return SHOAL_OK;
}

static shoal_status read_layer(const json_t *item, const shoal_partition *p,
                               shoali_part_layer *layer)
{
    const char *name, *plan;
    uint64_t weights = 0;
    SHOALI_TRY(shoali_json_string(item, "name", NULL, &name));
    SHOALI_TRY(shoali_json_string(item, "plan", NULL, &plan));
    SHOALI_TRY(shoali_json_u64(item, "weights", 0, INT64_MAX, NULL, &weights));
    if (strcmp(name, layer->name) != 0 || weights != layer->weights)
        return shoali_fail(SHOAL_ECORRUPT,
                           "layer \"%.40s\" with %" PRIu64
                           " weights stands where model %s has %s with %" PRIu64,
                           name, weights, p->model, layer->name, layer->weights);
    if (strlen(plan) != p->levels || strspn(plan, "dm") != p->levels)
        return shoali_fail(SHOAL_ECORRUPT,
                           "layer \"%s\" has plan \"%.40s\"; it must be %u letters d or m", name,
                           plan, p->levels);
    for (uint32_t level = 0; level < p->levels; level++)
        layer->mask |= plan[level] == 'm' ? 1u << level : 0;
    return SHOAL_OK;
}

static shoal_status read_layers(const json_t *root, shoal_partition *p)
{
    const json_t *list = json_object_get(root, "layers");
    uint64_t elements = 0;
    if (!json_is_array(list) || json_array_size(list) != p->layer_count)
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"layers\" must be an array of %u, as many as model %s has with "
                           "weights",
                           p->layer_count, p->model);
    for (uint32_t l = 0; l < p->layer_count; l++)
        SHOALI_TRY(read_layer(json_array_get(list, l), p, &p->layers[l]));
    SHOALI_TRY(shoali_json_u64(root, "elements", 0, INT64_MAX, NULL, &elements));
    if (elements != shoali_partition_elements(p))
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"elements\" is %" PRIu64 ", but this plan moves %" PRIu64
                           ": it was made for another model or edited",
                           elements, shoali_partition_elements(p));
    return shoali_partition_judge(p);
}

static shoal_status read_plan(const json_t *root, shoal_partition **partition_out)
{
    shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
    shoal_model *model;
    shoal_partition *p = NULL;
    if (!json_is_object(root))
        return shoali_fail(SHOAL_ECORRUPT, "a plan is a JSON object");
    SHOALI_TRY(read_head(root, &desc));
    SHOALI_TRY(shoal_model_open(desc.model, &model));
    shoal_status status = shoali_partition_chain(&desc, model, &p);
    if (status == SHOAL_OK)
        status = read_layers(root, p);
    shoal_model_close(model);
    if (status != SHOAL_OK)
        shoal_partition_destroy(p);
    else
        *partition_out = p;
    return status;
}

static shoal_status take_json(const char *what, json_t *root, shoal_partition **partition_out)
{
    shoal_status status = read_plan(root, partition_out);
    json_decref(root);
    return status != SHOAL_OK ? in_file(what, status) : SHOAL_OK;
}

shoal_status shoali_partition_parse(const char *what, const char *json, size_t len_bytes,
                                    shoal_partition **partition_out)
{
    json_t *root;
    SHOALI_TRY(shoali_json_parse(what, json, len_bytes, &root));
    return take_json(what, root, partition_out);
}

shoal_status shoal_partition_open(const char *path, shoal_partition **partition_out)
{
    json_t *root;
    if (path == NULL || partition_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_partition_open needs a path and a place");
    SHOALI_TRY(shoali_json_load(path, &root));
    return take_json(path, root, partition_out);
}

/* ---------------------------------------------------------------- writing */

static json_t *layers_json(const shoal_partition *p)
{
    json_t *list = json_array();
    for (uint32_t l = 0; list != NULL && l < p->layer_count; l++) {
        char plan[SHOAL_PARTITION_LEVELS_MAX + 1] = "";
        for (uint32_t level = 0; level < p->levels; level++)
            plan[level] = (p->layers[l].mask >> level & 1) != 0 ? 'm' : 'd';
        json_t *item = json_pack("{s:s, s:I, s:s}", "name", p->layers[l].name, "weights",
                                 (json_int_t)p->layers[l].weights, "plan", plan);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

shoal_status shoal_partition_save(const shoal_partition *p, const char *path)
{
    shoali_new_file out;
    if (p == NULL || path == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_partition_save needs a partition and a path");
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:o, s:I}", "format", FORMAT, "model",
                             p->model, "batch", (json_int_t)p->batch, "levels",
                             (json_int_t)p->levels, "mode",
                             shoal_partition_mode_name((size_t)p->mode), "method",
                             shoal_partition_method_name((size_t)p->method), "layers",
                             layers_json(p), "elements", (json_int_t)shoali_partition_elements(p));
    if (root == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for a plan, or its model's name is not UTF-8");
    shoal_status status = shoali_new_file_open(path, &out);
    if (status == SHOAL_OK) {
        (void)json_dumpf(root, out.file, JSON_INDENT(2));
        (void)fputc('\n', out.file);
        status = shoali_new_file_commit(&out);
    }
    json_decref(root);
    return status;
}
