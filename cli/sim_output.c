/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_output.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "chart.h"
#include "cli.h"
#include "table.h"
#include "whole_file.h"

enum { BARS_MOST = 32 };

static const char *const end_names[] = {"running", "done", "stopped", "failed", "dead"};

/* Iterations of all workers per second. */
static double rate(const sim_report *r, uint64_t *done_out)
{
    uint64_t done = 0;
    for (uint32_t w = 0; w < r->workers; w++) {
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) == SHOAL_OK)
            done += e.iterations;
    }
    *done_out = done;
    return r->results.duration_ns > 0 ? (double)done * 1e9 / (double)r->results.duration_ns : 0;
}

/* The peer that a worker waited for longest; its own index: nobody but the network. */
static uint32_t waited_most(const uint64_t *waits, uint32_t workers, uint32_t worker)
{
    uint32_t most = worker;
    for (uint32_t peer = 0; peer < workers; peer++)
        if (peer != worker && (most == worker ? waits[peer] > 0 : waits[peer] > waits[most]))
            most = peer;
    return most;
}

static uint64_t waited_for_others(const uint64_t *waits, uint32_t workers, uint32_t worker)
{
    uint64_t sum = 0;
    for (uint32_t peer = 0; peer < workers; peer++)
        sum += peer != worker ? waits[peer] : 0;
    return sum;
}

/* ---------------------------------------------------------------- text */

/* Replicas that differ: of the worst and the best of them, before their average. */
static void print_network(const sim_report *r)
{
    double least = NAN, most = NAN;
    if (!isfinite(r->results.train_loss))
        return;
    printf("\nloss %.4f in training", r->results.train_loss);
    if (!isfinite(r->results.test_accuracy))
        return;
    for (uint32_t w = 0; w < r->workers; w++) {
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) == SHOAL_OK) {
            least = fmin(least, e.test_accuracy);
            most = fmax(most, e.test_accuracy);
        }
    }
    printf(", %.4f in the test: %.2f %% right", r->results.test_loss, r->results.test_accuracy);
    if (isfinite(least))
        printf(" (workers on their own %.2f to %.2f %%)", least, most);
}

static void print_refused(const sim_report *r)
{
    for (uint32_t w = 0; w < r->workers; w++) {
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) == SHOAL_OK && e.refused > 0)
            printf("%" PRIu64 " updates of worker %u were refused\n", e.refused, w);
    }
}

static void print_workers(const sim_report *r)
{
    static const table_column columns[] = {{"worker", TABLE_RIGHT},
                                           {"iterations", TABLE_RIGHT},
                                           {"compute_s", TABLE_RIGHT},
                                           {"waits_s", TABLE_RIGHT},
                                           {"transfer_s", TABLE_RIGHT},
                                           {"sent_MB", TABLE_RIGHT | TABLE_SPARE},
                                           {"received_MB", TABLE_RIGHT | TABLE_SPARE},
                                           {"most_for", TABLE_PLAIN}};
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (uint32_t w = 0; w < r->workers; w++) {
        const uint64_t *waits = shoal_sim_waits(r->sim, w);
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) != SHOAL_OK)
            continue;
        const uint32_t most = waited_most(waits, r->workers, w);
        table_row(t);
        table_add(t, "%u", w);
        table_add(t, "%" PRIu64, e.iterations);
        table_add(t, "%.3f", (double)e.compute_ns * 1e-9);
        table_add(t, "%.3f", (double)waited_for_others(waits, r->workers, w) * 1e-9);
        table_add(t, "%.3f", (double)waits[w] * 1e-9);
        table_add(t, "%.3f", (double)e.sent_bytes * 1e-6);
        table_add(t, "%.3f", (double)e.received_bytes * 1e-6);
        const char *end = e.end == SHOAL_SIM_DEAD ? " (dead)" : "";
        if (most == w)
            table_add(t, "-%s", end);
        else
            table_add(t, "%u%s", most, end);
    }
    table_print(t, stdout);
}

void sim_print_text(const sim_report *r)
{
    uint64_t done;
    double per_second = rate(r, &done);
    if (shoal_sim_chosen(r->sim) != NULL)
        printf("%s\n", shoal_sim_chosen(r->sim));
    printf("%u workers, %" PRIu64 " iterations in %.6f s: %.4f per second and worker\n", r->workers,
           done, (double)r->results.duration_ns * 1e-9, per_second / r->workers);
    printf("iteration gap %" PRIu64 ", staleness %" PRIu64 ", %" PRIu64 " operations, %.3f MB sent",
           r->results.gap_max, r->results.staleness_max, r->results.operations,
           (double)r->results.sent_bytes * 1e-6);
    if (!isnan(r->spectral_gap))
        printf(", spectral gap %.4f", r->spectral_gap);
    print_network(r);
    printf("\nevent log %016" PRIx64 "\n\n", r->results.log_hash);
    print_workers(r);
    print_refused(r);
    if (r->error != NULL)
        printf("\nended early: %s\n", r->error);
}

/* ---------------------------------------------------------------- JSON */

static json_t *waits_of(const uint64_t *waits, uint32_t workers, uint32_t worker)
{
    json_t *all = json_object();
    for (uint32_t peer = 0; peer < workers; peer++) {
        char key[16];
        snprintf(key, sizeof key, "%u", peer);
        if (peer != worker && waits[peer] > 0)
            answer_set_number(all, key, (double)waits[peer] * 1e-9);
    }
    return all;
}

static json_t *worker_of(const sim_report *r, uint32_t w, const shoal_sim_endpoint_results *e)
{
    const uint64_t *waits = shoal_sim_waits(r->sim, w);
    json_t *one = json_object();
    answer_set_count(one, "worker", w);
    answer_set_text(one, "end", end_names[e->end]);
    answer_set_count(one, "iterations", e->iterations);
    answer_set_count(one, "gradients", e->gradients);
    answer_set_number(one, "compute_s", (double)e->compute_ns * 1e-9);
    answer_set_number(one, "idle_s", (double)e->idle_ns * 1e-9);
    answer_set_number(one, "transfer_s", (double)waits[w] * 1e-9);
    answer_set_count(one, "sent_bytes", e->sent_bytes);
    answer_set_count(one, "received_bytes", e->received_bytes);
    answer_set_count(one, "refused_updates", e->refused);
    if (isfinite(e->test_accuracy))
        answer_set_number(one, "test_accuracy", e->test_accuracy);
    answer_set(one, "waited_for", waits_of(waits, r->workers, w));
    return one;
}

static json_t *workers_of(const sim_report *r)
{
    json_t *all = json_array();
    for (uint32_t w = 0; w < r->workers; w++) {
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) == SHOAL_OK)
            json_array_append_new(all, worker_of(r, w, &e));
    }
    return all;
}

static json_t *curve_of(const sim_report *r)
{
    uint32_t count;
    const shoal_sim_point *points = shoal_sim_curve(r->sim, &count);
    json_t *all = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *one = json_object();
        answer_set_number(one, "time_s", points[i].time_s);
        answer_set_number(one, "iterations", points[i].iterations);
        answer_set_count(one, "iterations_min", points[i].iterations_min);
        answer_set_count(one, "iterations_max", points[i].iterations_max);
        answer_set_number(one, "loss", points[i].loss);
        answer_set_number(one, "consensus", points[i].consensus);
        json_array_append_new(all, one);
    }
    return all;
}

static void set_iterations(json_t *answer, const sim_report *r)
{
    const shoal_sim_results *s = &r->results;
    uint64_t done;
    const double per_second = rate(r, &done);
    answer_set_number(answer, "duration_s", (double)s->duration_ns * 1e-9);
    answer_set_count(answer, "iterations", done);
    answer_set_number(answer, "iterations_per_s", per_second);
    answer_set_count(answer, "iterations_min", s->iterations_min);
    answer_set_count(answer, "iterations_max", s->iterations_max);
    answer_set_number(answer, "iteration_s", (double)s->iteration_ns * 1e-9);
    answer_set_count(answer, "gradients", s->gradients);
    answer_set_count(answer, "gap_max", s->gap_max);
    answer_set_count(answer, "staleness_max", s->staleness_max);
    answer_set_count(answer, "epochs", s->epochs);
    answer_set_number(answer, "spectral_gap", r->spectral_gap);
}

static void set_work(json_t *answer, const shoal_sim_results *s)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->log_hash);
    answer_set_number(answer, "compute_s", (double)s->compute_ns * 1e-9);
    answer_set_number(answer, "idle_s", (double)s->idle_ns * 1e-9);
    answer_set_count(answer, "sent_bytes", s->sent_bytes);
    answer_set_count(answer, "busiest_link_bytes", s->busiest_link_bytes);
    answer_set_count(answer, "operations", s->operations);
    answer_set_count(answer, "skipped", s->skipped);
    answer_set_count(answer, "events", s->events);
    answer_set_text(answer, "log_hash", hash);
}

int sim_print_json(const sim_report *r)
{
    const shoal_sim_results *s = &r->results;
    json_t *answer = json_object();
    if (shoal_sim_chosen(r->sim) != NULL)
        answer_set_text(answer, "chosen", shoal_sim_chosen(r->sim));
    answer_set_text(answer, "sync", r->desc->sync != NULL ? r->desc->sync : "all_reduce");
    answer_set_count(answer, "workers", r->workers);
    answer_set_count(answer, "seed", r->desc->seed > 0 ? r->desc->seed : 1);
    answer_set_text(answer, "error", r->error != NULL ? r->error : "");
    set_iterations(answer, r);
    if (isfinite(s->train_loss)) { /* what a network makes of it all */
        answer_set_number(answer, "train_loss", s->train_loss);
        answer_set_number(answer, "test_loss", s->test_loss);
        answer_set_number(answer, "test_accuracy", s->test_accuracy);
    }
    set_work(answer, s);
    answer_set(answer, "per_worker", workers_of(r));
    answer_set(answer, "curve", curve_of(r));
    return answer_print("sim", answer);
}

/* ---------------------------------------------------------------- pictures */

static bool draw(const char *dir, const char *name, const chart_plot *plot)
{
    char path[PATH_MAX];
    whole_file file;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!whole_file_begin_inside(&file, path))
        return false;
    const bool good = chart_draw(file.out, plot) == NULL;
    errno = EIO; /* of a gnuplot that has gone; writing tells its own */
    return whole_file_end(&file, good);
}

/* low, high: of the worker that has done least, and most. */
static bool draw_curve(const sim_report *r, const char *dir, double *x, double *y, double *low,
                       double *high)
{
    uint32_t count;
    const shoal_sim_point *points = shoal_sim_curve(r->sim, &count);
    chart_line line = {.x = x, .y = y, .count = count, .low = low, .high = high};
    chart_plot plot = {.title = r->desc->sync,
                       .x_label = "virtual time, s",
                       .y_label = "iterations: mean, least and most of a worker",
                       .zero_y = true,
                       .lines = &line,
                       .line_count = 1};
    for (uint32_t i = 0; i < count; i++) {
        x[i] = points[i].time_s;
        y[i] = points[i].iterations;
        low[i] = (double)points[i].iterations_min;
        high[i] = (double)points[i].iterations_max;
    }
    if (!draw(dir, "iterations.svg", &plot))
        return false;
    line = (chart_line){.x = x, .y = y};
    for (uint32_t i = 0; i < count; i++) { /* a network has no loss before its first samples */
        x[line.count] = points[i].time_s;
        y[line.count] = points[i].loss;
        line.count += isfinite(points[i].loss);
    }
    if (line.count == 0)
        return true;
    plot.y_label = r->desc->problem != NULL ? "loss of the mean model above its minimum"
                                            : "loss, mean over the workers' samples";
    plot.zero_y = false;
    plot.log_y = true;
    return draw(dir, "loss.svg", &plot);
}

/* Those that waited least come first, who were waited for; the last of more than BARS_MOST are
 * left out. */
static size_t choose_workers(const sim_report *r, uint32_t shown[BARS_MOST])
{
    size_t count = 0;
    for (uint32_t w = 0; w < r->workers; w++) {
        const uint64_t *waits = shoal_sim_waits(r->sim, w);
        const uint64_t waited = waited_for_others(waits, r->workers, w);
        size_t place = count;
        while (place > 0 && waited < waited_for_others(shoal_sim_waits(r->sim, shown[place - 1]),
                                                       r->workers, shown[place - 1]))
            place--;
        if (place == BARS_MOST)
            continue;
        const size_t last = count < BARS_MOST ? count++ : BARS_MOST - 1;
        memmove(&shown[place + 1], &shown[place], (last - place) * sizeof *shown);
        shown[place] = w;
    }
    return count;
}

static bool draw_waits(const sim_report *r, const char *dir)
{
    static const char *const parts[] = {"waiting for workers", "transfers"};
    uint32_t shown[BARS_MOST];
    char name[BARS_MOST][24];
    const char *rows[BARS_MOST];
    double values[2 * BARS_MOST];
    const size_t count = choose_workers(r, shown);
    const double part = 100 / fmax((double)r->results.duration_ns, 1);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *waits = shoal_sim_waits(r->sim, shown[i]);
        snprintf(name[i], sizeof name[i], "worker %u", shown[i]);
        rows[i] = name[i];
        values[2 * i] = part * (double)waited_for_others(waits, r->workers, shown[i]);
        values[2 * i + 1] = part * (double)waits[shown[i]];
    }
    const chart_bars bars = {.title = "Where the time went; who waited least comes first",
                             .x_label = "% of the run",
                             .rows = rows,
                             .row_count = count,
                             .parts = parts,
                             .part_count = 2,
                             .values = values};
    char path[PATH_MAX];
    whole_file file;
    snprintf(path, sizeof path, "%s/waits.svg", dir);
    if (!whole_file_begin_inside(&file, path))
        return false;
    const bool good = chart_draw_bars(file.out, &bars) == NULL;
    errno = EIO;
    return whole_file_end(&file, good);
}

bool sim_may_draw(const char *dir)
{
    char parent[PATH_MAX];
    struct stat info;
    if (stat(dir, &info) == 0) {
        errno = ENOTDIR;
        return S_ISDIR(info.st_mode) && access(dir, W_OK | X_OK) == 0;
    }
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    while (length > 0 && dir[length - 1] != '/')
        length--;
    snprintf(parent, sizeof parent, "%.*s", length > 0 ? (int)length : 1, length > 0 ? dir : ".");
    return dir[0] != '\0' && errno == ENOENT && access(parent, W_OK | X_OK) == 0;
}

bool sim_draw(const sim_report *r, const char *dir)
{
    static const char *const names[] = {"iterations.svg", "loss.svg", "waits.svg"};
    char path[PATH_MAX];
    uint32_t points;
    (void)shoal_sim_curve(r->sim, &points);
    const size_t room = (size_t)points + 1;
    double *x = calloc(4 * room, sizeof *x);
    const bool made = x != NULL && mkdir(dir, 0777) == 0;
    bool good = x != NULL && (made || errno == EEXIST) &&
                draw_curve(r, dir, x, x + room, x + 2 * room, x + 3 * room) && draw_waits(r, dir);
    int error = errno;
    free(x);
    for (size_t i = 0; made && !good && i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    if (made && !good)
        (void)rmdir(dir);
    errno = error;
    return good;
}
