/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec string may name: the rows of the tables, with their keys, as `shoal list` shows them.
 * Every spec is "name" or "name:key=value,flag". */
#ifndef SHOAL_ROWS_H
#define SHOAL_ROWS_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_table {
    SHOAL_TABLE_SYNCS,       /* protocols: shoal_train_desc.sync */
    SHOAL_TABLE_CODECS,      /* .codec */
    SHOAL_TABLE_COLLECTIVES, /* .collective */
    SHOAL_TABLE_TRANSPORTS,  /* shoal_comm_desc.transport */
    SHOAL_TABLE_OPTIMIZERS,  /* shoal_train_desc.optimizer */
    SHOAL_TABLE_SCHEDULES,   /* .schedule, of the learning rate */
    SHOAL_TABLE_LAYERS,      /* of model files */
    SHOAL_TABLE_MODELS,      /* shoal_train_desc.model; files are the other possibility */
    SHOAL_TABLE_COUNT
} shoal_table;

/** "codecs", as it is written on the command line; NULL beyond the last. */
SHOAL_API const char *shoal_table_name(shoal_table table);

/** One row. Texts live as long as the library. */
typedef struct shoal_row {
    size_t size;
    const char *name;
    const char *about; /* what it is, or the work that it comes from, and where ours differs */
    uint32_t trait_count, key_count;
    double bytes_per_element; /* codecs, at their defaults; 0 elsewhere */
} shoal_row;
/** Row i of a table. @return false beyond the last. */
SHOAL_API bool shoal_row_at(shoal_table table, size_t i, shoal_row *row_out);
/** Trait t of row i at its defaults, a word or two ("survives losses"); NULL beyond the last. */
SHOAL_API const char *shoal_row_trait(shoal_table table, size_t i, uint32_t t);

typedef struct shoal_row_key {
    size_t size;
    const char *name, *fallback; /* fallback: the value without the key */
    const char *help;            /* one line, with the unit */
    char syntax[160];            /* "bound=2^-6|2^-8", "lanes=1..16", "strict" */
} shoal_row_key;
/** Key k of row i. @return false beyond the last. */
SHOAL_API bool shoal_row_key_at(shoal_table table, size_t i, uint32_t k, shoal_row_key *key_out);

#ifdef __cplusplus
}
#endif
#endif
