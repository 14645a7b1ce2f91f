/* SPDX-License-Identifier: Apache-2.0 */
/* Thin wrappers: one operation over all ranks, started and waited for. */
#include "calls/calls.h"
#include "base/error.h"
#include "calls/wait.h"

shoal_status shoali_comm_run(shoal_comm *comm, const shoal_op_desc *desc, shoal_op_stats *stats_out)
{
    const shoali_op_extras extras = {
        .check_finite = true, .error_feedback = true, .own_wait = true};
    shoal_op *op = NULL;
    SHOALI_TRY(shoali_op_start(comm, desc, &extras, &op));
    return shoal_op_wait(&op, -1, stats_out);
}

static shoal_status run_coded(shoal_comm *comm, shoal_op_kind kind, float *buf, size_t count,
                              const char *collective, const char *codec)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = kind;
    desc.buf = buf;
    desc.count = count;
    desc.collective = collective;
    desc.push_codec = codec;
    return shoali_comm_run(comm, &desc, NULL);
}

shoal_status shoal_allreduce(shoal_comm *comm, float *buf, size_t count, const char *collective,
                             const char *codec)
{
    return run_coded(comm, SHOAL_ALL_REDUCE, buf, count, collective, codec);
}

shoal_status shoal_reduce_scatter(shoal_comm *comm, float *buf, size_t count,
                                  const char *collective, const char *codec)
{
    return run_coded(comm, SHOAL_REDUCE_SCATTER, buf, count, collective, codec);
}

shoal_status shoal_allgather(shoal_comm *comm, float *buf, size_t count, const char *collective,
                             const char *codec)
{
    return run_coded(comm, SHOAL_ALL_GATHER, buf, count, collective, codec);
}

shoal_status shoal_broadcast(shoal_comm *comm, float *buf, size_t count, uint32_t root)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BROADCAST;
    desc.buf = buf;
    desc.count = count;
    desc.root = root;
    return shoali_comm_run(comm, &desc, NULL);
}

shoal_status shoal_barrier(shoal_comm *comm)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BARRIER;
    return shoali_comm_run(comm, &desc, NULL);
}

shoal_status shoal_comm_shard(shoal_comm *comm, uint32_t rank, size_t count, size_t *offset_out,
                              size_t *count_out)
{
    if (comm == NULL || rank >= comm->ranks)
        return shoali_fail(SHOAL_EINVAL, "no rank %u in this communicator", rank);
    shoali_block_range(count, comm->ranks, rank, offset_out, count_out);
    return SHOAL_OK;
}
