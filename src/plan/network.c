/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a network: dimensions, costs, jobs. */
#include "plan/network.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_yaml(const char *text)
{
    return ends_in(text, ".yml") || ends_in(text, ".yaml");
}

/* ---------------------------------------------------------------- dimensions and costs */

static shoal_status read_costs_text(const char *text, shoal_network *net)
{
    const char *at = text;
    for (uint32_t d = 0; d < net->dims; d++) {
        char *end = NULL;
        double cost = strtod_l(at, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
        char after = d + 1 < net->dims ? ',' : '\0';
        if (end == at || *end != after || !(cost >= 0 && cost <= 1e12))
            return shoali_fail(SHOAL_EINVAL,
                               "costs '%.64s': expected a file in .yml, or %u numbers ($ per GB/s) "
                               "with commas between",
                               text, net->dims);
        net->dimension[d].cost_link = cost;
        net->dimension[d].cost_switch = net->dimension[d].cost_nic = 0;
        at = end + 1;
    }
    return SHOAL_OK;
}

static shoal_status read_cluster(const char *path, shoal_network *net)
{
    shoali_cluster *cluster;
    SHOALI_TRY(shoali_cluster_load(path, &cluster));
    net->dims = cluster->dimension_count;
    memcpy(net->dimension, cluster->dimensions, sizeof net->dimension);
    shoali_cluster_close(cluster);
    for (uint32_t d = 0; d < net->dims; d++)
        net->has_cost = net->has_cost || net->dimension[d].cost_link > 0;
    return net->dims > 0 ? SHOAL_OK : shoali_fail(SHOAL_EINVAL, "%s: has no dimensions", path);
}

static shoal_status read_libra(const shoal_network_desc *desc, shoal_network *net)
{
    shoali_libra_network *file = shoali_arena_alloc(net->arena, sizeof *file);
    if (file == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_libra_network_load(desc->network, file));
    if (desc->cost != NULL && is_yaml(desc->cost))
        SHOALI_TRY(shoali_libra_cost_load(desc->cost, file));
    net->dims = file->count;
    memcpy(net->dimension, file->dimension, sizeof net->dimension);
    return SHOAL_OK;
}

static shoal_status read_dimensions(const shoal_network_desc *desc, shoal_network *net)
{
    bool cost_file = desc->cost != NULL && is_yaml(desc->cost);
    if (is_yaml(desc->network))
        SHOALI_TRY(read_libra(desc, net));
    else if (cost_file)
        return shoali_fail(SHOAL_EINVAL,
                           "%s names cost classes, which only LIBRA's network files use; write "
                           "costs such as \"2,4,4,57.4\"",
                           desc->cost);
    else if (ends_in(desc->network, ".json"))
        SHOALI_TRY(read_cluster(desc->network, net));
    else
        SHOALI_TRY(shoali_dimensions_parse(desc->network, net->dimension, &net->dims));
    if (desc->cost != NULL && !cost_file)
        SHOALI_TRY(read_costs_text(desc->cost, net));
    net->has_cost = net->has_cost || desc->cost != NULL;
    net->npus = 1;
    for (uint32_t d = 0; d < net->dims; d++) {
        const shoali_dimension *dim = &net->dimension[d];
        bool switched = dim->topology == SHOALI_TOPOLOGY_SWITCH;
        net->npus *= dim->size;
        net->unit_cost[d] = dim->cost_link + (switched ? dim->cost_switch + dim->cost_nic : 0);
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- jobs */

static shoal_status read_job(const shoal_network_job *job, shoal_network *net,
                             shoali_network_job *out)
{
    const char *groups = job->communicator != NULL ? job->communicator : "tp=1";
    const char *name = job->model != NULL ? job->model->model : job->workload;
    if (name == NULL || (job->model != NULL && job->workload != NULL))
        return shoali_fail(SHOAL_EINVAL, "a job needs a workload file or a model, and not both");
    if (!(job->weight > 0 && job->weight < 1e9))
        return shoali_fail(SHOAL_EINVAL, "%s: weight %g; it must be above 0 and below 1e9", name,
                           job->weight);
    out->weight = job->weight;
    if (job->model != NULL) {
        if (job->communicator != NULL)
            return shoali_fail(SHOAL_EINVAL,
                               "%s is a model, whose groups its sizes say: leave "
                               "'%.64s' out",
                               name, job->communicator);
        return shoali_network_model(job->model, net, out);
    }
    if (ends_in(job->workload, ".et"))
        SHOALI_TRY(shoali_chakra_load(job->workload, net->arena, &out->workload));
    else
        SHOALI_TRY(shoali_workload_load(job->workload, net->arena, &out->workload));
    if (is_yaml(groups))
        SHOALI_TRY(
            shoali_libra_communicator_load(groups, net->dimension, net->dims, &out->communicator));
    else
        SHOALI_TRY(shoali_network_groups(groups, net, out));
    return shoali_network_check_groups(name, net, out);
}

static shoal_status read_all(const shoal_network_desc *desc, shoal_network *net)
{
    net->overlap = desc->overlap;
    net->recompute = desc->recompute;
    net->fixed_cost = desc->fixed_cost;
    SHOALI_TRY(read_dimensions(desc, net));
    net->jobs = shoali_arena_array(net->arena, desc->job_count, sizeof *net->jobs);
    if (net->jobs == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < desc->job_count; i++)
        SHOALI_TRY(read_job(&desc->jobs[i], net, &net->jobs[i]));
    net->job_count = desc->job_count;
    for (uint32_t i = 0; i < net->job_count; i++)
        SHOALI_TRY(shoali_network_terms(net, i, net->arena, &net->jobs[i].times));
    SHOALI_TRY(shoali_network_terms(net, net->job_count, net->arena, &net->times));
    for (uint32_t r = 0; r < net->times.piece_count; r++)
        net->traffic[net->times.pieces[r].dim] += net->times.pieces[r].amount;
    return SHOAL_OK;
}

static shoal_status check_desc(const shoal_network_desc *desc)
{
    if (desc->network == NULL || desc->job_count == 0 || desc->jobs == NULL)
        return shoali_fail(SHOAL_EINVAL, "a design needs a network and at least one workload");
    if (desc->job_count > SHOALI_NETWORK_JOBS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u workloads; at most %d", desc->job_count,
                           SHOALI_NETWORK_JOBS_MAX);
    if (!(desc->fixed_cost >= 0 && desc->fixed_cost < 1e15))
        return shoali_fail(SHOAL_EINVAL, "a fixed cost of %g; it must be 0 .. 1e15",
                           desc->fixed_cost);
    return SHOAL_OK;
}

shoal_status shoal_network_open(const shoal_network_desc *desc, shoal_network **network_out)
{
    if (desc == NULL || network_out == NULL || desc->size < sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "shoal_network_open needs a description with its size");
    SHOALI_TRY(check_desc(desc));
    shoal_network *net = shoali_alloc(sizeof *net);
    if (net == NULL)
        return SHOAL_ENOMEM;
    net->arena = shoali_arena_create(1 << 16);
    shoal_status status = net->arena != NULL ? read_all(desc, net) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        *network_out = net;
    else
        shoal_network_close(net);
    return status;
}

shoal_status shoal_network_save_trace(const shoal_network *network, uint32_t job, const char *path)
{
    shoali_new_file out;
    if (network == NULL || path == NULL || job >= network->job_count)
        return shoali_fail(SHOAL_EINVAL, "a trace needs a network, a job of it and a path");
    for (uint32_t i = 0; i < network->jobs[job].workload.row_count * SHOALI_PHASES; i++) {
        const shoali_workload *w = &network->jobs[job].workload;
        if (w->rows[i / SHOALI_PHASES].phase[i % SHOALI_PHASES].group > SHOALI_GROUP_EXPERTS)
            return shoali_fail(SHOAL_EINVAL,
                               "%s has stages of a pipeline, or replicas of experts, which a trace "
                               "of one accelerator cannot say: leave pipeline and experts out",
                               w->rows[i / SHOALI_PHASES].name);
    }
    SHOALI_TRY(shoali_new_file_open(path, &out));
    shoali_chakra_print(&network->jobs[job].workload, out.file);
    return shoali_new_file_commit(&out);
}

void shoal_network_close(shoal_network *network)
{
    if (network == NULL)
        return;
    shoali_arena_destroy(network->arena);
    shoali_free(network);
}

/* ---------------------------------------------------------------- reading it */

shoal_status shoal_network_describe(const shoal_network *network, shoal_network_info *info_out)
{
    if (network == NULL || info_out == NULL || info_out->size < sizeof *info_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_network_describe needs a network and an info");
    info_out->dims = network->dims;
    info_out->npus = network->npus;
    info_out->has_cost = network->has_cost;
    info_out->terms = network->times.term_count;
    info_out->compute_ns = 0;
    for (uint32_t d = 0; d < network->dims; d++) {
        info_out->topology[d] = shoali_topology_name(network->dimension[d].topology);
        info_out->members[d] = network->dimension[d].size;
        info_out->unit_cost[d] = network->unit_cost[d];
        info_out->traffic[d] = network->traffic[d];
    }
    for (uint32_t i = 0; i < network->job_count; i++) {
        for (uint32_t r = 0; r < network->jobs[i].workload.row_count; r++) {
            for (uint32_t p = 0; p < SHOALI_PHASES; p++)
                info_out->compute_ns += network->jobs[i].weight *
                                        network->jobs[i].workload.rows[r].phase[p].compute_ns;
        }
    }
    return SHOAL_OK;
}

static bool communicates(const shoali_phase *phase)
{
    return phase->comm != SHOALI_COMM_NONE && phase->bytes > 0;
}

uint32_t shoal_network_collectives(const shoal_network *network, uint32_t job)
{
    uint32_t count = 0;
    if (network == NULL || job >= network->job_count)
        return 0;
    const shoali_workload *workload = &network->jobs[job].workload;
    for (uint32_t i = 0; i < workload->row_count * SHOALI_PHASES; i++)
        count += communicates(&workload->rows[i / SHOALI_PHASES].phase[i % SHOALI_PHASES]);
    return count;
}

shoal_status shoal_network_at(const shoal_network *network, uint32_t job, uint32_t index,
                              shoal_network_collective *out)
{
    if (network == NULL || job >= network->job_count || out == NULL || out->size < sizeof *out)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_network_at needs a network, a job of it and a place");
    const shoali_network_job *of = &network->jobs[job];
    for (uint32_t i = 0; i < of->workload.row_count * SHOALI_PHASES; i++) {
        const shoali_workload_row *row = &of->workload.rows[i / SHOALI_PHASES];
        shoali_phase_kind kind = (shoali_phase_kind)(i % SHOALI_PHASES);
        const shoali_phase *phase = &row->phase[kind];
        if (!communicates(phase) || index-- > 0)
            continue;
        out->layer = row->name;
        out->phase = shoali_phase_name(kind);
        out->kind = shoali_comm_kind_name(phase->comm);
        out->bytes = phase->bytes;
        shoali_network_volume(phase->comm, phase->bytes, shoali_network_group(of, kind, phase),
                              network->dims, out->volume);
        return SHOAL_OK;
    }
    return shoali_fail(SHOAL_EINVAL, "no such collective");
}

double shoal_network_time(const shoal_network *network, uint32_t job, const double *bandwidth)
{
    if (network == NULL || bandwidth == NULL || job > network->job_count)
        return NAN;
    bool all = job == network->job_count;
    return shoali_times_at(all ? &network->times : &network->jobs[job].times, bandwidth);
}

double shoal_network_cost(const shoal_network *network, const double *bandwidth)
{
    if (network == NULL || bandwidth == NULL || !network->has_cost)
        return NAN;
    double cost = network->fixed_cost;
    for (uint32_t d = 0; d < network->dims; d++)
        cost += network->npus * network->unit_cost[d] * bandwidth[d];
    return cost;
}
