/* SPDX-License-Identifier: Apache-2.0 */
/* What is simulated besides protocols: hosts and their links, how long workers compute, what a file
 * says about both. Link 2h is up from host h, link 2h + 1 down to it; behind them come the links
 * that a cluster names between two hosts, used in place of theirs, and two for each link that a
 * worker has for itself. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/read_file.h"
#include "driver/sim_parts.h"
#include "model/cluster_ways.h"
#include "model/model.h"

enum { LINE_BYTES = 256, TRACE_MAX = 1 << 20 };
#define RATE_MAX 1e9 /* bytes per ns: what "infinite" is here */

/* ---------------------------------------------------------------- hosts and links */

/* Workers in equal parts on the hosts, or as the cluster says; each dedicated server on its own. */
static shoal_status place_endpoints(shoal_sim *sim)
{
    const shoali_cluster *cluster = sim->cluster;
    sim->world.worker_hosts = cluster != NULL                ? cluster->host_count
                              : sim->asked.network.hosts > 0 ? sim->asked.network.hosts
                                                             : sim->workers;
    if (cluster != NULL && sim->workers > cluster->workers)
        return shoali_fail(SHOAL_EINVAL, "%u workers on a cluster of %u", sim->workers,
                           cluster->workers);
    if (cluster == NULL && sim->world.worker_hosts > sim->workers)
        return shoali_fail(SHOAL_EINVAL, "network=links:hosts=%u for %u workers",
                           sim->world.worker_hosts, sim->workers);
    for (uint32_t i = 0; i < sim->size; i++) {
        uint32_t spread = (uint32_t)((uint64_t)i * sim->world.worker_hosts / sim->workers);
        sim->world.endpoint_ids[i] = i;
        sim->world.hosts[i] = i >= sim->workers ? sim->world.worker_hosts + i - sim->workers
                              : cluster != NULL ? shoali_cluster_host_of(cluster, i)
                                                : spread;
    }
    return SHOAL_OK;
}

/* Bytes per ns. A packet that is lost is sent again. */
double shoali_sim_link_rate(const shoal_sim *sim, uint32_t link)
{
    uint32_t host = link / 2;
    bool up = link % 2 == 0;
    if (sim->cluster == NULL) {
        double bits = up ? sim->asked.network.up_bits : sim->asked.network.down_bits;
        if (sim->rate.now != NULL && sim->rate.now[link] > 0)
            return sim->rate.now[link] / 8e9 * (1 - sim->asked.network.loss);
        double slow = shoali_sim_lookup(&sim->asked.network.slow, host, 1);
        return bits / 8e9 / slow * (1 - sim->asked.network.loss);
    }
    if (link >= sim->world.own_links) {
        uint32_t own = (link - sim->world.own_links) / 2;
        double rate = shoali_cluster_own_rate(sim->cluster, own % sim->workers, own / sim->workers);
        return fmin(rate * 1e-9, RATE_MAX);
    }
    if (link >= sim->world.pair_links) {
        const shoali_link *pair = &sim->cluster->links[link - sim->world.pair_links];
        return fmin(pair->bytes_per_s * 1e-9 * (1 - pair->loss), RATE_MAX);
    }
    const shoali_host *at = &sim->cluster->hosts[host < sim->world.worker_hosts ? host : 0];
    double share = 1e-9 * (1 - at->loss) * sim->cluster->overhead.payload_share;
    return fmin((up ? at->up_bytes_per_s : at->down_bytes_per_s) * share, RATE_MAX);
}

shoal_status shoali_sim_world_links(shoal_sim *sim)
{
    SHOALI_TRY(place_endpoints(sim));
    sim->world.pair_links = 2 * (sim->world.worker_hosts + sim->size - sim->workers);
    sim->world.own_links = sim->world.link_count = sim->world.pair_links;
    if (sim->cluster != NULL) {
        sim->world.own_links += sim->cluster->link_count;
        sim->world.link_count = sim->world.own_links +
                                2 * shoali_cluster_own_links(sim->cluster) * sim->workers;
    }
    sim->world.link_place = shoali_alloc_array(sim->world.link_count,
                                               sizeof *sim->world.link_place);
    double *rates = shoali_alloc_array(sim->world.link_count, sizeof *rates);
    if (sim->world.link_place == NULL || rates == NULL) {
        shoali_free(rates);
        return SHOAL_ENOMEM;
    }
    for (uint32_t link = 0; link < sim->world.link_count; link++)
        rates[link] = shoali_sim_link_rate(sim, link);
    sim->net = shoali_links_create(rates, sim->world.link_count);
    sim->latency_ns = (uint64_t)(sim->asked.network.latency_us * 1e3);
    shoali_free(rates);
    return sim->net != NULL ? shoali_sim_rates_read(sim) : SHOAL_ENOMEM;
}

static bool between_workers(const shoal_sim *sim, uint32_t from, uint32_t to)
{
    return sim->cluster != NULL && from < sim->workers && to < sim->workers && from != to;
}

bool shoali_sim_links(const shoal_sim *sim, uint32_t from, uint32_t to, uint32_t links_out[2])
{
    uint32_t from_host = sim->world.hosts[from], to_host = sim->world.hosts[to];
    if (between_workers(sim, from, to)) {
        const shoali_way way = shoali_cluster_way(sim->cluster, from, to);
        const uint32_t own = sim->world.own_links + 2 * way.link * sim->workers;
        links_out[0] = own + 2 * from;
        links_out[1] = own + 2 * to + 1;
        if (way.own)
            return true;
    }
    if (from_host == to_host)
        return false;
    links_out[0] = 2 * from_host;
    links_out[1] = 2 * to_host + 1;
    for (uint32_t i = sim->world.pair_links; i < sim->world.own_links; i++) {
        const shoali_link *pair = &sim->cluster->links[i - sim->world.pair_links];
        if (pair->from == from_host && pair->to == to_host)
            links_out[0] = links_out[1] = i;
    }
    return true;
}

uint64_t shoali_sim_latency_ns(const shoal_sim *sim, uint32_t from, uint32_t to)
{
    uint32_t a = sim->world.hosts[from], b = sim->world.hosts[to];
    if (sim->cluster == NULL)
        return sim->latency_ns;
    if (between_workers(sim, from, to))
        return (uint64_t)(shoali_cluster_way(sim->cluster, from, to).latency_s * 1e9);
    if (a == b)
        return 0;
    a = a < sim->world.worker_hosts ? a : 0;
    b = b < sim->world.worker_hosts ? b : 0;
    return (uint64_t)(shoali_cluster_link(sim->cluster, a, b).latency_s * 1e9);
}

double shoali_sim_loss(const shoal_sim *sim, uint32_t from, uint32_t to)
{
    uint32_t a = sim->world.hosts[from], b = sim->world.hosts[to];
    if (sim->cluster == NULL)
        return sim->asked.network.loss;
    if (between_workers(sim, from, to))
        return shoali_cluster_way(sim->cluster, from, to).loss;
    if (a == b || a >= sim->world.worker_hosts || b >= sim->world.worker_hosts)
        return 0;
    return shoali_cluster_link(sim->cluster, a, b).loss;
}

/* ---------------------------------------------------------------- time to compute */

/* Seconds of one sample's pass on an accelerator: every layer at the rate of its kind and size. */
static double pass_s(const shoal_model *model, const shoali_accelerator *accelerator, double batch)
{
    double seconds = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        double flops = (layer->forward_flops + layer->weight_flops + layer->input_flops) * batch;
        const shoali_efficiency *table = shoali_accelerator_table(accelerator, layer->row->name);
        double share = table != NULL ? shoali_efficiency_at(table, flops) : 1;
        seconds += flops / (accelerator->flops * share);
    }
    return seconds;
}

static shoal_status time_of_model(shoal_sim *sim, const shoal_model *model)
{
    double forward = 0, all = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        forward += layer->forward_flops;
        all += layer->forward_flops + layer->weight_flops + layer->input_flops;
    }
    if (sim->asked.compute.gflops <= 0 && sim->cluster == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "compute=model needs gflops=RATE, or a cluster that says it");
    sim->asked.compute.backward = all > 0 ? 1 - forward / all : 0;
    for (uint32_t w = 0; w < sim->workers; w++) {
        double batch = sim->asked.compute.batch;
        double seconds = all * batch / (sim->asked.compute.gflops * 1e9);
        if (sim->asked.compute.gflops <= 0) {
            const shoali_host *host = &sim->cluster->hosts[sim->world.hosts[w]];
            seconds = pass_s(model, &sim->cluster->accelerators[host->accelerator], batch);
        }
        sim->nodes[w].base_ns = seconds * 1e9;
    }
    return SHOAL_OK;
}

/* "SECONDS WORKER FACTOR" */
static bool parse_trace_line(const char *line, double *seconds_out, shoali_sim_pace *pace_out)
{
    char *end;
    const char *at = line;
    *seconds_out = strtod(at, &end);
    bool ok = end != at;
    pace_out->worker = (uint32_t)strtoul(at = end, &end, 10);
    ok = ok && end != at;
    pace_out->factor = strtod(at = end, &end);
    return ok && end != at && end[strspn(end, " \t\r\n")] == '\0';
}

static shoal_status read_trace_line(shoal_sim *sim, const char *line, uint32_t number)
{
    shoali_sim_pace pace;
    double seconds;
    if (line[strspn(line, " \t\r\n")] == '\0' || line[0] == '#')
        return SHOAL_OK;
    if (!parse_trace_line(line, &seconds, &pace) || !(seconds >= 0 && seconds < 1e9) ||
        !(pace.factor > 0 && pace.factor < 1e6) || pace.worker >= sim->workers)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s:%u: expected SECONDS WORKER FACTOR, with a worker below %u",
                           sim->asked.compute.trace, number, sim->workers);
    pace.from_ns = (uint64_t)(seconds * 1e9);
    if (sim->pace.count > 0 && sim->pace.lines[sim->pace.count - 1].from_ns > pace.from_ns)
        return shoali_fail(SHOAL_ECORRUPT, "%s:%u: time goes backwards", sim->asked.compute.trace,
                           number);
    if (sim->pace.count == sim->pace.room) {
        uint32_t room = sim->pace.room > 0 ? 2 * sim->pace.room : 64;
        shoali_sim_pace *grown = NULL;
        if (room <= TRACE_MAX)
            grown = shoali_realloc(sim->pace.lines, sim->pace.room * sizeof *grown,
                                   room * sizeof *grown);
        if (grown == NULL)
            return shoali_fail(SHOAL_ENOMEM, "%s: more than %d lines", sim->asked.compute.trace,
                               TRACE_MAX);
        sim->pace.lines = grown;
        sim->pace.room = room;
    }
    sim->pace.lines[sim->pace.count++] = pace;
    return SHOAL_OK;
}

static shoal_status read_trace(shoal_sim *sim)
{
    char line[LINE_BYTES];
    shoal_status status = SHOAL_OK;
    FILE *file;
    SHOALI_TRY(shoali_open_file(sim->asked.compute.trace, &file));
    for (uint32_t number = 1; status == SHOAL_OK && fgets(line, sizeof line, file) != NULL;
         number++)
        status = read_trace_line(sim, line, number);
    fclose(file);
    return status;
}

shoal_status shoali_sim_world_pace(shoal_sim *sim, const shoal_model *model)
{
    for (uint32_t w = 0; w < sim->workers; w++)
        sim->nodes[w].base_ns = sim->asked.pass_s != NULL ? sim->asked.pass_s[w] * 1e9
                                                          : sim->asked.compute.ms * 1e6;
    if (sim->asked.compute.from_model && model == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "compute=model counts a model's operations: params alone have none");
    if (sim->asked.compute.from_model)
        SHOALI_TRY(time_of_model(sim, model));
    return sim->asked.compute.trace[0] != '\0' ? read_trace(sim) : SHOAL_OK;
}

/* Its last line at that time. */
static double trace_factor(const shoal_sim *sim, uint32_t worker, uint64_t at_ns)
{
    double factor = 1;
    for (uint32_t i = 0; i < sim->pace.count && sim->pace.lines[i].from_ns <= at_ns; i++)
        if (sim->pace.lines[i].worker == worker)
            factor = sim->pace.lines[i].factor;
    return factor;
}

/* What a cluster says of a worker at that time; its draws are independent of the spec's. */
static double cluster_factor(const shoal_sim *sim, uint32_t worker, uint64_t iteration,
                             uint64_t at_ns)
{
    double at_s = (double)at_ns * 1e-9;
    double factor = shoali_cluster_slowdown(sim->cluster, worker, at_s);
    for (uint32_t i = 0; i < sim->cluster->straggler_count; i++) {
        const shoali_straggler *s = &sim->cluster->stragglers[i];
        const shoali_sim_compute one = {.random_factor = s->slowdown,
                                        .random_probability = s->probability};
        if (s->probability > 0 && at_s >= s->from_s && at_s < s->until_s &&
            (s->worker == UINT32_MAX || s->worker == worker))
            factor *= shoali_sim_compute_factor(&one, worker, sim->workers, iteration,
                                                sim->seed + 1 + i);
    }
    return factor;
}

uint64_t shoali_sim_iteration_ns(const shoal_sim *sim, uint32_t worker, uint64_t iteration,
                                 uint64_t at_ns)
{
    double factor = shoali_sim_compute_factor(&sim->asked.compute, worker, sim->workers, iteration,
                                              sim->seed);
    if (sim->pace.count > 0)
        factor *= trace_factor(sim, worker, at_ns);
    if (sim->cluster == NULL)
        return (uint64_t)llround(sim->nodes[worker].base_ns * factor);
    factor *= cluster_factor(sim, worker, iteration, at_ns);
    double step_ns = sim->cluster->overhead.step_s * 1e9;
    return (uint64_t)llround(sim->nodes[worker].base_ns * factor + step_ns);
}
