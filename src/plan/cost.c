/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cost.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

shoali_time shoali_cost_work(const shoali_accelerator *accelerator, const char *kind, double flops,
                             double bytes)
{
    bool vector = strcmp(kind, "vector") == 0;
    double peak = vector ? accelerator->vector_flops : accelerator->flops;
    double share = shoali_efficiency_at(shoali_accelerator_table(accelerator, kind), flops);
    double arithmetic = flops > 0 ? flops / (peak * share) : 0;
    double traffic = 0;
    if (bytes > 0 && isfinite(accelerator->memory_bytes_per_s))
        traffic = bytes /
                  (accelerator->memory_bytes_per_s *
                   shoali_efficiency_at(shoali_accelerator_table(accelerator, "memory"), bytes));
    shoali_time time = {0};
    if (accelerator->additive || traffic > arithmetic)
        time.memory = traffic;
    if (accelerator->additive || arithmetic >= traffic)
        *(vector ? &time.vector : &time.matrix) = arithmetic;
    return time;
}

/* ---------------------------------------------------------------- exchanges on dimensions */

/* The dimensions as given, or those that hosts make: a host's workers among each other (as fast as
 * their memory), then the hosts, each worker with its share of the NIC. */
static uint32_t dimensions_of(const shoali_cluster *cluster, shoali_dimension *out)
{
    if (cluster->dimension_count > 0) {
        memcpy(out, cluster->dimensions, sizeof cluster->dimensions);
        return cluster->dimension_count;
    }
    uint32_t count = 0, most = 1;
    double nic = INFINITY, latency = 0;
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const shoali_host *host = &cluster->hosts[i];
        most = host->workers > most ? host->workers : most;
        nic = fmin(nic, fmin(host->up_bytes_per_s, host->down_bytes_per_s) / host->workers);
        latency = fmax(latency, host->latency_s);
    }
    if (most > 1)
        out[count++] = (shoali_dimension){
            .topology = SHOALI_TOPOLOGY_FC,
            .size = most,
            .bytes_per_s = cluster->accelerators[0].memory_bytes_per_s,
            .efficiency = 1,
            .efficiency_sharded = 1};
    if (cluster->host_count > 1)
        out[count++] = (shoali_dimension){.topology = SHOALI_TOPOLOGY_SWITCH,
                                          .size = cluster->host_count,
                                          .bytes_per_s = nic,
                                          .latency_s = latency,
                                          .efficiency = 1,
                                          .efficiency_sharded = 1};
    return count;
}

/* Messages in a row of a reduce-scatter among n members; an all-reduce has twice as many. */
static double rounds_of(shoali_topology topology, double n)
{
    if (topology == SHOALI_TOPOLOGY_RING)
        return n - 1;
    return topology == SHOALI_TOPOLOGY_SWITCH ? ceil(log2(n)) : 1;
}

double shoali_cost_exchange_s(const shoali_cluster *cluster, shoali_group group,
                              shoali_exchange_kind kind, double bytes)
{
    shoali_dimension dimensions[SHOALI_CLUSTER_DIMENSIONS_MAX];
    uint32_t count = dimensions_of(cluster, dimensions);
    double prefix = 1, busiest = 0, latency = 0, left = bytes;
    double first = group.stride, last = (double)group.stride * group.size;
    if (group.size < 2)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        const shoali_dimension *d = &dimensions[i];
        double low = fmax(first, prefix), high = fmin(last, prefix * d->size);
        prefix *= d->size;
        if (high <= low)
            continue;
        double n = high / low;
        double rate = d->bytes_per_s * (1 - d->loss);
        if (kind == SHOALI_EXCHANGE_P2P) { /* the outermost dimension that is crossed */
            busiest = bytes / (rate * d->efficiency);
            latency = d->latency_s;
            continue;
        }
        bool sharded = kind == SHOALI_EXCHANGE_SHARDED;
        rate *= sharded ? d->efficiency_sharded : d->efficiency;
        busiest = fmax(busiest, (sharded ? 1 : 2) * left * (n - 1) / n / rate);
        latency += (sharded ? 1 : 2) * rounds_of(d->topology, n) * d->latency_s;
        left /= n;
    }
    double operation = kind == SHOALI_EXCHANGE_P2P ? 0 : cluster->overhead.operation_s;
    return busiest + latency + operation;
}

/* ---------------------------------------------------------------- schedules */

/* Loads of one round: by link, in shares of the count. Link 2h is up from host h, 2h + 1 down. */
typedef struct counting {
    const shoali_cluster *cluster;
    uint32_t links, rounds;
    double *total;  /* [links] */
    double *round;  /* [rounds][links] */
    double *member; /* [workers] sent and received */
} counting;

static double link_rate(const shoali_cluster *cluster, uint32_t link)
{
    const shoali_host *host = &cluster->hosts[link / 2];
    double rate = link % 2 == 0 ? host->up_bytes_per_s : host->down_bytes_per_s;
    return rate * (1 - host->loss);
}

/* Seconds that a share of an element-byte takes on a link; a measured pair may be slower than both
 * NICs. */
static double share_s(const counting *c, uint32_t from, uint32_t to, uint32_t link, double share)
{
    double rate = fmin(link_rate(c->cluster, link),
                       shoali_cluster_link(c->cluster, from, to).bytes_per_s);
    return isfinite(rate) ? share / rate : 0;
}

static void count_send(counting *c, uint32_t from, uint32_t to, uint16_t round, double share)
{
    uint32_t a = shoali_cluster_host_of(c->cluster, from);
    uint32_t b = shoali_cluster_host_of(c->cluster, to);
    if (a == b)
        return;
    uint32_t links[2] = {2 * a, 2 * b + 1};
    for (int i = 0; i < 2; i++) {
        double seconds = share_s(c, a, b, links[i], share);
        c->total[links[i]] += seconds;
        c->round[(size_t)(round - 1) * c->links + links[i]] += seconds;
    }
}

/* A share's fineness: enough elements that blocks are equal, few enough to stay exact. */
#define PROBE_PER_BLOCK 64u

static void count_member(counting *c, const shoal_schedule *schedule, uint32_t me, size_t probe,
                         shoali_collective_cost *out)
{
    shoali_cost cost;
    double whole = (double)probe;
    shoali_schedule_cost(schedule, probe, &cost);
    out->sent_share = fmax(out->sent_share, (double)cost.sent_elems / whole);
    out->moved_share = fmax(out->moved_share,
                            (double)(cost.sent_elems + cost.received_elems) / whole);
    out->encoded_share = fmax(out->encoded_share, (double)cost.encoded_elems / whole);
    out->decoded_share = fmax(out->decoded_share, (double)cost.decoded_elems / whole);
    out->added_share = fmax(out->added_share, (double)cost.added_elems / whole);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const shoal_step *step = &schedule->steps[i];
        size_t first, last, length, unused;
        if (step->kind != SHOAL_SEND)
            continue;
        shoali_schedule_range(schedule, probe, step->block, &first, &unused);
        shoali_schedule_range(schedule, probe, step->block + step->block_count - 1, &last, &length);
        double share = schedule->slots ? (double)step->block_count
                                       : (double)(last + length - first) / whole;
        count_send(c, me, step->peer, step->round, share);
    }
}

static shoal_status begin_counting(const shoali_cluster *cluster, shoal_arena *arena,
                                   uint32_t rounds, counting *c)
{
    *c = (counting){.cluster = cluster, .links = 2 * cluster->host_count, .rounds = rounds};
    c->total = shoali_arena_array(arena, c->links, sizeof *c->total);
    c->round = shoali_arena_array(arena, (size_t)c->links * (rounds + 1), sizeof *c->round);
    return c->total != NULL && c->round != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void end_counting(const counting *c, shoali_collective_cost *out)
{
    for (uint32_t link = 0; link < c->links; link++)
        out->link_s_per_elem = fmax(out->link_s_per_elem, c->total[link]);
    for (uint32_t round = 0; round < c->rounds; round++) {
        double most = 0;
        for (uint32_t link = 0; link < c->links; link++)
            most = fmax(most, c->round[(size_t)round * c->links + link]);
        out->phases_s_per_elem += most;
    }
}

static shoal_status count_all(const shoali_cluster *cluster, const shoali_collective *collective,
                              uint32_t workers, shoal_arena *arena, shoali_collective_cost *out)
{
    shoal_arena *lists = NULL;
    counting c = {0};
    shoal_status status = SHOAL_OK;
    for (uint32_t me = 0; status == SHOAL_OK && me < workers; me++) {
        const shoal_schedule_args args = {workers, workers, me, 0, NULL, NULL};
        shoal_schedule schedule;
        if (lists == NULL && (lists = shoali_arena_create(1 << 16)) == NULL)
            return SHOAL_ENOMEM;
        shoali_arena_reset(lists);
        status = shoali_collective_build(collective, SHOAL_ALL_REDUCE, &args, lists, &schedule);
        if (status == SHOAL_OK && me == 0) {
            out->rounds = schedule.rounds;
            out->blocks = schedule.blocks;
            status = begin_counting(cluster, arena, schedule.rounds, &c);
        }
        if (status == SHOAL_OK)
            count_member(&c, &schedule, me, (size_t)PROBE_PER_BLOCK * schedule.blocks, out);
    }
    if (status == SHOAL_OK)
        end_counting(&c, out);
    shoali_arena_destroy(lists);
    return status;
}

shoal_status shoali_cost_collective(const shoali_cluster *cluster,
                                    const shoali_collective *collective, uint32_t workers,
                                    shoali_collective_cost *out)
{
    *out = (shoali_collective_cost){0};
    if (workers < 2)
        return SHOAL_OK;
    if (workers > cluster->workers)
        return shoali_fail(SHOAL_EINVAL, "%u workers on a cluster of %u", workers,
                           cluster->workers);
    shoal_arena *arena = shoali_arena_create(1 << 16);
    if (arena == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = count_all(cluster, collective, workers, arena, out);
    shoali_arena_destroy(arena);
    double latency = 0;
    for (uint32_t i = 0; i < cluster->host_count && cluster->hosts[i].first_worker < workers; i++)
        latency = fmax(latency, cluster->hosts[i].latency_s);
    if (shoali_cluster_host_of(cluster, workers - 1) == 0)
        latency = 0;
    out->latency_s = out->rounds * (latency + cluster->overhead.round_s);
    return status;
}

double shoali_cost_link_s(const shoali_collective_cost *cost, double count, double bytes_per_elem,
                          double chunk_elems)
{
    double chunks = fmax(1, ceil(count / fmax(cost->blocks, 1) / chunk_elems));
    double hidden = fmax(0, cost->phases_s_per_elem - cost->link_s_per_elem);
    return (cost->link_s_per_elem + hidden / chunks) * count * bytes_per_elem;
}
