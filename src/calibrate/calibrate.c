/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration: from measurements of this machine to a cluster file. What is timed here runs on one
 * thread, as a worker's computation does. */
#include "calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/cluster_ways.h"
#include "shoal/codec.h"
#include "shoal/model.h"

enum { REPEATS_MAX = 64, LINKS_MAX = 4096 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double shoali_calibrate_time(shoal_calibration *calibration, void (*run)(void *ctx), void *ctx,
                             double *spread_out)
{
    double times[REPEATS_MAX], deviations[REPEATS_MAX], once = 0;
    size_t count = 0, calls = 1;
    run(ctx); /* caches, pages, clock rate */
    /* as many calls in one go as the clock's microsecond needs to be small */
    for (;;) {
        uint64_t start = shoali_now_us();
        for (size_t i = 0; i < calls; i++)
            run(ctx);
        once = 1e-6 * (double)(shoali_now_us() - start);
        if (once > 5e-4 || calls > 1000000)
            break;
        calls *= once > 1e-5 ? (size_t)ceil(6e-4 / once) : 64;
    }
    uint64_t end = shoali_now_us() + (uint64_t)(1e6 * calibration->budget_s);
    do {
        uint64_t start = shoali_now_us();
        for (size_t i = 0; i < calls; i++)
            run(ctx);
        times[count++] = 1e-6 * (double)(shoali_now_us() - start) / (double)calls;
    } while (count < REPEATS_MAX && (count < 3 || shoali_now_us() < end));
    qsort(times, count, sizeof *times, by_size);
    double median = times[count / 2];
    for (size_t i = 0; i < count; i++)
        deviations[i] = fabs(times[i] - median);
    qsort(deviations, count, sizeof *deviations, by_size);
    *spread_out = median > 0 ? 1.4826 * deviations[count / 2] / median : 0;
    return median;
}

/* ---------------------------------------------------------------- lists */

/* The next of "a,b c:k=1,l=2": a comma ends an item unless what follows is a key (has '=' before
 * the next comma, or no name before it). Batches and plain names never do. */
static bool next_item(const char **at, char *item, size_t size)
{
    const char *start = *at + strspn(*at, ", ");
    size_t len = strcspn(start, " ");
    bool keys = memchr(start, ':', len) != NULL;
    if (!keys || strcspn(start, ",") < strcspn(start, ":"))
        len = strcspn(start, ", ");
    if (len == 0 || len >= size)
        return false;
    memcpy(item, start, len);
    item[len] = '\0';
    *at = start + len;
    return true;
}

static shoal_status check_model(const char *item)
{
    shoal_model *model;
    SHOALI_TRY(shoal_model_open(item, &model));
    shoal_model_close(model);
    return SHOAL_OK;
}

static shoal_status check_codec(const char *item)
{
    shoal_codec *codec;
    SHOALI_TRY(shoal_codec_open(item, &codec));
    shoal_codec_close(codec);
    return SHOAL_OK;
}

static shoal_status check_batch(const char *item)
{
    const size_t digits = strspn(item, "0123456789");
    const unsigned long samples = strtoul(item, NULL, 10);
    if (item[digits] != '\0' || digits > 5 || samples == 0 || samples > 65536)
        return shoali_fail(SHOAL_EINVAL, "--batches: '%s' is no whole number from 1 to 65536",
                           item);
    return SHOAL_OK;
}

/* Before anything is measured. */
static shoal_status check_list(const char *name, const char *list,
                               shoal_status (*check)(const char *item))
{
    char item[160];
    uint32_t count = 0;
    for (; list != NULL && next_item(&list, item, sizeof item); count++)
        SHOALI_TRY(check(item));
    if (list == NULL || (count > 0 && list[strspn(list, ", ")] == '\0'))
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "--%s: '%s' is no list such as a,b (each below %zu bytes)",
                       name, list, sizeof item);
}

static shoal_status check_lists(const shoal_calibrate_desc *desc)
{
    SHOALI_TRY(check_list("models", desc->models, check_model));
    SHOALI_TRY(check_list("batches", desc->batches, check_batch));
    return check_list("codecs", desc->codecs, check_codec);
}

static shoal_status measure_models(shoal_calibration *c, const shoal_calibrate_desc *desc)
{
    char model[160], batch[16];
    for (const char *at = desc->models; at != NULL && next_item(&at, model, sizeof model);)
        for (const char *size = desc->batches != NULL ? desc->batches : "64";
             next_item(&size, batch, sizeof batch);)
            SHOALI_TRY(shoali_calibrate_model(c, model, (uint32_t)strtoul(batch, NULL, 10)));
    return SHOAL_OK;
}

static shoal_status measure_codecs(shoal_calibration *c, const shoal_calibrate_desc *desc)
{
    char spec[160];
    for (const char *at = desc->codecs != NULL ? desc->codecs : "fp16,bf16";
         next_item(&at, spec, sizeof spec);)
        SHOALI_TRY(shoali_calibrate_codecs(c, spec));
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- open, network, save */

static shoal_status begin(shoal_calibration *c, const shoal_calibrate_desc *desc)
{
    shoali_cluster *cluster = &c->cluster;
    c->budget_s = desc->budget_s > 0 ? desc->budget_s : 0.05;
    cluster->arena = c->arena;
    cluster->name = shoali_arena_strdup(c->arena, desc->name != NULL ? desc->name : "measured");
    cluster->accelerators = &c->accelerator;
    cluster->accelerator_count = 1;
    cluster->overhead.payload_share = 1;
    cluster->profiles = shoali_arena_array(c->arena, 256, sizeof *cluster->profiles);
    cluster->codecs = shoali_arena_array(c->arena, 64, sizeof *cluster->codecs);
    cluster->links = shoali_arena_array(c->arena, LINKS_MAX, sizeof *cluster->links);
    if (cluster->name == NULL || cluster->profiles == NULL || cluster->codecs == NULL ||
        cluster->links == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_calibrate_machine(c));
    SHOALI_TRY(shoali_calibrate_convolutions(c));
    SHOALI_TRY(measure_codecs(c, desc));
    return measure_models(c, desc);
}

shoal_status shoal_calibrate_open(const shoal_calibrate_desc *desc,
                                  shoal_calibration **calibration_out)
{
    SHOALI_TRY(check_lists(desc));
    shoal_arena *arena = shoali_arena_create(1 << 16);
    shoal_calibration *c = arena != NULL ? shoali_arena_alloc(arena, sizeof *c) : NULL;
    if (c == NULL) {
        shoali_arena_destroy(arena);
        return SHOAL_ENOMEM;
    }
    c->arena = arena;
    const shoal_calibrate_network alone = {.size = sizeof alone, .hosts = 1};
    shoal_status status = begin(c, desc);
    if (status == SHOAL_OK)
        status = shoal_calibrate_set_network(c, &alone);
    if (status != SHOAL_OK)
        shoal_calibrate_close(c);
    else
        *calibration_out = c;
    return status;
}

void shoal_calibrate_close(shoal_calibration *calibration)
{
    if (calibration != NULL)
        shoali_arena_destroy(calibration->arena);
}

shoal_status shoal_calibrate_set_network(shoal_calibration *calibration,
                                         const shoal_calibrate_network *network)
{
    shoali_cluster *c = &calibration->cluster;
    uint32_t hosts = network->hosts > 0 ? network->hosts : 1;
    c->hosts = shoali_arena_array(c->arena, hosts, sizeof *c->hosts);
    if (c->hosts == NULL)
        return SHOAL_ENOMEM;
    double rate = network->nic_bytes_per_s > 0 ? network->nic_bytes_per_s : INFINITY;
    for (uint32_t i = 0; i < hosts; i++)
        c->hosts[i] = (shoali_host){.first_worker = i,
                                    .workers = 1,
                                    .up_bytes_per_s = rate,
                                    .down_bytes_per_s = rate,
                                    .inside_bytes_per_s = shoali_cluster_inside("pcie4"),
                                    .latency_s = network->latency_s,
                                    .slowdown = 1};
    c->host_count = c->workers = hosts;
    c->cores = network->cores;
    c->overhead.operation_s = network->operation_s;
    c->overhead.round_s = network->round_s;
    c->overhead.cpu_s_per_byte = network->cpu_s_per_byte;
    if (network->payload_share > 0)
        c->overhead.payload_share = fmin(1, network->payload_share);
    return SHOAL_OK;
}

shoal_status shoal_calibrate_add_link(shoal_calibration *calibration, uint32_t from, uint32_t to,
                                      double bytes_per_s, double latency_s, double spread)
{
    shoali_cluster *c = &calibration->cluster;
    if (from >= c->host_count || to >= c->host_count || from == to || !(bytes_per_s > 0) ||
        c->link_count == LINKS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a link from host %u to %u of %u at %g B/s", from, to,
                           c->host_count, bytes_per_s);
    c->links[c->link_count++] = (shoali_link){.from = from,
                                              .to = to,
                                              .bytes_per_s = bytes_per_s,
                                              .latency_s = fmax(0, latency_s),
                                              .spread = fmin(1, spread)};
    return SHOAL_OK;
}

shoal_status shoal_calibrate_save(const shoal_calibration *calibration, const char *path)
{
    return shoali_cluster_save(&calibration->cluster, path);
}
