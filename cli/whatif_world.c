/* SPDX-License-Identifier: Apache-2.0 */
/* A run's world with something changed, and a step in it by simulation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answer.h"
#include "cli.h"
#include "whatif.h"

/* Measured by shoal calibrate for the claim simulation-vs-lab: a start, and a round. */
enum { OPERATION_US = 100, ROUND_US = 33 };
enum { STEPS_ALL = 8192, STEPS_LEAST = 64, STEPS_MOST = 1024 };
#define BANDWIDTH_SHARE 0.97

void whatif_world_free(whatif_world *world)
{
    free(world->compute_s);
    free(world->host_workers);
    free(world->nic_bytes_s);
    world->compute_s = world->nic_bytes_s = NULL;
    world->host_workers = NULL;
}

/* ---------------------------------------------------------------- changes */

/* The median worker; of two in the middle the faster one, so that one straggler of two is seen. */
static double usual_of(const double *compute_s, uint32_t count)
{
    double copy[WHATIF_WORKERS_MOST];
    memcpy(copy, compute_s, count * sizeof *copy);
    (void)whatif_median(copy, count); /* sorts */
    return copy[(count - 1) / 2];
}

/* As many workers as there shall be: those there are, in their order, then such as the median one,
 * on hosts like the last. */
static bool resize(const whatif_world *from, uint32_t workers, whatif_world *out)
{
    const double usual_s = usual_of(from->compute_s, from->workers);
    uint32_t dealt = 0;
    *out = *from;
    out->workers = workers;
    out->hosts = 0;
    out->compute_s = calloc(workers, sizeof *out->compute_s);
    out->host_workers = calloc(workers, sizeof *out->host_workers);
    out->nic_bytes_s = calloc(workers, sizeof *out->nic_bytes_s);
    if (out->compute_s == NULL || out->host_workers == NULL || out->nic_bytes_s == NULL)
        return false;
    for (uint32_t i = 0; i < workers; i++)
        out->compute_s[i] = i < from->workers ? from->compute_s[i] : usual_s;
    for (uint32_t h = 0; dealt < workers; h++) {
        const uint32_t like = h < from->hosts ? h : from->hosts - 1;
        const uint32_t room = from->host_workers[like], left = workers - dealt;
        out->host_workers[h] = room < left ? room : left;
        out->nic_bytes_s[h] = from->nic_bytes_s[like];
        dealt += out->host_workers[h];
        out->hosts = h + 1;
    }
    return true;
}

static int set_bandwidth(const whatif_run *run, const char *text, whatif_world *out)
{
    uint64_t bits = 0;
    double times = 0;
    char number[32];
    const size_t length = strlen(text);
    if (run->one_host)
        return cli_usage("whatif",
                         "--bandwidth %s: all ranks are on one host, and their links are "
                         "its memory",
                         text);
    if (length > 1 && length < sizeof number && text[length - 1] == 'x') {
        memcpy(number, text, length - 1);
        number[length - 1] = '\0';
        (void)cli_parse_real(number, 1e-3, 1e3, &times);
    }
    if (times <= 0 && !cli_parse_rate(text, &bits))
        return cli_usage("whatif",
                         "--bandwidth %s: wanted a rate, such as 1gbit, or how many times "
                         "as much, such as 4x",
                         text);
    for (uint32_t h = 0; h < out->hosts; h++)
        out->nic_bytes_s[h] = times > 0 ? times * out->nic_bytes_s[h] : (double)bits / 8;
    if (times <= 0)
        out->payload_share = BANDWIDTH_SHARE;
    return CLI_OK;
}

/* "none", or "2:3x": rank 2 takes three times as long as the median worker. */
static int set_straggler(const char *text, whatif_world *out)
{
    const double usual_s = usual_of(out->compute_s, out->workers);
    char number[32] = "";
    const char *colon = strchr(text, ':');
    int64_t rank = 0;
    double times = 0;
    if (strcmp(text, "none") == 0) {
        for (uint32_t i = 0; i < out->workers; i++)
            out->compute_s[i] = fmin(out->compute_s[i], usual_s);
        return CLI_OK;
    }
    if (colon != NULL && (size_t)(colon - text) < sizeof number) {
        memcpy(number, text, (size_t)(colon - text));
        number[colon - text] = '\0';
    }
    const bool ranked = colon != NULL && cli_parse_int(number, 0, out->workers - 1, &rank);
    size_t length = ranked ? strlen(colon + 1) : 0;
    length -= length > 0 && colon[length] == 'x';
    if (length > 0 && length < sizeof number) {
        memcpy(number, colon + 1, length);
        number[length] = '\0';
        (void)cli_parse_real(number, 0.01, 1000, &times);
    }
    if (times <= 0)
        return cli_usage("whatif",
                         "--straggler %s: wanted none, or RANK:TIMESx with a rank below "
                         "%u, such as 1:3x",
                         text, out->workers);
    out->compute_s[rank] = times * usual_s;
    return CLI_OK;
}

static void set_exchange(const whatif_change *change, whatif_world *out)
{
    if (change->sync != NULL)
        out->sync = change->sync;
    if (change->collective != NULL)
        out->collective = change->collective;
    if (change->codec != NULL)
        out->codec = change->codec;
}

int whatif_apply(whatif_run *run, const whatif_change *change, whatif_world *out)
{
    int code = CLI_OK;
    *out = (whatif_world){0};
    if (!resize(&run->world, change->workers > 0 ? change->workers : run->world.workers, out))
        return cli_fail("whatif", "there is no memory for %u workers", change->workers);
    set_exchange(change, out);
    if (change->latency_us >= 0 && run->one_host)
        code = cli_usage("whatif", "--latency: all ranks are on one host, and their links are its "
                                   "memory");
    else if (change->latency_us >= 0)
        out->latency_s = 1e-6 * change->latency_us;
    if (code == CLI_OK && change->bandwidth != NULL)
        code = set_bandwidth(run, change->bandwidth, out);
    if (code == CLI_OK && change->straggler != NULL)
        code = set_straggler(change->straggler, out);
    for (uint32_t i = 0; change->compute > 0 && i < out->workers; i++)
        out->compute_s[i] /= change->compute;
    return code;
}

/* ---------------------------------------------------------------- simulation */

static json_t *hosts_of(const whatif_world *w)
{
    json_t *list = json_array();
    char rate[48];
    for (uint32_t h = 0; h < w->hosts; h++) {
        snprintf(rate, sizeof rate, "%.17gB/s", w->nic_bytes_s[h]);
        json_t *host = json_pack("{s:i, s:s, s:f, s:f}", "workers", (int)w->host_workers[h], "nic",
                                 rate, "latency_us", 1e6 * w->latency_s, "loss", w->loss);
        json_array_append_new(list, host);
    }
    return list;
}

/* How many times as long as the fastest each takes. */
static json_t *slow_of(const whatif_world *w, double fastest_s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < w->workers; i++)
        json_array_append_new(list, json_pack("{s:i, s:f}", "worker", (int)i, "slowdown",
                                              fmax(1, w->compute_s[i] / fastest_s)));
    return list;
}

/* The world as a cluster file in memory. @return a descriptor, -1: no memory */
static int cluster_of(const whatif_world *w, double fastest_s)
{
    json_t *cluster = json_pack("{s:s, s:[{s:s, s:f}], s:o, s:o, s:{s:i, s:i, s:f, s:f}}", "name",
                                "run", "accelerators", "name", "worker", "flops", 1e9, "hosts",
                                hosts_of(w), "stragglers", slow_of(w, fastest_s), "overhead",
                                "operation_us", OPERATION_US, "round_us", ROUND_US, "step_us",
                                1e6 * w->other_s, "payload_share", w->payload_share);
    int fd = memfd_create("cluster.json", MFD_CLOEXEC);
    if (fd >= 0 && json_dumpfd(cluster, fd, JSON_COMPACT) != 0) {
        close(fd);
        fd = -1;
    }
    json_decref(cluster);
    return fd;
}

static uint64_t iterations_for(uint32_t workers)
{
    const uint64_t fit = STEPS_ALL / workers;
    return fit < STEPS_LEAST ? STEPS_LEAST : fit > STEPS_MOST ? STEPS_MOST : fit;
}

static double fastest_of(const whatif_world *w)
{
    double fastest_s = (double)INFINITY;
    for (uint32_t i = 0; i < w->workers; i++)
        fastest_s = fmin(fastest_s, w->compute_s[i]);
    return fmax(1e-9, fastest_s);
}

/* By gradient, as metrics have a line for each; means over workers. */
static shoal_status take_results(const shoal_sim *sim, uint32_t workers, whatif_step *out)
{
    *out = (whatif_step){0};
    for (uint32_t i = 0; i < workers; i++) {
        shoal_sim_endpoint_results r = {.size = sizeof r};
        const shoal_status status = shoal_sim_endpoint_get(sim, i, &r);
        if (status != SHOAL_OK)
            return status;
        const double share = 1 / fmax(1, (double)r.gradients) / workers;
        out->own_s += 1e-9 * (double)r.compute_ns * share;
        out->step_s += 1e-9 * (double)(r.compute_ns + r.idle_ns) * share;
        out->sent_bytes += (double)r.sent_bytes * share;
    }
    return SHOAL_OK;
}

static shoal_status simulate(const whatif_run *run, const whatif_world *w, const char *cluster,
                             double fastest_s, whatif_step *out)
{
    char compute[160];
    shoal_sim *sim = NULL;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    snprintf(compute, sizeof compute, "fixed:ms=%.9f,backward=%.9g,update_ms=%.9f,jitter=%.6f",
             1e3 * fastest_s, w->backward, 1e3 * w->update_s, w->jitter);
    desc.workers = w->workers;
    desc.iterations = iterations_for(w->workers);
    desc.sync = w->sync;
    desc.collective = w->collective;
    desc.codec = w->codec;
    desc.compute = compute;
    desc.cluster = cluster;
    desc.tensors = shoal_model_tensors(run->model, &desc.tensor_count);
    desc.bucket_bytes = w->bucket_bytes;
    desc.chunk_elems = w->chunk_elems;
    desc.inflate = w->inflate;
    shoal_status status = shoal_sim_create(&desc, &sim);
    if (status == SHOAL_OK)
        status = shoal_sim_run(sim);
    if (status == SHOAL_OK)
        status = take_results(sim, w->workers, out);
    shoal_sim_destroy(sim);
    return status;
}

int whatif_simulate(const whatif_run *run, const whatif_world *world, whatif_step *out)
{
    const double fastest_s = fastest_of(world);
    const int fd = cluster_of(world, fastest_s);
    char path[48];
    if (fd < 0)
        return cli_fail("whatif", "there is no memory for a cluster of %u hosts", world->hosts);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const shoal_status status = simulate(run, world, path, fastest_s, out);
    close(fd);
    return status == SHOAL_OK ? CLI_OK : cli_report("whatif");
}
