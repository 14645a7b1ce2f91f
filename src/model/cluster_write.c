/* SPDX-License-Identifier: Apache-2.0 */
/* Writing cluster files: what cluster_json.c reads, value for value (%.17g), without what is not
 * said. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/new_file.h"
#include "model/cluster_ways.h"

/* "key": "text", after `before`: a model's name may be any path. */
static void put_text(FILE *file, const char *before, const char *key, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = shoali_json_text(string, JSON_ENCODE_ANY);
    fprintf(file, "%s\"%s\": %s", before, key, quoted != NULL ? quoted : "\"?\"");
    shoali_free(quoted);
    json_decref(string);
}

/* "a": 1.5, with the comma before it; left out where it equals what its absence means. */
static void put_real(FILE *file, const char *key, double value, double absent)
{
    if (value != absent)
        fprintf(file, ", \"%s\": %.17g", key, value);
}

/* Seconds as microseconds: the 15 digits that survive being scaled and scaled back. */
static void put_micros(FILE *file, const char *key, double seconds)
{
    if (seconds != 0)
        fprintf(file, ", \"%s\": %.15g", key, seconds * 1e6);
}

static void put_rate(FILE *file, const char *key, double bytes_per_s, double absent)
{
    if (bytes_per_s != absent && isfinite(bytes_per_s))
        fprintf(file, ", \"%s\": \"%.17gB/s\"", key, bytes_per_s);
}

static void put_table(FILE *file, const shoali_efficiency *table)
{
    fprintf(file, "\n       \"%s\": %s[", table->kind, table->smooth ? "{\"smooth\": " : "");
    for (uint32_t i = 0; i < table->count; i++)
        fprintf(file, "%s[%.17g, %.17g]", i > 0 ? ", " : "", table->step[i].from,
                table->step[i].share);
    fprintf(file, "]%s", table->smooth ? "}" : "");
}

static void put_accelerator(FILE *file, const shoali_accelerator *a)
{
    put_text(file, "    {", "name", a->name);
    fprintf(file, ", \"flops\": %.17g", a->flops);
    put_real(file, "vector_flops", a->vector_flops, a->flops);
    put_real(file, "memory", a->memory_bytes, INFINITY);
    put_rate(file, "memory_rate", a->memory_bytes_per_s, INFINITY);
    put_rate(file, "host_rate", a->host_bytes_per_s, 0);
    put_real(file, "watts", a->watts, 0);
    put_real(file, "price", a->price, 0);
    put_real(file, "spread", a->spread, 0);
    if (a->additive)
        fprintf(file, ", \"processing\": \"additive\"");
    if (a->table_count > 0) {
        fprintf(file, ",\n     \"efficiency\": {");
        for (uint32_t i = 0; i < a->table_count; i++) {
            fprintf(file, "%s", i > 0 ? "," : "");
            put_table(file, &a->tables[i]);
        }
        fprintf(file, "}");
    }
    fprintf(file, "}");
}

static bool same_host(const shoali_host *a, const shoali_host *b)
{
    return a->accelerator == b->accelerator && a->workers == b->workers &&
           a->up_bytes_per_s == b->up_bytes_per_s && a->down_bytes_per_s == b->down_bytes_per_s &&
           a->inside_bytes_per_s == b->inside_bytes_per_s && a->latency_s == b->latency_s &&
           a->loss == b->loss && a->slowdown == b->slowdown;
}

static void put_hosts(FILE *file, const shoali_cluster *c)
{
    fprintf(file, ",\n  \"hosts\": [");
    for (uint32_t i = 0, next; i < c->host_count; i = next) {
        const shoali_host *host = &c->hosts[i];
        for (next = i + 1; next < c->host_count && same_host(host, &c->hosts[next]);)
            next++;
        fprintf(file, "%s\n    {\"count\": %u, \"workers\": %u", i > 0 ? "," : "", next - i,
                host->workers);
        put_text(file, ", ", "accelerator", c->accelerators[host->accelerator].name);
        put_rate(file, "nic", host->up_bytes_per_s, INFINITY);
        put_rate(file, "nic_down", host->down_bytes_per_s, host->up_bytes_per_s);
        put_rate(file, "inside", host->inside_bytes_per_s, shoali_cluster_inside("pcie4"));
        put_micros(file, "latency_us", host->latency_s);
        put_real(file, "loss", host->loss, 0);
        put_real(file, "slowdown", host->slowdown, 1);
        fprintf(file, "}");
    }
    fprintf(file, "]");
}

static void put_dimensions(FILE *file, const shoali_cluster *c)
{
    for (uint32_t i = 0; i < c->dimension_count; i++) {
        const shoali_dimension *d = &c->dimensions[i];
        fprintf(file, "%s\n    {\"topology\": \"%s:%u\"", i > 0 ? "," : ",\n  \"dimensions\": [",
                shoali_topology_name(d->topology), d->size);
        put_rate(file, "rate", d->bytes_per_s, 0);
        put_micros(file, "latency_us", d->latency_s);
        put_real(file, "loss", d->loss, 0);
        put_real(file, "efficiency", d->efficiency, 1);
        put_real(file, "efficiency_sharded", d->efficiency_sharded, d->efficiency);
        fprintf(file, ", \"cost\": {\"link\": %.17g, \"switch\": %.17g, \"nic\": %.17g}}%s",
                d->cost_link, d->cost_switch, d->cost_nic, i + 1 == c->dimension_count ? "]" : "");
    }
}

static void put_links(FILE *file, const shoali_cluster *c)
{
    for (uint32_t i = 0; i < c->link_count; i++) {
        const shoali_link *link = &c->links[i];
        fprintf(file, "%s\n    {\"from\": %u, \"to\": %u", i > 0 ? "," : ",\n  \"links\": [",
                link->from, link->to);
        put_rate(file, "rate", link->bytes_per_s, 0);
        put_micros(file, "latency_us", link->latency_s);
        put_real(file, "loss", link->loss, 0);
        put_real(file, "spread", link->spread, 0);
        fprintf(file, "}%s", i + 1 == c->link_count ? "]" : "");
    }
}

static void put_times(FILE *file, double from_s, double until_s)
{
    put_real(file, "from_s", from_s, 0);
    put_real(file, "until_s", until_s, INFINITY);
}

static void put_events(FILE *file, const shoali_cluster *c)
{
    for (uint32_t i = 0; i < c->straggler_count; i++) {
        const shoali_straggler *s = &c->stragglers[i];
        fprintf(file, "%s\n    {\"slowdown\": %.17g", i > 0 ? "," : ",\n  \"stragglers\": [",
                s->slowdown);
        if (s->worker != UINT32_MAX)
            fprintf(file, ", \"worker\": %u", s->worker);
        put_real(file, "probability", s->probability, 0);
        put_times(file, s->from_s, s->until_s);
        fprintf(file, "}%s", i + 1 == c->straggler_count ? "]" : "");
    }
    for (uint32_t i = 0; i < c->partition_count; i++) {
        const shoali_partition *p = &c->partitions[i];
        fprintf(file, "%s\n    {\"hosts\": [", i > 0 ? "," : ",\n  \"partitions\": [");
        for (uint32_t k = 0; k < p->host_count; k++)
            fprintf(file, "%s%u", k > 0 ? ", " : "", p->hosts[k]);
        fprintf(file, "]");
        put_times(file, p->from_s, p->until_s);
        fprintf(file, "}%s", i + 1 == c->partition_count ? "]" : "");
    }
}

static void put_costs(FILE *file, const shoali_cluster *c)
{
    for (uint32_t i = 0; i < c->codec_count; i++) {
        const shoali_codec_cost *codec = &c->codecs[i];
        put_text(file, i > 0 ? ",\n    {" : ",\n  \"codecs\": [\n    {", "codec", codec->spec);
        put_rate(file, "encode_rate", codec->encode_bytes_per_s, 0);
        put_rate(file, "decode_rate", codec->decode_bytes_per_s, 0);
        fprintf(file, ", \"ratio\": %.17g", codec->ratio);
        put_real(file, "spread", codec->spread, 0);
        fprintf(file, "}%s", i + 1 == c->codec_count ? "]" : "");
    }
    for (uint32_t i = 0; i < c->profile_count; i++) {
        const shoali_profile *profile = &c->profiles[i];
        put_text(file, i > 0 ? ",\n    {" : ",\n  \"profiles\": [\n    {", "model", profile->model);
        fprintf(file, ", \"batch\": %u", profile->batch);
        put_micros(file, "compute_us", profile->compute_s);
        put_micros(file, "update_us", profile->update_s);
        put_real(file, "spread", profile->spread, 0);
        for (uint32_t k = 0; k < profile->ready_count; k++)
            fprintf(file, "%s%.15g%s", k > 0 ? ", " : ", \"ready_us\": [",
                    profile->ready_s[k] * 1e6, k + 1 == profile->ready_count ? "]" : "");
        fprintf(file, "}%s", i + 1 == c->profile_count ? "]" : "");
    }
    const shoali_overhead *o = &c->overhead;
    fprintf(file,
            ",\n  \"overhead\": {\"cpu_s_per_gb\": %.15g, \"operation_us\": %.15g, \"round_us\": "
            "%.15g, \"step_us\": %.15g, \"payload_share\": %.17g, "
            "\"busy_share\": %.17g}",
            o->cpu_s_per_byte * 1e9, o->operation_s * 1e6, o->round_s * 1e6, o->step_s * 1e6,
            o->payload_share, o->busy_share);
}

void shoali_cluster_print(const shoali_cluster *cluster, FILE *file)
{
    put_text(file, "{\n  ", "name", cluster->name);
    fprintf(file, ", \"cores\": %u,\n  \"accelerators\": [\n", cluster->cores);
    for (uint32_t i = 0; i < cluster->accelerator_count; i++) {
        fprintf(file, "%s", i > 0 ? ",\n" : "");
        put_accelerator(file, &cluster->accelerators[i]);
    }
    fprintf(file, "]");
    put_hosts(file, cluster);
    put_dimensions(file, cluster);
    put_links(file, cluster);
    put_events(file, cluster);
    put_costs(file, cluster);
    fprintf(file, "\n}\n");
}

shoal_status shoali_cluster_save(const shoali_cluster *cluster, const char *path)
{
    shoali_new_file out;
    SHOALI_TRY(shoali_new_file_open(path, &out));
    shoali_cluster_print(cluster, out.file);
    return shoali_new_file_commit(&out);
}
