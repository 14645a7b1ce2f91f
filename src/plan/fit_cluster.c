/* SPDX-License-Identifier: Apache-2.0 */
/* What a factor of a fit is on a cluster: times of matrix products, of vectors and memory, of links
 * inside hosts (every dimension but the last), of the links between them. A factor above 1 makes
 * slower; below 1 it raises shares, which stop at 1, and never a rate: that is the data sheet's. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/fit.h"

static bool is_matrix(const shoali_efficiency *table)
{
    return strcmp(table->kind, "vector") != 0 && strcmp(table->kind, "memory") != 0;
}

static double largest_share(const shoali_accelerator *a, bool matrix)
{
    double most = 0;
    bool found[3] = {false}; /* matrix, vector, memory */
    for (uint32_t i = 0; i < a->table_count; i++) {
        const shoali_efficiency *table = &a->tables[i];
        found[0] = found[0] || strcmp(table->kind, "matrix") == 0;
        found[1] = found[1] || strcmp(table->kind, "vector") == 0;
        found[2] = found[2] || strcmp(table->kind, "memory") == 0;
        for (uint32_t k = 0; is_matrix(table) == matrix && k < table->count; k++)
            most = fmax(most, table->step[k].share);
    }
    bool all = matrix ? found[0] : found[1] && found[2];
    return all ? most : fmax(most, 1); /* no table: a share of 1 */
}

static double largest_efficiency(const shoali_dimension *d)
{
    return fmax(d->efficiency, d->efficiency_sharded);
}

void shoali_fit_bounds(const shoali_cluster *c, double low[SHOALI_FACTORS])
{
    uint32_t outer = c->dimension_count > 0 ? c->dimension_count - 1 : 0;
    low[SHOALI_FIT_MATRIX] = low[SHOALI_FIT_MEMORY] = low[SHOALI_FIT_INSIDE] = 0;
    for (uint32_t i = 0; i < c->accelerator_count; i++) {
        const shoali_accelerator *a = &c->accelerators[i];
        low[SHOALI_FIT_MATRIX] = fmax(low[SHOALI_FIT_MATRIX], largest_share(a, true));
        low[SHOALI_FIT_MEMORY] = fmax(low[SHOALI_FIT_MEMORY], largest_share(a, false));
    }
    for (uint32_t d = 0; d < outer; d++)
        low[SHOALI_FIT_INSIDE] = fmax(low[SHOALI_FIT_INSIDE],
                                      largest_efficiency(&c->dimensions[d]));
    if (outer == 0)
        low[SHOALI_FIT_INSIDE] = 1;
    low[SHOALI_FIT_NETWORK] = c->dimension_count > 0 ? largest_efficiency(&c->dimensions[outer])
                                                     : 1;
}

shoal_status shoali_fit_prepare(shoali_cluster *c)
{
    static const char *const kinds[] = {"matrix", "vector", "memory"};
    for (uint32_t i = 0; i < c->accelerator_count; i++) {
        shoali_accelerator *a = &c->accelerators[i];
        shoali_efficiency *tables = shoali_arena_array(c->arena, a->table_count + 3,
                                                       sizeof *tables);
        if (tables == NULL)
            return SHOAL_ENOMEM;
        if (a->table_count > 0)
            memcpy(tables, a->tables, a->table_count * sizeof *tables);
        a->tables = tables;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            bool found = false;
            for (uint32_t t = 0; t < a->table_count; t++)
                found = found || strcmp(tables[t].kind, kinds[k]) == 0;
            if (found)
                continue;
            shoali_efficiency *table = &tables[a->table_count++];
            *table = (shoali_efficiency){.count = 1, .step = {{0, 1}}};
            strcpy(table->kind, kinds[k]);
        }
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- one factor each */

static void scale_tables(shoali_accelerator *a, double factor, bool matrix)
{
    for (uint32_t i = 0; i < a->table_count; i++)
        for (uint32_t k = 0; is_matrix(&a->tables[i]) == matrix && k < a->tables[i].count; k++)
            a->tables[i].step[k].share /= factor;
}

static void scale_efficiency(shoali_dimension *d, double factor)
{
    d->efficiency = fmin(1, d->efficiency / factor);
    d->efficiency_sharded = fmin(1, d->efficiency_sharded / factor);
}

static void scale_inside(shoali_cluster *c, double factor)
{
    for (uint32_t d = 0; d + 1 < c->dimension_count; d++) {
        scale_efficiency(&c->dimensions[d], factor);
        c->dimensions[d].latency_s *= factor;
    }
    for (uint32_t i = 0; i < c->host_count; i++)
        c->hosts[i].inside_bytes_per_s /= factor;
}

/* Hosts' NICs and the last dimension are one thing said twice, so they change together; but what
 * makes them faster than they were makes shares larger, where there are shares. */
static void scale_network(shoali_cluster *c, double rates, double shares, double times)
{
    for (uint32_t i = 0; i < c->host_count; i++) {
        c->hosts[i].up_bytes_per_s /= rates;
        c->hosts[i].down_bytes_per_s /= rates;
        c->hosts[i].latency_s *= times;
    }
    for (uint32_t i = 0; i < c->link_count; i++) {
        c->links[i].bytes_per_s /= rates;
        c->links[i].latency_s *= times;
    }
    if (c->dimension_count > 0) {
        shoali_dimension *outer = &c->dimensions[c->dimension_count - 1];
        outer->bytes_per_s /= rates;
        outer->latency_s *= times;
        scale_efficiency(outer, shares);
    }
    c->overhead.operation_s *= times;
    c->overhead.round_s *= times;
}

void shoali_fit_scale(shoali_cluster *c, const double from[SHOALI_FACTORS],
                      const double to[SHOALI_FACTORS])
{
    double old = from[SHOALI_FIT_NETWORK], new = to[SHOALI_FIT_NETWORK];
    for (uint32_t i = 0; i < c->accelerator_count; i++) {
        scale_tables(&c->accelerators[i], to[SHOALI_FIT_MATRIX] / from[SHOALI_FIT_MATRIX], true);
        scale_tables(&c->accelerators[i], to[SHOALI_FIT_MEMORY] / from[SHOALI_FIT_MEMORY], false);
    }
    scale_inside(c, to[SHOALI_FIT_INSIDE] / from[SHOALI_FIT_INSIDE]);
    scale_network(c, fmax(1, new) / fmax(1, old), fmin(1, new) / fmin(1, old), new / old);
}

shoal_status shoal_calibrate_apply(const char *path, const shoal_fit_factors *factors,
                                   double spread, const char *path_out)
{
    static const double none[SHOALI_FACTORS] = {1, 1, 1, 1};
    const double to[SHOALI_FACTORS] = {factors->matrix, factors->memory, factors->inside,
                                       factors->network};
    shoali_cluster *cluster;
    double low[SHOALI_FACTORS];
    SHOALI_TRY(shoali_cluster_load(path, &cluster));
    shoal_status status = shoali_fit_prepare(cluster);
    shoali_fit_bounds(cluster, low);
    for (int i = 0; status == SHOAL_OK && i < SHOALI_FACTORS; i++)
        if (!(to[i] >= low[i] * (1 - 1e-9) && to[i] <= SHOALI_FACTOR_MAX))
            status = shoali_fail(SHOAL_EINVAL,
                                 "a factor of %g would leave what %s says of its parts: it can be "
                                 "%g .. %g",
                                 to[i], path, low[i], SHOALI_FACTOR_MAX);
    if (status == SHOAL_OK) {
        shoali_fit_scale(cluster, none, to);
        for (uint32_t i = 0; i < cluster->accelerator_count; i++)
            cluster->accelerators[i].spread = spread;
        status = shoali_cluster_save(cluster, path_out);
    }
    shoali_cluster_close(cluster);
    return status;
}
