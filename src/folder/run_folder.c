/* SPDX-License-Identifier: Apache-2.0 */
/* include/shoal/run.h: a run folder, read without training. */
#include "shoal/run.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "folder/run_file.h"

struct shoal_run {
    json_t *json;
    char *text; /* all of it */
};

shoal_status shoal_run_open(const char *dir, shoal_run **run_out)
{
    if (dir == NULL || run_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_run_open needs a folder and a place for the run");
    shoal_run *run = shoali_alloc(sizeof *run);
    if (run == NULL)
        return SHOAL_ENOMEM;
    *run = (shoal_run){0};
    shoal_status status = shoali_run_file_read(dir, &run->json);
    if (status == SHOAL_OK && (run->text = shoali_json_text(run->json, JSON_INDENT(2))) == NULL)
        status = shoali_fail(SHOAL_ENOMEM, "no memory for %s/run.json", dir);
    if (status == SHOAL_OK)
        *run_out = run;
    else
        shoal_run_close(run);
    return status;
}

void shoal_run_close(shoal_run *run)
{
    if (run == NULL)
        return;
    json_decref(run->json);
    shoali_free(run->text);
    shoali_free(run);
}

const char *shoal_run_json(const shoal_run *run)
{
    return run->text;
}

/* Entry i of a value, counted on; NULL: it has fewer. */
static const char *entry(const json_t *value, uint32_t *i)
{
    const size_t count = json_is_array(value) ? json_array_size(value)
                                              : json_is_true(value) || json_is_string(value);
    if (*i >= count) {
        *i -= (uint32_t)count;
        return NULL;
    }
    const json_t *one = json_is_array(value) ? json_array_get(value, *i) : value;
    return json_is_string(one) ? json_string_value(one) : "";
}

const char *shoal_run_option(const shoal_run *run, uint32_t i, const char **name_out)
{
    json_t *options = json_object_get(run->json, "options");
    for (void *at = json_object_iter(options); at != NULL;
         at = json_object_iter_next(options, at)) {
        const char *value = entry(json_object_iter_value(at), &i);
        if (value == NULL)
            continue;
        *name_out = json_object_iter_key(at);
        return value;
    }
    return NULL;
}
