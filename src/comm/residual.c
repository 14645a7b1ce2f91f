/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives operations (ops/residual.h), for checkpoints. It is the progress thread's; others
 * come by shoali_call. */
#include <string.h>

#include "base/error.h"
#include "comm/inner.h"

/* Until nothing writes what is read here. Other operations may stay open for as long as they like:
 * a protocol may keep receives posted through all of a run. */
static void wait_for_keepers(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->handles.keeping_ops > 0)
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
    r->count = shoali_residuals_list(r->comm->ops.residuals, r->out, r->capacity);
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
    shoali_residual_store *store = shoali_ops_kept(&r->comm->ops);
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
    shoali_residuals_free(comm->ops.residuals);
    comm->ops.residuals = NULL;
}

void shoali_comm_forget_residuals(shoal_comm *comm)
{
    if (atomic_load(&comm->forked))
        return;
    wait_for_keepers(comm);
    shoali_call(comm, forget, comm);
}
