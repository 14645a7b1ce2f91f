/* SPDX-License-Identifier: Apache-2.0 */
/* The tables under one roof, for listings: names, sources, traits in words, keys' syntax. */
#include "shoal/rows.h"

#include <stdio.h>

#include "codec/codec.h"
#include "collective/schedule.h"
#include "model/model.h"
#include "nn/optim.h"
#include "sync/sync.h"
#include "transport/transport.h"

typedef struct trait_word {
    uint32_t bit;
    const char *word;
} trait_word;

/* A row in any table's terms. */
typedef struct listed {
    shoali_listed row;
    uint32_t traits;
    const trait_word *words;
    size_t word_count;
    double bytes_per_element;
} listed;

static const trait_word sync_words[] = {{SHOALI_SYNC_EXACT, "replicas equal after each step"},
                                        {SHOALI_SYNC_MEAN, "keeps the mean"},
                                        {SHOALI_SYNC_SERVERS, "dedicated servers"},
                                        {SHOALI_SYNC_OWNER, "owner updates"},
                                        {SHOALI_SYNC_SURVIVES, "survives losses"},
                                        {SHOALI_SYNC_SAMPLES, "weighs by samples"},
                                        {SHOALI_SYNC_CODED, "takes codecs"},
                                        {SHOALI_SYNC_COLLECTIVE, "takes collectives"},
                                        {SHOALI_SYNC_GRADIENTS, "sums gradients"},
                                        {SHOALI_SYNC_APART, "checkpoints of each replica"},
                                        {SHOALI_SYNC_MODELS, "codes models without loss"},
                                        {SHOALI_SYNC_CHANGES, "codes their changes"}};
static const trait_word codec_words[] = {
    {SHOAL_CODEC_LOSSLESS, "lossless"},
    {SHOAL_CODEC_FIXED_RATE, "fixed rate"},
    {SHOAL_CODEC_UNBIASED, "unbiased"},
    {SHOAL_CODEC_SUMMABLE, "adds in coded form"},
    {SHOAL_CODEC_SLOTS, "needs slots (gather)"},
    {SHOAL_CODEC_TRANSFORM, "sums of its own"},
    {SHOAL_CODEC_STEPS, "makes steps of sums"},
    {SHOAL_CODEC_LOCAL, "meets now and then"},
    {SHOAL_CODEC_NAN_SAFE, "carries NaN and infinity"},
    {SHOAL_CODEC_SHAPE_FREE, "same error for any distribution"}};
static const trait_word collective_words[] = {{SHOALI_COLL_SLOTS, "slots: sums in rank order"},
                                              {SHOALI_COLL_DEDICATED, "dedicated members"},
                                              {SHOALI_COLL_ROOTED, "from one root"},
                                              {SHOALI_COLL_SERVED, "aggregators"},
                                              {SHOALI_COLL_ROUNDED, "rounds to integers"},
                                              {SHOALI_COLL_RATED, "follows link rates"},
                                              {SHOALI_COLL_ROWS, "sends named rows"},
                                              {SHOALI_COLL_HOSTS, "sums inside hosts first"}};
static const trait_word optimizer_words[] = {{SHOALI_OPTIM_WHOLE, "whole matrices"}};
static const trait_word layer_words[] = {{SHOALI_LAYER_DESCRIBED, "described only"}};

#define WORDS(table) (table), sizeof(table) / sizeof *(table)

static bool sync_at(size_t i, listed *out)
{
    if (i >= shoali_sync_count())
        return false;
    const shoali_sync_row *row = shoali_sync_row_at(i);
    *out = (listed){{row->name, row->paper, &row->schema}, row->traits, WORDS(sync_words), 0};
    return true;
}

static bool codec_at(size_t i, listed *out)
{
    shoal_codec *opened = NULL;
    if (i >= shoali_codec_count())
        return false;
    const shoali_codec_row *row = shoali_codec_row_at(i);
    *out = (listed){{row->name, row->paper, &row->schema},
                    row->traits,
                    WORDS(codec_words),
                    (double)row->bytes_per_elem};
    if (shoal_codec_open(row->name, &opened) == SHOAL_OK)
        out->traits = shoal_codec_traits(opened);
    shoal_codec_close(opened);
    return true;
}

static bool collective_at(size_t i, listed *out)
{
    if (i >= shoali_collective_count())
        return false;
    const shoali_collective_row *row = shoali_collective_row_at(i);
    *out = (listed){{row->name, row->paper, &row->schema}, row->traits, WORDS(collective_words), 0};
    return true;
}

static bool transport_at(size_t i, listed *out)
{
    if (i >= shoali_transport_count())
        return false;
    const shoali_transport_row *row = shoali_transport_row_at(i);
    *out = (listed){.row = {row->name, row->about, &row->schema}};
    return true;
}

static bool optimizer_at(size_t i, listed *out)
{
    *out = (listed){.words = optimizer_words, .word_count = 1};
    return shoali_optim_listed(i, &out->row) &&
           shoali_optim_ask(out->row.name, &out->traits) == SHOAL_OK;
}

static bool schedule_at(size_t i, listed *out)
{
    *out = (listed){.row = {0}};
    return shoali_lr_listed(i, &out->row);
}

static bool layer_at(size_t i, listed *out)
{
    if (i >= shoali_layer_row_count())
        return false;
    const shoali_layer_row *row = shoali_layer_row_at(i);
    *out = (listed){{row->name, row->help, &row->schema}, row->traits, WORDS(layer_words), 0};
    return true;
}

static bool model_at(size_t i, listed *out)
{
    *out = (listed){.row = {shoal_model_zoo_name(i), shoal_model_zoo_help(i), NULL}};
    return out->row.name != NULL;
}

static const struct {
    const char *name;
    bool (*at)(size_t i, listed *out);
} tables[SHOAL_TABLE_COUNT] = {
    [SHOAL_TABLE_SYNCS] = {"syncs", sync_at},
    [SHOAL_TABLE_CODECS] = {"codecs", codec_at},
    [SHOAL_TABLE_COLLECTIVES] = {"collectives", collective_at},
    [SHOAL_TABLE_TRANSPORTS] = {"transports", transport_at},
    [SHOAL_TABLE_OPTIMIZERS] = {"optimizers", optimizer_at},
    [SHOAL_TABLE_SCHEDULES] = {"schedules", schedule_at},
    [SHOAL_TABLE_LAYERS] = {"layers", layer_at},
    [SHOAL_TABLE_MODELS] = {"models", model_at},
};

static bool find(shoal_table table, size_t i, listed *out)
{
    return (size_t)table < SHOAL_TABLE_COUNT && tables[table].at(i, out);
}

const char *shoal_table_name(shoal_table table)
{
    return (size_t)table < SHOAL_TABLE_COUNT ? tables[table].name : NULL;
}

static uint32_t trait_count(const listed *from)
{
    uint32_t count = 0;
    for (size_t w = 0; w < from->word_count; w++)
        count += (from->traits & from->words[w].bit) != 0;
    return count;
}

bool shoal_row_at(shoal_table table, size_t i, shoal_row *row_out)
{
    listed from;
    if (row_out == NULL || row_out->size != sizeof *row_out || !find(table, i, &from))
        return false;
    row_out->name = from.row.name;
    row_out->about = from.row.about != NULL ? from.row.about : "";
    row_out->trait_count = trait_count(&from);
    row_out->bytes_per_element = from.bytes_per_element;
    row_out->key_count = from.row.schema != NULL ? (uint32_t)from.row.schema->count : 0;
    return true;
}

const char *shoal_row_trait(shoal_table table, size_t i, uint32_t t)
{
    listed from;
    if (!find(table, i, &from))
        return NULL;
    for (size_t w = 0; w < from.word_count; w++)
        if ((from.traits & from.words[w].bit) != 0 && t-- == 0)
            return from.words[w].word;
    return NULL;
}

bool shoal_row_key_at(shoal_table table, size_t i, uint32_t k, shoal_row_key *key_out)
{
    listed from;
    if (key_out == NULL || key_out->size != sizeof *key_out || !find(table, i, &from) ||
        from.row.schema == NULL || k >= from.row.schema->count)
        return false;
    const shoali_key *key = &from.row.schema->keys[k];
    key_out->name = key->name;
    key_out->fallback = key->fallback;
    key_out->help = key->help;
    shoali_spec_syntax(key, key_out->syntax, sizeof key_out->syntax);
    return true;
}
