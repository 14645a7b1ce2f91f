/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a cluster, and the two small languages in it: rates and dimensions. Reading files is
 * cluster_json.c. */
#include "model/cluster.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void shoali_cluster_close(shoali_cluster *cluster)
{
    if (cluster != NULL)
        shoali_arena_destroy(cluster->arena);
}

/* ---------------------------------------------------------------- efficiency */

double shoali_efficiency_at(const shoali_efficiency *table, double size)
{
    if (table == NULL || table->count == 0)
        return 1;
    uint32_t i = 0;
    while (i + 1 < table->count && size < table->step[i].from)
        i++;
    double share = table->step[i].share;
    if (!table->smooth || i == 0 || size < table->step[i].from)
        return share;
    double low = log(fmax(table->step[i].from, 1)), high = log(fmax(table->step[i - 1].from, 1));
    if (high <= low)
        return share;
    double t = (log(fmax(size, 1)) - low) / (high - low);
    return share + fmin(fmax(t, 0), 1) * (table->step[i - 1].share - share);
}

static const shoali_efficiency *find_table(const shoali_accelerator *accelerator, const char *kind)
{
    for (uint32_t i = 0; i < accelerator->table_count; i++)
        if (strcmp(accelerator->tables[i].kind, kind) == 0)
            return &accelerator->tables[i];
    return NULL;
}

const shoali_efficiency *shoali_accelerator_table(const shoali_accelerator *accelerator,
                                                  const char *kind)
{
    const shoali_efficiency *table = find_table(accelerator, kind);
    bool layer = strcmp(kind, "vector") != 0 && strcmp(kind, "memory") != 0;
    return table == NULL && layer ? find_table(accelerator, "matrix") : table;
}

/* ---------------------------------------------------------------- hosts and time */

/* Whether it is on this host, or behind it if that is the last one. */
static bool is_on(const shoali_cluster *cluster, uint32_t host, uint32_t worker)
{
    const shoali_host *at = &cluster->hosts[host];
    return at->first_worker <= worker &&
           (host + 1 == cluster->host_count || worker < at[1].first_worker);
}

uint32_t shoali_cluster_host_of(const shoali_cluster *cluster, uint32_t worker)
{
    uint32_t low = 0, high = cluster->host_count;
    const uint32_t even = worker / cluster->hosts[0].workers; /* if all are like the first one */
    if (even < high && is_on(cluster, even, worker))
        return even;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (cluster->hosts[middle].first_worker <= worker)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const shoali_profile *shoali_cluster_profile(const shoali_cluster *cluster, const char *model,
                                             uint32_t batch)
{
    const shoali_profile *best = NULL;
    double distance = INFINITY;
    for (uint32_t i = 0; i < cluster->profile_count; i++) {
        const shoali_profile *profile = &cluster->profiles[i];
        double ratio = fabs(log((double)profile->batch / fmax(batch, 1)));
        if (strcmp(profile->model, model) == 0 && ratio < distance) {
            best = profile;
            distance = ratio;
        }
    }
    return best;
}

double shoali_cluster_slowdown(const shoali_cluster *cluster, uint32_t worker, double at_s)
{
    double slowdown = cluster->hosts[shoali_cluster_host_of(cluster, worker)].slowdown;
    for (uint32_t i = 0; i < cluster->straggler_count; i++) {
        const shoali_straggler *s = &cluster->stragglers[i];
        bool due = s->probability == 0 && at_s >= s->from_s && at_s < s->until_s;
        if (due && (s->worker == worker || s->worker == UINT32_MAX))
            slowdown *= s->slowdown;
    }
    return slowdown;
}

static bool inside(const shoali_partition *partition, uint32_t host)
{
    for (uint32_t i = 0; i < partition->host_count; i++)
        if (partition->hosts[i] == host)
            return true;
    return false;
}

bool shoali_cluster_reachable(const shoali_cluster *cluster, uint32_t a, uint32_t b, double at_s)
{
    for (uint32_t i = 0; i < cluster->partition_count; i++) {
        const shoali_partition *p = &cluster->partitions[i];
        if (at_s >= p->from_s && at_s < p->until_s && inside(p, a) != inside(p, b))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- rates and dimensions */

/* A decimal number, whatever the program's locale. */
static double read_number(const char *text, char **end)
{
    return strtod_l(text, end, newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* a constant of glibc */
}

/* Read a rate at text; NULL: there is none. */
static const char *read_rate(const char *text, double *bytes_per_s_out)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"kbit", 125}, {"mbit", 125e3}, {"gbit", 125e6}, {"tbit", 125e9}, {"kB/s", 1e3},
                 {"MB/s", 1e6}, {"GB/s", 1e9},   {"TB/s", 1e12},  {"B/s", 1.0},    {"bit", 0.125}};
    char *end;
    if (!((*text >= '0' && *text <= '9') || *text == '.'))
        return NULL;
    double value = read_number(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t len = strlen(units[i].unit);
        if (strncmp(end, units[i].unit, len) != 0)
            continue;
        double rate = value * units[i].bytes;
        if (!(rate > 0 && rate <= 1e18))
            return NULL;
        *bytes_per_s_out = rate;
        return end + len;
    }
    return NULL;
}

bool shoali_rate_parse(const char *text, double *bytes_per_s_out)
{
    double rate;
    const char *end = read_rate(text, &rate);
    if (end == NULL || *end != '\0')
        return false;
    *bytes_per_s_out = rate;
    return true;
}

static const char *const topologies[] = {"ring", "fc", "switch"};

const char *shoali_topology_name(shoali_topology topology)
{
    return topologies[topology];
}

/* One of "ring:4" or "fc:8@300GB/s" at text; NULL: there is none. */
static const char *read_dimension(const char *text, shoali_dimension *out)
{
    *out = (shoali_dimension){.efficiency = 1, .efficiency_sharded = 1};
    size_t kind = 0, len = 0;
    for (; kind < 3; kind++) {
        len = strlen(topologies[kind]);
        if (strncmp(text, topologies[kind], len) == 0 && text[len] == ':')
            break;
    }
    if (kind == 3)
        return NULL;
    out->topology = (shoali_topology)kind;
    const char *digits = text + len + 1;
    char *end;
    unsigned long size = strtoul(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || size < 2 || size > SHOALI_CLUSTER_WORKERS_MAX)
        return NULL;
    out->size = (uint32_t)size;
    return *end == '@' ? read_rate(end + 1, &out->bytes_per_s) : end;
}

shoal_status shoali_dimensions_parse(const char *text, shoali_dimension *dimensions_out,
                                     uint32_t *count_out)
{
    uint32_t count = 0;
    uint64_t workers = 1;
    for (const char *at = text;; at++) {
        at += strspn(at, " ");
        if (count == SHOALI_CLUSTER_DIMENSIONS_MAX)
            return shoali_fail(SHOAL_EINVAL, "'%.64s' has more than %d dimensions", text,
                               SHOALI_CLUSTER_DIMENSIONS_MAX);
        const char *end = read_dimension(at, &dimensions_out[count]);
        if (end == NULL)
            return shoali_fail(SHOAL_EINVAL,
                               "'%.64s': a dimension is ring:N, fc:N or switch:N with N of 2 or "
                               "more, perhaps with its rate, fc:8@300GB/s; this is '%.24s'",
                               text, at);
        workers *= dimensions_out[count++].size;
        if (workers > SHOALI_CLUSTER_WORKERS_MAX)
            return shoali_fail(SHOAL_EINVAL, "'%.64s' has more than %d workers", text,
                               SHOALI_CLUSTER_WORKERS_MAX);
        at = end + strspn(end, " ");
        if (*at == '\0')
            break;
        if (*at != ',')
            return shoali_fail(SHOAL_EINVAL, "'%.64s': expected a comma before '%.24s'", text, at);
    }
    *count_out = count;
    return SHOAL_OK;
}
