/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/residual.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

enum { FIRST_RESIDUALS = 32 };

typedef struct transform_state {
    uint64_t hash;
    size_t bytes;
    void *state;
    bool agreed; /* by the members of now, on the steps that it counts */
} transform_state;

struct shoali_residual_store {
    shoali_residual *residuals; /* sorted by key */
    size_t count, capacity;
    transform_state *transforms;
    size_t transform_count;
    float **old; /* of tensors that have another size now; somebody may hold them */
    size_t old_count, holders;
};

shoali_residual_store *shoali_residuals_create(void)
{
    return shoali_alloc(sizeof(shoali_residual_store));
}

static void free_old(shoali_residual_store *store)
{
    for (size_t i = 0; i < store->old_count; i++)
        shoali_free(store->old[i]);
    shoali_free(store->old);
    store->old = NULL;
    store->old_count = 0;
}

void shoali_residuals_free(shoali_residual_store *store)
{
    if (store == NULL)
        return;
    free_old(store);
    for (size_t i = 0; i < store->count; i++)
        shoali_free(store->residuals[i].values);
    for (size_t i = 0; i < store->transform_count; i++)
        shoali_free(store->transforms[i].state);
    shoali_free(store->residuals);
    shoali_free(store->transforms);
    shoali_free(store);
}

/* Index of key, or where it belongs. */
static size_t find(const shoali_residual_store *store, uint64_t key)
{
    size_t low = 0, high = store->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->residuals[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static shoali_residual *insert(shoali_residual_store *store, size_t at, uint64_t key)
{
    if (store->count == store->capacity) {
        size_t fresh = store->capacity == 0 ? FIRST_RESIDUALS : 2 * store->capacity;
        shoali_residual *more = shoali_realloc(store->residuals, store->capacity * sizeof *more,
                                               fresh * sizeof *more);
        if (more == NULL)
            return NULL;
        store->residuals = more;
        store->capacity = fresh;
    }
    memmove(store->residuals + at + 1, store->residuals + at,
            (store->count - at) * sizeof *store->residuals);
    store->residuals[at] = (shoali_residual){.key = key};
    store->count++;
    return &store->residuals[at];
}

void shoali_residuals_hold(shoali_residual_store *store)
{
    store->holders++;
}

void shoali_residuals_release(shoali_residual_store *store)
{
    if (--store->holders == 0)
        free_old(store);
}

/* Not before nobody holds it. False: no memory to remember it. */
static bool let_go(shoali_residual_store *store, float *values)
{
    if (store->holders == 0 || values == NULL) {
        shoali_free(values);
        return true;
    }
    float **more = shoali_realloc(store->old, store->old_count * sizeof *more,
                                  (store->old_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    store->old = more;
    store->old[store->old_count++] = values;
    return true;
}

float *shoali_residuals_at(shoali_residual_store *store, uint64_t key, size_t count)
{
    size_t at = find(store, key);
    shoali_residual *r = at < store->count && store->residuals[at].key == key
                             ? &store->residuals[at]
                             : insert(store, at, key);
    if (r == NULL)
        return NULL;
    if (r->values == NULL || r->count != count) {
        float *values = shoali_alloc_array(count, sizeof *values);
        if (values == NULL)
            return NULL;
        if (!let_go(store, r->values)) {
            shoali_free(values);
            return NULL;
        }
        r->values = values;
        r->count = count;
    }
    return r->values;
}

/* ------------------------------------------------------------------ transforms */

static void take_saved(shoali_residual_store *store, uint64_t hash, void *state, size_t bytes)
{
    size_t at = find(store, hash);
    if (at == store->count || store->residuals[at].key != hash)
        return;
    shoali_residual *saved = &store->residuals[at];
    if (saved->count == bytes / sizeof(float))
        memcpy(state, saved->values, bytes);
    shoali_free(saved->values);
    store->count--;
    memmove(saved, saved + 1, (store->count - at) * sizeof *saved);
}

void *shoali_residuals_state(shoali_residual_store *store, uint64_t hash, size_t bytes)
{
    for (size_t i = 0; i < store->transform_count; i++)
        if (store->transforms[i].hash == hash)
            return store->transforms[i].state;
    transform_state *more = shoali_realloc(store->transforms, store->transform_count * sizeof *more,
                                           (store->transform_count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    store->transforms = more;
    void *state = shoali_alloc(bytes);
    if (state == NULL)
        return NULL;
    take_saved(store, hash, state, bytes);
    store->transforms[store->transform_count++] = (transform_state){hash, bytes, state, false};
    return state;
}

void shoali_residuals_reset(shoali_residual_store *store, const void *state)
{
    for (size_t i = 0; store != NULL && i < store->transform_count; i++)
        if (store->transforms[i].state == state)
            memset(store->transforms[i].state, 0, store->transforms[i].bytes);
}

bool *shoali_residuals_agreed(shoali_residual_store *store, const void *state)
{
    for (size_t i = 0; store != NULL && i < store->transform_count; i++)
        if (store->transforms[i].state == state)
            return &store->transforms[i].agreed;
    return NULL;
}

void shoali_residuals_reform(shoali_residual_store *store)
{
    for (size_t i = 0; store != NULL && i < store->transform_count; i++)
        store->transforms[i].agreed = false;
}

/* ------------------------------------------------------------------ all of it */

size_t shoali_residuals_list(const shoali_residual_store *store, shoali_residual *out,
                             size_t capacity)
{
    const size_t plain = store != NULL ? store->count : 0,
                 all = plain + (store != NULL ? store->transform_count : 0);
    for (size_t i = 0; i < all && i < capacity; i++) {
        if (i < plain) {
            out[i] = store->residuals[i];
            continue;
        }
        const transform_state *t = &store->transforms[i - plain];
        out[i] = (shoali_residual){t->hash, t->state, t->bytes / sizeof(float)};
    }
    return all;
}
