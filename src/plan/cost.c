/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/cost.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/cluster_ways.h"

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

/* The dimensions as given, or those that hosts make: a host's workers among each other, then the
 * hosts, each worker with its share of the NIC. */
static uint32_t dimensions_of(const shoali_cluster *cluster, shoali_dimension *out)
{
    if (cluster->dimension_count > 0) {
        memcpy(out, cluster->dimensions, sizeof cluster->dimensions);
        return cluster->dimension_count;
    }
    uint32_t count = 0, most = 1;
    double nic = INFINITY, within = INFINITY, latency = 0;
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const shoali_host *host = &cluster->hosts[i];
        most = host->workers > most ? host->workers : most;
        nic = fmin(nic, fmin(host->up_bytes_per_s, host->down_bytes_per_s) / host->workers);
        within = fmin(within, host->inside_bytes_per_s);
        latency = fmax(latency, host->latency_s);
    }
    if (most > 1)
        out[count++] = (shoali_dimension){.topology = SHOALI_TOPOLOGY_FC,
                                          .size = most,
                                          .bytes_per_s = within,
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

/* ---------------------------------------------------------------- groups across hosts */

/* Whether some groups lie on other parts of hosts than others do: hosts of unequal size, or of one
 * that groups do not fill. */
static bool straddles(const shoali_cluster *c, shoali_group group)
{
    const uint64_t each = c->hosts[0].workers, last = (uint64_t)group.stride * group.size;
    for (uint32_t h = 1; h < c->host_count; h++)
        if (c->hosts[h].workers != each)
            return true;
    if (each == 1 || c->host_count == 1)
        return false;
    return (each % last != 0 && last % each != 0) ||
           (each % group.stride != 0 && group.stride % each != 0);
}

/* What one group sends from a host on which `here` of its members are, if it is on so many. */
static double sent_from(shoali_group group, shoali_exchange_kind kind, double bytes, uint32_t here,
                        uint32_t hosts)
{
    if (hosts < 2)
        return 0;
    if (kind == SHOALI_EXCHANGE_P2P)
        return bytes; /* the last of them, to whom is next */
    if (kind == SHOALI_EXCHANGE_ALL_TO_ALL)
        return here * bytes * (group.size - here) / group.size;
    const double times = kind == SHOALI_EXCHANGE_ALL_REDUCE ? 2 : 1;
    return times * bytes * (hosts - 1) / hosts;
}

/* One group's members by host, then what each of these sends is added to its NIC's. */
static void add_group(const shoali_cluster *c, shoali_group group, uint32_t first,
                      uint32_t *members, shoali_exchange_kind kind, double bytes, double *load)
{
    uint32_t hosts = 0, before = UINT32_MAX;
    memset(members, 0, c->host_count * sizeof *members);
    for (uint32_t i = 0; i < group.size; i++) {
        const uint32_t h = shoali_cluster_host_of(c, first + i * group.stride);
        hosts += h != before; /* ranks go host by host */
        before = h;
        members[h]++;
    }
    for (uint32_t h = 0; h < c->host_count; h++)
        if (members[h] > 0)
            load[h] += sent_from(group, kind, bytes, members[h], hosts);
}

/* Seconds of the NIC that has most to do when all groups exchange at once: each host's members of a
 * group sum, and one of them speaks for all. */
static double nics_s(const shoali_cluster *c, shoali_group group, shoali_exchange_kind kind,
                     double bytes)
{
    const uint64_t whole = (uint64_t)group.stride * group.size;
    double busiest = 0, *load = shoali_alloc_array(c->host_count, sizeof *load);
    uint32_t *members = shoali_alloc_array(c->host_count, sizeof *members);
    const bool room = load != NULL && members != NULL;
    for (uint64_t at = 0; room && at + whole <= c->workers; at += whole)
        for (uint32_t i = 0; i < group.stride; i++)
            add_group(c, group, (uint32_t)at + i, members, kind, bytes, load);
    for (uint32_t h = 0; room && h < c->host_count; h++) {
        const shoali_host *host = &c->hosts[h];
        const double rate = fmin(host->up_bytes_per_s, host->down_bytes_per_s) * (1 - host->loss);
        busiest = fmax(busiest, load[h] > 0 ? load[h] / rate : 0);
    }
    shoali_free(load);
    shoali_free(members);
    return room ? busiest : INFINITY; /* never the best */
}

static double latency_between(const shoali_cluster *c)
{
    double latency = 0;
    for (uint32_t h = 0; h < c->host_count; h++)
        latency = fmax(latency, c->hosts[h].latency_s);
    return latency;
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
        double times = kind == SHOALI_EXCHANGE_ALL_REDUCE ? 2 : 1;
        rate *= kind == SHOALI_EXCHANGE_SHARDED ? d->efficiency_sharded : d->efficiency;
        busiest = fmax(busiest, times * left * (n - 1) / n / rate);
        latency += times * rounds_of(d->topology, n) * d->latency_s;
        if (kind != SHOALI_EXCHANGE_ALL_TO_ALL)
            left /= n;
    }
    if (straddles(cluster, group)) {
        const double nics = nics_s(cluster, group, kind, bytes);
        busiest = fmax(busiest, nics);
        latency = fmax(latency, nics > 0 ? latency_between(cluster) : 0);
    }
    double operation = kind == SHOALI_EXCHANGE_P2P ? 0 : cluster->overhead.operation_s;
    return busiest + latency + operation;
}

/* ---------------------------------------------------------------- schedules */

/* Loads of one round: by link, in shares of the count. Link 2h is up from host h, 2h + 1 down. */
typedef struct counting {
    const shoali_cluster *cluster;
    shoali_groups groups;
    const shoal_codec *codec;
    shoal_op_kind op;
    uint32_t links, rounds;
    double *total; /* [links] */
    double *round; /* [rounds][links] */
    /* One worker's own links, up and down of each: reset for each. [rounds + 1][own], the first row
     * their totals; the largest of all workers [rounds] */
    uint32_t own;
    double *mine, *most;
    shoali_lost lost;
    uint32_t sender; /* of the list that is counted for `lost` */
} counting;

static uint32_t worker_of(const shoali_groups *groups, uint32_t group, uint32_t member)
{
    uint32_t stride = groups->each.stride;
    return group / stride * stride * groups->each.size + group % stride + member * stride;
}

/* Bytes of an element that is a sum of so many members', by those of one's. */
static double growth(const shoal_codec *codec, uint32_t parts)
{
    if (codec == NULL || parts <= 1)
        return 1;
    return shoal_codec_bytes_per_elem(codec, parts) / shoal_codec_bytes_per_elem(codec, 1);
}

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

/* A message between hosts: counted where it is sent. */
static void count_nics(counting *c, uint32_t from, uint32_t to, uint16_t round, double share)
{
    uint32_t a = shoali_cluster_host_of(c->cluster, from);
    uint32_t b = shoali_cluster_host_of(c->cluster, to);
    uint32_t links[2] = {2 * a, 2 * b + 1};
    for (int i = 0; i < 2; i++) {
        double seconds = share_s(c, a, b, links[i], share);
        c->total[links[i]] += seconds;
        c->round[(size_t)(round - 1) * c->links + links[i]] += seconds;
    }
}

/* One of a worker's own messages, up if it is sent: on its own link, or on its host's. */
static void count_message(counting *c, uint32_t worker, uint32_t peer, bool up, uint16_t round,
                          double share)
{
    shoali_way way = up ? shoali_cluster_way(c->cluster, worker, peer)
                        : shoali_cluster_way(c->cluster, peer, worker);
    if (!way.own) {
        if (up)
            count_nics(c, worker, peer, round, share);
        return;
    }
    double seconds = isfinite(way.bytes_per_s) ? share / way.bytes_per_s : 0;
    uint32_t link = 2 * way.link + (up ? 0 : 1);
    c->mine[link] += seconds;
    c->mine[(size_t)round * c->own + link] += seconds;
}

/* One worker is through: its own links against those of all before. */
static void end_worker(counting *c, shoali_collective_cost *out)
{
    for (uint32_t link = 0; link < c->own; link++)
        out->link_s_per_elem = fmax(out->link_s_per_elem, c->mine[link]);
    for (uint32_t round = 1; round <= c->rounds; round++)
        for (uint32_t link = 0; link < c->own; link++)
            c->most[round - 1] = fmax(c->most[round - 1], c->mine[(size_t)round * c->own + link]);
    memset(c->mine, 0, sizeof *c->mine * c->own * (c->rounds + 1));
}

/* A share's fineness: enough elements that blocks are equal, few enough to stay exact. */
#define PROBE_PER_BLOCK 64u

/* What a message takes of a link, by the operation's count. */
static double share_of(const counting *c, const shoal_schedule *schedule, const shoal_step *step,
                       size_t probe)
{
    size_t first, last, length, unused;
    shoali_schedule_range(schedule, probe, step->block, &first, &unused);
    shoali_schedule_range(schedule, probe, step->block + step->block_count - 1, &last, &length);
    double blocks = schedule->slots ? (double)step->block_count
                                    : (double)(last + length - first) / (double)probe;
    if (shoali_schedule_inside(schedule, step) && c->codec != NULL)
        return blocks * sizeof(float) / shoal_codec_bytes_per_elem(c->codec, 1);
    return blocks * growth(c->codec, step->parts);
}

static void count_member(counting *c, const shoal_schedule *schedule, uint32_t me, size_t probe,
                         shoali_collective_cost *out)
{
    shoali_cost cost;
    double whole = (double)probe;
    shoali_schedule_cost(schedule, probe, &cost);
    out->encoded_share = fmax(out->encoded_share, (double)cost.encoded_elems / whole);
    out->decoded_share = fmax(out->decoded_share, (double)cost.decoded_elems / whole);
    out->added_share = fmax(out->added_share, (double)cost.added_elems / whole);
    for (uint32_t group = 0; group < c->groups.count; group++) {
        double sent = 0, received = 0;
        for (uint32_t i = 0; i < schedule->count; i++) {
            const shoal_step *step = &schedule->steps[i];
            if (step->kind == SHOAL_OWN)
                continue;
            double share = share_of(c, schedule, step, probe);
            *(step->kind == SHOAL_SEND ? &sent : &received) += share;
            count_message(c, worker_of(&c->groups, group, me),
                          worker_of(&c->groups, group, step->peer), step->kind == SHOAL_SEND,
                          step->round, share);
        }
        end_worker(c, out);
        out->sent_share = fmax(out->sent_share, sent);
        out->moved_share = fmax(out->moved_share, sent + received);
    }
}

static bool is_lossy(void *ctx, uint32_t peer, double *loss_out, double *latency_out)
{
    const counting *c = ctx;
    const shoali_way way = shoali_cluster_way(c->cluster, c->sender, peer * c->groups.each.stride);
    *loss_out = way.loss;
    *latency_out = way.latency_s;
    return way.loss > 0;
}

/* The first group's: others' tails lie beside them. */
static void count_lost(counting *c, const shoal_schedule *schedule, uint32_t me)
{
    c->sender = me * c->groups.each.stride;
    shoali_lost_count(&c->lost, schedule, (shoali_lost_way){is_lossy, c}, 1);
}

/* What rounds lose: the busiest NIC's load in bytes, and how many are about as busy. */
static void end_lost(const counting *c, shoali_collective_cost *out)
{
    uint32_t busiest = 0, rounds = 0;
    double links = 0;
    for (uint32_t link = 0; link < c->links; link++)
        busiest = c->total[link] > c->total[busiest] ? link : busiest;
    for (uint32_t link = busiest % 2; link < c->links; link += 2)
        links += c->total[link] > 0.9 * c->total[busiest];
    const double messages = shoali_lost_messages(&c->lost, &rounds);
    if (!(c->lost.loss > 0) || !(c->total[busiest] > 0))
        return;
    const double rate = link_rate(c->cluster, busiest);
    out->lost = (shoali_lost_load){.loss = c->lost.loss,
                                   .latency_s = c->lost.latency_s,
                                   .packets = c->total[busiest] * rate,
                                   .packet_s = 1 / rate,
                                   .links = links,
                                   .messages = messages * c->groups.count,
                                   .rounds = rounds};
    for (uint32_t round = 0; round < c->lost.rounds; round++)
        out->tails_s += shoali_lost_tails_s(c->lost.loss, c->lost.latency_s,
                                            (double)c->lost.tails[round] * c->groups.count);
}

static shoal_status begin_counting(counting *c, shoal_arena *arena, uint32_t rounds)
{
    c->links = 2 * c->cluster->host_count;
    c->rounds = rounds;
    c->total = shoali_arena_array(arena, c->links, sizeof *c->total);
    c->round = shoali_arena_array(arena, (size_t)c->links * (rounds + 1), sizeof *c->round);
    c->own = 2 * shoali_cluster_own_links(c->cluster);
    c->mine = shoali_arena_array(arena, (size_t)c->own * (rounds + 1) + 1, sizeof *c->mine);
    c->most = shoali_arena_array(arena, rounds + 1, sizeof *c->most);
    if (c->total == NULL || c->round == NULL || c->mine == NULL || c->most == NULL)
        return SHOAL_ENOMEM;
    return shoali_lost_open(&c->lost, arena, rounds, c->groups.each.size);
}

static void end_counting(const counting *c, shoali_collective_cost *out)
{
    for (uint32_t link = 0; link < c->links; link++)
        out->link_s_per_elem = fmax(out->link_s_per_elem, c->total[link]);
    for (uint32_t round = 0; round < c->rounds; round++) {
        double most = c->most[round];
        for (uint32_t link = 0; link < c->links; link++)
            most = fmax(most, c->round[(size_t)round * c->links + link]);
        out->phases_s_per_elem += most;
    }
    end_lost(c, out);
}

static shoal_status count_all(counting *c, const shoali_collective *collective, shoal_arena *arena,
                              shoali_collective_cost *out)
{
    shoal_arena *lists = NULL;
    shoal_status status = SHOAL_OK;
    const uint32_t size = c->groups.each.size;
    for (uint32_t me = 0; status == SHOAL_OK && me < size; me++) {
        const shoal_schedule_args args = {size, size, me, 0, NULL, NULL};
        shoal_schedule schedule;
        if (lists == NULL && (lists = shoali_arena_create(1 << 16)) == NULL)
            return SHOAL_ENOMEM;
        shoali_arena_reset(lists);
        status = shoali_collective_build(collective, c->op, &args, lists, &schedule);
        if (status == SHOAL_OK && me == 0) {
            out->rounds = schedule.rounds;
            out->blocks = schedule.blocks;
            status = begin_counting(c, arena, schedule.rounds);
        }
        if (status == SHOAL_OK)
            count_member(c, &schedule, me, (size_t)PROBE_PER_BLOCK * schedule.blocks, out);
        if (status == SHOAL_OK)
            count_lost(c, &schedule, me);
    }
    if (status == SHOAL_OK)
        end_counting(c, out);
    shoali_arena_destroy(lists);
    return status;
}

/* The longest way from a group's first member to another one. */
static double latency_of(const counting *c)
{
    double latency = 0;
    for (uint32_t group = 0; group < c->groups.count; group++)
        for (uint32_t member = 1; member < c->groups.each.size; member++) {
            shoali_way way = shoali_cluster_way(c->cluster, worker_of(&c->groups, group, 0),
                                                worker_of(&c->groups, group, member));
            latency = fmax(latency, way.latency_s);
        }
    return latency;
}

static shoal_status cost_of(counting c, const shoali_collective *collective,
                            shoali_collective_cost *out)
{
    const shoali_cluster *cluster = c.cluster;
    const shoali_groups groups = c.groups;
    uint64_t workers = (uint64_t)groups.each.size * groups.count;
    *out = (shoali_collective_cost){0};
    if (groups.each.size < 2)
        return SHOAL_OK;
    if (workers > cluster->workers)
        return shoali_fail(SHOAL_EINVAL, "%llu workers on a cluster of %u",
                           (unsigned long long)workers, cluster->workers);
    shoal_arena *arena = shoali_arena_create(1 << 16);
    if (arena == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = count_all(&c, collective, arena, out);
    shoali_arena_destroy(arena);
    out->latency_s = out->rounds * (latency_of(&c) + cluster->overhead.round_s);
    return status;
}

shoal_status shoali_cost_collective(const shoali_cluster *cluster,
                                    const shoali_collective *collective, shoali_groups groups,
                                    const shoal_codec *codec, shoali_collective_cost *out)
{
    const counting c = {
        .cluster = cluster, .groups = groups, .codec = codec, .op = SHOAL_ALL_REDUCE};
    return cost_of(c, collective, out);
}

shoal_status shoali_cost_shards(const shoali_cluster *cluster, const shoali_collective *collective,
                                shoali_groups groups, shoali_collective_cost *out)
{
    const counting c = {.cluster = cluster, .groups = groups, .op = SHOAL_REDUCE_SCATTER};
    return cost_of(c, collective, out);
}

double shoali_cost_link_s(const shoali_collective_cost *cost, double count, double bytes_per_elem,
                          double chunk_elems)
{
    double chunks = fmax(1, ceil(count / fmax(cost->blocks, 1) / chunk_elems));
    double hidden = fmax(0, cost->phases_s_per_elem - cost->link_s_per_elem);
    shoali_lost_load lost = cost->lost;
    lost.packets *= count * bytes_per_elem / SHOALI_PACKET_BYTES;
    lost.packet_s *= SHOALI_PACKET_BYTES;
    lost.chunks = chunks;
    return (cost->link_s_per_elem + hidden / chunks) * count * bytes_per_elem +
           shoali_lost_rounds_s(&lost);
}
