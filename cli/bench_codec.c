/* SPDX-License-Identifier: Apache-2.0 */
/* shoal bench codec: what codecs make of gradients, and how fast, on one core.
 *
 * All operations run in turn, round after round, a chunk of 65536 elements at a time as the engine
 * does; of each the shortest time counts. Beside them runs a copy of the same floats with ordinary
 * vector stores (the C library's memcpy may choose others), so that figures of different machines
 * compare as fractions of it. `dram` walks over 67 MB, `cache` stays on one chunk. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "arguments.h"
#include "bench.h"
#include "bench_data.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/codec.h"

enum { CHUNK = 65536, DRAM_CHUNKS = 256, LIST_MOST = 64, SHARED_MOST = 16 };
enum { COPY, MEASURE, ENCODE, DECODE, DECODE_ADD, RING_STEP, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {"copy",   "measure",    "encode",
                                                        "decode", "decode_add", "ring_step"};

typedef struct args {
    const char *codecs[LIST_MOST], *data[LIST_MOST], *input;
    double sigmas[LIST_MOST];
    size_t codec_count, data_count, sigma_count;
    int64_t rounds;
    bool dram, cache, json;
    size_t row_count, rows_done;
    json_t *rows; /* json */
} args;

/* A run of one tensor's elements, as long as a chunk at most: what is coded at once. */
typedef struct piece {
    uint32_t tensor;
    size_t first, count, offset, coded_at, length;
} piece;

typedef struct bench {
    const shoal_codec *codec;
    const bench_data *data;
    piece *pieces;
    size_t piece_count, measured;
    float *dst, *shared;
    uint8_t *coded, *forwarded;
    double best_s[OPERATIONS], coded_bytes;
    double relative_l2, largest, cosine;
} bench;

/* ------------------------------------------------------------------ operations */

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx2"), noinline)) static void copy_avx2(float *dst, const float *src,
                                                                size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256 a = _mm256_loadu_ps(src + i), b = _mm256_loadu_ps(src + i + 8);
        __m256 c = _mm256_loadu_ps(src + i + 16), d = _mm256_loadu_ps(src + i + 24);
        _mm256_storeu_ps(dst + i, a);
        _mm256_storeu_ps(dst + i + 8, b);
        _mm256_storeu_ps(dst + i + 16, c);
        _mm256_storeu_ps(dst + i + 24, d);
    }
    memcpy(dst + i, src + i, (n - i) * sizeof *dst);
}
#endif

static void copy(float *dst, const float *src, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        copy_avx2(dst, src, n);
        return;
    }
#endif
    memcpy(dst, src, n * sizeof *dst);
}

static shoal_codec_at at_of(const bench *b, const piece *p)
{
    return (shoal_codec_at){.tensor = &b->data->tensors[p->tensor],
                            .first = p->first,
                            .parts = 1,
                            .shared = b->measured > 0 ? b->shared + p->tensor * b->measured : NULL,
                            .seed = 1,
                            .stream = b->data->tensors[p->tensor].key};
}

static shoal_status encode(bench *b, piece *p, const float *src, uint8_t *coded)
{
    shoal_codec_at at = at_of(b, p);
    size_t capacity = shoal_codec_bound(b->codec, p->count, 1);
    return shoal_codec_encode(b->codec, &at, src + p->offset, p->count, coded + p->coded_at,
                              capacity, &p->length);
}

static shoal_status decode(bench *b, const piece *p, size_t length, bool add)
{
    shoal_codec_at at = at_of(b, p);
    size_t used;
    return shoal_codec_decode(b->codec, &at, b->coded + p->coded_at, length, b->dst + p->offset,
                              p->count, add, &used);
}

/* What a rank of a ring does with a chunk: add, code the sum for the next rank. */
static shoal_status ring_step(bench *b, piece *p)
{
    size_t length = p->length;
    shoal_status status = decode(b, p, length, true);
    if (status == SHOAL_OK)
        status = encode(b, p, b->dst, b->forwarded);
    p->length = length;
    return status;
}

static shoal_status measure(bench *b)
{
    shoal_status status = SHOAL_OK;
    for (uint32_t t = 0; t < b->data->tensor_count && status == SHOAL_OK && b->measured > 0; t++) {
        const shoal_tensor *tensor = &b->data->tensors[t];
        status = shoal_codec_measure(b->codec, tensor, b->data->values + tensor->offset,
                                     b->shared + t * b->measured);
    }
    return status;
}

static shoal_status run_piece(bench *b, int operation, piece *p)
{
    switch (operation) {
    case COPY:
        copy(b->dst + p->offset, b->data->values + p->offset, p->count);
        return SHOAL_OK;
    case ENCODE:
        return encode(b, p, b->data->values, b->coded);
    case DECODE:
    case DECODE_ADD:
        return decode(b, p, p->length, operation == DECODE_ADD);
    default:
        return ring_step(b, p);
    }
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Short data are gone through several times. Sums must not grow from one time to the next, or the
 * data would not be the stated ones: dst is set back. */
static shoal_status time_operation(bench *b, int operation)
{
    const size_t n = b->data->count, repeats = n >= 1 << 22 ? 1 : (1 << 20) / (n + 1) + 1;
    shoal_status status = SHOAL_OK;
    double total = 0;
    for (size_t r = 0; r < repeats && status == SHOAL_OK; r++) {
        if (operation >= DECODE_ADD)
            memcpy(b->dst, b->data->values, n * sizeof *b->dst);
        double start = now_s();
        if (operation == MEASURE)
            status = measure(b);
        for (size_t i = 0; i < b->piece_count && operation != MEASURE && status == SHOAL_OK; i++)
            status = run_piece(b, operation, &b->pieces[i]);
        total += now_s() - start;
    }
    total /= (double)repeats;
    if (b->best_s[operation] == 0 || total < b->best_s[operation])
        b->best_s[operation] = total;
    return status;
}

/* ------------------------------------------------------------------ one row */

static void compare(bench *b)
{
    double error = 0, norm = 0, decoded = 0, dot = 0;
    for (size_t i = 0; i < b->data->count; i++) {
        double x = (double)b->data->values[i], y = (double)b->dst[i];
        error += (y - x) * (y - x);
        norm += x * x;
        decoded += y * y;
        dot += x * y;
        b->largest = fmax(b->largest, fabs(y - x));
    }
    b->relative_l2 = norm > 0 ? sqrt(error / norm) : sqrt(error);
    b->cosine = norm > 0 && decoded > 0 ? dot / sqrt(norm * decoded) : 0;
    for (size_t i = 0; i < b->piece_count; i++)
        b->coded_bytes += (double)b->pieces[i].length;
}

static size_t cut(bench *b)
{
    size_t used = 0, bytes = 0;
    for (uint32_t t = 0; t < b->data->tensor_count; t++) {
        const shoal_tensor *tensor = &b->data->tensors[t];
        for (size_t first = 0; first < tensor->count; first += CHUNK) {
            size_t left = tensor->count - first, count = left < CHUNK ? left : CHUNK;
            if (b->pieces != NULL)
                b->pieces[used] = (piece){t, first, count, tensor->offset + first, bytes, 0};
            bytes += shoal_codec_bound(b->codec, count, 1);
            used++;
        }
    }
    b->piece_count = used;
    return bytes;
}

static bool make_room(bench *b)
{
    size_t bytes = cut(b);
    b->pieces = calloc(b->piece_count + 1, sizeof *b->pieces);
    b->dst = aligned_alloc(64, (b->data->count / 16 + 1) * 64);
    b->coded = malloc(bytes + 1);
    b->forwarded = malloc(bytes + 1);
    b->shared = calloc((size_t)b->data->tensor_count * SHARED_MOST, sizeof *b->shared);
    if (b->pieces == NULL || b->dst == NULL || b->coded == NULL || b->forwarded == NULL ||
        b->shared == NULL || b->measured > SHARED_MOST)
        return false;
    memset(b->coded, 0, bytes); /* a first touch is not the codec's time */
    memset(b->forwarded, 0, bytes);
    memset(b->dst, 0, b->data->count * sizeof *b->dst);
    (void)cut(b);
    return true;
}

static json_t *row_of(const bench *b, const char *place)
{
    const double bytes = (double)b->data->count * sizeof(float);
    json_t *row = json_object();
    answer_set_text(row, "codec", shoal_codec_spec(b->codec));
    answer_set_text(row, "data", b->data->name);
    answer_set_number(row, "sigma", b->data->sigma);
    answer_set_text(row, "place", place);
    answer_set_count(row, "elements", b->data->count);
    answer_set_number(row, "wire_ratio", bytes / b->coded_bytes);
    answer_set_number(row, "rel_l2", b->relative_l2);
    answer_set_number(row, "max_error", b->largest);
    answer_set_number(row, "cosine", b->cosine);
    for (int i = 0; i < OPERATIONS; i++) {
        const double s = b->best_s[i];
        if (s > 0)
            answer_set(row, operation_names[i],
                       json_pack("{s:o, s:o}", "gb_s", answer_number(bytes / s * 1e-9), "ratio",
                                 answer_number(b->best_s[COPY] / s)));
    }
    return row;
}

static void print_row(const bench *b, const char *place)
{
    const double bytes = (double)b->data->count * sizeof(float);
    printf("%-34s %-10s %-5s %7.2f %9.3g %9.3g %7.4f", shoal_codec_spec(b->codec), b->data->name,
           place, bytes / b->coded_bytes, b->relative_l2, b->largest, b->cosine);
    for (int i = 0; i < OPERATIONS; i++) {
        const double s = b->best_s[i];
        if (s > 0)
            printf("  %6.2f %5.2f", bytes / s * 1e-9, b->best_s[COPY] / s);
        else
            printf("  %6s %5s", "-", "");
    }
    printf("\n");
    fflush(stdout);
}

static shoal_status run(bench *b, int64_t rounds)
{
    shoal_status status = measure(b);
    for (size_t i = 0; i < b->piece_count && status == SHOAL_OK; i++) {
        status = encode(b, &b->pieces[i], b->data->values, b->coded);
        if (status == SHOAL_OK)
            status = decode(b, &b->pieces[i], b->pieces[i].length, false);
    }
    if (status == SHOAL_OK)
        compare(b);
    for (int64_t r = 0; r < rounds; r++)
        for (int operation = COPY; operation < OPERATIONS && status == SHOAL_OK; operation++)
            if (operation != MEASURE || b->measured > 0)
                status = time_operation(b, operation);
    return status;
}

static int bench_one(args *a, const shoal_codec *codec, const bench_data *data, const char *place)
{
    bench b = {.codec = codec, .data = data, .measured = shoal_codec_measure_count(codec)};
    int code = CLI_FAILED;
    if (!make_room(&b))
        fprintf(stderr, "shoal bench: no memory for %zu elements\n", data->count);
    else if (run(&b, a->rounds) != SHOAL_OK)
        code = cli_report("bench");
    else {
        progress_aside();
        if (a->json)
            json_array_append_new(a->rows, row_of(&b, place));
        else
            print_row(&b, place);
        code = CLI_OK;
    }
    free(b.pieces), free(b.dst), free(b.coded), free(b.forwarded), free(b.shared);
    return code;
}

/* ------------------------------------------------------------------ the table */

static int bench_data_set(args *a, const bench_data *data, const char *place)
{
    int code = CLI_OK;
    for (size_t i = 0; i < a->codec_count && code == CLI_OK; i++) {
        shoal_codec *codec = NULL;
        if (shoal_codec_open(a->codecs[i], &codec) != SHOAL_OK)
            return cli_report("bench");
        progress_at((double)a->rows_done++, (double)a->row_count, a->codecs[i]);
        code = bench_one(a, codec, data, place);
        shoal_codec_close(codec);
    }
    return code;
}

static int bench_place(args *a, size_t count, const char *place)
{
    int code = CLI_OK;
    for (size_t d = 0; d < a->data_count && code == CLI_OK; d++)
        for (size_t s = 0; s < a->sigma_count && code == CLI_OK; s++) {
            bench_data data;
            if (!bench_data_make(a->data[d], a->sigmas[s], count, &data)) {
                fprintf(stderr, "shoal bench: no memory for %zu elements\n", count);
                return CLI_FAILED;
            }
            code = bench_data_set(a, &data, place);
            bench_data_free(&data);
        }
    return code;
}

static void print_head(const args *a)
{
    if (a->json)
        return;
    printf("# GB/s of float32 on one core, and as a fraction of a copy of the same floats; best of "
           "%lld rounds\n%-34s %-10s %-5s %7s %9s %9s %7s",
           (long long)a->rounds, "# codec", "data", "place", "ratio", "rel.L2", "max.err",
           "cosine");
    for (int i = 0; i < OPERATIONS; i++)
        printf("  %12s", operation_names[i]);
    printf("\n");
}

static int run_all(args *a)
{
    int code = CLI_OK;
    bench_data input;
    if (a->input != NULL && !bench_data_read(a->input, &input))
        return cli_report("bench");
    print_head(a);
    a->rows = json_array();
    a->row_count = a->codec_count * (a->input != NULL ? 1
                                                      : a->data_count * a->sigma_count *
                                                            ((size_t)a->cache + (size_t)a->dram));
    progress_begin("bench", "rows", false, "rows stay");
    if (a->input != NULL) {
        code = bench_data_set(a, &input, "input");
        bench_data_free(&input);
    }
    if (a->input == NULL && a->cache)
        code = bench_place(a, CHUNK, "cache");
    if (a->input == NULL && a->dram && code == CLI_OK)
        code = bench_place(a, (size_t)DRAM_CHUNKS * CHUNK, "dram");
    progress_end();
    if (!a->json)
        json_decref(a->rows);
    else if (answer_print("bench", json_pack("{s:o}", "rows", a->rows)) != CLI_OK)
        code = CLI_FAILED;
    return code;
}

/* ------------------------------------------------------------------ options */

static const struct argp_option options[] = {
    {"codec", 'k', "SPEC", CLI_REPEATS,
     "A codec to measure; repeat for more (every codec of the table)", 0},
    {"data", 'd', "KIND", CLI_REPEATS,
     "gauss, laplace, student3, sparse, rows; repeat for more (gauss, laplace, student3, rows)", 0},
    {"sigma", 's', "S", CLI_REPEATS, "Scale of the values; repeat for more (0.01)", 0},
    {"input", 'i', "FILE", 0,
     "Real gradients instead: safetensors, as shoal train --dump-gradients writes", 0},
    {"place", 'p', "dram|cache|both", 0, "67 MB, or a chunk that stays in the cache (dram)", 0},
    {"rounds", 'n', "N", 0, "Times that everything is done (3)", 0},
    {"json", 'j', NULL, 0, "One JSON object instead of the table", 0},
    {0}};

static bool take(const char **list, size_t *count, const char *text)
{
    if (*count == LIST_MOST)
        return false;
    list[(*count)++] = text;
    return true;
}

static bool take_sigma(args *a, const char *text)
{
    return a->sigma_count < LIST_MOST &&
           cli_parse_real(text, 1e-30, 1e9, &a->sigmas[a->sigma_count++]);
}

static bool take_place(args *a, const char *text)
{
    a->cache = strcmp(text, "cache") == 0 || strcmp(text, "both") == 0;
    a->dram = strcmp(text, "dram") == 0 || strcmp(text, "both") == 0;
    return a->cache || a->dram;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    args *a = state->input;
    bool good = true;
    switch (key) {
    case 'k':
        good = take(a->codecs, &a->codec_count, text);
        break;
    case 'd':
        good = bench_data_known(text) && take(a->data, &a->data_count, text);
        break;
    case 's':
        good = take_sigma(a, text);
        break;
    case 'i':
        a->input = text;
        break;
    case 'p':
        good = take_place(a, text);
        break;
    case 'n':
        good = cli_parse_int(text, 1, 1000, &a->rounds);
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

/* Every codec that has pieces; and the specs, before anything is measured. */
static int choose(args *a)
{
    static const char *const kinds[] = {"gauss", "laplace", "student3", "rows"};
    if (a->input != NULL && (a->data_count > 0 || a->sigma_count > 0))
        return cli_usage("bench", "--input FILE stands in place of --data and --sigma");
    bool all = a->codec_count == 0;
    for (size_t i = 0; all && shoal_codec_row_name(i) != NULL && i < LIST_MOST; i++)
        a->codecs[a->codec_count++] = shoal_codec_row_name(i);
    size_t kept = 0;
    for (size_t i = 0; i < a->codec_count; i++) {
        shoal_codec *codec = NULL;
        if (shoal_codec_open(a->codecs[i], &codec) != SHOAL_OK)
            return cli_report("bench");
        bool transform = (shoal_codec_traits(codec) & SHOAL_CODEC_TRANSFORM) != 0;
        shoal_codec_close(codec);
        if (transform && !all)
            return cli_usage("bench",
                             "%s is a transform: it turns an operation into rounds and "
                             "has no coded pieces to time",
                             a->codecs[i]);
        if (!transform)
            a->codecs[kept++] = a->codecs[i];
    }
    a->codec_count = kept;
    for (size_t i = 0; a->data_count < sizeof kinds / sizeof *kinds && i == a->data_count; i++)
        a->data[a->data_count++] = kinds[i];
    if (a->sigma_count == 0)
        a->sigmas[a->sigma_count++] = 0.01;
    return CLI_OK;
}

int cli_bench_codec(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "codec",
        "Speed, size and error of gradient codecs on one core.\v"
        "Example: shoal bench codec --codec terngrad --codec eden:bits=2 --data gauss --place "
        "both\n"
        "         shoal bench codec --input gradients/step-000100.safetensors",
        progress_children,
        NULL,
        NULL};
    args a = {.rounds = 3, .dram = true};
    if (cli_parse(&argp, argc, argv, 0, &a) != 0)
        return CLI_USAGE;
    int code = choose(&a);
    return code == CLI_OK ? run_all(&a) : code;
}
