/* SPDX-License-Identifier: Apache-2.0 */
/* Sum a vector over all ranks, first as it is, then coded to a fraction of the bytes, and at last
 * many times by a prepared operation:
 *
 *     shoal run -n 4 -- ./c_allreduce
 *     torchrun --no-python --nproc-per-node 4 ./c_allreduce       (or mpirun, or srun)
 *
 * Built with: cc c_allreduce.c $(pkg-config --cflags --libs shoal) -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "shoal/shoal.h"

enum { COUNT = 1000000, TIMES = 3 };

static int failed(const char *what)
{
    const shoal_error *error = shoal_last_error();
    fprintf(stderr, "%s: %s. %s\n", what, error->text, error->advice);
    return EXIT_FAILURE;
}

int main(void)
{
    shoal_comm_desc desc =
        SHOAL_COMM_DESC_INIT; /* rank, size and meeting point: from the launcher */
    shoal_comm *comm = NULL;
    shoal_view view;
    if (shoal_comm_create(&desc, &comm) != SHOAL_OK || shoal_comm_view(comm, &view) != SHOAL_OK)
        return failed("cannot join");

    float *x = malloc(COUNT * sizeof *x);
    const char *codecs[] = {"identity", "inceptionn:bound=2^-10"};
    for (int c = 0; c < 2 && x != NULL; c++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)sin(i + (double)view.rank) / 16;
        if (shoal_allreduce(comm, x, COUNT, "ring", codecs[c]) != SHOAL_OK)
            return failed("cannot sum");
        double worst = 0;
        for (int i = 0; i < COUNT; i++) {
            double sum = 0;
            for (uint32_t rank = 0; rank < view.rank_count; rank++)
                sum += (float)sin(i + (double)rank) / 16;
            worst = fmax(worst, fabs(sum - (double)x[i]));
        }
        if (view.rank == 0)
            printf("%u ranks, %s: largest error %.6f\n", view.rank_count, codecs[c], worst);
    }
    shoal_op_desc often = SHOAL_OP_DESC_INIT; /* an all-reduce by ring, unless it says otherwise */
    shoal_op_plan *plan = NULL;
    often.count = COUNT;
    if (shoal_op_prepare(comm, &often, &plan) != SHOAL_OK)
        return failed("cannot prepare");
    for (int i = 0; i < TIMES && x != NULL; i++) {
        shoal_op *op = NULL;
        if (shoal_op_run(plan, x, &op) != SHOAL_OK || shoal_op_wait(&op, -1, NULL) != SHOAL_OK)
            return failed("cannot sum again");
        for (int e = 0; e < COUNT; e++)
            x[e] /= (float)view.rank_count;
    }
    shoal_op_plan_destroy(plan);
    free(x);
    shoal_comm_destroy(comm);
    return EXIT_SUCCESS;
}
