/* SPDX-License-Identifier: Apache-2.0 */
/* Language models as they are described (embedding, transformer, unembedding: the layers that
 * planners cost) into the layers that train. A block becomes
 *
 *     rmsnorm, attention, add:back=3, rmsnorm, swiglu, add:back=3
 *
 * Only blocks of LLaMA's kind can: everything else is refused by the key that says it. */
#include <string.h>

#include "base/error.h"
#include "model/model.h"

extern const shoali_layer_row shoali_layer_embedding, shoali_layer_transformer,
    shoali_layer_unembedding, shoali_layer_sparse;

static bool is(const char *spec, const shoali_layer_row *row)
{
    const size_t length = shoali_spec_name_len(spec);
    return strlen(row->name) == length && strncmp(spec, row->name, length) == 0;
}

static shoal_status nothing_runs(const char *what)
{
    return shoali_fail(SHOAL_ENOTSUP,
                       "parts: nothing here runs %s; what runs is llama's: gated, bias=off, rope, "
                       "two norms with scales",
                       what);
}

static shoal_status put_embedding(const char *spec, shoali_layer_list *list)
{
    shoali_embedding_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_embedding.schema, &p));
    if (p.positions > 0)
        return nothing_runs("learned positions (positions=)");
    shoali_layer_list_add(list, "lookup:vocab=%lld,width=%lld,frames", (long long)p.vocab,
                          (long long)p.width);
    return SHOAL_OK;
}

static shoal_status check_block(const shoali_transformer_params *p)
{
    const struct {
        bool asked;
        const char *what;
    } others[] = {
        {!p->gated, "a feed-forward part of two products (gated is off)"},
        {p->bias, "products and norms that add learned values (bias is on)"},
        {p->qkvbias > 0, "queries, keys and values that add learned values (qkvbias=)"},
        {p->experts > 0, "mixtures of experts (experts=)"},
        {p->kvrank > 0, "latent attention (kvrank=)"},
        {p->other, "stretched rope, windows or activations other than silu (other)"},
        {p->headnorm, "norms of heads (headnorm)"},
        {p->norms != 2, "blocks with other than two norms (norms=)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].asked)
            return nothing_runs(others[i].what);
    return SHOAL_OK;
}

static shoal_status put_block(const char *spec, shoali_layer_list *list)
{
    shoali_transformer_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_transformer.schema, &p));
    SHOALI_TRY(check_block(&p));
    shoali_layer_list_add(list, "rmsnorm:eps=%.9g", p.eps);
    shoali_layer_list_add(list, "attention:heads=%lld,kv=%lld,dim=%lld,theta=%.9g",
                          (long long)p.heads, (long long)p.kv, (long long)p.dim, p.theta);
    shoali_layer_list_add(list, "add:back=3");
    shoali_layer_list_add(list, "rmsnorm:eps=%.9g", p.eps);
    shoali_layer_list_add(list, "swiglu:ff=%lld", (long long)p.ff);
    shoali_layer_list_add(list, "add:back=3");
    return SHOAL_OK;
}

static shoal_status put_unembedding(const char *spec, shoali_layer_list *list)
{
    shoali_unembedding_params p;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &shoali_layer_unembedding.schema, &p));
    if (p.norm == 2)
        return nothing_runs("a last norm with shifts (norm=2)");
    if (p.norm == 1)
        shoali_layer_list_add(list, "rmsnorm:eps=%.9g", p.eps);
    shoali_layer_list_add(list, "framewise:out=%lld,%sbias=%s", (long long)p.vocab,
                          p.tied ? "tied," : "", p.bias ? "on" : "off");
    return SHOAL_OK;
}

/* Numbers of layers count what stands there after this. */
static shoal_status keep(const char *spec, shoali_layer_list *list)
{
    if (strstr(spec, "back=") != NULL)
        return shoali_fail(SHOAL_ENOTSUP,
                           "parts: '%.64s' counts layers, which are others once blocks are taken "
                           "apart; write the model without it",
                           spec);
    shoali_layer_list_add(list, "%s", spec);
    return SHOAL_OK;
}

shoal_status shoali_model_parts(const char *name, shoal_arena *arena, shoali_model_text *text)
{
    shoali_layer_list list = {.arena = arena};
    bool any = false;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        const char *spec = text->layers[i];
        const bool block = is(spec, &shoali_layer_transformer);
        SHOALI_TRY(block                                 ? put_block(spec, &list)
                   : is(spec, &shoali_layer_embedding)   ? put_embedding(spec, &list)
                   : is(spec, &shoali_layer_unembedding) ? put_unembedding(spec, &list)
                                                         : keep(spec, &list));
        any = any || block;
    }
    if (!any)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' has no transformer layer to be taken apart; leave parts "
                           "out",
                           name);
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
