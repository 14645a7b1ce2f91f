/* SPDX-License-Identifier: Apache-2.0 */
/* What lies between two workers: the one meaning that hosts and dimensions have for everybody who
 * costs or simulates a cluster. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/cluster_ways.h"

/* Named rates of one worker into its host, one direction. */
static const struct {
    const char *name;
    double bytes_per_s;
} inside[] = {{"pcie3", 16e9},    {"pcie4", 32e9},    {"pcie5", 63e9},
              {"nvlink2", 150e9}, {"nvlink3", 300e9}, {"nvlink4", 450e9}};

double shoali_cluster_inside(const char *name)
{
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (strcmp(name, inside[i].name) == 0)
            return inside[i].bytes_per_s;
    return 0;
}

shoali_link shoali_cluster_link(const shoali_cluster *cluster, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < cluster->link_count; i++)
        if (cluster->links[i].from == from && cluster->links[i].to == to)
            return cluster->links[i];
    const shoali_host *a = &cluster->hosts[from], *b = &cluster->hosts[to];
    return (shoali_link){
        .from = from,
        .to = to,
        .bytes_per_s = fmin(a->up_bytes_per_s, b->down_bytes_per_s),
        .latency_s = fmax(a->latency_s, b->latency_s),
        .loss = 1 - (1 - a->loss) * (1 - b->loss),
    };
}

uint32_t shoali_cluster_own_links(const shoali_cluster *c)
{
    if (c->dimension_count > 0)
        return c->dimension_count - 1;
    for (uint32_t i = 0; i < c->host_count; i++)
        if (c->hosts[i].workers > 1)
            return 1;
    return 0;
}

double shoali_cluster_own_rate(const shoali_cluster *c, uint32_t worker, uint32_t link)
{
    if (c->dimension_count == 0)
        return c->hosts[shoali_cluster_host_of(c, worker)].inside_bytes_per_s;
    const shoali_dimension *d = &c->dimensions[link];
    return d->bytes_per_s > 0 ? d->bytes_per_s * d->efficiency * (1 - d->loss) : (double)INFINITY;
}

/* Inner dimensions are within a row of `prefix` workers. */
static shoali_way way_in_dimensions(const shoali_cluster *c, uint32_t a, uint32_t b)
{
    uint64_t prefix = 1;
    for (uint32_t d = 0; d + 1 < c->dimension_count; d++) {
        const shoali_dimension *dimension = &c->dimensions[d];
        prefix *= dimension->size;
        if (a / prefix == b / prefix)
            return (shoali_way){
                .own = true,
                .link = d,
                .bytes_per_s = shoali_cluster_own_rate(c, a, d),
                .latency_s = dimension->latency_s,
                .loss = dimension->loss,
            };
    }
    return (shoali_way){.bytes_per_s = 0};
}

shoali_way shoali_cluster_way(const shoali_cluster *c, uint32_t a, uint32_t b)
{
    uint32_t from = shoali_cluster_host_of(c, a), to = shoali_cluster_host_of(c, b);
    shoali_way way = way_in_dimensions(c, a, b);
    if (way.own)
        return way;
    if (from == to)
        return (shoali_way){.own = true, .bytes_per_s = shoali_cluster_own_rate(c, a, 0)};
    const shoali_link link = shoali_cluster_link(c, from, to);
    return (shoali_way){.bytes_per_s = link.bytes_per_s * (1 - link.loss),
                        .latency_s = link.latency_s,
                        .loss = link.loss};
}

/* ---------------------------------------------------------------- said twice */

static bool about(double a, double b)
{
    return fabs(a - b) <= 0.01 * fabs(b);
}

/* The last dimension joins hosts, the others lie inside one or (workers alone) before it. */
static shoal_status check_sizes(const shoali_cluster *c)
{
    uint32_t each = c->hosts[0].workers;
    uint64_t prefix = 1;
    for (uint32_t i = 1; i < c->host_count; i++)
        if (c->hosts[i].workers != each)
            return shoali_fail(SHOAL_ECORRUPT,
                               "\"dimensions\" want hosts of equal size: host 0 has %u workers, "
                               "host %u has %u",
                               each, i, c->hosts[i].workers);
    for (uint32_t d = 0; d + 1 < c->dimension_count && prefix < each; d++)
        prefix *= c->dimensions[d].size;
    if (each == 1 || prefix == each)
        return SHOAL_OK;
    return shoali_fail(SHOAL_ECORRUPT,
                       "\"hosts\" have %u workers each, which no dimensions but the last make up: "
                       "those inside a host come first, the last joins the hosts",
                       each);
}

shoal_status shoali_cluster_settle(shoali_cluster *c)
{
    if (c->dimension_count == 0)
        return SHOAL_OK;
    SHOALI_TRY(check_sizes(c));
    const uint32_t last = c->dimension_count - 1;
    const shoali_dimension *outer = &c->dimensions[last];
    for (uint32_t i = 0; outer->bytes_per_s > 0 && i < c->host_count; i++) {
        shoali_host *host = &c->hosts[i];
        double all = outer->bytes_per_s * host->workers;
        if (isinf(host->up_bytes_per_s) && isinf(host->down_bytes_per_s))
            host->up_bytes_per_s = host->down_bytes_per_s = all;
        if (about(host->up_bytes_per_s, all))
            continue;
        return shoali_fail(SHOAL_ECORRUPT,
                           "hosts[%u] has a nic of %.4g GB/s for %u workers, but dimensions[%u] "
                           "gives each of them %.4g GB/s: say one of them, or a rate of %.4gGB/s",
                           i, host->up_bytes_per_s / 1e9, host->workers, last,
                           outer->bytes_per_s / 1e9, host->up_bytes_per_s / 1e9 / host->workers);
    }
    return SHOAL_OK;
}
