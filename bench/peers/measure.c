/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ITERS = 10000 };

typedef struct row {
    double median_s, min_s, max_s;
    double cpu_s; /* of all ranks, per operation */
    double sent;  /* bytes that left the interface, per operation, largest over ranks */
    double wrong; /* elements, of all ranks */
} row;

static size_t parse_bytes(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    double unit = *end == 'k' || *end == 'K' ? 1024. : *end == 'M' ? 1048576. : 1.;
    if (end == text || value * unit < 4 || value * unit > 1e10) {
        fprintf(stderr, "bad size '%s'; wanted 64K, 16M or bytes\n", text);
        exit(2);
    }
    return (size_t)(value * unit);
}

measure_options measure_parse(int argc, char **argv)
{
    measure_options o = {65536, 67108864, 4, 5, 1, "", ""};
    for (int c; (c = getopt(argc, argv, "b:e:f:n:w:a:s:")) != -1;) {
        switch (c) {
        case 'b':
            o.min_bytes = parse_bytes(optarg);
            break;
        case 'e':
            o.max_bytes = parse_bytes(optarg);
            break;
        case 'f':
            o.factor = (size_t)atoi(optarg);
            break;
        case 'n':
            o.iters = atoi(optarg);
            break;
        case 'w':
            o.warmup = atoi(optarg);
            break;
        case 'a':
            o.algorithm = optarg;
            break;
        case 's':
            o.store = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (o.factor < 2 || o.iters < 1 || o.iters > MAX_ITERS || o.warmup < 0) {
        fprintf(stderr, "-f from 2, -n from 1 to %d, -w from 0\n", MAX_ITERS);
        exit(2);
    }
    return o;
}

int measure_env(const char *name)
{
    const char *text = getenv(name);
    if (text == NULL) {
        fprintf(stderr, "%s is not set: start this with shoal run\n", name);
        exit(2);
    }
    return atoi(text);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes sent by eth0 of this network namespace; 0 without one: loopback counts all ranks. */
static double interface_bytes(void)
{
    unsigned long long sent = 0;
    char line[512];
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "eth0:");
        if (at != NULL)
            sscanf(at + 5, "%*u %*u %*u %*u %*u %*u %*u %*u %llu", &sent);
    }
    if (file != NULL)
        fclose(file);
    return (double)sent;
}

/* Small whole numbers: their sums are exact in float32, in any order. */
static float value_of(int rank, size_t i)
{
    return (float)((int)((i * 7 + (i >> 8) + (size_t)rank * 13) % 17) - 8);
}

static double count_wrong(const measure_peer *p, const float *buf, size_t count)
{
    double wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int rank = 0; rank < p->ranks; rank++)
            sum += value_of(rank, i);
        wrong += buf[i] != sum;
    }
    return wrong;
}

static void fill(const measure_peer *p, float *buf, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = value_of(p->rank, i);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static row time_size(const measure_peer *p, const measure_options *o, float *buf, size_t count)
{
    static double times[MAX_ITERS];
    if (p->prepare != NULL)
        p->prepare(p->ctx, buf, count);
    for (int i = 0; i < o->warmup; i++)
        p->all_reduce(p->ctx, buf, count);
    double cpu = 0, sent = 0;
    int n = o->iters;
    for (int i = 0; i < n; i++) {
        fill(p, buf, count);
        p->barrier(p->ctx);
        double sent_before = interface_bytes();
        double start = seconds(CLOCK_MONOTONIC), cpu_start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        p->all_reduce(p->ctx, buf, count);
        times[i] = seconds(CLOCK_MONOTONIC) - start;
        cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
        sent += interface_bytes() - sent_before;
        times[i] = p->max(p->ctx, times[i]);
    }
    qsort(times, (size_t)n, sizeof times[0], compare_doubles);
    return (row){.median_s = (times[(n - 1) / 2] + times[n / 2]) / 2,
                 .min_s = times[0],
                 .max_s = times[n - 1],
                 .cpu_s = p->sum(p->ctx, cpu / n),
                 .sent = p->max(p->ctx, sent / n),
                 .wrong = p->sum(p->ctx, count_wrong(p, buf, count))};
}

static void print_row(const measure_peer *p, size_t bytes, const row *r)
{
    const char *rate = getenv("SHOAL_LINE_RATE");
    double line = rate != NULL ? strtod(rate, NULL) : 0, n = p->ranks;
    double algbw = (double)bytes / r->median_s, busbw = algbw * 2 * (n - 1) / n;
    printf("{\"bytes\": %zu, \"ranks\": %d, \"collective\": \"%s\", \"codec\": \"identity\", "
           "\"time_us\": %.1f, \"time_min_us\": %.1f, \"time_max_us\": %.1f, "
           "\"algbw_gb_s\": %.6f, \"busbw_gb_s\": %.6f, \"line_percent\": %.2f, "
           "\"cpu_s_per_gb\": %.4f, \"wire_bytes_per_rank\": %.0f, \"wrong\": %.0f}\n",
           bytes, p->ranks, p->name, r->median_s * 1e6, r->min_s * 1e6, r->max_s * 1e6,
           algbw * 1e-9, busbw * 1e-9, line > 0 ? 100 * busbw * 8 / line : 0,
           r->cpu_s / (n * (double)bytes) * 1e9, r->sent, r->wrong);
    fflush(stdout);
}

int measure_run(const measure_peer *p, const measure_options *o)
{
    int status = 0;
    float *buf = aligned_alloc(64, (o->max_bytes / 64 + 1) * 64);
    if (buf == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", o->max_bytes);
        return 1;
    }
    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes *= o->factor) {
        row r = time_size(p, o, buf, bytes / 4);
        if (p->rank == 0)
            print_row(p, bytes, &r);
        if (r.wrong > 0)
            status = 1;
    }
    free(buf);
    return status;
}
