/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files: docs/cluster.md. Every array and object is checked for unknown keys, every number
 * for its range; an error's text starts with the path: "lab.json: hosts[2]: key ...". */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/cluster_ways.h"

enum { LIST_MAX = 65536, TABLES_MAX = 32 };
static const double zero = 0, one = 1, endless = INFINITY;

/* Put a place before the error just set. */
static shoal_status at(const char *list, size_t index, shoal_status status)
{
    if (status == SHOAL_OK || status == SHOAL_ENOMEM)
        return status;
    shoal_error error;
    shoali_error_get(&error);
    (void)shoali_fail(status, "%s[%zu]: %s", list, index, error.text);
    return status;
}

/* keys: "name|flops|..." */
static shoal_status only_keys(const json_t *object, const char *keys)
{
    if (!json_is_object(object))
        return shoali_fail(SHOAL_ECORRUPT, "must be an object with keys %s", keys);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t len = strlen(key);
        const char *found = keys;
        for (; found != NULL; found = strchr(found, '|')) {
            found += *found == '|';
            if (strncmp(found, key, len) == 0 && (found[len] == '|' || found[len] == '\0'))
                break;
        }
        if (found == NULL || len == 0)
            return shoali_fail(SHOAL_ECORRUPT, "unknown key \"%.32s\"; known: %s", key, keys);
    }
    return SHOAL_OK;
}

static shoal_status real(const json_t *object, const char *key, double min, double max,
                         const double *fallback, double *out)
{
    return shoali_json_double(object, key, min, max, fallback, out);
}

/* A rate such as "25gbit"; fallback NULL: must be there. */
static shoal_status rate(const json_t *object, const char *key, const double *fallback, double *out)
{
    static const char none[] = "";
    const char *text;
    SHOALI_TRY(shoali_json_string(object, key, fallback != NULL ? none : NULL, &text));
    if (text == none) {
        *out = *fallback;
        return SHOAL_OK;
    }
    if (!shoali_rate_parse(text, out))
        return shoali_fail(SHOAL_ECORRUPT,
                           "key \"%s\" is \"%.32s\"; it must be a rate: 250mbit, 25gbit, 300GB/s",
                           key, text);
    return SHOAL_OK;
}

/* A time in microseconds, in seconds out. */
static shoal_status micros(const json_t *object, const char *key, double *out)
{
    SHOALI_TRY(real(object, key, 0, 1e12, &zero, out));
    *out /= 1e6;
    return SHOAL_OK;
}

static shoal_status text_of(shoal_arena *arena, const json_t *object, const char *key, size_t max,
                            const char **out)
{
    const char *text;
    SHOALI_TRY(shoali_json_string(object, key, NULL, &text));
    size_t len = strlen(text);
    if (len == 0 || len >= max)
        return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" must have 1 .. %zu characters", key,
                           max - 1);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ')
            return shoali_fail(SHOAL_ECORRUPT, "key \"%s\" has a character that names may not have",
                               key);
    *out = shoali_arena_strdup(arena, text);
    return *out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* An optional array of at most max; *count_out 0 if absent. */
static shoal_status list_of(const json_t *root, const char *key, size_t max,
                            const json_t **list_out, uint32_t *count_out)
{
    const json_t *list = json_object_get(root, key);
    size_t count = json_array_size(list);
    if (list != NULL && (!json_is_array(list) || count == 0 || count > max))
        return shoali_fail(SHOAL_ECORRUPT, "\"%s\" must be an array of 1 .. %zu entries", key, max);
    *list_out = list;
    *count_out = (uint32_t)count;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- accelerators */

static shoal_status read_steps(const json_t *steps, shoali_efficiency *table)
{
    size_t count = json_array_size(steps);
    if (count == 0 || count > SHOALI_CLUSTER_STEPS_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "must be an array of 1 .. %d [size, share] pairs",
                           SHOALI_CLUSTER_STEPS_MAX);
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(steps, i);
        double from = json_number_value(json_array_get(pair, 0));
        double share = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !json_is_number(json_array_get(pair, 0)) ||
            !(from >= 0 && from <= 1e24) || !(share > 0 && share <= 100))
            return shoali_fail(SHOAL_ECORRUPT, "entry %zu must be [size >= 0, share above 0]", i);
        if (i > 0 && from >= table->step[i - 1].from)
            return shoali_fail(SHOAL_ECORRUPT, "entry %zu: sizes must go down", i);
        table->step[i].from = from;
        table->step[i].share = share;
    }
    table->count = (uint32_t)count;
    return SHOAL_OK;
}

static shoal_status read_table(const char *kind, const json_t *value, shoali_efficiency *table)
{
    *table = (shoali_efficiency){0};
    size_t len = strlen(kind);
    if (len == 0 || len >= sizeof table->kind ||
        strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != len)
        return shoali_fail(SHOAL_ECORRUPT,
                           "efficiency: a table is matrix, vector, memory or a kind of layer, not "
                           "\"%.32s\"",
                           kind);
    memcpy(table->kind, kind, len + 1);
    shoal_status status;
    if (json_is_object(value)) {
        table->smooth = true;
        status = only_keys(value, "smooth");
        if (status == SHOAL_OK)
            status = read_steps(json_object_get(value, "smooth"), table);
    } else {
        status = read_steps(value, table);
    }
    if (status != SHOAL_OK) {
        shoal_error error;
        shoali_error_get(&error);
        (void)shoali_fail(status, "efficiency.%s: %s", kind, error.text);
    }
    return status;
}

static shoal_status read_efficiency(shoal_arena *arena, const json_t *object,
                                    shoali_accelerator *out)
{
    const json_t *tables = json_object_get(object, "efficiency");
    size_t count = json_object_size(tables);
    if (tables == NULL)
        return SHOAL_OK;
    if (!json_is_object(tables) || count > TABLES_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "\"efficiency\" must be an object of 0 .. %d tables",
                           TABLES_MAX);
    out->tables = shoali_arena_array(arena, count + 1, sizeof *out->tables);
    if (out->tables == NULL)
        return SHOAL_ENOMEM;
    for (void *i = json_object_iter((json_t *)(uintptr_t)tables); i != NULL;
         i = json_object_iter_next((json_t *)(uintptr_t)tables, i))
        SHOALI_TRY(read_table(json_object_iter_key(i), json_object_iter_value(i),
                              &out->tables[out->table_count++]));
    return SHOAL_OK;
}

static shoal_status read_accelerator(shoal_arena *arena, const json_t *object,
                                     shoali_accelerator *out)
{
    SHOALI_TRY(only_keys(object, "name|flops|vector_flops|memory|memory_rate|host_rate|watts|price|"
                                 "processing|spread|efficiency"));
    SHOALI_TRY(text_of(arena, object, "name", SHOALI_CLUSTER_NAME_MAX, &out->name));
    SHOALI_TRY(real(object, "flops", 1, 1e21, NULL, &out->flops));
    SHOALI_TRY(real(object, "vector_flops", 1, 1e21, &out->flops, &out->vector_flops));
    SHOALI_TRY(real(object, "memory", 1, 1e18, &endless, &out->memory_bytes));
    SHOALI_TRY(rate(object, "memory_rate", &endless, &out->memory_bytes_per_s));
    SHOALI_TRY(rate(object, "host_rate", &zero, &out->host_bytes_per_s));
    SHOALI_TRY(real(object, "watts", 0, 1e9, &zero, &out->watts));
    SHOALI_TRY(real(object, "price", 0, 1e12, &zero, &out->price));
    SHOALI_TRY(real(object, "spread", 0, 1, &zero, &out->spread));
    const char *processing;
    SHOALI_TRY(shoali_json_string(object, "processing", "roofline", &processing));
    out->additive = strcmp(processing, "additive") == 0;
    if (!out->additive && strcmp(processing, "roofline") != 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "key \"processing\" is \"%.32s\"; it must be roofline or additive",
                           processing);
    return read_efficiency(arena, object, out);
}

static shoal_status read_accelerators(const json_t *root, shoali_cluster *cluster)
{
    const json_t *list;
    SHOALI_TRY(list_of(root, "accelerators", LIST_MAX, &list, &cluster->accelerator_count));
    if (list == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "key \"accelerators\" is missing; it is an array with "
                                           "what computes, at least {\"name\", \"flops\"}");
    cluster->accelerators = shoali_arena_array(cluster->arena, cluster->accelerator_count,
                                               sizeof *cluster->accelerators);
    if (cluster->accelerators == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < cluster->accelerator_count; i++) {
        SHOALI_TRY(at(
            "accelerators", i,
            read_accelerator(cluster->arena, json_array_get(list, i), &cluster->accelerators[i])));
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(cluster->accelerators[k].name, cluster->accelerators[i].name) == 0)
                return shoali_fail(SHOAL_ECORRUPT, "accelerators[%u] and [%u] are both \"%s\"", k,
                                   i, cluster->accelerators[i].name);
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- hosts */

static shoal_status find_accelerator(const shoali_cluster *cluster, const json_t *object,
                                     uint32_t *index_out)
{
    const char *name;
    SHOALI_TRY(shoali_json_string(object, "accelerator", cluster->accelerators[0].name, &name));
    for (uint32_t i = 0; i < cluster->accelerator_count; i++)
        if (strcmp(cluster->accelerators[i].name, name) == 0) {
            *index_out = i;
            return SHOAL_OK;
        }
    return shoali_fail(SHOAL_ECORRUPT, "key \"accelerator\" is \"%.32s\", which is not among them",
                       name);
}

/* A rate, or the name of one. */
static shoal_status read_inside(const json_t *object, double *out)
{
    const double pcie = shoali_cluster_inside("pcie4");
    const char *name = json_string_value(json_object_get(object, "inside"));
    *out = name != NULL ? shoali_cluster_inside(name) : 0;
    return *out > 0 ? SHOAL_OK : rate(object, "inside", &pcie, out);
}

static shoal_status read_host(const shoali_cluster *cluster, const json_t *object,
                              uint64_t *count_out, shoali_host *out)
{
    static const uint64_t single = 1;
    uint64_t workers;
    *out = (shoali_host){0};
    SHOALI_TRY(only_keys(object,
                         "count|accelerator|workers|nic|nic_down|inside|latency_us|loss|slowdown"));
    SHOALI_TRY(shoali_json_u64(object, "count", 1, SHOALI_CLUSTER_WORKERS_MAX, &single, count_out));
    SHOALI_TRY(
        shoali_json_u64(object, "workers", 1, SHOALI_CLUSTER_WORKERS_MAX, &single, &workers));
    out->workers = (uint32_t)workers;
    SHOALI_TRY(find_accelerator(cluster, object, &out->accelerator));
    SHOALI_TRY(rate(object, "nic", &endless, &out->up_bytes_per_s));
    SHOALI_TRY(rate(object, "nic_down", &out->up_bytes_per_s, &out->down_bytes_per_s));
    SHOALI_TRY(read_inside(object, &out->inside_bytes_per_s));
    SHOALI_TRY(micros(object, "latency_us", &out->latency_s));
    SHOALI_TRY(real(object, "loss", 0, 1, &zero, &out->loss));
    return real(object, "slowdown", 1e-6, 1e6, &one, &out->slowdown);
}

/* Unroll entries into hosts: pass 1 counts, pass 2 fills. */
static shoal_status unroll_hosts(const json_t *list, uint32_t entries, shoali_cluster *cluster,
                                 bool fill)
{
    uint64_t hosts = 0, workers = 0;
    for (uint32_t i = 0; i < entries; i++) {
        uint64_t count;
        shoali_host host;
        SHOALI_TRY(at("hosts", i, read_host(cluster, json_array_get(list, i), &count, &host)));
        for (uint64_t k = 0; fill && k < count; k++) {
            host.first_worker = (uint32_t)(workers + k * host.workers);
            cluster->hosts[hosts + k] = host;
        }
        hosts += count;
        workers += count * host.workers;
        if (workers > SHOALI_CLUSTER_WORKERS_MAX)
            return at("hosts", i,
                      shoali_fail(SHOAL_ECORRUPT, "with these there are more than %d workers",
                                  SHOALI_CLUSTER_WORKERS_MAX));
    }
    cluster->host_count = (uint32_t)hosts;
    cluster->workers = (uint32_t)workers;
    return SHOAL_OK;
}

/* Without "hosts" every worker of the dimensions stands alone, behind the outermost one. */
static shoal_status read_hosts(const json_t *root, shoali_cluster *cluster)
{
    const json_t *list;
    uint32_t entries;
    uint64_t product = 1;
    for (uint32_t i = 0; i < cluster->dimension_count; i++)
        product *= cluster->dimensions[i].size;
    SHOALI_TRY(list_of(root, "hosts", LIST_MAX, &list, &entries));
    if (list == NULL && cluster->dimension_count == 0)
        return shoali_fail(SHOAL_ECORRUPT,
                           "neither \"hosts\" nor \"dimensions\": how many workers are there?");
    if (list != NULL)
        SHOALI_TRY(unroll_hosts(list, entries, cluster, false));
    else
        cluster->host_count = cluster->workers = (uint32_t)product;
    if (cluster->dimension_count > 0 && product != cluster->workers)
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"dimensions\" join %llu workers, but \"hosts\" have %u",
                           (unsigned long long)product, cluster->workers);
    cluster->hosts = shoali_arena_array(cluster->arena, cluster->host_count,
                                        sizeof *cluster->hosts);
    if (cluster->hosts == NULL)
        return SHOAL_ENOMEM;
    if (list != NULL)
        return unroll_hosts(list, entries, cluster, true);
    const shoali_dimension *outer = &cluster->dimensions[cluster->dimension_count - 1];
    double nic = outer->bytes_per_s > 0 ? outer->bytes_per_s : INFINITY;
    for (uint32_t i = 0; i < cluster->host_count; i++)
        cluster->hosts[i] = (shoali_host){.first_worker = i,
                                          .workers = 1,
                                          .up_bytes_per_s = nic,
                                          .down_bytes_per_s = nic,
                                          .inside_bytes_per_s = shoali_cluster_inside("pcie4"),
                                          .latency_s = outer->latency_s,
                                          .loss = outer->loss,
                                          .slowdown = 1};
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- network */

static shoal_status read_dimension(const json_t *object, shoali_dimension *out)
{
    const char *topology;
    shoali_dimension parsed[SHOALI_CLUSTER_DIMENSIONS_MAX];
    uint32_t count;
    SHOALI_TRY(
        only_keys(object, "topology|rate|latency_us|loss|efficiency|efficiency_sharded|cost"));
    SHOALI_TRY(shoali_json_string(object, "topology", NULL, &topology));
    SHOALI_TRY(shoali_dimensions_parse(topology, parsed, &count));
    if (count != 1)
        return shoali_fail(SHOAL_ECORRUPT, "key \"topology\" must be one dimension");
    *out = parsed[0];
    SHOALI_TRY(rate(object, "rate", &parsed[0].bytes_per_s, &out->bytes_per_s));
    SHOALI_TRY(micros(object, "latency_us", &out->latency_s));
    SHOALI_TRY(real(object, "loss", 0, 1, &zero, &out->loss));
    SHOALI_TRY(real(object, "efficiency", 1e-6, 1, &one, &out->efficiency));
    SHOALI_TRY(
        real(object, "efficiency_sharded", 1e-6, 1, &out->efficiency, &out->efficiency_sharded));
    const json_t *cost = json_object_get(object, "cost");
    if (cost == NULL)
        return SHOAL_OK;
    SHOALI_TRY(only_keys(cost, "link|switch|nic"));
    SHOALI_TRY(real(cost, "link", 0, 1e12, &zero, &out->cost_link));
    SHOALI_TRY(real(cost, "switch", 0, 1e12, &zero, &out->cost_switch));
    return real(cost, "nic", 0, 1e12, &zero, &out->cost_nic);
}

static shoal_status read_dimensions(const json_t *root, shoali_cluster *cluster)
{
    const json_t *list = json_object_get(root, "dimensions");
    if (json_is_string(list))
        return shoali_dimensions_parse(json_string_value(list), cluster->dimensions,
                                       &cluster->dimension_count);
    SHOALI_TRY(list_of(root, "dimensions", SHOALI_CLUSTER_DIMENSIONS_MAX, &list,
                       &cluster->dimension_count));
    uint64_t workers = 1;
    for (uint32_t i = 0; i < cluster->dimension_count; i++) {
        SHOALI_TRY(
            at("dimensions", i, read_dimension(json_array_get(list, i), &cluster->dimensions[i])));
        workers *= cluster->dimensions[i].size;
        if (workers > SHOALI_CLUSTER_WORKERS_MAX)
            return shoali_fail(SHOAL_ECORRUPT, "\"dimensions\" have more than %d workers",
                               SHOALI_CLUSTER_WORKERS_MAX);
    }
    return SHOAL_OK;
}

static shoal_status read_link(const shoali_cluster *cluster, const json_t *object, shoali_link *out)
{
    uint64_t from, to, last = cluster->host_count - 1;
    SHOALI_TRY(only_keys(object, "from|to|rate|latency_us|loss|spread"));
    SHOALI_TRY(shoali_json_u64(object, "from", 0, last, NULL, &from));
    SHOALI_TRY(shoali_json_u64(object, "to", 0, last, NULL, &to));
    SHOALI_TRY(rate(object, "rate", NULL, &out->bytes_per_s));
    SHOALI_TRY(micros(object, "latency_us", &out->latency_s));
    SHOALI_TRY(real(object, "loss", 0, 1, &zero, &out->loss));
    SHOALI_TRY(real(object, "spread", 0, 1, &zero, &out->spread));
    out->from = (uint32_t)from;
    out->to = (uint32_t)to;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- time, codecs, overhead */

static shoal_status read_times(const json_t *object, double *from_out, double *until_out)
{
    SHOALI_TRY(real(object, "from_s", 0, 1e12, &zero, from_out));
    return real(object, "until_s", *from_out, 1e12, &endless, until_out);
}

static shoal_status read_straggler(const shoali_cluster *cluster, const json_t *object,
                                   shoali_straggler *out)
{
    static const uint64_t any = UINT32_MAX;
    uint64_t worker;
    SHOALI_TRY(only_keys(object, "worker|slowdown|probability|from_s|until_s"));
    SHOALI_TRY(shoali_json_u64(object, "worker", 0, cluster->workers - 1, &any, &worker));
    SHOALI_TRY(real(object, "slowdown", 1e-6, 1e6, NULL, &out->slowdown));
    SHOALI_TRY(real(object, "probability", 0, 1, &zero, &out->probability));
    out->worker = (uint32_t)worker;
    return read_times(object, &out->from_s, &out->until_s);
}

static shoal_status read_partition(const shoali_cluster *cluster, const json_t *object,
                                   shoali_partition *out)
{
    const json_t *list;
    SHOALI_TRY(only_keys(object, "hosts|from_s|until_s"));
    SHOALI_TRY(list_of(object, "hosts", cluster->host_count, &list, &out->host_count));
    uint32_t *hosts = shoali_arena_array(cluster->arena, (size_t)out->host_count + 1,
                                         sizeof *hosts);
    if (hosts == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < out->host_count; i++) {
        json_int_t host = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || host < 0 || host >= cluster->host_count)
            return shoali_fail(SHOAL_ECORRUPT, "\"hosts\"[%u] must be a host, 0 .. %u", i,
                               cluster->host_count - 1);
        hosts[i] = (uint32_t)host;
    }
    if (list == NULL)
        return shoali_fail(SHOAL_ECORRUPT, "key \"hosts\" is missing; it is an array of hosts");
    out->hosts = hosts;
    return read_times(object, &out->from_s, &out->until_s);
}

static shoal_status read_codec(const shoali_cluster *cluster, const json_t *object,
                               shoali_codec_cost *out)
{
    SHOALI_TRY(only_keys(object, "codec|encode_rate|decode_rate|ratio|spread"));
    SHOALI_TRY(text_of(cluster->arena, object, "codec", 160, &out->spec));
    SHOALI_TRY(rate(object, "encode_rate", NULL, &out->encode_bytes_per_s));
    SHOALI_TRY(rate(object, "decode_rate", NULL, &out->decode_bytes_per_s));
    SHOALI_TRY(real(object, "ratio", 1e-3, 1e6, NULL, &out->ratio));
    return real(object, "spread", 0, 1, &zero, &out->spread);
}

static shoal_status read_profile(const shoali_cluster *cluster, const json_t *object,
                                 shoali_profile *out)
{
    uint64_t batch;
    const json_t *list;
    SHOALI_TRY(only_keys(object, "model|batch|compute_us|update_us|ready_us|spread"));
    SHOALI_TRY(text_of(cluster->arena, object, "model", 160, &out->model));
    SHOALI_TRY(shoali_json_u64(object, "batch", 1, 1 << 24, NULL, &batch));
    out->batch = (uint32_t)batch;
    SHOALI_TRY(micros(object, "compute_us", &out->compute_s));
    SHOALI_TRY(micros(object, "update_us", &out->update_s));
    SHOALI_TRY(real(object, "spread", 0, 1, &zero, &out->spread));
    SHOALI_TRY(list_of(object, "ready_us", LIST_MAX, &list, &out->ready_count));
    double *ready = shoali_arena_array(cluster->arena, (size_t)out->ready_count + 1, sizeof *ready);
    if (ready == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < out->ready_count; i++) {
        ready[i] = json_number_value(json_array_get(list, i)) / 1e6;
        if (!(ready[i] >= (i > 0 ? ready[i - 1] : 0) && ready[i] <= out->compute_s))
            return shoali_fail(SHOAL_ECORRUPT,
                               "\"ready_us\"[%u] must be a number that does not go down, of at "
                               "most compute_us",
                               i);
    }
    out->ready_s = ready;
    return SHOAL_OK;
}

static shoal_status read_overhead(const json_t *root, shoali_overhead *out)
{
    const json_t *object = json_object_get(root, "overhead");
    out->payload_share = 1;
    if (object == NULL)
        return SHOAL_OK;
    SHOALI_TRY(
        only_keys(object, "cpu_s_per_gb|operation_us|round_us|step_us|payload_share|busy_share"));
    SHOALI_TRY(real(object, "payload_share", 0.01, 1, &one, &out->payload_share));
    SHOALI_TRY(real(object, "cpu_s_per_gb", 0, 1e6, &zero, &out->cpu_s_per_byte));
    out->cpu_s_per_byte /= 1e9;
    SHOALI_TRY(micros(object, "operation_us", &out->operation_s));
    SHOALI_TRY(micros(object, "round_us", &out->round_s));
    SHOALI_TRY(micros(object, "step_us", &out->step_s));
    return real(object, "busy_share", 0, 0.99, &zero, &out->busy_share);
}

/* An optional list of one kind: allocate the array, read each entry with its path. */
#define READ_LIST(key, field, count_field, read)                                                \
    do {                                                                                        \
        const json_t *list;                                                                     \
        SHOALI_TRY(list_of(root, key, LIST_MAX, &list, &cluster->count_field));                 \
        cluster->field = shoali_arena_array(cluster->arena, (size_t)cluster->count_field + 1,   \
                                            sizeof *cluster->field);                            \
        if (cluster->field == NULL)                                                             \
            return SHOAL_ENOMEM;                                                                \
        for (uint32_t i = 0; i < cluster->count_field; i++)                                     \
            SHOALI_TRY(at(key, i, read(cluster, json_array_get(list, i), &cluster->field[i]))); \
    } while (0)

static shoal_status read_lists(const json_t *root, shoali_cluster *cluster)
{
    READ_LIST("links", links, link_count, read_link);
    READ_LIST("stragglers", stragglers, straggler_count, read_straggler);
    READ_LIST("partitions", partitions, partition_count, read_partition);
    READ_LIST("codecs", codecs, codec_count, read_codec);
    READ_LIST("profiles", profiles, profile_count, read_profile);
    return read_overhead(root, &cluster->overhead);
}

/* ---------------------------------------------------------------- the file */

static shoal_status read_cluster(const json_t *root, shoali_cluster *cluster)
{
    static const uint64_t none = 0;
    uint64_t cores;
    SHOALI_TRY(only_keys(root, "name|cores|accelerators|hosts|dimensions|links|stragglers|"
                               "partitions|codecs|profiles|overhead"));
    SHOALI_TRY(text_of(cluster->arena, root, "name", SHOALI_CLUSTER_NAME_MAX, &cluster->name));
    SHOALI_TRY(shoali_json_u64(root, "cores", 0, 1 << 16, &none, &cores));
    cluster->cores = (uint32_t)cores;
    SHOALI_TRY(read_accelerators(root, cluster));
    SHOALI_TRY(read_dimensions(root, cluster));
    SHOALI_TRY(read_hosts(root, cluster));
    SHOALI_TRY(shoali_cluster_settle(cluster));
    return read_lists(root, cluster);
}

static shoal_status take_json(const char *what, json_t *root, shoali_cluster **cluster_out)
{
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_cluster *cluster = arena != NULL ? shoali_arena_alloc(arena, sizeof *cluster) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (cluster != NULL) {
        cluster->arena = arena;
        status = read_cluster(root, cluster);
    }
    json_decref(root);
    if (status == SHOAL_OK) {
        *cluster_out = cluster;
        return SHOAL_OK;
    }
    shoali_arena_destroy(arena);
    if (status == SHOAL_ENOMEM)
        return shoali_fail(SHOAL_ENOMEM, "%s: no memory for the cluster", what);
    shoal_error error;
    shoali_error_get(&error);
    (void)shoali_fail(status, "%s: %s", what, error.text);
    shoali_error_advice("docs/cluster.md describes cluster files; shoal calibrate writes one.");
    return status;
}

shoal_status shoali_cluster_parse(const char *name, const char *text, size_t len_bytes,
                                  shoali_cluster **cluster_out)
{
    json_t *root;
    SHOALI_TRY(shoali_json_parse(name, text, len_bytes, &root));
    return take_json(name, root, cluster_out);
}

shoal_status shoali_cluster_load(const char *path, shoali_cluster **cluster_out)
{
    json_t *root;
    SHOALI_TRY(shoali_json_load(path, &root));
    return take_json(path, root, cluster_out);
}
