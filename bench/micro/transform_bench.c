/* SPDX-License-Identifier: Apache-2.0 */
/* A transform codec on a model's tensors, one member alone, on one core: what it computes, without
 * a network.
 *
 *     transform_bench --model resnet-18 --codec powersgd:rank=2 [--steps 10] [--shapes]
 *
 * Prints one line of JSON: milliseconds of CPU of the fastest step and of each of its rounds;
 * beside it `stream_ms`, what this core takes to add an array of as many floats to another one (12
 * bytes an element), a measure of the least that memory can cost. --shapes: the tensors' rows and
 * columns, for bench/peers/powersgd. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/kernel.h"
#include "model/model.h"

enum { ROUNDS_MAX = 4 };

typedef struct bench {
    const char *model_spec, *codec_spec;
    unsigned long steps;
    bool shapes;
    shoal_model *model;
    shoal_codec *codec;
    const shoal_tensor *tensors;
    uint32_t tensor_count, rounds;
    size_t count;
    float *source, *grad;
    void *state;
    uint64_t least_ns, of_round_ns[ROUNDS_MAX], stream_ns;
} bench;

static bool parse(int argc, char **argv, bench *b)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"codec", required_argument, NULL, 'c'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"shapes", no_argument, NULL, 'l'},
                                            {0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'm')
            b->model_spec = optarg;
        else if (c == 'c')
            b->codec_spec = optarg;
        else if (c == 's')
            b->steps = strtoul(optarg, NULL, 10);
        else if (c == 'l')
            b->shapes = true;
        else
            return false;
    }
    return b->model_spec != NULL && b->steps > 0 && optind == argc;
}

static shoal_status open_all(bench *b)
{
    SHOALI_TRY(shoal_model_open(b->model_spec, &b->model));
    SHOALI_TRY(shoal_codec_open(b->codec_spec, &b->codec));
    b->tensors = shoal_model_tensors(b->model, &b->tensor_count);
    if ((shoal_codec_traits(b->codec) & SHOAL_CODEC_TRANSFORM) == 0)
        return shoali_fail(SHOAL_EINVAL, "%s is no transform: shoal bench codec", b->codec_spec);
    const shoal_tensor *last = &b->tensors[b->tensor_count - 1];
    b->count = last->offset + last->count;
    b->source = malloc(b->count * sizeof *b->source);
    b->grad = malloc(b->count * sizeof *b->grad);
    b->state = calloc(1, b->codec->row->state_size(b->codec->params, b->tensors, b->tensor_count));
    if (b->source == NULL || b->grad == NULL || b->state == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %zu floats", b->count);
    for (size_t i = 0; i < b->count; i++)
        b->source[i] = (float)shoali_rng_normal(1, 0, i);
    return SHOAL_OK;
}

static void print_shapes(const bench *b)
{
    for (uint32_t i = 0; i < b->tensor_count; i++) {
        const shoal_tensor *t = &b->tensors[i];
        const bool matrix = (size_t)t->rows * t->cols == t->count;
        printf("%s[%zu, %u]", i == 0 ? "[" : ", ", matrix ? t->rows : t->count,
               matrix ? t->cols : 1);
    }
    printf("]\n");
}

/* Sums are what one member has: nothing is done between two rounds. */
static shoal_status one_step(bench *b)
{
    uint64_t of_round_ns[ROUNDS_MAX] = {0}, all_ns = 0;
    shoal_round round = {0};
    memcpy(b->grad, b->source, b->count * sizeof *b->grad);
    for (uint32_t index = 0; index < ROUNDS_MAX; index++) {
        round.members = 1;
        const uint64_t start = shoali_thread_cpu_ns();
        SHOALI_TRY(b->codec->row->next_round(b->codec->params, b->state, b->tensors,
                                             b->tensor_count, index, b->grad, &round));
        of_round_ns[index] = shoali_thread_cpu_ns() - start;
        all_ns += of_round_ns[index];
        b->rounds = index + 1;
        if (round.last)
            break;
    }
    if (all_ns < b->least_ns) {
        b->least_ns = all_ns;
        memcpy(b->of_round_ns, of_round_ns, sizeof of_round_ns);
    }
    const uint64_t start = shoali_thread_cpu_ns();
    shoali_kernel()->add(b->grad, b->source, b->count);
    const uint64_t took_ns = shoali_thread_cpu_ns() - start;
    b->stream_ns = took_ns < b->stream_ns ? took_ns : b->stream_ns;
    return SHOAL_OK;
}

static shoal_status measure(bench *b)
{
    b->least_ns = b->stream_ns = UINT64_MAX;
    for (unsigned long step = 0; step < b->steps; step++)
        SHOALI_TRY(one_step(b));
    printf("{\"model\": \"%s\", \"codec\": \"%s\", \"floats\": %zu, \"ms\": %.3f, \"rounds_ms\": [",
           b->model_spec, shoal_codec_spec(b->codec), b->count, (double)b->least_ns * 1e-6);
    for (uint32_t i = 0; i < b->rounds; i++)
        printf("%s%.3f", i == 0 ? "" : ", ", (double)b->of_round_ns[i] * 1e-6);
    printf("], \"stream_ms\": %.3f, \"cpu\": \"%s\"}\n", (double)b->stream_ns * 1e-6,
           shoali_cpu_name());
    return SHOAL_OK;
}

int main(int argc, char **argv)
{
    bench b = {.codec_spec = "powersgd:rank=2", .steps = 10};
    if (!parse(argc, argv, &b)) {
        fprintf(stderr, "usage: transform_bench --model SPEC [--codec SPEC] [--steps N] "
                        "[--shapes]\n");
        return 2;
    }
    shoal_status status = open_all(&b);
    if (status == SHOAL_OK && b.shapes)
        print_shapes(&b);
    else if (status == SHOAL_OK)
        status = measure(&b);
    if (status != SHOAL_OK)
        fprintf(stderr, "transform_bench: %s\n", shoal_last_error()->text);
    free(b.source);
    free(b.grad);
    free(b.state);
    shoal_codec_close(b.codec);
    shoal_model_close(b.model);
    return status == SHOAL_OK ? 0 : 1;
}
