/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's config.json of decoder-only language models and of BERT: sizes in, a described
 * model out. Families that do something else than what transformer describes are refused by
 * name. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/import_model.h"
#include "model/model_text.h"

/* What a family's file leaves unsaid. */
typedef struct family {
    const char *name;
    bool gated, bias, positions, tied;
    int norm;    /* learned values per channel of the last norm */
    int norms;   /* per block */
    int qkvbias; /* 1: queries, keys and values add learned values; whatever the file says */
    bool headnorm, headbias, latent;
    int shared; /* experts that every token meets, where the file does not say */
} family;

/* clang-format off */
static const family families[] = {
    /*               gated  bias   posit. tied   norm norms qkv headn. headb. latent shared */
    {"gpt2",         false, true,  true,  true,  2,   2,    0,  false, false, false, 0},
    {"opt",          false, true,  true,  true,  2,   2,    0,  false, false, false, 0},
    {"gpt_neox",     false, true,  false, false, 2,   2,    0,  false, false, false, 0},
    {"llama",        true,  false, false, false, 1,   2,    0,  false, false, false, 0},
    {"mistral",      true,  false, false, false, 1,   2,    0,  false, false, false, 0},
    {"mixtral",      true,  false, false, false, 1,   2,    0,  false, false, false, 0},
    {"qwen2",        true,  false, false, false, 1,   2,    1,  false, false, false, 0},
    {"qwen3",        true,  false, false, false, 1,   2,    0,  true,  false, false, 0},
    {"qwen3_moe",    true,  false, false, false, 1,   2,    0,  true,  false, false, 0},
    {"gemma",        true,  false, false, true,  1,   2,    0,  false, false, false, 0},
    {"gemma2",       true,  false, false, true,  1,   4,    0,  false, false, false, 0},
    {"gemma3_text",  true,  false, false, true,  1,   4,    0,  true,  false, false, 0},
    {"phi",          false, true,  false, false, 2,   1,    0,  false, true,  false, 0},
    {"phi3",         true,  false, false, false, 1,   2,    0,  false, false, false, 0},
    {"deepseek_v2",  true,  false, false, false, 1,   2,    0,  false, false, true, 0},
    {"deepseek_v3",  true,  false, false, false, 1,   2,    0,  false, false, true, 0},
    {"llama4_text",  true,  false, false, false, 1,   2,    0,  false, false, false, 1},
    {"bert",         false, true,  true,  true,  2,   2,    0,  false, false, false, 0},
};
/* clang-format on */
static bool is_bert(const family *f)
{
    return strcmp(f->name, "bert") == 0;
}

enum { FAMILIES = sizeof families / sizeof families[0], LENGTH_MAX = 32768 };

static shoal_status find_family(const json_t *root, const family **out)
{
    const char *names[FAMILIES], *type;
    SHOALI_TRY(shoali_json_string(root, "model_type", NULL, &type));
    if (json_is_object(json_object_get(root, "text_config")))
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s reads more than text: give the object of \"text_config\" as a file "
                           "of its own; encoders are not counted",
                           type);
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

/* The same, of what a file may leave out or set to null: 0. */
static shoal_status may_have(const json_t *root, const char *key, uint64_t max, uint64_t *out)
{
    const json_t *value = json_object_get(root, key);
    *out = 0;
    if (value == NULL || json_is_null(value))
        return SHOAL_OK;
    return shoali_json_u64(root, key, 0, max, NULL, out);
}

enum { DROP_EMBEDDING, DROP_HIDDEN, DROP_ATTENTION, DROPS };

typedef struct sizes {
    uint64_t width, layers, heads, kv, dim, ff, vocab, length;
    uint64_t experts, active, shared;
    uint64_t dense, dense_ff;   /* the first `dense` blocks are no mixtures */
    uint64_t step, step_at;     /* of the others those whose number by step leaves step_at are */
    const json_t *only, *never; /* if there: numbers of blocks that are, or are not */
    uint64_t qrank, kvrank, rope, vdim;
    int qkvbias;
    uint64_t types;
    int64_t mask; /* the token that hides others; -1: the last */
    bool masked;  /* scores of hidden tokens stand behind the blocks */
    bool tied, balanced;
    bool other; /* what planners need not know, and parts cannot make */
    double theta, eps;
    double drops[DROPS]; /* by which training leaves out: what DROPS says */
} sizes;

/* What a family's file calls them; NULL: its blocks have none. Those of BERT are one. */
static const char *const *drop_keys(const family *f)
{
    static const char *const gpt[] = {"embd_pdrop", "resid_pdrop", "attn_pdrop"};
    static const char *const bert[] = {"hidden_dropout_prob", "hidden_dropout_prob",
                                       "attention_probs_dropout_prob"};
    static const char *const others[] = {NULL, NULL, "attention_dropout"};
    return strcmp(f->name, "gpt2") == 0 ? gpt : is_bert(f) ? bert : others;
}

/* What the transformer layer cannot say is not left out silently. */
static shoal_status refuse_others(const json_t *root)
{
    static const char *const flags[] = {"mlp_bias", "qk_layernorm"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (json_is_true(json_object_get(root, flags[i])))
            return shoali_fail(SHOAL_ECORRUPT,
                               "\"%s\" is true: parameters that a transformer layer does not have "
                               "here; describe the model in a file of layers",
                               flags[i]);
    return SHOAL_OK;
}

/* Numbers of blocks; NULL where there are none. */
static shoal_status read_blocks(const json_t *root, const char *key, uint64_t layers,
                                const json_t **out)
{
    const json_t *list = json_object_get(root, key);
    *out = json_array_size(list) > 0 ? list : NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            (uint64_t)json_integer_value(one) >= layers)
            return shoali_fail(SHOAL_ECORRUPT, "\"%s\" must be numbers of blocks, 0 .. %llu", key,
                               (unsigned long long)layers - 1);
    }
    return SHOAL_OK;
}

/* Which blocks are mixtures: Llama 4 and Qwen count from the last of each step, DeepSeek from the
 * first. */
static shoal_status read_places(const json_t *root, sizes *s)
{
    uint64_t from_first;
    SHOALI_TRY(
        size_of(root, "interleave_moe_layer_step|decoder_sparse_step", 1 << 16, 1, &s->step));
    s->step_at = s->step - 1;
    SHOALI_TRY(size_of(root, "moe_layer_freq", 1 << 16, 1, &from_first));
    if (from_first > 1) {
        s->step = from_first;
        s->step_at = 0;
    }
    SHOALI_TRY(read_blocks(root, "moe_layers", s->layers, &s->only));
    SHOALI_TRY(read_blocks(root, "mlp_only_layers", s->layers, &s->never));
    return may_have(root, "first_k_dense_replace", s->layers, &s->dense);
}

static bool has_number(const json_t *list, uint64_t number)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((uint64_t)json_integer_value(json_array_get(list, i)) == number)
            return true;
    return false;
}

static bool is_mixture(const sizes *s, uint64_t block)
{
    if (s->experts == 0 || block < s->dense || has_number(s->never, block))
        return false;
    return s->only != NULL ? has_number(s->only, block) : block % s->step == s->step_at;
}

static uint64_t plain_blocks(const sizes *s)
{
    uint64_t count = 0;
    for (uint64_t l = 0; l < s->layers; l++)
        count += !is_mixture(s, l);
    return count;
}

static shoal_status read_mixture(const json_t *root, const family *f, sizes *s)
{
    uint64_t ff = f->gated ? 0 : 4 * s->width; /* GPT-2's n_inner may be null */
    uint64_t shared = (uint64_t)f->shared;
    SHOALI_TRY(size_of(root, "num_local_experts|num_experts|n_routed_experts", 1 << 16, UINT64_MAX,
                       &s->experts));
    s->experts = s->experts == UINT64_MAX ? 0 : s->experts;
    if (s->experts == 0)
        return size_of(root, "intermediate_size|n_inner|ffn_dim", 1 << 24, ff, &s->ff);
    SHOALI_TRY(size_of(root, "num_experts_per_tok", s->experts, 0, &s->active));
    SHOALI_TRY(size_of(root, "moe_intermediate_size|intermediate_size", 1 << 24, ff, &s->ff));
    if (f->shared == 0)
        SHOALI_TRY(may_have(root, "n_shared_experts", 256, &shared));
    SHOALI_TRY(read_places(root, s));
    if (plain_blocks(s) > 0)
        SHOALI_TRY(
            size_of(root, "intermediate_size_mlp|intermediate_size", 1 << 24, 0, &s->dense_ff));
    s->shared = shared * s->ff;
    if (s->shared > 1 << 24)
        return shoali_fail(SHOAL_ECORRUPT, "%llu shared experts of %llu are too many",
                           (unsigned long long)shared, (unsigned long long)s->ff);
    const char *method = json_string_value(json_object_get(root, "topk_method"));
    s->balanced = method != NULL && strcmp(method, "noaux_tc") == 0;
    return SHOAL_OK;
}

static shoal_status read_attention(const json_t *root, const family *f, sizes *s)
{
    uint64_t dim = s->width / s->heads;
    bool biased = json_is_true(json_object_get(root, "attention_bias"));
    SHOALI_TRY(size_of(root, "num_key_value_heads", 1 << 16, s->heads, &s->kv));
    SHOALI_TRY(size_of(root, "head_dim", 1 << 16, dim > 0 ? dim : 1, &s->dim));
    s->qkvbias = f->bias ? 0 : biased ? 2 : f->qkvbias;
    if (!f->latent)
        return SHOAL_OK;
    if (biased)
        return shoali_fail(SHOAL_ECORRUPT, "\"attention_bias\" is true: latent attention has no "
                                           "biases here");
    s->kv = s->heads;
    SHOALI_TRY(may_have(root, "q_lora_rank", 1 << 20, &s->qrank));
    SHOALI_TRY(size_of(root, "kv_lora_rank", 1 << 20, 0, &s->kvrank));
    SHOALI_TRY(size_of(root, "qk_nope_head_dim", 1 << 16, 0, &s->dim));
    SHOALI_TRY(size_of(root, "qk_rope_head_dim", 1 << 16, 0, &s->rope));
    return size_of(root, "v_head_dim", 1 << 16, 0, &s->vdim);
}

/* A number, or what the family's own code takes where the file says nothing. */
static double number_of(const json_t *root, const char *key, double fallback)
{
    const json_t *value = json_object_get(root, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static bool is_text(const json_t *root, const char *key, const char *usual, const char *other)
{
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    return value == NULL ||
           (text != NULL && (strcmp(text, usual) == 0 || strcmp(text, other) == 0));
}

/* GPT-2's: gelu by tanh, scores divided by the root of a head's values. */
static void read_gpt_manners(const json_t *root, sizes *s)
{
    s->theta = 10000;
    s->eps = number_of(root, "layer_norm_epsilon", 1e-5);
    s->other = !is_text(root, "activation_function", "gelu_new", "gelu_pytorch_tanh") ||
               json_is_false(json_object_get(root, "scale_attn_weights")) ||
               json_is_true(json_object_get(root, "scale_attn_by_inverse_layer_idx")) ||
               json_is_true(json_object_get(root, "add_cross_attention")) ||
               !(s->eps >= 0 && s->eps <= 1);
    if (s->other)
        s->eps = 1e-5;
}

/* BERT's: whole gelu, places in a table; a config.json does not say the mask, but the vocabularies
 * that were published have it at 103. */
static shoal_status read_bert_manners(const json_t *root, sizes *s)
{
    const char *net = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const json_t *mask = json_object_get(root, "mask_token_id");
    s->theta = 10000;
    s->eps = number_of(root, "layer_norm_eps", 1e-12);
    s->masked = net != NULL &&
                (strcmp(net, "BertForMaskedLM") == 0 || strcmp(net, "BertForPreTraining") == 0);
    s->other = !is_text(root, "hidden_act", "gelu", "gelu") ||
               !is_text(root, "position_embedding_type", "absolute", "absolute") ||
               json_is_true(json_object_get(root, "is_decoder")) || !s->tied ||
               !(s->eps >= 0 && s->eps <= 1);
    if (s->other)
        s->eps = 1e-12;
    s->mask = s->vocab == 30522 || s->vocab == 28996 ? 103 : -1;
    if (json_is_integer(mask) && json_integer_value(mask) >= 0 &&
        (uint64_t)json_integer_value(mask) < s->vocab)
        s->mask = json_integer_value(mask);
    return size_of(root, "type_vocab_size", 256, 2, &s->types);
}

/* What planners do not ask for: rope_theta and rope_scaling, of newer files in rope_parameters. */
static void read_manners(const json_t *root, bool gpt, sizes *s)
{
    const json_t *rope = json_object_get(root, "rope_parameters");
    const json_t *scaling = json_object_get(root, "rope_scaling");
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    const char *act = json_string_value(json_object_get(root, "hidden_act"));
    const double window = number_of(root, "sliding_window", 0);
    const double part = number_of(root, "partial_rotary_factor", 1);
    if (gpt) {
        read_gpt_manners(root, s);
        return;
    }
    s->theta = number_of(rope, "rope_theta", number_of(root, "rope_theta", 10000));
    s->eps = number_of(root, "rms_norm_eps", 1e-6);
    s->other = (type != NULL && strcmp(type, "default") != 0) ||
               (scaling != NULL && !json_is_null(scaling)) ||
               (act != NULL && strcmp(act, "silu") != 0) || part != 1 ||
               (window > 0 && window < (double)s->length) || !(s->theta >= 1 && s->theta <= 1e12) ||
               !(s->eps >= 0 && s->eps <= 1);
    if (s->other) { /* nobody reads them */
        s->theta = 10000;
        s->eps = 1e-5;
    }
}

static shoal_status read_sizes(const json_t *root, const family *f, sizes *s)
{
    SHOALI_TRY(size_of(root, "hidden_size|n_embd", 1 << 20, 0, &s->width));
    SHOALI_TRY(
        size_of(root, "num_hidden_layers|n_layer", SHOALI_MODEL_LAYERS_MAX - 2, 0, &s->layers));
    SHOALI_TRY(size_of(root, "num_attention_heads|n_head", 1 << 16, 0, &s->heads));
    SHOALI_TRY(size_of(root, "vocab_size", 1 << 24, 0, &s->vocab));
    SHOALI_TRY(size_of(root, "max_position_embeddings|n_positions", 1 << 24, 0, &s->length));
    SHOALI_TRY(refuse_others(root));
    SHOALI_TRY(read_attention(root, f, s));
    SHOALI_TRY(read_mixture(root, f, s));
    const json_t *tied = json_object_get(root, "tie_word_embeddings");
    s->tied = tied != NULL ? json_is_true(tied) : f->tied;
    if (is_bert(f))
        SHOALI_TRY(read_bert_manners(root, s));
    else
        read_manners(root, strcmp(f->name, "gpt2") == 0, s);
    for (size_t i = 0; i < DROPS; i++) {
        const char *key = drop_keys(f)[i];
        s->drops[i] = key != NULL ? number_of(root, key, 0) : 0;
    }
    /* relu, and places from 2 on; blocks without rope, attention in chunks */
    s->other = s->other || strcmp(f->name, "opt") == 0 || strcmp(f->name, "llama4_text") == 0;
    return SHOAL_OK;
}

typedef unsigned long long count;

static void list_block(const family *f, const sizes *s, bool dense, shoali_layer_list *list)
{
    char experts[96] = "", latent[96] = "", drop[64] = "";
    if (!dense)
        snprintf(experts, sizeof experts, ",experts=%llu,active=%llu,shared=%llu%s",
                 (count)s->experts, (count)s->active, (count)s->shared,
                 s->balanced ? ",balanced" : "");
    if (f->latent)
        snprintf(latent, sizeof latent, ",qrank=%llu,kvrank=%llu,rope=%llu,vdim=%llu",
                 (count)s->qrank, (count)s->kvrank, (count)s->rope, (count)s->vdim);
    if (s->drops[DROP_HIDDEN] > 0 || s->drops[DROP_ATTENTION] > 0)
        snprintf(drop, sizeof drop, ",drop=%.9g,attdrop=%.9g", s->drops[DROP_HIDDEN],
                 s->drops[DROP_ATTENTION]);
    shoali_layer_list_add(list,
                          "transformer:heads=%llu,kv=%llu,dim=%llu,ff=%llu%s%s,norms=%d,"
                          "qkvbias=%d%s%s%s%s%s,theta=%.9g,eps=%.9g%s",
                          (count)s->heads, (count)s->kv, (count)s->dim,
                          (count)(dense && s->dense_ff > 0 ? s->dense_ff : s->ff), experts, latent,
                          f->norms, s->qkvbias, f->gated ? ",gated" : "",
                          f->bias ? "" : ",bias=off", f->headnorm ? ",headnorm" : "",
                          is_bert(f) ? ",encoder" : "", s->other ? ",other" : "", s->theta, s->eps,
                          drop);
}

static void list_head(const sizes *s, shoali_layer_list *list)
{
    if (s->masked) {
        shoali_layer_list_add(list, "unembedding:vocab=%llu,transform,norm=2,bias,eps=%.9g",
                              (count)s->vocab, s->eps);
        shoali_layer_list_add(list, "masked:mask=%lld", (long long)s->mask);
        return;
    }
    shoali_layer_list_add(list, "framepool");
    shoali_layer_list_add(list, "dense:out=%llu", (count)s->width);
    shoali_layer_list_add(list, "tanh");
}

static void list_layers(const family *f, const sizes *s, shoali_layer_list *list)
{
    /* OPT keeps two positions for padding */
    uint64_t positions = f->positions ? s->length + 2 * (strcmp(f->name, "opt") == 0) : 0;
    shoali_layer_list_add(list,
                          "embedding:vocab=%llu,width=%llu,positions=%llu,types=%llu%s,eps=%.9g,"
                          "drop=%.9g",
                          (count)s->vocab, (count)s->width, (count)positions, (count)s->types,
                          is_bert(f) ? ",norm" : "", s->eps, s->drops[DROP_EMBEDDING]);
    for (uint64_t l = 0; l < s->layers; l++)
        list_block(f, s, !is_mixture(s, l), list);
    if (is_bert(f)) {
        list_head(s, list);
        return;
    }
    shoali_layer_list_add(list, "unembedding:vocab=%llu,norm=%d,tied=%s,bias=%s,eps=%.9g",
                          (count)s->vocab, f->norm, s->tied ? "on" : "off",
                          f->headbias ? "on" : "off", s->eps);
}

/* The largest of what families call it and this one's blocks have no place for. */
static double other_dropout(const json_t *root, const family *f)
{
    static const char *const keys[] = {
        "resid_pdrop",         "embd_pdrop",        "attn_pdrop",
        "hidden_dropout_prob", "attention_dropout", "attention_probs_dropout_prob",
        "hidden_dropout",      "dropout",           "activation_dropout"};
    const char *const *own = drop_keys(f);
    double most = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double rate = number_of(root, keys[i], 0);
        bool known = false;
        for (size_t k = 0; k < DROPS; k++)
            known = known || (own[k] != NULL && strcmp(own[k], keys[i]) == 0);
        most = !known && rate > most ? rate : most;
    }
    return most;
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
    *text_out = (shoali_model_text){.name = f->name,
                                    .input = {1, (uint32_t)s.length, 1},
                                    .say_length = s.length > LENGTH_MAX,
                                    .dropout = other_dropout(root, f)};
    return shoali_layer_list_end(&list, text_out);
}
