/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives an operation: error feedback's residuals, by tensor key, and the states of
 * transforms, by codec and tensor table. Progress thread only; others come by shoali_call. */
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "comm/inner.h"

typedef struct transform_state {
    uint64_t hash;
    size_t bytes;
    void *state;
} transform_state;

struct shoali_residual_store {
    shoali_residual *residuals; /* sorted by key */
    size_t count, capacity;
    transform_state *transforms;
    size_t transform_count;
};

static shoali_residual_store *store_of(shoal_comm *comm)
{
    if (comm->residuals == NULL)
        comm->residuals = shoali_alloc(sizeof *comm->residuals);
    return comm->residuals;
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
        size_t fresh = store->capacity == 0 ? 32 : 2 * store->capacity;
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

/* The residual of key with count elements, zero if it is new or had another size; NULL: ENOMEM. */
static float *residual(shoali_residual_store *store, uint64_t key, size_t count)
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
        shoali_free(r->values);
        r->values = values;
        r->count = count;
    }
    return r->values;
}

shoal_status shoali_residuals_of(shoal_comm *comm, const shoal_op *op, float **residuals_out)
{
    shoali_residual_store *store = store_of(comm);
    if (store == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t t = 0; t < op->tensor_count; t++) {
        residuals_out[t] = residual(store, op->tensors[t].key, op->tensors[t].count);
        if (residuals_out[t] == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ transforms */

static uint64_t transform_hash(const shoal_op *op)
{
    uint64_t hash = shoali_mix(op->push->hash, op->tensor_count);
    for (uint32_t t = 0; t < op->tensor_count; t++)
        hash = shoali_mix(shoali_mix(hash, op->tensors[t].key), op->tensors[t].count);
    return hash;
}

/* A state that a checkpoint brought waits among the residuals, under its hash. */
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

shoal_status shoali_transform_state(shoal_comm *comm, const shoal_op *op, void **state_out)
{
    shoali_residual_store *store = store_of(comm);
    uint64_t hash = transform_hash(op);
    if (store == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < store->transform_count; i++)
        if (store->transforms[i].hash == hash) {
            *state_out = store->transforms[i].state;
            return SHOAL_OK;
        }
    size_t bytes = op->push->row->state_size(op->push->params, op->tensors, op->tensor_count);
    transform_state *more = shoali_realloc(store->transforms, store->transform_count * sizeof *more,
                                           (store->transform_count + 1) * sizeof *more);
    if (more == NULL)
        return SHOAL_ENOMEM;
    store->transforms = more;
    void *state = shoali_alloc(bytes);
    if (state == NULL)
        return SHOAL_ENOMEM;
    take_saved(store, hash, state, bytes);
    store->transforms[store->transform_count++] = (transform_state){hash, bytes, state};
    *state_out = state;
    return SHOAL_OK;
}

void shoali_transform_reset(shoal_comm *comm, const shoal_op *op)
{
    shoali_residual_store *store = comm->residuals;
    for (size_t i = 0; store != NULL && i < store->transform_count; i++)
        if (store->transforms[i].state == op->transform)
            memset(op->transform, 0, store->transforms[i].bytes);
}

void shoali_residuals_free(shoali_residual_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; i < store->count; i++)
        shoali_free(store->residuals[i].values);
    for (size_t i = 0; i < store->transform_count; i++)
        shoali_free(store->transforms[i].state);
    shoali_free(store->residuals);
    shoali_free(store->transforms);
    shoali_free(store);
}

/* ------------------------------------------------------------------ checkpoints */

bool shoali_op_feeds_back(const shoal_op *op)
{
    return op->extras.error_feedback && (op->push->error_feedback || op->pull->error_feedback);
}

bool shoali_op_keeps(const shoal_op *op)
{
    return shoali_op_feeds_back(op) || (op->push->traits & SHOAL_CODEC_TRANSFORM) != 0;
}

/* Until nothing writes what is read here. Other operations may stay open for as long as they like:
 * a protocol may keep receives posted through all of a run. */
static void wait_for_keepers(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->keeping_ops > 0)
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

typedef struct request {
    shoal_comm *comm;
    shoali_residual *out;
    size_t capacity, count;
    uint64_t key;
    const float *values;
    shoal_status status;
    shoal_error error;
} request;

static void list(void *arg)
{
    request *r = arg;
    const shoali_residual_store *store = r->comm->residuals;
    const size_t plain = store != NULL ? store->count : 0;
    r->count = plain + (store != NULL ? store->transform_count : 0);
    for (size_t i = 0; i < r->count && i < r->capacity; i++) {
        if (i < plain) {
            r->out[i] = store->residuals[i];
            continue;
        }
        const transform_state *t = &store->transforms[i - plain];
        r->out[i] = (shoali_residual){t->hash, t->state, t->bytes / sizeof(float)};
    }
}

size_t shoali_comm_residuals(shoal_comm *comm, shoali_residual *out, size_t capacity)
{
    request r = {.comm = comm, .out = out, .capacity = capacity};
    if (atomic_load(&comm->forked))
        return 0;
    wait_for_keepers(comm);
    shoali_call(comm, list, &r);
    return r.count;
}

static void put(void *arg)
{
    request *r = arg;
    shoali_residual_store *store = store_of(r->comm);
    float *values = store != NULL ? residual(store, r->key, r->count) : NULL;
    r->status = values != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    if (values != NULL)
        memcpy(values, r->values, r->count * sizeof *values);
    else
        shoali_error_get(&r->error);
}

shoal_status shoali_comm_set_residual(shoal_comm *comm, uint64_t key, const float *values,
                                      size_t count)
{
    request r = {.comm = comm, .key = key, .values = values, .count = count};
    if (atomic_load(&comm->forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    wait_for_keepers(comm);
    shoali_call(comm, put, &r);
    return r.status == SHOAL_OK ? SHOAL_OK : shoali_error_set(&r.error);
}

static void forget(void *arg)
{
    shoal_comm *comm = arg;
    shoali_residuals_free(comm->residuals);
    comm->residuals = NULL;
}

void shoali_comm_forget_residuals(shoal_comm *comm)
{
    if (atomic_load(&comm->forked))
        return;
    wait_for_keepers(comm);
    shoali_call(comm, forget, comm);
}
