/* SPDX-License-Identifier: Apache-2.0 */
/* Largest error of an all-reduce of files of float32, one per rank, against their sum in double:
 *
 *     shoal run -n N -- sum_error_bench COLLECTIVE CODEC FILE...
 *
 * Rank r contributes FILE r; there are at least N of them, all of one length. Rank 0 prints one
 * number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "shoal/shoal.h"

static void stop(const char *what)
{
    fprintf(stderr, "sum_error_bench: %s: %s\n", what, shoal_last_error()->text);
    exit(EXIT_FAILURE);
}

/* float32[*count_out], never freed. */
static float *read_floats(const char *path, size_t *count_out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        stop(path);
    const size_t bytes = (size_t)ftell(file);
    float *x = malloc(bytes + 1);
    rewind(file);
    if (x == NULL || fread(x, 1, bytes, file) != bytes)
        stop(path);
    (void)fclose(file);
    *count_out = bytes / sizeof *x;
    return x;
}

static double largest_error(const float *got, size_t count, char **files, uint32_t ranks)
{
    double worst = 0, *sum = calloc(count, sizeof *sum);
    if (sum == NULL)
        stop("memory");
    for (uint32_t r = 0; r < ranks; r++) {
        size_t n;
        const float *x = read_floats(files[r], &n);
        for (size_t i = 0; i < count; i++)
            sum[i] += (double)x[i];
    }
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(sum[i] - (double)got[i]));
    free(sum);
    return worst;
}

int main(int argc, char **argv)
{
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    shoal_comm *comm = NULL;
    shoal_view view;
    size_t count;
    if (shoal_comm_create(&desc, &comm) != SHOAL_OK || shoal_comm_view(comm, &view) != SHOAL_OK)
        stop("cannot join");
    if (argc < 3 + (int)view.rank_count)
        stop("fewer files than ranks");
    float *x = read_floats(argv[3 + view.rank], &count);
    if (shoal_allreduce(comm, x, count, argv[1], argv[2]) != SHOAL_OK)
        stop("cannot sum");
    if (view.rank == 0)
        printf("%.9g\n", largest_error(x, count, argv + 3, view.rank_count));
    free(x);
    shoal_comm_destroy(comm);
    return EXIT_SUCCESS;
}
