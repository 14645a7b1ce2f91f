/* SPDX-License-Identifier: Apache-2.0 */
#include "train_checks.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "shoal/job.h"
#include "shoal/model.h"

/* What --circulant may say, the model's key of it, and the least: 1 keeps a matrix dense. */
static const struct {
    const char *option, *key;
    int64_t least;
} block_keys[] = {{"k", "circulant", 2},
                  {"conv", "circulant_conv", 2},
                  {"kx", "circulant_x", 1},
                  {"kr", "circulant_r", 1},
                  {"ky", "circulant_y", 1}};
enum { BLOCK_KEYS = sizeof block_keys / sizeof block_keys[0] };

/* "k=8" as ",circulant=8" behind spec. */
static bool add_part(const char *part, char *spec, size_t bytes)
{
    int64_t block = 0;
    const char *is = strchr(part, '=');
    size_t name = is != NULL ? (size_t)(is - part) : 0, len = strlen(spec);
    if (is == NULL || !cli_parse_int(is + 1, 1, 1024, &block))
        return false;
    for (size_t i = 0; i < BLOCK_KEYS; i++)
        if (strlen(block_keys[i].option) == name && strncmp(part, block_keys[i].option, name) == 0)
            return block >= block_keys[i].least &&
                   (size_t)snprintf(spec + len, bytes - len, "%s%s=%d", len > 0 ? "," : "",
                                    block_keys[i].key, (int)block) < bytes - len;
    return false;
}

/* Keys behind a model's spec; NULL: no memory. */
static char *with_keys(const char *model, const char *keys)
{
    const char *file = strrchr(model, '/'); /* folders may hold colons */
    const char *mark = strchr(file != NULL ? file : model, ':') != NULL ? "," : ":";
    char *spec = NULL;
    return asprintf(&spec, "%s%s%s", model, mark, keys) < 0 ? NULL : spec;
}

char *train_round(const char *model, const char *precision)
{
    const bool known = strcmp(precision, "bf16") == 0 || strcmp(precision, "float32") == 0;
    return !known ? NULL
                  : with_keys(model, precision[0] == 'b' ? "precision=bf16" : "precision=float32");
}

char *train_circulate(const char *model, const char *option)
{
    char *parts = strdup(option), *rest = NULL, keys[256] = "";
    bool good = parts != NULL;
    for (char *part = good ? strtok_r(parts, ",", &rest) : NULL; good && part != NULL;
         part = strtok_r(NULL, ",", &rest))
        good = add_part(part, keys, sizeof keys);
    free(parts);
    if (!good || keys[0] == '\0')
        return NULL;
    return with_keys(model, keys);
}

bool train_parse_tos(const char *text, uint8_t *tos_out)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 0);
    *tos_out = (uint8_t)value;
    return isdigit((unsigned char)text[0]) && *end == '\0' && value <= 255;
}

bool train_parse_bucket(const char *text, size_t *bytes_out)
{
    uint64_t bytes = 0;
    if (strcmp(text, "model") == 0) {
        *bytes_out = SIZE_MAX;
        return true;
    }
    if (!cli_parse_bytes(text, &bytes) || bytes < 4)
        return false;
    *bytes_out = (size_t)bytes;
    return true;
}

bool train_parse_nonfinite(const char *text, shoal_nonfinite *out)
{
    *out = strcmp(text, "skip") == 0 ? SHOAL_NONFINITE_SKIP : SHOAL_NONFINITE_STOP;
    return strcmp(text, "stop") == 0 || strcmp(text, "skip") == 0;
}

static bool holds_run(const char *folder)
{
    char path[4096];
    struct stat info;
    return (size_t)snprintf(path, sizeof path, "%s/metrics.jsonl", folder) < sizeof path &&
           stat(path, &info) == 0 && info.st_size > 0;
}

/* Said before any worker is there; of processes that start at once the folder's lock decides. */
bool train_may_write_to(const char *out, const char *resume)
{
    if (out == NULL || resume != NULL || cli_under_launcher() || !holds_run(out))
        return true;
    cli_usage("train", "%s holds a run already: go on with --resume %s, or take another --out", out,
              out);
    return false;
}

bool train_may_trace_to(const char *trace)
{
    if (trace == NULL || access(trace, W_OK) == 0 || (errno == ENOENT && cli_may_create(trace)))
        return true;
    (void)cli_fail("train", "cannot write the trace to %s: %s", trace, strerror(errno));
    return false;
}

bool train_goes_together(const shoal_train_desc *d, const char *admm, uint32_t workers)
{
    shoal_train_desc asked = *d;
    asked.admm = admm;
    shoal_job job = SHOAL_JOB_INIT;
    shoal_train_job(&asked, workers, &job);
    return shoal_job_check(&job) == SHOAL_OK;
}

int train_dry_run(const shoal_train_desc *d, const char *own, uint32_t workers, uint32_t servers)
{
    shoal_model *model = NULL;
    if (d->model != NULL && shoal_model_open(d->model, &model) != SHOAL_OK)
        return cli_report("train");
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    const bool known = model != NULL && shoal_model_describe(model, &info) == SHOAL_OK;
    shoal_model_close(model);
    if (known && d->label_smoothing > 0 && !info.smooths)
        return cli_usage("train",
                         "--label-smoothing: the loss of model %s has no labels to smooth; leave "
                         "it out",
                         d->model);
    printf("These options go together: %s, %u %sworker%s x batch %u, %s, %s, %s",
           d->model != NULL ? d->model : own, d->simulate > 0 ? d->simulate : workers,
           d->simulate > 0 ? "simulated " : "", workers == 1 && d->simulate < 2 ? "" : "s",
           d->batch, d->sync, d->collective, d->codec);
    if (servers > 0)
        printf(", %u server%s", servers, servers == 1 ? "" : "s");
    puts(". Nothing was started.");
    return CLI_OK;
}
