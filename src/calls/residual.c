/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives operations (ops/residual.h), for checkpoints. It is the progress thread's; others
 * come by shoali_loop_call. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "calls/calls.h"
#include "codec/codec.h"
#include "endpoint/endpoint.h"

/* Until nothing writes what is read here. Other operations may stay open for as long as they like:
 * a protocol may keep receives posted through all of a run. */
static void wait_for_keepers(shoal_comm *comm)
{
    pthread_mutex_lock(&comm->loop.lock);
    while (comm->handles.keeping_ops > 0)
        pthread_cond_wait(&comm->loop.changed, &comm->loop.lock);
    pthread_mutex_unlock(&comm->loop.lock);
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
    if (atomic_load(&comm->loop.forked))
        return 0;
    wait_for_keepers(comm);
    shoali_loop_call(&comm->loop, list, &r);
    return r.count;
}

/* By tensor key: those of other sizes are of other operations. */
static void add_up(const shoal_codec *codec, const shoali_residual *owed, size_t owed_count,
                   const shoal_tensor *tensors, uint32_t count, float *want)
{
    for (size_t r = 0; r < owed_count; r++)
        for (uint32_t t = 0; t < count; t++) {
            if (tensors[t].key != owed[r].key || tensors[t].count != owed[r].count)
                continue;
            for (size_t i = 0; i < tensors[t].count; i++)
                want[tensors[t].offset + i] += codec->decay * owed[r].values[i];
        }
}

shoal_status shoali_comm_add_owed(shoal_comm *comm, const char *spec, const shoal_tensor *tensors,
                                  uint32_t count, float *want)
{
    shoal_codec *codec;
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    size_t room = codec->error_feedback ? shoali_comm_residuals(comm, NULL, 0) : 0;
    shoali_residual *owed = shoali_alloc_array(room + 1, sizeof *owed);
    if (owed != NULL && room > 0) {
        const size_t listed = shoali_comm_residuals(comm, owed, room);
        add_up(codec, owed, listed < room ? listed : room, tensors, count, want);
    }
    shoal_codec_close(codec);
    shoal_status status = owed != NULL
                              ? SHOAL_OK
                              : shoali_fail(SHOAL_ENOMEM, "no memory to list %zu residuals", room);
    shoali_free(owed);
    return status;
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
    if (atomic_load(&comm->loop.forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    wait_for_keepers(comm);
    shoali_loop_call(&comm->loop, put, &r);
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
    if (atomic_load(&comm->loop.forked))
        return;
    wait_for_keepers(comm);
    shoali_loop_call(&comm->loop, forget, comm);
}
