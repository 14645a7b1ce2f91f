/* SPDX-License-Identifier: Apache-2.0 */
/* shoal bench circulant: block-circulant products against the dense ones that they stand for, on
 * one core.
 *
 * Ours, OpenBLAS and FFTW run in turn, round after round, each with caches as its own last run left
 * them; of each the median counts. Floating-point operations of ours are those of the products per
 * bin, and 2.5 k log2 k for each transform, as is usual for real ones. The peak that they are a
 * share of is measured in turn with them: clocks change while all this runs. `cold` is batch 1
 * after its weights were flushed from all caches; the bandwidth beside it was measured by reading
 * memory flushed likewise. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "bench.h"
#include "bench_convolution.h"
#include "bench_rivals.h"
#include "bench_time.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/circulant.h"

enum { LIST_MOST = 32, ROUNDS_MOST = 99, CHECKED = 4 };
enum { PEAK, DENSE, OURS, PRODUCTS, FFTW, COLD, TRAIN_DENSE, TRAIN_OURS, OPERATIONS };

typedef struct pair {
    int64_t out, in;
} pair;

typedef struct args {
    pair shapes[LIST_MOST];
    int64_t blocks[LIST_MOST], batches[LIST_MOST], rounds;
    size_t shape_count, block_count, batch_count, convolution_count;
    bench_convolution convolutions[LIST_MOST];
    bool training, no_fftw, json;
    json_t *rows;              /* json */
    double peak_gf, read_gb_s; /* at first; 0: no AVX2 here */
    bench_blas blas;
} args;

typedef struct job {
    const args *a;
    size_t out, in, k, batch;
    float *dense, *w, *x, *y, *dw, *dx;
    void *memory;
    size_t memory_bytes;
    shoal_circulant *layer;
    bench_fftw *fftw;
    double times[OPERATIONS][ROUNDS_MOST]; /* seconds; 0: does not run here */
    double error;
} job;

/* ------------------------------------------------------------------ the machine */

#define PEAK_TURNS 400000L
#define PEAK_FLOPS (12.0 * 16 * PEAK_TURNS)

#if defined(__x86_64__)
#include <immintrin.h>
/* 12 independent chains: more than latency times units of any core. */
__attribute__((target("avx2,fma"), noinline)) static float multiply_adds(long turns)
{
    __m256 sums[12];
    const __m256 b = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(1e-3f);
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) sums[i] = _mm256_set1_ps((float)i);
    for (long t = 0; t < turns; t++)
        _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++)
            sums[i] = _mm256_fmadd_ps(sums[i], b, c);
    for (int i = 1; i < 12; i++)
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return _mm256_cvtss_f32(sums[0]);
}

static double time_peak_s(void)
{
    const double start = bench_now_s();
    volatile float sink = multiply_adds(PEAK_TURNS);
    (void)sink;
    return bench_now_s() - start;
}

__attribute__((target("avx2"), noinline)) static float read_all(const float *x, size_t n)
{
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (size_t i = 0; i + 32 <= n; i += 32) {
        a = _mm256_add_ps(a, _mm256_load_ps(x + i));
        b = _mm256_add_ps(b, _mm256_load_ps(x + i + 8));
        c = _mm256_add_ps(c, _mm256_load_ps(x + i + 16));
        d = _mm256_add_ps(d, _mm256_load_ps(x + i + 24));
    }
    return _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
}

static void flush(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        _mm_clflush((const char *)memory + at);
    _mm_mfence();
}

static void measure_machine(args *a)
{
    enum { FLOATS = 1 << 24 };
    volatile float sink = 0;
    float *x = aligned_alloc(64, FLOATS * sizeof *x);
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || x == NULL) {
        free(x);
        return;
    }
    memset(x, 0, FLOATS * sizeof *x);
    for (int i = 0; i < 9; i++) {
        a->peak_gf = fmax(a->peak_gf, PEAK_FLOPS / time_peak_s() * 1e-9);
        flush(x, FLOATS * sizeof *x);
        const double start = bench_now_s();
        sink = read_all(x, FLOATS);
        a->read_gb_s = fmax(a->read_gb_s, FLOATS * sizeof *x / (bench_now_s() - start) * 1e-9);
    }
    (void)sink;
    free(x);
}
#else
static double time_peak_s(void)
{
    return 0; /* never asked for */
}

static void flush(const void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

static void measure_machine(args *a)
{
    (void)a; /* no peak, no bandwidth: shares of them are left out */
}
#endif

/* ------------------------------------------------------------------ operations */

static void dense_forward(const job *j, const float *x, float *y)
{
    const int out = (int)j->out, in = (int)j->in, batch = (int)j->batch;
    if (batch == 1)
        j->a->blas.gemv(BENCH_ROWS, BENCH_PLAIN, out, in, 1, j->dense, in, x, 1, 0, y, 1);
    else
        j->a->blas.gemm(BENCH_ROWS, BENCH_PLAIN, BENCH_TRANS, batch, out, in, 1, x, in, j->dense,
                        in, 0, y, out);
}

static void train_dense(const job *j)
{
    const int out = (int)j->out, in = (int)j->in, batch = (int)j->batch;
    dense_forward(j, j->x, j->y);
    j->a->blas.gemm(BENCH_ROWS, BENCH_TRANS, BENCH_PLAIN, out, in, batch, 1, j->y, out, j->x, in, 0,
                    j->dw, in);
    j->a->blas.gemm(BENCH_ROWS, BENCH_PLAIN, BENCH_PLAIN, batch, in, out, 1, j->y, out, j->dense,
                    in, 0, j->dx, in);
}

/* New weights every step: their transforms are part of it. */
static void train_ours(const job *j)
{
    shoal_circulant_set_weights(j->layer, j->w);
    shoal_circulant_forward(j->layer, j->x, j->batch, NULL, j->y);
    shoal_circulant_backward(j->layer, j->y, j->batch, j->dx, j->dw);
}

static void run(const job *j, int operation)
{
    switch (operation) {
    case DENSE:
        dense_forward(j, j->x, j->y);
        break;
    case OURS:
    case COLD:
        shoal_circulant_forward(j->layer, j->x, j->batch, NULL, j->y);
        break;
    case PRODUCTS:
        shoal_circulant_multiply(j->layer, j->batch);
        break;
    case FFTW:
        bench_fftw_run(j->fftw, j->x, j->y);
        break;
    case TRAIN_DENSE:
        train_dense(j);
        break;
    default:
        train_ours(j);
    }
}

static bool runs(const job *j, int operation)
{
    if (operation == PEAK)
        return j->a->peak_gf > 0;
    if (operation == FFTW)
        return j->fftw != NULL;
    if (operation == COLD)
        return j->batch == 1 && j->a->read_gb_s > 0;
    return operation < FFTW || j->a->training;
}

typedef struct timed {
    const job *j;
    int which;
} timed;

static void run_operation(void *ctx)
{
    const timed *o = ctx;
    run(o->j, o->which);
}

/* All but the cold one may run as often as it takes. */
static double time_once(const job *j, int which)
{
    timed o = {j, which};
    if (which == PEAK)
        return time_peak_s();
    if (which != COLD)
        return bench_time(run_operation, &o);
    flush(j->memory, j->memory_bytes);
    const double start = bench_now_s();
    run(j, which);
    return bench_now_s() - start;
}

static double median(job *j, int operation)
{
    return bench_median(j->times[operation], (size_t)j->a->rounds);
}

/* ------------------------------------------------------------------ one row */

/* Ours against sums in double over the matrix itself. */
static double relative_error(job *j)
{
    double error = 0, norm = 0;
    shoal_circulant_forward(j->layer, j->x, j->batch, NULL, j->y);
    for (size_t b = 0; b < j->batch && b < CHECKED; b++)
        for (size_t o = 0; o < j->out; o++) {
            double sum = 0;
            for (size_t i = 0; i < j->in; i++)
                sum += (double)j->dense[o * j->in + i] * (double)j->x[b * j->in + i];
            double difference = sum - (double)j->y[b * j->out + o];
            error += difference * difference;
            norm += sum * sum;
        }
    return sqrt(error / norm);
}

static shoal_status make(job *j)
{
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.out = (uint32_t)j->out;
    desc.in = (uint32_t)j->in;
    desc.block = (uint32_t)j->k;
    desc.batch_max = (uint32_t)j->batch;
    desc.training = j->a->training;
    shoal_status status = shoal_circulant_bytes(&desc, &j->memory_bytes);
    if (status != SHOAL_OK)
        return status;
    j->w = bench_floats(shoal_circulant_weights(&desc));
    j->dense = bench_floats(j->out * j->in);
    j->x = bench_floats(j->batch * j->in);
    j->y = bench_floats(j->batch * j->out);
    j->dx = bench_floats(j->batch * j->in);
    j->dw = bench_floats(j->a->training ? j->out * j->in : 1);
    j->memory = aligned_alloc(64, j->memory_bytes);
    if (j->w == NULL || j->dense == NULL || j->x == NULL || j->y == NULL || j->dx == NULL ||
        j->dw == NULL || j->memory == NULL)
        return SHOAL_ENOMEM;
    status = shoal_circulant_init(&desc, j->memory, &j->layer);
    if (status != SHOAL_OK)
        return status;
    shoal_circulant_set_weights(j->layer, j->w);
    shoal_circulant_expand(&desc, j->w, j->dense);
    if (!j->a->no_fftw && j->out % j->k == 0 && j->in % j->k == 0)
        j->fftw = bench_fftw_create(&j->a->blas, j->out, j->in, j->k, j->batch, j->w);
    return SHOAL_OK;
}

typedef struct figures {
    double us[OPERATIONS], peak_gf, products_flops, flops, storage;
} figures;

static figures figures_of(job *j)
{
    figures f = {.storage = 0};
    const double k = (double)j->k, p = ceil((double)j->out / k), q = ceil((double)j->in / k);
    for (int i = 0; i < OPERATIONS; i++)
        f.us[i] = runs(j, i) ? median(j, i) * 1e6 : 0;
    f.peak_gf = runs(j, PEAK) ? PEAK_FLOPS / f.us[PEAK] * 1e-3 : 0;
    f.storage = p * q * k;
    f.products_flops = p * q * (double)j->batch * (8 * (ceil(k / 2) - 1) + (j->k % 2 == 0 ? 4 : 2));
    f.flops = f.products_flops + (p + q) * (double)j->batch * 2.5 * k * log2(k);
    return f;
}

static void print_row(job *j)
{
    const figures f = figures_of(j);
    const double peak = f.peak_gf * 1e3; /* operations per microsecond */
    const double dense_gf = 2e-3 * (double)(j->out * j->in * j->batch) / f.us[DENSE];
    const double products = f.products_flops / f.us[PRODUCTS] / peak;
    const double whole = f.flops / f.us[OURS] / peak;
    const double cold_gb_s = f.storage * 4e-3 / f.us[COLD];
    if (j->a->json) {
        json_t *row = json_object();
        answer_set_count(row, "out", j->out);
        answer_set_count(row, "in", j->in);
        answer_set_count(row, "batch", j->batch);
        answer_set_count(row, "k", j->k);
        bench_set(row, "dense_us", f.us[DENSE]);
        bench_set(row, "dense_gflops", dense_gf);
        bench_set(row, "ours_us", f.us[OURS]);
        bench_set(row, "speedup", f.us[DENSE] / f.us[OURS]);
        bench_set(row, "peak_gflops", f.peak_gf);
        bench_set(row, "products_of_peak", products);
        bench_set(row, "layer_of_peak", whole);
        bench_set(row, "fftw_us", f.us[FFTW]);
        bench_set(row, "cold_us", f.us[COLD]);
        bench_set(row, "cold_of_read", cold_gb_s / j->a->read_gb_s);
        bench_set(row, "train_dense_us", f.us[TRAIN_DENSE]);
        bench_set(row, "train_ours_us", f.us[TRAIN_OURS]);
        bench_set(row, "train_speedup", f.us[TRAIN_DENSE] / f.us[TRAIN_OURS]);
        bench_set(row, "weights", f.storage);
        bench_set(row, "storage_ratio", (double)(j->out * j->in) / f.storage);
        bench_set(row, "rel_l2", j->error);
        json_array_append_new(j->a->rows, row);
        return;
    }
    printf("%5zu x %-5zu %5zu %4zu %10.1f %7.1f %10.1f %7.2fx %6.1f%% %6.1f%%", j->out, j->in,
           j->batch, j->k, f.us[DENSE], dense_gf, f.us[OURS], f.us[DENSE] / f.us[OURS],
           100 * products, 100 * whole);
    printf(" %9.1f %9.1f %8.2fx %7.1fk %8.1e\n", f.us[FFTW], f.us[COLD] > 0 ? cold_gb_s : 0,
           j->a->training ? f.us[TRAIN_DENSE] / f.us[TRAIN_OURS] : 0, f.storage / 1e3, j->error);
    fflush(stdout);
}

static int bench_one(args *a, pair shape, size_t batch, size_t k)
{
    job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return CLI_FAILED;
    *j = (job){.a = a, .out = (size_t)shape.out, .in = (size_t)shape.in, .k = k, .batch = batch};
    shoal_status status = make(j);
    if (status == SHOAL_OK) {
        j->error = relative_error(j);
        for (int64_t round = -1; round < a->rounds; round++) /* the first one warms up */
            for (int i = 0; i < OPERATIONS; i++)
                if (runs(j, i))
                    j->times[i][round < 0 ? 0 : round] = time_once(j, i);
        progress_aside();
        print_row(j);
    }
    bench_fftw_destroy(j->fftw);
    free(j->dense), free(j->w), free(j->x), free(j->y), free(j->dw), free(j->dx), free(j->memory);
    free(j);
    if (status == SHOAL_ENOMEM)
        fprintf(stderr, "shoal bench: no memory for this shape\n");
    return status == SHOAL_OK ? CLI_OK : status == SHOAL_ENOMEM ? CLI_FAILED : cli_report("bench");
}

static int run_matrices(args *a)
{
    size_t done = 0;
    int code = CLI_OK;
    if (!a->json)
        printf("# %11s %5s %4s %10s %7s %10s %8s %7s %7s %9s %9s %9s %8s %8s\n", "shape", "batch",
               "k", "dense us", "GF/s", "ours us", "ratio", "bins", "layer", "fftw us", "cold GB/s",
               "training", "weights", "rel.L2");
    for (size_t s = 0; s < a->shape_count; s++)
        for (size_t b = 0; b < a->batch_count; b++)
            for (size_t k = 0; k < a->block_count && code == CLI_OK; k++) {
                progress_at((double)done++,
                            (double)(a->shape_count * a->batch_count * a->block_count), NULL);
                code = bench_one(a, a->shapes[s], (size_t)a->batches[b], (size_t)a->blocks[k]);
                progress_aside();
            }
    return code;
}

static int run_convolutions(const args *a)
{
    size_t done = 0;
    bench_convolution_job how = {&a->blas, a->peak_gf, a->rounds, a->json ? a->rows : NULL};
    int code = CLI_OK;
    bench_convolution_header(&how);
    for (size_t c = 0; c < a->convolution_count; c++)
        for (size_t b = 0; b < a->batch_count; b++)
            for (size_t k = 0; k < a->block_count && code == CLI_OK; k++) {
                progress_at((double)done++,
                            (double)(a->convolution_count * a->batch_count * a->block_count), NULL);
                code = bench_convolution_run(&how, &a->convolutions[c], (size_t)a->batches[b],
                                             (size_t)a->blocks[k]);
            }
    return code;
}

static int run_all(args *a)
{
    const bool convolutions = a->convolution_count > 0;
    measure_machine(a);
    a->rows = json_array();
    if (!a->json)
        printf("# one core, medians of %d rounds; OpenBLAS %s; FMA peak %.1f GFLOP/s, read %.1f "
               "GB/s\n",
               (int)a->rounds, a->blas.core(), a->peak_gf, a->read_gb_s);
    progress_begin("bench", "rows", false, "rows stay");
    const int code = convolutions ? run_convolutions(a) : run_matrices(a);
    progress_end();
    if (!a->json) {
        json_decref(a->rows);
        return code;
    }
    const int printed = answer_print(
        "bench",
        json_pack("{s:o, s:o, s:o, s:o}", "openblas", answer_text(a->blas.core()), "peak_gflops",
                  answer_number(a->peak_gf), "read_gb_s", answer_number(a->read_gb_s),
                  convolutions ? "convolutions" : "rows", a->rows));
    return printed != CLI_OK ? printed : code;
}

/* ------------------------------------------------------------------ options */

static const struct argp_option options[] = {
    {"shape", 's', "OUTxIN", CLI_REPEATS,
     "Of the dense matrix; repeat for more (512x512, 1024x1024, 4096x4096, 4096x9216, 4096x768)",
     0},
    {"block", 'k', "K", CLI_REPEATS, "Side of a block; repeat for more (4, 8, 16, 64)", 0},
    {"batch", 'b', "N", CLI_REPEATS, "Samples; repeat for more (1, 64)", 0},
    {"conv", 'c', "IN,HEIGHT,WIDTH,OUT,KERNEL,PAD", CLI_REPEATS,
     "A convolution instead, against OpenBLAS on unrolled images; repeat for more. `usual`: layers "
     "of LeNet, CifarNet and VGG",
     0},
    {"training", 't', NULL, 0, "Also time forward and backward pass together", 0},
    {"no-fftw", 'F', NULL, 0, "Leave FFTW out, whose planning takes long for large shapes", 0},
    {"rounds", 'n', "N", 0, "Times that everything is done, odd (7)", 0},
    {"json", 'j', NULL, 0, "One JSON object instead of the table", 0},
    {0}};

static bool take(int64_t *list, size_t *count, const char *text, int64_t most)
{
    return *count < LIST_MOST && cli_parse_int(text, 1, most, &list[(*count)++]);
}

static bool take_shape(args *a, const char *text)
{
    char sides[40];
    snprintf(sides, sizeof sides, "%s", text);
    char *cross = strchr(sides, 'x');
    if (cross == NULL || a->shape_count == LIST_MOST)
        return false;
    *cross = '\0';
    pair *shape = &a->shapes[a->shape_count++];
    return cli_parse_int(sides, 1, 65536, &shape->out) &&
           cli_parse_int(cross + 1, 1, 65536, &shape->in);
}

static bool take_convolution(args *a, const char *text)
{
    const bench_convolution *usual;
    const size_t count = bench_convolution_usual(&usual);
    if (strcmp(text, "usual") == 0 && a->convolution_count + count <= LIST_MOST) {
        memcpy(a->convolutions + a->convolution_count, usual, count * sizeof *usual);
        a->convolution_count += count;
        return true;
    }
    return a->convolution_count < LIST_MOST &&
           bench_convolution_parse(text, &a->convolutions[a->convolution_count++]);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    args *a = state->input;
    bool good = true;
    switch (key) {
    case 's':
        good = take_shape(a, text);
        break;
    case 'c':
        good = take_convolution(a, text);
        break;
    case 'k':
        good = take(a->blocks, &a->block_count, text, 1024);
        break;
    case 'b':
        good = take(a->batches, &a->batch_count, text, 4096);
        break;
    case 't':
        a->training = true;
        break;
    case 'F':
        a->no_fftw = true;
        break;
    case 'n':
        good = cli_parse_int(text, 1, ROUNDS_MOST, &a->rounds);
        break;
    case 'j':
        a->json = true;
        break;
    case ARGP_KEY_ARG:
        good = state->arg_num == 0; /* the benchmark's name */
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (!good)
        cli_refuse_value(state, key, text);
    return 0;
}

static void fill_defaults(args *a)
{
    static const pair shapes[] = {
        {512, 512}, {1024, 1024}, {4096, 4096}, {4096, 9216}, {4096, 768}};
    static const int64_t blocks[] = {4, 8, 16, 64}, batches[] = {1, 64}, images = 16;
    if (a->shape_count == 0) {
        a->shape_count = sizeof shapes / sizeof *shapes;
        memcpy(a->shapes, shapes, sizeof shapes);
    }
    if (a->block_count == 0) {
        a->block_count = sizeof blocks / sizeof *blocks - (a->convolution_count > 0);
        memcpy(a->blocks, blocks, sizeof blocks);
    }
    if (a->batch_count == 0 && a->convolution_count > 0)
        a->batches[a->batch_count++] = images;
    if (a->batch_count == 0) {
        a->batch_count = sizeof batches / sizeof *batches;
        memcpy(a->batches, batches, sizeof batches);
    }
}

int cli_bench_circulant(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "circulant",
        "Block-circulant products against dense ones, on one core.\v"
        "Columns: bins and layer are shares of the FMA peak of the products per bin and of the "
        "whole; fftw is strided FFTW plans and OpenBLAS's complex GEMM per bin, 0 if not "
        "installed; cold is batch 1 with flushed caches. Convolutions (16 images, k = 4, 8, 16): "
        "forward, then training, which is forward, both gradients and transforms of new weights.\n"
        "\n"
        "Example: OPENBLAS_CORETYPE=Haswell shoal bench circulant --shape 1024x1024 --block 8",
        progress_children,
        NULL,
        NULL};
    args a = {.rounds = 7};
    if (cli_parse(&argp, argc, argv, 0, &a) != 0)
        return CLI_USAGE;
    fill_defaults(&a);
    if (!bench_blas_find(&a.blas)) {
        fprintf(stderr, "shoal bench: OpenBLAS (libopenblas.so.0) was not found\n");
        return CLI_CANNOT_HERE;
    }
    return run_all(&a);
}
