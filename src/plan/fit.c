/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration from measured steps: one factor per cause, by least squares of the relative errors
 * under the condition that no factor is negative (active set: a cause whose factor comes out
 * negative is left at zero and the rest solved again). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/cluster.h"
#include "shoal/predict.h"

enum { CAUSES = 3 }; /* matrix; vector and memory; network */

static void row_of(const shoal_causes *causes, double seconds, double *row, double *rest)
{
    row[0] = causes->matrix / seconds;
    row[1] = (causes->vector + causes->memory) / seconds;
    row[2] = causes->network / seconds;
    *rest = 1 - causes->fixed / seconds;
}

/* Solve a symmetric system of the active causes in place; false: singular. */
static bool solve(double m[CAUSES][CAUSES + 1], const bool *active)
{
    for (int i = 0; i < CAUSES; i++) {
        if (!active[i])
            continue;
        if (fabs(m[i][i]) < 1e-12)
            return false;
        for (int r = 0; r < CAUSES; r++) {
            double factor = m[r][i] / m[i][i];
            if (r == i || !active[r])
                continue;
            for (int c = 0; c <= CAUSES; c++)
                m[r][c] -= factor * m[i][c];
        }
    }
    return true;
}

static bool fit_active(const shoal_causes *rows, const double *seconds, size_t count,
                       const bool *active, double *factors)
{
    double m[CAUSES][CAUSES + 1] = {{0}};
    for (size_t i = 0; i < count; i++) {
        double row[CAUSES], rest;
        row_of(&rows[i], seconds[i], row, &rest);
        for (int r = 0; r < CAUSES; r++) {
            for (int c = 0; c < CAUSES; c++)
                m[r][c] += active[c] ? row[r] * row[c] : 0;
            m[r][CAUSES] += row[r] * rest;
        }
    }
    if (!solve(m, active))
        return false;
    for (int i = 0; i < CAUSES; i++)
        factors[i] = active[i] ? m[i][CAUSES] / m[i][i] : 0;
    return true;
}

shoal_status shoal_calibrate_fit(const shoal_causes *rows, const double *seconds, size_t count,
                                 shoal_causes *factors_out)
{
    bool seen[CAUSES] = {false}, active[CAUSES];
    double factors[CAUSES];
    for (size_t i = 0; i < count; i++) {
        double row[CAUSES], rest;
        if (!(seconds[i] > 0) || !isfinite(seconds[i]))
            return shoali_fail(SHOAL_EINVAL, "row %zu: a measured step of %g s", i, seconds[i]);
        row_of(&rows[i], seconds[i], row, &rest);
        for (int c = 0; c < CAUSES; c++)
            seen[c] = seen[c] || row[c] > 1e-9;
    }
    memcpy(active, seen, sizeof active);
    for (int tries = 0; tries <= CAUSES; tries++) {
        int worst = -1;
        if (!fit_active(rows, seconds, count, active, factors))
            return shoali_fail(SHOAL_EINVAL,
                               "%zu measured rows do not tell the causes apart; "
                               "measure more unlike ones",
                               count);
        for (int c = 0; c < CAUSES; c++)
            if (active[c] && factors[c] < 0 && (worst < 0 || factors[c] < factors[worst]))
                worst = c;
        if (worst < 0)
            break;
        active[worst] = false;
    }
    for (int c = 0; c < CAUSES; c++)
        factors[c] = seen[c] ? factors[c] : 1;
    *factors_out = (shoal_causes){factors[0], factors[1], factors[1], factors[2], 1};
    return SHOAL_OK;
}

static void scale_table(shoali_accelerator *a, double factor, bool matrix)
{
    for (uint32_t i = 0; i < a->table_count; i++) {
        shoali_efficiency *table = &a->tables[i];
        bool other = strcmp(table->kind, "vector") == 0 || strcmp(table->kind, "memory") == 0;
        for (uint32_t k = 0; other != matrix && k < table->count; k++)
            table->step[k].share /= factor;
    }
}

shoal_status shoal_calibrate_apply(const char *path, const shoal_causes *factors, double spread,
                                   const char *path_out)
{
    shoali_cluster *cluster;
    if (!(factors->matrix > 0 && factors->memory > 0 && factors->network > 0))
        return shoali_fail(SHOAL_EINVAL, "a factor of zero would be an infinite speed: the rows do "
                                         "not determine it");
    SHOALI_TRY(shoali_cluster_load(path, &cluster));
    for (uint32_t i = 0; i < cluster->accelerator_count; i++) {
        scale_table(&cluster->accelerators[i], factors->matrix, true);
        scale_table(&cluster->accelerators[i], factors->memory, false);
        cluster->accelerators[i].spread = spread;
    }
    for (uint32_t i = 0; i < cluster->dimension_count; i++) {
        cluster->dimensions[i].bytes_per_s /= factors->network;
        cluster->dimensions[i].latency_s *= factors->network;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        cluster->hosts[i].up_bytes_per_s /= factors->network;
        cluster->hosts[i].down_bytes_per_s /= factors->network;
        cluster->hosts[i].latency_s *= factors->network;
    }
    cluster->overhead.operation_s *= factors->network;
    shoal_status status = shoali_cluster_save(cluster, path_out);
    shoali_cluster_close(cluster);
    return status;
}
