/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of many on one machine: what it costs to join, to sum, to do nothing and to see another
 * one die. bench/e2e/scale starts N of them and adds up what they print, one JSON line each.
 *
 *     shoal run -n N -- scale_bench [--bytes B] [--times K] [--collective C] [--idle S] [--kill R]
 *
 * Instants are of CLOCK_MONOTONIC, which all processes of a machine share. */
#include <dirent.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shoal/shoal.h"

enum { JOIN_S = 120, TIMES_MOST = 100, SETTLE_S = 4 /* beyond the peer timeout: it is idle */ };

typedef struct options {
    size_t count;
    int times, idle_s, kill;
    const char *collective;
} options;

typedef struct found {
    uint64_t began_us, joined_us, first_us, sum_us, cpu_join_us, cpu_idle_us, heard_us;
    uint64_t idle_frames; /* connections' bytes while idle, control alone */
    long sockets, memories, descriptors, rss_kb;
} found;

static void stop(const char *what)
{
    fprintf(stderr, "scale_bench: %s: %s\n", what, shoal_last_error()->text);
    exit(1);
}

static uint64_t cpu_us(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void sleep_s(int seconds)
{
    struct timespec left = {seconds, 0};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static void count_descriptors(found *f)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat about;
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &about, 0) != 0)
            continue;
        f->descriptors++;
        f->sockets += S_ISSOCK(about.st_mode);
    }
    if (dir != NULL)
        closedir(dir);
}

static void measure_memory(found *f)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            f->rss_kb = strtol(line + 6, NULL, 10);
    if (status != NULL)
        fclose(status);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        f->memories += strstr(line, "memfd:") != NULL;
    if (maps != NULL)
        fclose(maps);
}

static uint64_t control_bytes(shoal_comm *comm, const shoal_view *view)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < view->rank_count; i++) {
        shoal_peer_stats stats = {.size = sizeof stats};
        if (i != view->rank && shoal_comm_peer_stats(comm, i, &stats) == SHOAL_OK)
            sum += stats.control_bytes;
    }
    return sum;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sum(shoal_comm *comm, const options *o, float *x, found *f)
{
    uint64_t took_us[TIMES_MOST];
    for (int i = 0; i <= o->times; i++) {
        const uint64_t from_us = shoali_now_us();
        if (shoal_allreduce(comm, x, o->count, o->collective, "identity") != SHOAL_OK)
            stop("all-reduce");
        const uint64_t us = shoali_now_us() - from_us;
        if (i == 0)
            f->first_us = us; /* it opens the connections that carry data */
        else
            took_us[i - 1] = us;
    }
    qsort(took_us, (size_t)o->times, sizeof *took_us, ascending);
    f->sum_us = took_us[o->times / 2];
}

/* The others are in an operation with the one that goes. */
static void lose(shoal_comm *comm, const shoal_view *view, const options *o, float *x, found *f)
{
    if ((int)view->rank == o->kill) {
        sleep_s(1);
        printf("{\"rank\": %u, \"killed_us\": %llu}\n", view->rank,
               (unsigned long long)shoali_now_us());
        fflush(stdout);
        (void)raise(SIGKILL);
    }
    if (shoal_allreduce(comm, x, o->count, o->collective, "identity") == SHOAL_OK)
        stop("an all-reduce without one of its members came to its end");
    f->heard_us = shoali_now_us();
}

static void show(const shoal_view *view, const options *o, const found *f)
{
    printf("{\"rank\": %u, \"began_us\": %llu, \"joined_us\": %llu, \"first_us\": %llu, "
           "\"sum_us\": %llu, \"cpu_join_us\": %llu, \"cpu_idle\": %.6f, \"idle_bytes_s\": %.1f, "
           "\"sockets\": %ld, \"descriptors\": %ld, \"memories\": %ld, \"rss_kb\": %ld, "
           "\"heard_us\": %llu}\n",
           view->rank, (unsigned long long)f->began_us, (unsigned long long)f->joined_us,
           (unsigned long long)f->first_us, (unsigned long long)f->sum_us,
           (unsigned long long)f->cpu_join_us,
           o->idle_s > 0 ? (double)f->cpu_idle_us / 1e6 / o->idle_s : 0,
           o->idle_s > 0 ? (double)f->idle_frames / o->idle_s : 0, f->sockets, f->descriptors,
           f->memories, f->rss_kb, (unsigned long long)f->heard_us);
    fflush(stdout);
}

static options read_options(int argc, char **argv)
{
    static const struct option names[] = {{"bytes", 1, NULL, 'b'},      {"times", 1, NULL, 't'},
                                          {"collective", 1, NULL, 'c'}, {"idle", 1, NULL, 'i'},
                                          {"kill", 1, NULL, 'k'},       {0}};
    options o = {.count = 16384, .times = 5, .kill = -1, .collective = "ring"};
    int key;
    while ((key = getopt_long(argc, argv, "", names, NULL)) != -1) {
        const long number = optarg != NULL ? strtol(optarg, NULL, 10) : 0;
        if (key == 'b' && number >= 4)
            o.count = (size_t)number / sizeof(float);
        else if (key == 't' && number > 0 && number <= TIMES_MOST)
            o.times = (int)number;
        else if (key == 'i' && number >= 0)
            o.idle_s = (int)number;
        else if (key == 'k')
            o.kill = (int)number;
        else if (key == 'c')
            o.collective = optarg;
        else
            exit(2);
    }
    return o;
}

int main(int argc, char **argv)
{
    const options o = read_options(argc, argv);
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    shoal_comm *comm;
    shoal_view view = {.size = sizeof view};
    found f = {.began_us = shoali_now_us()};
    desc.join_timeout_us = (int64_t)JOIN_S * 1000000;
    if (shoal_comm_create(&desc, &comm) != SHOAL_OK || shoal_comm_view(comm, &view) != SHOAL_OK)
        stop("join");
    f.joined_us = shoali_now_us();
    f.cpu_join_us = cpu_us();
    float *x = calloc(o.count, sizeof *x);
    if (x == NULL || shoal_barrier(comm) != SHOAL_OK)
        stop("barrier");
    sum(comm, &o, x, &f);
    if (o.idle_s > 0)
        sleep_s(SETTLE_S);
    f.cpu_idle_us = cpu_us();
    f.idle_frames = control_bytes(comm, &view);
    sleep_s(o.idle_s);
    f.cpu_idle_us = cpu_us() - f.cpu_idle_us;
    f.idle_frames = control_bytes(comm, &view) - f.idle_frames;
    count_descriptors(&f);
    measure_memory(&f);
    if (shoal_barrier(comm) != SHOAL_OK)
        stop("barrier");
    if (o.kill >= 0)
        lose(comm, &view, &o, x, &f);
    show(&view, &o, &f);
    free(x);
    shoal_comm_destroy(comm);
    return 0;
}
