/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of codecs on one core, in GB/s of float32 and as a ratio to a copy of the same floats.
 *
 *     codec_bench [--codec SPEC]... [--sigma S]... [--place dram|cache] [--rounds N] [--json]
 *
 * `copy` is an AVX2 load and store loop with normal stores (the C library's memcpy elsewhere). All
 * operations run in turn, round after round, in one process, a chunk of 65536 elements at a time as
 * the engine does; of each the shortest time counts. Place `dram` walks over 67 MB, `cache` stays
 * on one chunk. Data: normal numbers with deviation S, as gradients have. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/kernel.h"

enum { CHUNK = 65536, DRAM_CHUNKS = 256, LIST_MOST = 16 };

enum { COPY, ENCODE, DECODE, DECODE_ADD, RING_STEP, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {"copy", "encode", "decode", "decode_add",
                                                        "ring_step"};

typedef struct options {
    const char *codecs[LIST_MOST];
    double sigmas[LIST_MOST];
    size_t codec_count, sigma_count;
    bool dram, cache, json;
    unsigned rounds;
} options;

/* One codec on one data set. Chunk i of the coded bytes starts at i * stride. */
typedef struct bench {
    const shoal_codec *codec;
    shoal_tensor tensor;
    float shared[16];
    size_t chunks, stride, *lengths;
    float *src, *dst;
    uint8_t *coded, *forwarded;
    uint64_t best_ns[OPERATIONS];
    double coded_bytes;
} bench;

static void stop(const char *what)
{
    fprintf(stderr, "codec_bench: %s: %s\n", what, shoal_last_error()->text);
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *memory = shoali_alloc(bytes);
    if (memory == NULL)
        stop("memory");
    return memory;
}

/* ---------------------------------------------------------------- the operations */

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx2"), noinline)) static void copy_avx2(float *dst, const float *src,
                                                                size_t n)
{
    for (size_t i = 0; i < n; i += 32) {
        __m256 a = _mm256_loadu_ps(src + i), b = _mm256_loadu_ps(src + i + 8),
               c = _mm256_loadu_ps(src + i + 16), d = _mm256_loadu_ps(src + i + 24);
        _mm256_storeu_ps(dst + i, a);
        _mm256_storeu_ps(dst + i + 8, b);
        _mm256_storeu_ps(dst + i + 16, c);
        _mm256_storeu_ps(dst + i + 24, d);
    }
}
#endif

static void copy_chunk(float *dst, const float *src)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        copy_avx2(dst, src, CHUNK);
        return;
    }
#endif
    memcpy(dst, src, CHUNK * sizeof *dst);
}

static shoal_codec_at at_of(const bench *b, size_t chunk)
{
    return (shoal_codec_at){.tensor = &b->tensor,
                            .first = chunk * CHUNK,
                            .parts = 1,
                            .seed = 1,
                            .shared = shoal_codec_measure_count(b->codec) > 0 ? b->shared : NULL};
}

static void encode_chunk(bench *b, size_t i, const float *src, uint8_t *coded)
{
    shoal_codec_at at = at_of(b, i);
    if (shoal_codec_encode(b->codec, &at, src + i * CHUNK, CHUNK, coded + i * b->stride, b->stride,
                           &b->lengths[i]) != SHOAL_OK)
        stop("encode");
}

static void decode_chunk(bench *b, size_t i, size_t length, bool add)
{
    shoal_codec_at at = at_of(b, i);
    size_t used;
    if (shoal_codec_decode(b->codec, &at, b->coded + i * b->stride, length, b->dst + i * CHUNK,
                           CHUNK, add, &used) != SHOAL_OK)
        stop("decode");
}

static void run_chunk(bench *b, int operation, size_t i)
{
    size_t length = b->lengths[i];
    switch (operation) {
    case COPY:
        copy_chunk(b->dst + i * CHUNK, b->src + i * CHUNK);
        break;
    case ENCODE:
        encode_chunk(b, i, b->src, b->coded);
        break;
    case DECODE:
    case DECODE_ADD:
        decode_chunk(b, i, length, operation == DECODE_ADD);
        break;
    default: /* what a rank of a ring does with a chunk: add, code the sum for the next rank */
        decode_chunk(b, i, length, true);
        encode_chunk(b, i, b->dst, b->forwarded);
        b->lengths[i] = length; /* of b->coded, for the next round */
    }
}

/* In the cache an operation takes microseconds: repeat it. Sums must not grow from one to the next,
 * or the data would not be the stated ones: dst is set back, in DRAM once per call. */
static void time_operation(bench *b, int operation)
{
    size_t repeats = b->chunks == 1 ? 16 : 1;
    uint64_t total = 0;
    for (size_t r = 0; r < repeats; r++) {
        if (operation >= DECODE_ADD)
            memcpy(b->dst, b->src, b->chunks * CHUNK * sizeof *b->dst);
        uint64_t start = shoali_now_ns();
        for (size_t i = 0; i < b->chunks; i++)
            run_chunk(b, operation, i);
        total += shoali_now_ns() - start;
    }
    total /= repeats;
    if (b->best_ns[operation] == 0 || total < b->best_ns[operation])
        b->best_ns[operation] = total;
}

/* ---------------------------------------------------------------- one row */

/* A million different numbers, then again: more than any branch predictor remembers. */
static void fill(float *x, size_t n, double sigma)
{
    enum { DIFFERENT = 1 << 20 };
    for (size_t i = 0; i < n; i++)
        x[i] = i < DIFFERENT ? (float)(sigma * shoali_rng_normal(1, 2, i)) : x[i - DIFFERENT];
}

static void bench_open(bench *b, const shoal_codec *codec, size_t chunks, double sigma)
{
    size_t n = chunks * CHUNK;
    *b = (bench){.codec = codec, .chunks = chunks, .stride = shoal_codec_bound(codec, CHUNK, 1)};
    b->tensor = (shoal_tensor){.key = 1, .count = n, .rows = 1, .cols = (uint32_t)n, .lr_scale = 1};
    b->src = allocate(n * sizeof *b->src);
    b->dst = allocate(n * sizeof *b->dst);
    b->coded = allocate(chunks * b->stride);
    b->forwarded = allocate(chunks * b->stride);
    b->lengths = allocate(chunks * sizeof *b->lengths);
    fill(b->src, n, sigma);
    if (shoal_codec_measure_count(codec) > 0 &&
        shoal_codec_measure(codec, &b->tensor, b->src, b->shared) != SHOAL_OK)
        stop("measure");
}

static void bench_close(bench *b)
{
    shoali_free(b->src), shoali_free(b->dst), shoali_free(b->coded);
    shoali_free(b->forwarded), shoali_free(b->lengths);
}

static void bench_run(bench *b, unsigned rounds)
{
    for (unsigned r = 0; r < rounds; r++)
        for (int operation = COPY; operation < OPERATIONS; operation++)
            time_operation(b, operation);
    for (size_t i = 0; i < b->chunks; i++)
        b->coded_bytes += (double)b->lengths[i];
}

static void print_row(const bench *b, const char *place, double sigma, bool json, bool first)
{
    double bytes = (double)(b->chunks * CHUNK * sizeof(float));
    double copy_ns = (double)b->best_ns[COPY];
    const char *spec = shoal_codec_spec(b->codec);
    if (json)
        printf("%s\n  {\"codec\": \"%s\", \"sigma\": %g, \"place\": \"%s\", \"wire_ratio\": %.3f",
               first ? "" : ",", spec, sigma, place, bytes / b->coded_bytes);
    else
        printf("%-40s %7g %-5s %6.2f", spec, sigma, place, bytes / b->coded_bytes);
    for (int i = 0; i < OPERATIONS; i++) {
        double ns = (double)b->best_ns[i];
        if (json)
            printf(", \"%s\": {\"gb_s\": %.3f, \"ratio\": %.4f}", operation_names[i], bytes / ns,
                   copy_ns / ns);
        else
            printf("  %6.1f %5.2f", bytes / ns, copy_ns / ns);
    }
    printf(json ? "}" : "\n");
    fflush(stdout);
}

static void run_place(const options *o, size_t chunks, const char *place, bool *first)
{
    for (size_t c = 0; c < o->codec_count; c++)
        for (size_t s = 0; s < o->sigma_count; s++) {
            shoal_codec *codec;
            bench b;
            if (shoal_codec_open(o->codecs[c], &codec) != SHOAL_OK)
                stop(o->codecs[c]);
            bench_open(&b, codec, chunks, o->sigmas[s]);
            bench_run(&b, o->rounds);
            print_row(&b, place, o->sigmas[s], o->json, *first);
            *first = false;
            bench_close(&b);
            shoal_codec_close(codec);
        }
}

/* ---------------------------------------------------------------- options */

static void usage(void)
{
    fprintf(stderr, "usage: codec_bench [--codec SPEC]... [--sigma S]... [--place dram|cache] "
                    "[--rounds N] [--json]\n");
    exit(2);
}

static void read_option(options *o, int option, const char *value)
{
    switch (option) {
    case 'c':
        if (o->codec_count == LIST_MOST)
            usage();
        o->codecs[o->codec_count++] = value;
        break;
    case 's':
        if (o->sigma_count == LIST_MOST)
            usage();
        o->sigmas[o->sigma_count++] = strtod(value, NULL);
        break;
    case 'p':
        o->dram = strcmp(value, "dram") == 0;
        o->cache = strcmp(value, "cache") == 0;
        if (!o->dram && !o->cache)
            usage();
        break;
    case 'r':
        o->rounds = (unsigned)strtoul(value, NULL, 10);
        break;
    case 'j':
        o->json = true;
        break;
    default:
        usage();
    }
}

static options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"codec", required_argument, NULL, 'c'}, {"sigma", required_argument, NULL, 's'},
        {"place", required_argument, NULL, 'p'}, {"rounds", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},        {NULL, 0, NULL, 0},
    };
    static const char *const codecs[] = {"identity",
                                         "fp16",
                                         "bf16",
                                         "inceptionn",
                                         "inceptionn:faithful",
                                         "inceptionn:layout=interleaved"};
    static const double sigmas[] = {0.03, 0.003, 0.0003};
    options o = {.dram = true, .cache = true, .rounds = 9};
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;)
        read_option(&o, option, optarg);
    if (optind != argc || o.rounds == 0)
        usage();
    if (o.codec_count == 0) {
        o.codec_count = sizeof codecs / sizeof *codecs;
        memcpy(o.codecs, codecs, sizeof codecs);
    }
    if (o.sigma_count == 0) {
        o.sigma_count = sizeof sigmas / sizeof *sigmas;
        memcpy(o.sigmas, sigmas, sizeof sigmas);
    }
    return o;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    bool first = true;
    if (o.json)
        printf("{\"cpu\": \"%s\", \"kernel\": \"%s\", \"rows\": [", shoali_cpu_name(),
               shoali_kernel()->name);
    else
        printf("%s, kernels %s; GB/s of float32 and ratio to copy\n%-40s %7s %-5s %6s  %12s  %12s  "
               "%12s  %12s  %12s\n",
               shoali_cpu_name(), shoali_kernel()->name, "codec", "sigma", "place", "wire", "copy",
               "encode", "decode", "decode+add", "ring step");
    if (o.cache)
        run_place(&o, 1, "cache", &first);
    if (o.dram)
        run_place(&o, DRAM_CHUNKS, "dram", &first);
    if (o.json)
        printf("\n]}\n");
    return 0;
}
