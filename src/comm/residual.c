/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation of this communicator finds in the store of what outlives operations
 * (ops/residual.h). Progress thread only; others come by shoali_call. */
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "comm/inner.h"

static shoali_residual_store *store_of(shoal_comm *comm)
{
    if (comm->residuals == NULL)
        comm->residuals = shoali_residuals_create();
    return comm->residuals;
}

shoal_status shoali_residuals_of(shoal_comm *comm, const shoal_op *op, float **residuals_out)
{
    shoali_residual_store *store = store_of(comm);
    if (store == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t t = 0; t < op->tensor_count; t++) {
        residuals_out[t] = shoali_residuals_at(store, op->tensors[t].key, op->tensors[t].count);
        if (residuals_out[t] == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static uint64_t transform_hash(const shoal_op *op)
{
    uint64_t hash = shoali_mix(op->push->hash, op->tensor_count);
    for (uint32_t t = 0; t < op->tensor_count; t++)
        hash = shoali_mix(shoali_mix(hash, op->tensors[t].key), op->tensors[t].count);
    return hash;
}

shoal_status shoali_transform_state(shoal_comm *comm, const shoal_op *op, void **state_out)
{
    shoali_residual_store *store = store_of(comm);
    if (store == NULL)
        return SHOAL_ENOMEM;
    size_t bytes = op->push->row->state_size(op->push->params, op->tensors, op->tensor_count);
    *state_out = shoali_residuals_state(store, transform_hash(op), bytes);
    return *state_out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_transform_reset(shoal_comm *comm, const shoal_op *op)
{
    shoali_residuals_reset(comm->residuals, op->transform);
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
    r->count = shoali_residuals_list(r->comm->residuals, r->out, r->capacity);
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
    float *values = store != NULL ? shoali_residuals_at(store, r->key, r->count) : NULL;
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
