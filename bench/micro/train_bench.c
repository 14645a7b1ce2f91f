/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of one worker on one core: forward, loss, backward, SGD with momentum.
 *
 *     train_bench --model lenet --batch 64 [--seconds 2]
 *
 * Prints one line of JSON: milliseconds of the fastest and of the median step, and the least CPU
 * time of one. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "model/model.h"
#include "nn/nn.h"
#include "nn/optim.h"

enum { STEPS_MAX = 100000, WARM_UP = 2 };

typedef struct bench {
    const char *spec;
    uint32_t batch;
    double seconds;
    shoal_model *model;
    shoali_net *net;
    shoali_optim *optim;
    float *x;
    uint32_t *labels;
    uint64_t steps;
    uint64_t times_ns[STEPS_MAX], least_cpu_ns;
} bench;

static int usage(void)
{
    fprintf(stderr, "usage: train_bench --model SPEC --batch N [--seconds S]\n");
    return 2;
}

static int failed(void)
{
    fprintf(stderr, "train_bench: %s\n", shoal_last_error()->text);
    return 1;
}

static bool parse(int argc, char **argv, bench *b)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'm')
            b->spec = optarg;
        else if (c == 'b')
            b->batch = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 's')
            b->seconds = strtod(optarg, NULL);
        else
            return false;
    }
    return b->spec != NULL && b->batch > 0 && b->seconds > 0;
}

static shoal_status prepare(bench *b)
{
    uint32_t tensor_count;
    shoal_model *model;
    SHOALI_TRY(shoal_model_open(b->spec, &model));
    b->model = model;
    SHOALI_TRY(shoali_net_create(model, b->batch, 1, &b->net));
    const shoal_tensor *tensors = shoal_model_tensors(model, &tensor_count);
    size_t elems = (size_t)shoali_shape_elems(model->input) * b->batch;
    b->x = shoali_alloc_array(elems, sizeof *b->x);
    b->labels = shoali_alloc_array(b->batch, sizeof *b->labels);
    if (b->x == NULL || b->labels == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < elems; i++)
        b->x[i] = (float)shoali_rng_normal(1, 2, i);
    for (uint32_t n = 0; n < b->batch; n++)
        b->labels[n] = n % 10;
    return shoali_optim_create("sgd:momentum=0.9", tensors, tensor_count, &b->optim);
}

static shoal_status step(bench *b)
{
    const shoali_batch batch = {b->x, b->labels, b->batch, b->steps * b->batch, 1.0f, NULL};
    float *params = shoali_net_params(b->net);
    shoali_loss loss;
    shoal_status status = shoali_net_train(b->net, &batch, NULL, NULL, &loss);
    if (status == SHOAL_OK)
        shoali_optim_step(b->optim,
                          &(shoali_step){0, shoali_net_count(b->net), params,
                                         shoali_net_grads(b->net), params, 0.01f, 1.0f, b->steps});
    return status;
}

static shoal_status run(bench *b)
{
    uint64_t end = 0;
    for (int i = 0; i < WARM_UP; i++) {
        SHOALI_TRY(step(b));
        end = shoali_now_ns() + (uint64_t)(b->seconds * 1e9);
    }
    while (b->steps < STEPS_MAX && (b->steps == 0 || shoali_now_ns() < end)) {
        uint64_t begin = shoali_now_ns(), cpu = shoali_thread_cpu_ns();
        SHOALI_TRY(step(b));
        b->times_ns[b->steps++] = shoali_now_ns() - begin;
        cpu = shoali_thread_cpu_ns() - cpu;
        b->least_cpu_ns = cpu < b->least_cpu_ns ? cpu : b->least_cpu_ns;
    }
    return SHOAL_OK;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static bench b = {.seconds = 2, .least_cpu_ns = UINT64_MAX};
    if (!parse(argc, argv, &b))
        return usage();
    if (prepare(&b) != SHOAL_OK || run(&b) != SHOAL_OK)
        return failed();
    qsort(b.times_ns, b.steps, sizeof *b.times_ns, by_time);
    printf("{\"model\": \"%s\", \"batch\": %u, \"steps\": %llu, \"min_ms\": %.3f, "
           "\"median_ms\": %.3f, \"min_cpu_ms\": %.3f}\n",
           b.spec, b.batch, (unsigned long long)b.steps, (double)b.times_ns[0] / 1e6,
           (double)b.times_ns[b.steps / 2] / 1e6, (double)b.least_cpu_ns / 1e6);
    shoali_optim_destroy(b.optim);
    shoali_net_destroy(b.net);
    shoal_model_close(b.model);
    shoali_free(b.x);
    shoali_free(b.labels);
    return 0;
}
