/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's config.json of decoder-only language models: sizes in, a described model out.
 * Families that do something else than what transformer describes are refused by name. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/model.h"

/* What a family's file leaves unsaid. */
typedef struct family {
    const char *name;
    bool gated, bias, positions, tied;
    int norm; /* learned values per channel of the last norm */
} family;

static const family families[] = {
    {"gpt2", false, true, true, true, 2},        {"opt", false, true, true, true, 2},
    {"gpt_neox", false, true, false, false, 2},  {"llama", true, false, false, false, 1},
    {"mistral", true, false, false, false, 1},   {"mixtral", true, false, false, false, 1},
    {"qwen2", true, false, false, false, 1},     {"qwen3", true, false, false, false, 1},
    {"qwen3_moe", true, false, false, false, 1}, {"gemma", true, false, false, true, 1}};
enum { FAMILIES = sizeof families / sizeof families[0] };

static shoal_status find_family(const json_t *root, const family **out)
{
    const char *names[FAMILIES], *type;
    SHOALI_TRY(shoali_json_string(root, "model_type", NULL, &type));
    for (size_t i = 0; i < FAMILIES; i++) {
        names[i] = families[i].name;
        if (strcmp(names[i], type) == 0) {
            *out = &families[i];
            return SHOAL_OK;
        }
    }
    return shoali_spec_unknown("model_type", type, names, FAMILIES);
}

/* The first of the names ("n_embd|hidden_size") that the file has; fallback 0: one must. */
static shoal_status size_of(const json_t *root, const char *names, uint64_t max, uint64_t fallback,
                            uint64_t *out)
{
    char key[32];
    for (const char *at = names;;) {
        size_t len = strcspn(at, "|");
        snprintf(key, sizeof key, "%.*s", (int)len, at);
        const json_t *value = json_object_get(root, key);
        if (value != NULL && !json_is_null(value))
            return shoali_json_u64(root, key, 1, max, NULL, out);
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    *out = fallback;
    return fallback > 0 ? SHOAL_OK : shoali_fail(SHOAL_ECORRUPT, "none of %s is there", names);
}

typedef struct sizes {
    uint64_t width, layers, heads, kv, dim, ff, vocab, length, experts, active;
    bool tied;
} sizes;

static shoal_status read_sizes(const json_t *root, const family *f, sizes *s)
{
    SHOALI_TRY(size_of(root, "hidden_size|n_embd", 1 << 20, 0, &s->width));
    SHOALI_TRY(
        size_of(root, "num_hidden_layers|n_layer", SHOALI_MODEL_LAYERS_MAX - 2, 0, &s->layers));
    SHOALI_TRY(size_of(root, "num_attention_heads|n_head", 1 << 16, 0, &s->heads));
    SHOALI_TRY(size_of(root, "num_key_value_heads", 1 << 16, s->heads, &s->kv));
    uint64_t dim = s->width / s->heads;
    SHOALI_TRY(size_of(root, "head_dim", 1 << 16, dim > 0 ? dim : 1, &s->dim));
    SHOALI_TRY(size_of(root, "vocab_size", 1 << 24, 0, &s->vocab));
    SHOALI_TRY(size_of(root, "max_position_embeddings|n_positions", 1 << 24, 0, &s->length));
    SHOALI_TRY(size_of(root, "num_local_experts|num_experts", 1 << 16, UINT64_MAX, &s->experts));
    s->experts = s->experts == UINT64_MAX ? 0 : s->experts;
    if (s->experts > 0)
        SHOALI_TRY(size_of(root, "num_experts_per_tok", s->experts, 0, &s->active));
    uint64_t ff = f->gated ? 0 : 4 * s->width; /* GPT-2's n_inner may be null */
    SHOALI_TRY(size_of(root,
                       s->experts > 0 ? "moe_intermediate_size|intermediate_size"
                                      : "intermediate_size|n_inner|ffn_dim",
                       1 << 24, ff, &s->ff));
    const json_t *tied = json_object_get(root, "tie_word_embeddings");
    s->tied = tied != NULL ? json_is_true(tied) : f->tied;
    return SHOAL_OK;
}

static void list_layers(const family *f, const sizes *s, shoali_layer_list *list)
{
    /* OPT keeps two positions for padding */
    uint64_t positions = f->positions ? s->length + 2 * (strcmp(f->name, "opt") == 0) : 0;
    char experts[64] = "";
    if (s->experts > 0)
        snprintf(experts, sizeof experts, ",experts=%llu,active=%llu",
                 (unsigned long long)s->experts, (unsigned long long)s->active);
    shoali_layer_list_add(list, "embedding:vocab=%llu,width=%llu,positions=%llu",
                          (unsigned long long)s->vocab, (unsigned long long)s->width,
                          (unsigned long long)positions);
    for (uint64_t l = 0; l < s->layers; l++)
        shoali_layer_list_add(list, "transformer:heads=%llu,kv=%llu,dim=%llu,ff=%llu%s%s%s",
                              (unsigned long long)s->heads, (unsigned long long)s->kv,
                              (unsigned long long)s->dim, (unsigned long long)s->ff, experts,
                              f->gated ? ",gated" : "", f->bias ? "" : ",bias=off");
    shoali_layer_list_add(list, "unembedding:vocab=%llu,norm=%d,tied=%s",
                          (unsigned long long)s->vocab, f->norm, s->tied ? "on" : "off");
}

bool shoali_is_hf_config(const json_t *root)
{
    return json_object_get(root, "model_type") != NULL && json_object_get(root, "layers") == NULL;
}

shoal_status shoali_import_hf_config(const json_t *root, shoal_arena *arena,
                                     shoali_model_text *text_out)
{
    const family *f = NULL;
    sizes s = {0};
    shoali_layer_list list = {.arena = arena};
    SHOALI_TRY(find_family(root, &f));
    SHOALI_TRY(read_sizes(root, f, &s));
    list_layers(f, &s, &list);
    *text_out = (shoali_model_text){.name = f->name, .input = {1, (uint32_t)s.length, 1}};
    return shoali_layer_list_end(&list, text_out);
}
