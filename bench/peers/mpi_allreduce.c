/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_Allreduce as the library chooses; -a is only the name of the row, algorithms are forced by
 * mpirun's parameters (contest.py). */
#include <mpi.h>

#include "measure.h"

static void all_reduce(void *ctx, float *buf, size_t count)
{
    (void)ctx;
    MPI_Allreduce(MPI_IN_PLACE, buf, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void *ctx)
{
    (void)ctx;
    MPI_Barrier(MPI_COMM_WORLD);
}

static double small(double value, MPI_Op op)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return value;
}

static double max(void *ctx, double value)
{
    (void)ctx;
    return small(value, MPI_MAX);
}

static double sum(void *ctx, double value)
{
    (void)ctx;
    return small(value, MPI_SUM);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv); /* errors end the job with a message: MPI_ERRORS_ARE_FATAL */
    measure_options options = measure_parse(argc, argv);
    measure_peer peer = {options.algorithm, 0, 0, NULL, NULL, all_reduce, barrier, max, sum};
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
    int status = measure_run(&peer, &options);
    MPI_Finalize();
    return status;
}
