/* SPDX-License-Identifier: Apache-2.0 */
/* Language models as they are described (embedding, transformer, unembedding: the layers that
 * planners cost) into the layers that train. A block becomes
 *
 *     rmsnorm, attention, add:back=3, rmsnorm, swiglu, add:back=3
 *
 * if it is of LLaMA's kind, and behind learned positions, if it is of GPT-2's,
 *
 *     layernorm, attention:bias,rope=off, add:back=3,
 *     layernorm, framewise, gelu:tanh, framewise, add:back=5
 *
 * and with `encoder`, BERT's,
 *
 *     attention:bias,rope=off,causal=off, add:back=2, layernorm,
 *     framewise, gelu, framewise, add:back=4, layernorm
 *
 * With drop=, a dropout stands behind the embedding and in front of each sum, which then reach one
 * further back; attdrop= goes to attention. Everything else is refused by the key that says it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model_text.h"

extern const shoali_layer_row shoali_layer_embedding, shoali_layer_transformer,
    shoali_layer_unembedding, shoali_layer_sparse;

static bool is(const char *spec, const shoali_layer_row *row)
{
    const size_t length = shoali_spec_name_len(spec);
    return strlen(row->name) == length && strncmp(spec, row->name, length) == 0;
}

/* What the layers are made into. */
typedef struct parts {
    shoali_layer_list list;
    bool gpt;      /* learned positions: GPT-2's, else llama's */
    bool encoder;  /* the last block was BERT's */
    int64_t width; /* of a frame */
} parts;

static shoal_status nothing_runs(const char *what)
{
    return shoali_fail(SHOAL_ENOTSUP,
                       "parts: nothing here runs %s; what runs is llama's: gated, bias=off, rope, "
                       "two norms with scales, gpt2's: learned positions, bias, gated=off, and "
                       "bert's: the same and encoder",
                       what);
}

/* Tables that are lent to the scores begin as GPT-2's did: deviation 0.02. */
static shoal_status put_embedding(const char *spec, parts *out)
{
    shoali_embedding_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_embedding.schema, &p));
    out->gpt = p.positions > 0;
    out->width = p.width;
    if (!out->gpt && (p.types > 0 || p.norm))
        return nothing_runs("segments and norms of tokens without learned positions (positions=)");
    if (out->gpt)
        shoali_layer_list_add(
            &out->list, "lookup:vocab=%lld,width=%lld,frames,positions=%lld,types=%lld,std=0.02",
            (long long)p.vocab, (long long)p.width, (long long)p.positions, (long long)p.types);
    else
        shoali_layer_list_add(&out->list, "lookup:vocab=%lld,width=%lld,frames", (long long)p.vocab,
                              (long long)p.width);
    if (p.norm)
        shoali_layer_list_add(&out->list, "layernorm:eps=%.9g", p.eps);
    if (p.drop > 0)
        shoali_layer_list_add(&out->list, "dropout:rate=%.9g", p.drop);
    return SHOAL_OK;
}

static shoal_status check_block(const parts *out, const shoali_transformer_params *p)
{
    const struct {
        bool asked;
        const char *what;
    } others[] = {
        {!out->gpt && !p->gated,
         "a feed-forward part of two products without learned positions (gated is off)"},
        {!out->gpt && p->bias,
         "products and norms that add learned values without learned positions (bias is on)"},
        {out->gpt && p->gated, "gated blocks behind learned positions (positions=)"},
        {out->gpt && !p->bias,
         "products that add nothing behind learned positions (positions=, bias is off)"},
        {!out->gpt && p->encoder, "encoders without learned positions (encoder)"},
        {p->qkvbias > 0, "queries, keys and values that add learned values (qkvbias=)"},
        {p->experts > 0, "mixtures of experts (experts=)"},
        {p->kvrank > 0, "latent attention (kvrank=)"},
        {p->other, "stretched rope, windows or activations other than silu and gpt2's (other)"},
        {p->headnorm, "norms of heads (headnorm)"},
        {p->norms != 2, "blocks with other than two norms (norms=)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].asked)
            return nothing_runs(others[i].what);
    return SHOAL_OK;
}

static void put_attention(const shoali_transformer_params *p, const char *manner,
                          shoali_layer_list *list)
{
    char drop[32] = "";
    if (p->attdrop > 0)
        snprintf(drop, sizeof drop, ",drop=%.9g", p->attdrop);
    shoali_layer_list_add(list, "attention:heads=%lld,kv=%lld,dim=%lld%s%s", (long long)p->heads,
                          (long long)p->kv, (long long)p->dim, manner, drop);
}

/* A sum with what came so many layers before, without dropout. */
static void put_sum(const shoali_transformer_params *p, int back, shoali_layer_list *list)
{
    if (p->drop > 0)
        shoali_layer_list_add(list, "dropout:rate=%.9g", p->drop);
    shoali_layer_list_add(list, "add:back=%d", back + (p->drop > 0));
}

static void put_gpt_block(const shoali_transformer_params *p, int64_t width,
                          shoali_layer_list *list)
{
    shoali_layer_list_add(list, "layernorm:eps=%.9g", p->eps);
    put_attention(p, ",rope=off,bias", list);
    put_sum(p, 3, list);
    shoali_layer_list_add(list, "layernorm:eps=%.9g", p->eps);
    shoali_layer_list_add(list, "framewise:out=%lld", (long long)p->ff);
    shoali_layer_list_add(list, "gelu:tanh");
    shoali_layer_list_add(list, "framewise:out=%lld", (long long)width);
    put_sum(p, 5, list);
}

static void put_bert_block(const shoali_transformer_params *p, int64_t width,
                           shoali_layer_list *list)
{
    put_attention(p, ",rope=off,causal=off,bias", list);
    put_sum(p, 2, list);
    shoali_layer_list_add(list, "layernorm:eps=%.9g", p->eps);
    shoali_layer_list_add(list, "framewise:out=%lld", (long long)p->ff);
    shoali_layer_list_add(list, "gelu");
    shoali_layer_list_add(list, "framewise:out=%lld", (long long)width);
    put_sum(p, 4, list);
    shoali_layer_list_add(list, "layernorm:eps=%.9g", p->eps);
}

static void put_llama_block(const shoali_transformer_params *p, shoali_layer_list *list)
{
    char theta[32];
    snprintf(theta, sizeof theta, ",theta=%.9g", p->theta);
    shoali_layer_list_add(list, "rmsnorm:eps=%.9g", p->eps);
    put_attention(p, theta, list);
    put_sum(p, 3, list);
    shoali_layer_list_add(list, "rmsnorm:eps=%.9g", p->eps);
    shoali_layer_list_add(list, "swiglu:ff=%lld", (long long)p->ff);
    put_sum(p, 3, list);
}

static shoal_status put_block(const char *spec, parts *out)
{
    shoali_transformer_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_transformer.schema, &p));
    SHOALI_TRY(check_block(out, &p));
    out->encoder = p.encoder;
    if (out->gpt)
        (p.encoder ? put_bert_block : put_gpt_block)(&p, out->width, &out->list);
    else
        put_llama_block(&p, &out->list);
    return SHOAL_OK;
}

static shoal_status put_unembedding(const char *spec, parts *out)
{
    shoali_unembedding_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_unembedding.schema, &p));
    if (p.norm == 2 && !out->gpt)
        return nothing_runs("a last norm with shifts without learned positions (norm=2)");
    if (p.norm == 1 && out->gpt)
        return nothing_runs("a last norm without shifts behind learned positions (norm=1)");
    if (p.transform && !out->encoder)
        return nothing_runs("a product before the scores behind other blocks than bert's "
                            "(transform)");
    if (p.transform) {
        shoali_layer_list_add(&out->list, "framewise:out=%lld", (long long)out->width);
        shoali_layer_list_add(&out->list, "gelu");
    }
    if (p.norm > 0)
        shoali_layer_list_add(&out->list, "%s:eps=%.9g", out->gpt ? "layernorm" : "rmsnorm", p.eps);
    shoali_layer_list_add(&out->list, "framewise:out=%lld,%sbias=%s", (long long)p.vocab,
                          p.tied ? "tied," : "", p.bias && !p.tied ? "on" : "off");
    if (p.bias && p.tied)
        shoali_layer_list_add(&out->list, "bias");
    return SHOAL_OK;
}

/* Numbers of layers count what stands there after this. */
static shoal_status keep(const char *spec, parts *out)
{
    if (strstr(spec, "back=") != NULL)
        return shoali_fail(SHOAL_ENOTSUP,
                           "parts: '%.64s' counts layers, which are others once blocks are taken "
                           "apart; write the model without it",
                           spec);
    shoali_layer_list_add(&out->list, "%s", spec);
    return SHOAL_OK;
}

shoal_status shoali_model_parts(const char *name, shoal_arena *arena, shoali_model_text *text)
{
    parts out = {.list = {.arena = arena}};
    bool any = false;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        const char *spec = text->layers[i];
        const bool block = is(spec, &shoali_layer_transformer);
        SHOALI_TRY(block                                 ? put_block(spec, &out)
                   : is(spec, &shoali_layer_embedding)   ? put_embedding(spec, &out)
                   : is(spec, &shoali_layer_unembedding) ? put_unembedding(spec, &out)
                                                         : keep(spec, &out));
        any = any || block;
    }
    if (!any)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' has no transformer layer to be taken apart; leave parts "
                           "out",
                           name);
    return shoali_layer_list_end(&out.list, text);
}

/* ---------------------------------------------------------------- another head */

/* BERT's vocabularies, uncased and cased, have [MASK] at 103. */
static bool is_published(int64_t vocab)
{
    return vocab == 30522 || vocab == 28996;
}

shoal_status shoali_model_head(const char *name, const char *head, shoal_arena *arena,
                               shoali_model_text *text)
{
    shoali_layer_list list = {.arena = arena};
    shoali_embedding_params table = {0};
    shoali_transformer_params block = {0};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < text->layer_count; i++)
        if (is(text->layers[i], &shoali_layer_embedding)) {
            SHOALI_TRY(shoali_spec_parse("layer", text->layers[i], &shoali_layer_embedding.schema,
                                         &table));
        } else if (is(text->layers[i], &shoali_layer_transformer)) {
            SHOALI_TRY(shoali_spec_parse("layer", text->layers[i], &shoali_layer_transformer.schema,
                                         &block));
            kept = i + 1;
        }
    if (table.vocab == 0 || !block.encoder)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' has no blocks like BERT's (encoder) for a head=%s", name,
                           head);
    for (uint32_t i = 0; i < kept; i++)
        shoali_layer_list_add(&list, "%s", text->layers[i]);
    if (strcmp(head, "masked") == 0) {
        shoali_layer_list_add(&list, "unembedding:vocab=%lld,transform,norm=2,bias,eps=%.9g",
                              (long long)table.vocab, block.eps);
        shoali_layer_list_add(&list, is_published(table.vocab) ? "masked:mask=103" : "masked");
    } else {
        shoali_layer_list_add(&list, "framepool:by=%s", head[0] == 'p' ? "first" : "mean");
    }
    if (strcmp(head, "pooler") == 0) {
        shoali_layer_list_add(&list, "dense:out=%lld", (long long)table.width);
        shoali_layer_list_add(&list, "tanh");
    }
    return shoali_layer_list_end(&list, text);
}

/* ---------------------------------------------------------------- another vocabulary */

/* The spec of a layer whose key `vocab` is another. */
static shoal_status revocab(const shoali_layer_row *row, const char *spec, int64_t vocab,
                            shoal_arena *arena, const char **spec_out)
{
    union {
        shoali_embedding_params embedding;
        shoali_unembedding_params unembedding;
        shoali_sparse_params sparse;
    } p;
    char text[SHOALI_LAYER_SPEC_MAX];
    SHOALI_TRY(shoali_spec_parse("layer", spec, &row->schema, &p));
    *(row == &shoali_layer_embedding ? &p.embedding.vocab
      : row == &shoali_layer_sparse  ? &p.sparse.vocab
                                     : &p.unembedding.vocab) = vocab;
    shoali_spec_format(row->name, &row->schema, &p, text, sizeof text);
    *spec_out = shoali_arena_strdup(arena, text);
    return *spec_out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* Of a kind whose vocabulary can be set; NULL: no. */
static const shoali_layer_row *has_vocabulary(const char *spec)
{
    static const shoali_layer_row *const all[] = {&shoali_layer_embedding,
                                                  &shoali_layer_unembedding, &shoali_layer_sparse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is(spec, all[i]))
            return all[i];
    return NULL;
}

shoal_status shoali_model_vocab(const char *name, int64_t vocab, shoal_arena *arena,
                                shoali_model_text *text)
{
    const char **layers = shoali_arena_array(arena, text->layer_count, sizeof *layers);
    bool any = false;
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        const char *spec = layers[i] = text->layers[i];
        const shoali_layer_row *row = has_vocabulary(spec);
        if (row == NULL)
            continue;
        SHOALI_TRY(revocab(row, spec, vocab, arena, &layers[i]));
        any = true;
    }
    text->layers = layers;
    if (!any)
        return shoali_fail(
            SHOAL_EINVAL,
            "model '%.64s' has no embedding and no sparse layer whose vocabulary could "
            "be set",
            name);
    return SHOAL_OK;
}
