/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_args.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"

typedef enum { TEXT, COUNT, STAGE, BYTES, REAL, FLAG, RECOMPUTE, ATTENTION, OFFLOAD } option_kind;
static const struct predict_option {
    int key;
    const char *name;
    option_kind kind;
    size_t offset;
} table[] = {
    {'m', "model", TEXT, offsetof(shoal_predict_desc, model)},
    {'P', "plan", TEXT, offsetof(shoal_predict_desc, plan)},
    {'C', "cluster", TEXT, offsetof(shoal_predict_desc, cluster)},
    {'w', "workers", COUNT, offsetof(shoal_predict_desc, workers)},
    {'b', "batch", COUNT, offsetof(shoal_predict_desc, batch)},
    {'c', "collective", TEXT, offsetof(shoal_predict_desc, collective)},
    {'k', "codec", TEXT, offsetof(shoal_predict_desc, codec)},
    {PREDICT_SYNC, "sync", TEXT, offsetof(shoal_predict_desc, sync)},
    {PREDICT_TENSOR, "tensor", COUNT, offsetof(shoal_predict_desc, tensor)},
    {PREDICT_PIPELINE, "pipeline", COUNT, offsetof(shoal_predict_desc, pipeline)},
    {PREDICT_MICROBATCH, "microbatch", COUNT, offsetof(shoal_predict_desc, microbatch)},
    {PREDICT_INTERLEAVE, "interleave", COUNT, offsetof(shoal_predict_desc, interleave)},
    {PREDICT_CHUNK, "chunk", COUNT, offsetof(shoal_predict_desc, chunk_elems)},
    {PREDICT_BUCKET, "bucket", BYTES, offsetof(shoal_predict_desc, bucket_bytes)},
    {PREDICT_ELEMENT, "element-bytes", REAL, offsetof(shoal_predict_desc, element_bytes)},
    {PREDICT_STATE, "state-bytes", REAL, offsetof(shoal_predict_desc, state_bytes)},
    {PREDICT_SEQUENCE, "sequence", FLAG, offsetof(shoal_predict_desc, sequence)},
    {PREDICT_GRADIENT, "gradient-bytes", REAL, offsetof(shoal_predict_desc, gradient_bytes)},
    {PREDICT_ZERO, "zero", STAGE, offsetof(shoal_predict_desc, zero)},
    {PREDICT_EXPERTS, "experts", COUNT, offsetof(shoal_predict_desc, experts)},
    {PREDICT_CONTEXT, "context", COUNT, offsetof(shoal_predict_desc, context)},
    {PREDICT_OFFLOAD, "offload", OFFLOAD, offsetof(shoal_predict_desc, offload)},
    {PREDICT_ATTENTION, "attention", ATTENTION, offsetof(shoal_predict_desc, flash)},
    {PREDICT_NO_HEAD, "no-head", FLAG, offsetof(shoal_predict_desc, no_head)},
    {PREDICT_NO_SCATTER, "no-scatter", FLAG, offsetof(shoal_predict_desc, no_scatter)},
    {PREDICT_NO_OVERLAP, "no-overlap", FLAG, offsetof(shoal_predict_desc, no_overlap)},
    {PREDICT_RECOMPUTE, "recompute", RECOMPUTE, offsetof(shoal_predict_desc, recompute)},
};
enum { OPTIONS = sizeof table / sizeof *table };

static bool set_recompute(shoal_recompute *field, const char *text)
{
    static const char *const names[] = {"none", "selective", "full"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *field = (shoal_recompute)i;
            return true;
        }
    return false;
}

/* "optimizer,activations" */
static bool set_offload(uint32_t *field, const char *text)
{
    static const char *const names[] = {"optimizer", "activations"};
    *field = 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ","), i = 0;
        while (i < 2 && (strlen(names[i]) != len || strncmp(at, names[i], len) != 0))
            i++;
        if (i == 2)
            return false;
        *field |= UINT32_C(1) << i;
        at += len;
        if (*at == '\0')
            return true;
    }
}

static bool set_flag(bool *field, const char *text)
{
    *field = text == NULL || strcmp(text, "1") == 0;
    return text == NULL || *field || strcmp(text, "0") == 0;
}

static bool set(const struct predict_option *option, shoal_predict_desc *desc, const char *text)
{
    char *field = (char *)desc + option->offset;
    int64_t count = 0;
    uint64_t bytes = 0;
    switch (option->kind) {
    case TEXT:
        *(const char **)(void *)field = text;
        return true;
    case COUNT:
    case STAGE:
        if (!cli_parse_int(text, option->kind == STAGE ? 0 : 1, option->kind == STAGE ? 3 : 1 << 30,
                           &count))
            return false;
        *(uint32_t *)(void *)field = (uint32_t)count;
        return true;
    case BYTES:
        if (!cli_parse_bytes(text, &bytes) || bytes < 4)
            return false;
        *(size_t *)(void *)field = (size_t)bytes;
        return true;
    case REAL:
        return cli_parse_real(text, 1e-3, 1024, (double *)(void *)field);
    case FLAG:
        return set_flag((bool *)field, text);
    case OFFLOAD:
        return set_offload((uint32_t *)(void *)field, text);
    case ATTENTION:
        *(bool *)field = strcmp(text, "flash") == 0;
        return *(bool *)field || strcmp(text, "plain") == 0;
    default:
        return set_recompute((shoal_recompute *)(void *)field, text);
    }
}

error_t predict_parse(int key, char *text, struct argp_state *state, shoal_predict_desc *desc)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (table[i].key == key) {
            if (!set(&table[i], desc, text))
                cli_refuse_value(state, key, text);
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

bool predict_set(shoal_predict_desc *desc, const char *name, const char *value)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(table[i].name, name) == 0)
            return set(&table[i], desc, value);
    return false;
}
