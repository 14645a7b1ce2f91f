/* SPDX-License-Identifier: Apache-2.0 */
/* Text from a checkpoint. A trainer that never steps brings network and data, as for evaluation;
 * the data set's tokenizer.json says which texts tokens are. */
#include "shoal/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "data/tokenizer.h"
#include "deploy/deploy.h"
#include "model/model.h"

enum { DRAWS = 0x67656E65 }; /* "gene": the stream of what is drawn */

typedef struct candidate {
    double score;
    uint32_t id;
} candidate;

struct shoal_generator {
    shoal_deploy *deploy;
    shoali_tokenizer *tokenizer;
    shoali_ids prompt;
    uint16_t *seen; /* [room] the last tokens, of which `count` are there */
    uint32_t count, room, end;
    uint32_t kept; /* of seen, tokens that are where they were when the network ran */
    uint64_t drawn;
    double temperature;
    uint32_t top_k;
    uint64_t seed;
    bool ended;
    candidate *candidates; /* [classes] */
};

/* ---------------------------------------------------------------- opening */

static shoal_status check_parts(const shoal_generator *g, const char *from)
{
    const shoal_train *t = g->deploy->train;
    if (!t->model->sequence || !t->data.set->tokens || t->info.input.width != 1)
        return shoali_fail(SHOAL_EINVAL,
                           "%s is no network over tokens of text: model %s was trained on %s", from,
                           t->info.name, t->desc.data);
    if (t->model->ctc)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s was trained by CTC: its scores are of no next "
                           "token",
                           t->info.name);
    if (t->model->masked)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s was trained to tell hidden tokens: its scores are of no next "
                           "token",
                           t->info.name);
    return SHOAL_OK;
}

static shoal_status open_tokenizer(shoal_generator *g)
{
    char path[SHOALI_PATH_BYTES];
    const shoal_train *t = g->deploy->train;
    SHOALI_TRY(shoali_path_join(path, t->desc.data, "tokenizer.json"));
    if (shoali_tokenizer_open(path, &g->tokenizer) != SHOAL_OK) {
        if (shoal_last_error()->status == SHOAL_EIO)
            shoali_error_advice("It says which texts the tokens are: make the data anew by "
                                "`shoal data text`.");
        return shoal_last_error()->status;
    }
    if (shoali_tokenizer_count(g->tokenizer) != t->data.set->classes)
        return shoali_fail(SHOAL_EINVAL, "%s has %u tokens, the data beside it %u", path,
                           shoali_tokenizer_count(g->tokenizer), t->data.set->classes);
    g->end = shoali_tokenizer_end(g->tokenizer);
    return SHOAL_OK;
}

/* What the tokens of characters leave out without a word, a prompt should not have. */
static shoal_status check_characters(shoal_generator *g, const char *prompt)
{
    for (size_t i = 0; i < g->prompt.count; i++)
        if (g->prompt.ids[i] == 0)
            return shoali_fail(SHOAL_EINVAL,
                               "the prompt \"%.60s\" has characters other than the %u of this "
                               "network's text",
                               prompt, shoali_tokenizer_count(g->tokenizer) - 1);
    return SHOAL_OK;
}

static void see(shoal_generator *g, uint16_t id)
{
    if (g->count == g->room) {
        memmove(g->seen, g->seen + 1, (g->room - 1) * sizeof *g->seen);
        g->count--;
        g->kept = 0;
    }
    g->seen[g->count++] = id;
}

static shoal_status read_prompt(shoal_generator *g, const char *prompt)
{
    SHOALI_TRY(shoali_tokenizer_encode(g->tokenizer, prompt, strlen(prompt), true, &g->prompt));
    if (shoali_tokenizer_is_characters(g->tokenizer))
        SHOALI_TRY(check_characters(g, prompt));
    if (g->prompt.count == 0 && g->end == SHOALI_NO_TOKEN)
        return shoali_fail(SHOAL_EINVAL,
                           "the prompt \"%.60s\" holds nothing to begin with, and this network's "
                           "text has no token that ends one",
                           prompt);
    if (g->prompt.count == 0)
        see(g, (uint16_t)g->end);
    for (size_t i = 0; i < g->prompt.count; i++)
        see(g, g->prompt.ids[i]);
    return SHOAL_OK;
}

static shoal_status open_parts(shoal_generator *g, const shoal_generate_desc *desc)
{
    shoal_deploy_desc deploy = SHOAL_DEPLOY_DESC_INIT;
    deploy.from = desc->from;
    deploy.data = desc->data;
    deploy.batch = 1;
    SHOALI_TRY(shoal_deploy_open(&deploy, &g->deploy));
    SHOALI_TRY(check_parts(g, desc->from));
    SHOALI_TRY(open_tokenizer(g));
    shoal_train *t = g->deploy->train;
    g->room = t->info.input.height;
    g->seen = shoali_arena_array(t->arena, g->room, sizeof *g->seen);
    g->candidates = shoali_arena_array(t->arena, t->data.set->classes, sizeof *g->candidates);
    if (g->seen == NULL || g->candidates == NULL)
        return SHOAL_ENOMEM;
    return read_prompt(g, desc->prompt != NULL ? desc->prompt : "");
}

shoal_status shoal_generate_open(const shoal_generate_desc *desc, shoal_generator **generator_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->from == NULL ||
        !(desc->temperature >= 0) || !isfinite(desc->temperature))
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_generate_desc: start from SHOAL_GENERATE_DESC_INIT, name a run; "
                           "temperature is at least 0");
    shoal_generator *g = shoali_alloc(sizeof *g);
    if (g == NULL)
        return SHOAL_ENOMEM;
    g->temperature = desc->temperature;
    g->top_k = desc->top_k;
    g->seed = desc->seed > 0 ? desc->seed : 1;
    const shoal_status status = open_parts(g, desc);
    if (status == SHOAL_OK)
        *generator_out = g;
    else
        shoal_generate_close(g);
    return status;
}

void shoal_generate_close(shoal_generator *g)
{
    if (g == NULL)
        return;
    shoali_ids_free(&g->prompt);
    shoali_tokenizer_close(g->tokenizer);
    shoal_deploy_close(g->deploy);
    shoali_free(g);
}

/* ---------------------------------------------------------------- the next one */

/* Scores of what follows the last token that is seen. */
static const float *run(shoal_generator *g)
{
    shoal_train *t = g->deploy->train;
    memset(t->data.x, 0, g->room * sizeof *t->data.x);
    for (uint32_t i = 0; i < g->count; i++)
        t->data.x[i] = g->seen[i];
    shoali_net_continue(t->net, t->data.x, g->kept, g->count);
    g->kept = g->count;
    return shoali_net_scores(t->net) + (size_t)(g->count - 1) * t->info.classes;
}

static int by_score(const void *a, const void *b)
{
    const candidate *one = a, *other = b;
    if (one->score != other->score)
        return one->score > other->score ? -1 : 1;
    return one->id < other->id ? -1 : one->id > other->id;
}

/* Ids that are tokens, the most likely first. */
static shoal_status rank(shoal_generator *g, const float *scores, uint32_t *count_out)
{
    uint32_t count = 0;
    size_t length;
    for (uint32_t id = 0; id < g->deploy->train->data.set->classes; id++) {
        if (!isfinite(scores[id]))
            return shoali_fail(SHOAL_ENOTFINITE, "the network's score of token %u is no number",
                               id);
        (void)shoali_tokenizer_text(g->tokenizer, id, &length);
        if (length > 0)
            g->candidates[count++] = (candidate){scores[id], id};
    }
    qsort(g->candidates, count, sizeof *g->candidates, by_score);
    *count_out = count;
    return SHOAL_OK;
}

/* In proportion to exp(score / temperature), among the first of them. */
static uint32_t draw(shoal_generator *g, uint32_t count)
{
    const double best = g->candidates[0].score;
    double sum = 0;
    if (g->temperature == 0)
        return g->candidates[0].id;
    if (g->top_k > 0 && g->top_k < count)
        count = g->top_k;
    for (uint32_t i = 0; i < count; i++)
        sum += g->candidates[i].score = exp((g->candidates[i].score - best) / g->temperature);
    double left = sum * shoali_rng_double(g->seed, DRAWS, g->drawn++);
    uint32_t i = 0;
    for (; i + 1 < count && left >= g->candidates[i].score; i++)
        left -= g->candidates[i].score;
    return g->candidates[i].id;
}

static void tell(const shoal_generator *g, uint32_t id, bool first, shoal_generated *token_out)
{
    *token_out = (shoal_generated){.size = sizeof *token_out, .token = id, .end = id == g->end};
    token_out->text = shoali_tokenizer_piece(g->tokenizer, id, first, &token_out->len_bytes);
}

bool shoal_generate_prompt(const shoal_generator *g, size_t i, shoal_generated *token_out)
{
    if (i >= g->prompt.count)
        return false;
    tell(g, g->prompt.ids[i], i == 0, token_out);
    return true;
}

shoal_status shoal_generate_next(shoal_generator *g, shoal_generated *token_out)
{
    uint32_t count = 0, id = g->end;
    if (!g->ended) {
        SHOALI_TRY(rank(g, run(g), &count));
        id = draw(g, count);
        see(g, (uint16_t)id);
        g->ended = id == g->end;
    }
    tell(g, id, g->prompt.count == 0, token_out);
    return SHOAL_OK;
}
