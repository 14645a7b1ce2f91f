/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "svg.h"

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

void sim_print_text(const sim_report *r)
{
    uint64_t done;
    double per_second = rate(r, &done);
    printf("%u workers, %" PRIu64 " iterations in %.6f s: %.4f per second and worker\n", r->workers,
           done, (double)r->results.duration_ns * 1e-9, per_second / r->workers);
    printf("iteration gap %" PRIu64 ", staleness %" PRIu64 ", %" PRIu64 " operations, %.3f MB sent",
           r->results.gap_max, r->results.staleness_max, r->results.operations,
           (double)r->results.sent_bytes * 1e-6);
    if (!isnan(r->spectral_gap))
        printf(", spectral gap %.4f", r->spectral_gap);
    print_network(r);
    printf("\nevent log %016" PRIx64
           "\n\nworker iterations compute_s waits_s transfer_s most_for\n",
           r->results.log_hash);
    for (uint32_t w = 0; w < r->workers; w++) {
        const uint64_t *waits = shoal_sim_waits(r->sim, w);
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(r->sim, w, &e) != SHOAL_OK)
            continue;
        uint32_t most = waited_most(waits, r->workers, w);
        printf("%6u %10" PRIu64 " %9.3f %7.3f %10.3f ", w, e.iterations,
               (double)e.compute_ns * 1e-9, (double)waited_for_others(waits, r->workers, w) * 1e-9,
               (double)waits[w] * 1e-9);
        if (most == w)
            printf("-%s\n", e.end == SHOAL_SIM_DEAD ? " (dead)" : "");
        else
            printf("%u%s\n", most, e.end == SHOAL_SIM_DEAD ? " (dead)" : "");
    }
    if (r->error != NULL)
        printf("\nended early: %s\n", r->error);
}

/* ---------------------------------------------------------------- JSON */

static void json_text(const char *key, const char *text)
{
    printf("\"%s\": \"", key);
    for (const char *at = text != NULL ? text : ""; *at != '\0'; at++)
        printf((unsigned char)*at < 0x20   ? "\\u%04x"
               : *at == '"' || *at == '\\' ? "\\%c"
                                           : "%c",
               *at);
    printf("\"");
}

/* A number, or null where there is none. */
static void json_number(const char *key, double value)
{
    if (isfinite(value))
        printf("\"%s\": %.9g", key, value);
    else
        printf("\"%s\": null", key);
}

static void json_worker(const sim_report *r, uint32_t w)
{
    const uint64_t *waits = shoal_sim_waits(r->sim, w);
    shoal_sim_endpoint_results e = {.size = sizeof e};
    bool first = true;
    if (shoal_sim_endpoint_get(r->sim, w, &e) != SHOAL_OK)
        return;
    printf("%s\n    {\"worker\": %u, \"end\": \"%s\", \"iterations\": %" PRIu64
           ", \"gradients\": %" PRIu64 ", \"compute_s\": %.9f, \"idle_s\": %.9f, "
           "\"transfer_s\": %.9f, \"sent_bytes\": %" PRIu64 ", ",
           w > 0 ? "," : "", w, end_names[e.end], e.iterations, e.gradients,
           (double)e.compute_ns * 1e-9, (double)e.idle_ns * 1e-9, (double)waits[w] * 1e-9,
           e.sent_bytes);
    if (isfinite(e.test_accuracy))
        printf("\"test_accuracy\": %.9g, ", e.test_accuracy);
    printf("\"waited_for\": {");
    for (uint32_t peer = 0; peer < r->workers; peer++)
        if (peer != w && waits[peer] > 0) {
            printf("%s\"%u\": %.9f", first ? "" : ", ", peer, (double)waits[peer] * 1e-9);
            first = false;
        }
    printf("}}");
}

/* What a network makes of it all. */
static void json_network(const shoal_sim_results *s)
{
    printf(",\n  ");
    json_number("train_loss", s->train_loss);
    printf(", ");
    json_number("test_loss", s->test_loss);
    printf(", ");
    json_number("test_accuracy", s->test_accuracy);
}

static void json_curve(const sim_report *r)
{
    uint32_t count;
    const shoal_sim_point *points = shoal_sim_curve(r->sim, &count);
    printf("  \"curve\": [");
    for (uint32_t i = 0; i < count; i++) {
        printf("%s\n    {\"time_s\": %.9f, \"iterations\": %.4f, ", i > 0 ? "," : "",
               points[i].time_s, points[i].iterations);
        json_number("loss", points[i].loss);
        printf(", ");
        json_number("consensus", points[i].consensus);
        printf("}");
    }
    printf("\n  ]\n");
}

void sim_print_json(const sim_report *r)
{
    const shoal_sim_results *s = &r->results;
    uint64_t done;
    double per_second = rate(r, &done);
    printf("{\n  ");
    json_text("sync", r->desc->sync != NULL ? r->desc->sync : "all_reduce");
    printf(", \"workers\": %u, \"seed\": %" PRIu64 ",\n  ", r->workers,
           r->desc->seed > 0 ? r->desc->seed : 1);
    json_text("error", r->error);
    printf(",\n  \"duration_s\": %.9f, \"iterations\": %" PRIu64
           ", \"iterations_per_s\": %.9g, \"iterations_min\": %" PRIu64
           ", \"iterations_max\": %" PRIu64 ", \"iteration_s\": %.9f, \"gradients\": %" PRIu64
           ",\n  \"gap_max\": %" PRIu64 ", \"staleness_max\": %" PRIu64 ", \"epochs\": %" PRIu64
           ", ",
           (double)s->duration_ns * 1e-9, done, per_second, s->iterations_min, s->iterations_max,
           (double)s->iteration_ns * 1e-9, s->gradients, s->gap_max, s->staleness_max, s->epochs);
    json_number("spectral_gap", r->spectral_gap);
    if (isfinite(s->train_loss))
        json_network(s);
    printf(", \"compute_s\": %.9f, \"idle_s\": %.9f,\n  \"sent_bytes\": %" PRIu64
           ", \"busiest_link_bytes\": %" PRIu64 ", \"operations\": %" PRIu64
           ", \"skipped\": %" PRIu64 ", \"events\": %" PRIu64 ", \"log_hash\": \"%016" PRIx64
           "\",\n  \"per_worker\": [",
           (double)s->compute_ns * 1e-9, (double)s->idle_ns * 1e-9, s->sent_bytes,
           s->busiest_link_bytes, s->operations, s->skipped, s->events, s->log_hash);
    for (uint32_t w = 0; w < r->workers; w++)
        json_worker(r, w);
    printf("\n  ],\n");
    json_curve(r);
    printf("}\n");
}

/* ---------------------------------------------------------------- pictures */

static bool draw(const char *dir, const char *name, const cli_svg_plot *plot)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    cli_svg_write(file, plot);
    bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}

static bool draw_curve(const sim_report *r, const char *dir, double *x, double *y)
{
    uint32_t count;
    const shoal_sim_point *points = shoal_sim_curve(r->sim, &count);
    cli_svg_line line = {.x = x, .y = y, .count = count};
    cli_svg_plot plot = {.title = r->desc->sync,
                         .x_label = "virtual time, s",
                         .y_label = "iterations, mean over workers",
                         .zero_y = true,
                         .lines = &line,
                         .line_count = 1};
    for (uint32_t i = 0; i < count; i++) {
        x[i] = points[i].time_s;
        y[i] = points[i].iterations;
    }
    if (!draw(dir, "iterations.svg", &plot))
        return false;
    line.count = 0;
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

static bool draw_waits(const sim_report *r, const char *dir, double *x, double *y)
{
    double *transfer = y + r->workers;
    const cli_svg_line lines[] = {
        {.name = "waiting for workers", .x = x, .y = y, .count = r->workers, .dots = true},
        {.name = "transfers", .x = x, .y = transfer, .count = r->workers, .dots = true}};
    const cli_svg_plot plot = {.title = "Where the time went",
                               .x_label = "worker",
                               .y_label = "% of the run",
                               .zero_y = true,
                               .lines = lines,
                               .line_count = 2};
    double part = 100 / fmax((double)r->results.duration_ns, 1);
    for (uint32_t w = 0; w < r->workers; w++) {
        const uint64_t *waits = shoal_sim_waits(r->sim, w);
        x[w] = w;
        y[w] = part * (double)waited_for_others(waits, r->workers, w);
        transfer[w] = part * (double)waits[w];
    }
    return draw(dir, "waits.svg", &plot);
}

bool sim_draw(const sim_report *r, const char *dir)
{
    uint32_t points;
    (void)shoal_sim_curve(r->sim, &points);
    size_t room = points > r->workers ? points : r->workers;
    double *x = calloc(room + 1, sizeof *x), *y = calloc(2 * room + 1, sizeof *y);
    bool good = x != NULL && y != NULL && (mkdir(dir, 0777) == 0 || errno == EEXIST) &&
                draw_curve(r, dir, x, y) && draw_waits(r, dir, x, y);
    int error = errno;
    free(x);
    free(y);
    errno = error;
    return good;
}
