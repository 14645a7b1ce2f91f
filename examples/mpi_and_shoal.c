/* SPDX-License-Identifier: Apache-2.0 */
/* A program of MPI's that sums gradients by Shoal: rank 0 says by MPI where ranks meet, and makes
 * the secret that keeps strangers out; MPI stays as it was.
 *
 *     mpicc mpi_and_shoal.c $(pkg-config --cflags --libs shoal) -o mpi_and_shoal
 *     mpirun -n 4 ./mpi_and_shoal
 *
 * Ranks on one host alone need none of this: there Shoal finds them by mpirun's variables. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "shoal/shoal.h"

enum { COUNT = 100000, PORT = 29401 };

typedef struct meeting {
    char place[300], token[65];
} meeting;

/* Rank 0's host, by a name that the others can resolve. */
static int choose(meeting *m)
{
    char host[256] = "";
    unsigned char secret[32];
    if (gethostname(host, sizeof host - 1) != 0 ||
        getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return 0;
    snprintf(m->place, sizeof m->place, "tcp://%s:%d", host, PORT);
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(m->token + 2 * i, 3, "%02x", secret[i]);
    return 1;
}

static int failed(const char *what)
{
    const shoal_error *error = shoal_last_error();
    fprintf(stderr, "%s: %s. %s\n", what, error->text, error->advice);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    return EXIT_FAILURE;
}

/* The same sum by both. */
static double difference(const shoal_view *view, shoal_comm *comm, float *x, float *by_mpi)
{
    double worst = 0;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 97) * (float)(view->rank + 1);
    MPI_Allreduce(x, by_mpi, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (shoal_allreduce(comm, x, COUNT, "ring", NULL) != SHOAL_OK)
        return failed("cannot sum");
    for (int i = 0; i < COUNT; i++) {
        const double apart = (double)x[i] - (double)by_mpi[i];
        worst = apart > worst ? apart : -apart > worst ? -apart : worst;
    }
    return worst;
}

int main(int argc, char **argv)
{
    int rank = 0, size = 0;
    meeting m = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && !choose(&m))
        return failed("cannot choose a meeting point");
    MPI_Bcast(&m, sizeof m, MPI_CHAR, 0, MPI_COMM_WORLD);

    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    desc.rank = rank;
    desc.world_size = size;
    desc.rendezvous = m.place;
    desc.token = m.token;
    shoal_comm *comm = NULL;
    shoal_view view = {.size = sizeof view};
    if (shoal_comm_create(&desc, &comm) != SHOAL_OK || shoal_comm_view(comm, &view) != SHOAL_OK)
        return failed("cannot join");
    float *x = malloc(COUNT * sizeof *x), *by_mpi = malloc(COUNT * sizeof *by_mpi);
    if (x != NULL && by_mpi != NULL) {
        const double worst = difference(&view, comm, x, by_mpi);
        if (rank == 0)
            printf("%d ranks: MPI and Shoal differ by %g\n", size, worst);
    }
    free(x);
    free(by_mpi);
    shoal_comm_destroy(comm);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
