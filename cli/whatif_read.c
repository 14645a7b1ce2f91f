/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured: the last members' steps, less the first few, from a run folder. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answer.h"
#include "cli.h"
#include "whatif.h"

enum { BLOCKS = 10, SORTED_MOST = 1 << 21 };
#define KEPT_SHARE 0.95 /* of steps made together: the slowest of all are accidents */
#define STEP_MOST_US 1e10
#define BACKWARD_SHARE 0.667
#define JITTER_MOST 0.9

void whatif_note(whatif_run *run, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (json_array_size(run->notes) < WHATIF_NOTES_MOST)
        json_array_append_new(run->notes, answer_text(text));
}

const char *whatif_option(const report_run *run, const char *name)
{
    const json_t *value = json_object_get(json_object_get(run->run, "options"), name);
    return json_is_string(value) ? json_string_value(value) : json_is_true(value) ? "" : NULL;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double whatif_median(double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0 && isfinite(values[i]))
            values[kept++] = values[i];
    qsort(values, kept, sizeof *values, ascending);
    return kept > 0 ? (values[kept / 2] + values[(kept - 1) / 2]) / 2 : 0;
}

/* ---------------------------------------------------------------- steps */

/* The ranks under their last names, side by side. */
typedef struct group {
    const report_rank *rank;
    uint32_t count;
} group;

static group last_group(const report_run *run)
{
    group g = {0};
    for (uint32_t i = run->rank_count; i-- > 0;) {
        const report_rank *r = &run->ranks[i];
        if (g.count > 0 && (r->part != g.rank->part || r->epoch != g.rank->epoch))
            break;
        g.rank = r;
        g.count++;
    }
    return g;
}

static bool has(const report_rank *rank, uint64_t step)
{
    const report_ring *ring = &rank->ring;
    if (ring->size == 0)
        return false;
    const uint64_t slot = step % ring->size;
    const double us = (double)ring->step_us[slot], compute = (double)ring->compute_us[slot];
    return ring->turn[slot] == (uint32_t)(step / ring->size) + 1 && us > 0 && us < STEP_MOST_US &&
           compute >= 0 && compute <= us;
}

static uint64_t first_counted(const report_rank *rank)
{
    const uint64_t first = rank->first_step + WHATIF_SKIPPED, room = rank->ring.size;
    return room > 0 && rank->last_step >= room && first <= rank->last_step - room
               ? rank->last_step - room + 1
               : first;
}

/* Sums over the steps that count. */
typedef struct sums {
    double *compute_us, *steps; /* by rank */
    double step_us, wait_us, count;
    double block_us[BLOCKS], blocks[BLOCKS]; /* the same in consecutive parts */
} sums;

static void add(sums *s, const group *g, uint32_t i, uint64_t step, uint32_t block)
{
    const report_ring *ring = &g->rank[i].ring;
    const uint64_t slot = step % ring->size;
    s->compute_us[i] += (double)ring->compute_us[slot];
    s->steps[i]++;
    s->step_us += (double)ring->step_us[slot];
    s->wait_us += fmax(0, (double)ring->wait_us[slot]);
    s->block_us[block] += (double)ring->step_us[slot];
    s->blocks[block]++;
    s->count++;
}

static uint32_t block_of(const report_rank *rank, uint64_t step)
{
    const double first = (double)first_counted(rank), last = (double)rank->last_step;
    const double at = fmax(0, (double)step - first) * BLOCKS / fmax(1, last - first + 1);
    return at < BLOCKS ? (uint32_t)at : BLOCKS - 1;
}

/* Of all ranks; NAN: some rank has none of that step. */
static double whole_step_us(const group *g, uint64_t step)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        if (!has(&g->rank[i], step))
            return (double)NAN;
        const report_ring *ring = &g->rank[i].ring;
        sum += (double)ring->step_us[step % ring->size];
    }
    return sum / g->count;
}

/* The longest step that counts where workers make each step together. */
static double longest_counted(const group *g)
{
    const report_rank *lead = &g->rank[0];
    const uint64_t first = first_counted(lead);
    size_t count = 0, room = lead->last_step >= first ? lead->last_step - first + 1 : 0;
    room = room < SORTED_MOST ? room : SORTED_MOST;
    double *all = calloc(room + 1, sizeof *all), longest = (double)INFINITY;
    for (uint64_t step = first; all != NULL && step <= lead->last_step && count < room; step++) {
        const double us = whole_step_us(g, step);
        if (us > 0)
            all[count++] = us;
    }
    if (count > 0) {
        qsort(all, count, sizeof *all, ascending);
        longest = all[(size_t)ceil(KEPT_SHARE * (double)count) - 1];
    }
    free(all);
    return longest;
}

static void add_together(sums *s, const group *g)
{
    const double longest = longest_counted(g);
    for (uint64_t step = first_counted(g->rank); step <= g->rank->last_step; step++)
        if (whole_step_us(g, step) <= longest)
            for (uint32_t i = 0; i < g->count; i++)
                add(s, g, i, step, block_of(g->rank, step));
}

static void add_apart(sums *s, const group *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        for (uint64_t step = first_counted(&g->rank[i]); step <= g->rank[i].last_step; step++)
            if (has(&g->rank[i], step))
                add(s, g, i, step, block_of(&g->rank[i], step));
}

/* A rank's pass in a step by its mean one. */
static double pass_by_mean(const sums *s, const group *g, uint32_t i, uint64_t step)
{
    const report_ring *ring = &g->rank[i].ring;
    const double mean = s->compute_us[i] / s->steps[i];
    return mean > 0 ? (double)ring->compute_us[step % ring->size] / mean : 1;
}

/* How much passes differ from step to step, so that the last of all comes as late as it did, on
 * average: of n uniform draws from 1 +- j that is 1 + j (n - 1) / (n + 1). */
static double jitter_together(const sums *s, const group *g)
{
    const double longest = longest_counted(g);
    double sum = 0, count = 0;
    for (uint64_t step = first_counted(g->rank); step <= g->rank->last_step; step++) {
        double most = 0;
        if (!(whole_step_us(g, step) <= longest))
            continue;
        for (uint32_t i = 0; i < g->count; i++)
            most = fmax(most, pass_by_mean(s, g, i, step));
        sum += most;
        count++;
    }
    return count > 0 ? (sum / count - 1) * (g->count + 1) / (g->count - 1) : 0;
}

/* The standard deviation of a uniform draw is j / sqrt(3). */
static double jitter_apart(const sums *s, const group *g)
{
    double sum = 0, count = 0;
    for (uint32_t i = 0; i < g->count; i++)
        for (uint64_t step = first_counted(&g->rank[i]); step <= g->rank[i].last_step; step++) {
            if (!has(&g->rank[i], step))
                continue;
            const double by = pass_by_mean(s, g, i, step) - 1;
            sum += by * by;
            count++;
        }
    return count > 0 ? sqrt(3 * sum / count) : 0;
}

static double error_of(const sums *s)
{
    double mean = s->step_us / s->count, squares = 0, blocks = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (s->blocks[i] > 0) {
            const double by = s->block_us[i] / s->blocks[i] - mean;
            squares += by * by;
            blocks++;
        }
    return blocks > 1 ? 2e-6 * sqrt(squares / (blocks - 1) / blocks) : 1e-6 * mean;
}

static void take_sums(const sums *s, const group *g, whatif_run *out)
{
    double update_us = 0, sent = 0, lines = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        out->world.compute_s[i] = 1e-6 * s->compute_us[i] / s->steps[i];
        out->compute_s += out->world.compute_s[i] / g->count;
        update_us += g->rank[i].sum[REPORT_UPDATE];
        sent += g->rank[i].sum[REPORT_SENT];
        lines += (double)g->rank[i].steps;
    }
    out->steps = (uint64_t)(s->count / g->count);
    out->measured.step_s = 1e-6 * s->step_us / s->count;
    out->wait_s = 1e-6 * s->wait_us / s->count;
    out->measured.own_s = out->measured.step_s - out->wait_s;
    out->measured.sent_bytes = sent / lines;
    out->world.update_s = fmin(1e-6 * update_us / lines,
                               fmax(0, out->measured.own_s - out->compute_s));
    out->world.other_s = fmax(0, out->measured.own_s - out->compute_s - out->world.update_s);
    const double jitter = (out->together ? jitter_together : jitter_apart)(s, g);
    out->world.jitter = fmin(JITTER_MOST, fmax(0, jitter));
    out->error_s = error_of(s);
}

static int read_steps(const char *folder, const report_run *run, whatif_run *out)
{
    const group g = last_group(run);
    const uint32_t wanted = run->workers > 0 && run->workers <= WHATIF_WORKERS_MOST
                                ? (uint32_t)run->workers
                                : g.count;
    if (g.count < 2 || g.count > WHATIF_WORKERS_MOST)
        return cli_usage("whatif",
                         "%s has steps of %u ranks: what a change does is told of runs of 2 to %d "
                         "workers",
                         folder, g.count, WHATIF_WORKERS_MOST);
    if (g.count != wanted)
        return cli_usage("whatif",
                         "%s has the steps of %u of its %u workers: the files of metrics "
                         "of all are needed",
                         folder, g.count, wanted);
    sums s = {.compute_us = calloc(2 * (size_t)g.count, sizeof(double))};
    out->world.compute_s = calloc(g.count, sizeof(double));
    out->world.workers = g.count;
    int code = CLI_OK;
    if (s.compute_us == NULL || out->world.compute_s == NULL)
        code = cli_fail("whatif", "there is no memory for %u ranks", g.count);
    s.steps = s.compute_us + g.count;
    if (code == CLI_OK)
        (out->together ? add_together : add_apart)(&s, &g);
    for (uint32_t i = 0; code == CLI_OK && i < g.count; i++)
        if (s.steps[i] < WHATIF_STEPS_LEAST)
            code = cli_usage("whatif",
                             "%s has %.0f steps of rank %u to go by, and %d are needed behind the "
                             "first %d: let it run longer",
                             folder, s.steps[i], g.rank[i].rank, WHATIF_STEPS_LEAST,
                             WHATIF_SKIPPED);
    if (code == CLI_OK)
        take_sums(&s, &g, out);
    free(s.compute_us);
    return code;
}

/* ---------------------------------------------------------------- what ran */

/* Parts of the run that no simulation here has; NULL: none. */
static const char *beyond(const report_run *run)
{
    static const struct {
        const char *option, *why;
    } all[] = {{"simulate", "its workers were simulated: its times are those of one process"},
               {"no-exchange", "its workers exchanged nothing: ask shoal predict"},
               {"plan", "it ran by a plan: shoal predict --plan answers for those"},
               {"admm", "what it exchanges changes between its phases (--admm)"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (whatif_option(run, all[i].option) != NULL)
            return all[i].why;
    return NULL;
}

static int take_bucket(const report_run *run, const char *folder, whatif_run *out)
{
    const char *bucket = whatif_option(run, "bucket"), *chunk = whatif_option(run, "chunk");
    uint64_t bytes = 0;
    int64_t elems = 0;
    if (bucket != NULL && strcmp(bucket, "model") == 0)
        bytes = SIZE_MAX;
    else if (bucket != NULL && !cli_parse_bytes(bucket, &bytes))
        return cli_usage("whatif", "%s: its --bucket %s is no size", folder, bucket);
    if (chunk != NULL && !cli_parse_int(chunk, 1, 1 << 30, &elems))
        return cli_usage("whatif", "%s: its --chunk %s is no number", folder, chunk);
    out->world.bucket_bytes = (size_t)bytes;
    out->world.chunk_elems = (uint32_t)elems;
    return CLI_OK;
}

/* The codec that --codec auto chose last. */
static const char *codec_of(const report_run *run, const group *g)
{
    const uint32_t at = g->count > 0 ? g->rank[0].codec : 0;
    return at < run->codec_count && run->codecs[at].name[0] != '\0' ? run->codecs[at].name
                                                                    : "identity";
}

static const char *text_or(const char *text, const char *fallback)
{
    return text != NULL && text[0] != '\0' ? text : fallback;
}

/* The model as run.json describes it, whatever became of its file. */
static int open_model(const report_run *run, const char *folder, whatif_run *out)
{
    static const char *const keys[] = {"name", "input", "init", "layers"};
    const json_t *kept = json_object_get(run->run, "model");
    char path[48];
    json_t *model = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(kept, keys[i]) != NULL)
            json_object_set(model, keys[i], json_object_get(kept, keys[i]));
    const int fd = memfd_create("model.json", MFD_CLOEXEC);
    const bool good = fd >= 0 && json_dumpfd(model, fd, JSON_COMPACT) == 0;
    json_decref(model);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int code = CLI_OK;
    if (!good)
        code = cli_fail("whatif", "there is no memory for the model of %s", folder);
    else if (shoal_model_open(path, &out->model) != SHOAL_OK)
        code = cli_usage("whatif", "%s/run.json describes no model that can be read: %s", folder,
                         shoal_last_error()->text);
    if (fd >= 0)
        close(fd);
    out->name = text_or(json_string_value(json_object_get(kept, "name")), "model");
    return code;
}

static int take_options(const report_run *run, const char *folder, whatif_run *out)
{
    const group g = last_group(run);
    const char *batch = text_or(whatif_option(run, "batch"), "64");
    const char *why = beyond(run);
    int64_t number = 0;
    if (run->run == NULL)
        return cli_usage("whatif", "%s: run.json cannot be read, and says what ran", folder);
    if (why != NULL)
        return cli_usage("whatif", "%s: %s", folder, why);
    out->world.sync = text_or(whatif_option(run, "sync"), "all_reduce");
    out->world.collective = text_or(whatif_option(run, "collective"), "ring");
    out->world.codec = codec_of(run, &g);
    out->world.backward = whatif_option(run, "no-overlap") != NULL ? 0 : BACKWARD_SHARE;
    out->world.inflate = 1;
    out->paced = whatif_option(run, "compute-ms") != NULL;
    out->together = run->together_known ? run->together
                                        : strncmp(out->world.sync, "all_reduce", 10) == 0;
    batch = strncmp(batch, "auto:", 5) == 0 ? batch + 5 : batch;
    out->batch = cli_parse_int(batch, 1, 1 << 30, &number) ? (uint32_t)number : 0;
    return take_bucket(run, folder, out);
}

int whatif_take(const report_run *run, uint64_t link_bits, whatif_run *out)
{
    *out = (whatif_run){.notes = json_array()};
    int code = take_options(run, run->folder, out);
    if (code == CLI_OK)
        code = read_steps(run->folder, run, out);
    if (code == CLI_OK)
        code = open_model(run, run->folder, out);
    if (code == CLI_OK)
        code = whatif_links(run, link_bits, out);
    if (code == CLI_OK && report_is_running(run))
        whatif_note(out, "the run is going on: this is by the steps so far");
    return code;
}

void whatif_close(whatif_run *run)
{
    shoal_model_close(run->model);
    whatif_world_free(&run->world);
    json_decref(run->notes);
}
