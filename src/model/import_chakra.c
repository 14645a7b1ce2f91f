/* SPDX-License-Identifier: Apache-2.0 */
/* Chakra execution traces of one accelerator, as workloads and back. A computing node becomes a row
 * with its time, a collective node a row with its bytes. A trace does not say which phase of
 * training a node belongs to; those that we write do, in their names ("q1.weight_grad"), and other
 * traces' collectives count as weight gradients. */
#include <string.h>

#include "base/error.h"
#include "base/read_file.h"
#include "chakra_min.pb-c.h"
#include "model/import.h"

enum { TRACE_MAX = 256 << 20, NODE_MAX = 1 << 20 };

/* NodeType of the schema. */
enum { NODE_METADATA = 1, NODE_COMP = 4, NODE_COLLECTIVE = 7 };

typedef Shoal__Chakra__Node node_pb;
typedef Shoal__Chakra__Attribute attribute_pb;

/* CollectiveCommType of the schema, as far as workloads have it; -1: not. */
static const int kinds[] = {
    SHOALI_COMM_ALL_REDUCE,    -1, SHOALI_COMM_ALL_GATHER, -1, -1, -1, SHOALI_COMM_ALL_TO_ALL,
    SHOALI_COMM_REDUCE_SCATTER};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    const char *name;
    const uint8_t *at, *end;
    uint32_t message; /* number of the one just taken */
} reader;

/* The next message: its bytes and length; false: cut off or too long. */
static bool next_message(reader *r, const uint8_t **bytes, size_t *len)
{
    uint64_t length = 0;
    uint32_t shift = 0;
    r->message++;
    for (; r->at < r->end && shift < 35; shift += 7) {
        uint8_t byte = *r->at++;
        length |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *bytes = r->at;
            *len = (size_t)length;
            if (length > NODE_MAX || length > (uint64_t)(r->end - r->at))
                return false;
            r->at += length;
            return true;
        }
    }
    return false;
}

static bool number_of(const node_pb *node, const char *name, double *out)
{
    for (size_t i = 0; i < node->n_attr; i++) {
        const attribute_pb *a = node->attr[i];
        if (a->name == NULL || strcmp(a->name, name) != 0)
            continue;
        *out = a->has_int64_val    ? (double)a->int64_val
               : a->has_uint64_val ? (double)a->uint64_val
               : a->has_int32_val  ? (double)a->int32_val
                                   : (double)a->uint32_val;
        return *out >= 0 && *out < 1e15;
    }
    return false;
}

static shoal_status refuse(const reader *r, const node_pb *node, const char *why)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s: message %u, node '%.48s': %s", r->name, r->message,
                       node->name != NULL ? node->name : "", why);
}

/* "q1.weight_grad": the phase, and the name without it. */
static shoali_phase_kind phase_of(char *name, shoali_phase_kind fallback)
{
    char *dot = strrchr(name, '.');
    for (int p = 0; dot != NULL && p < SHOALI_PHASES; p++) {
        if (strcmp(dot + 1, shoali_phase_name((shoali_phase_kind)p)) == 0) {
            *dot = '\0';
            return (shoali_phase_kind)p;
        }
    }
    return fallback;
}

static shoal_status read_collective(const reader *r, const node_pb *node, shoali_phase *out)
{
    double kind, bytes;
    if (!number_of(node, "comm_type", &kind) || !number_of(node, "comm_size", &bytes))
        return refuse(r, node, "a collective needs comm_type and comm_size");
    if (!(kind < KINDS) || kinds[(size_t)kind] < 0)
        return refuse(r, node,
                      "only all-reduce, all-gather, all-to-all and reduce-scatter are read");
    out->comm = (shoali_comm_kind)kinds[(size_t)kind];
    out->bytes = bytes;
    return SHOAL_OK;
}

static shoal_status read_node(const reader *r, const node_pb *node, shoal_arena *arena,
                              shoali_workload *out)
{
    char *name = shoali_arena_strdup(arena, node->name != NULL ? node->name : "");
    bool collective = node->type == NODE_COLLECTIVE;
    double ns = (double)node->duration_micros * 1e3;
    if (name == NULL)
        return SHOAL_ENOMEM;
    if (node->type == NODE_METADATA)
        return SHOAL_OK;
    if (node->type != NODE_COMP && !collective)
        return refuse(r, node, "only computing and collective nodes are read");
    if (out->row_count == SHOALI_WORKLOAD_ROWS_MAX || !(ns < 1e15))
        return refuse(r, node, "too many nodes, or one that takes for ever");
    shoali_workload_row *row = &out->rows[out->row_count];
    *row = (shoali_workload_row){.name = name};
    shoali_phase_kind phase = phase_of(name, collective ? SHOALI_PHASE_WEIGHT_GRAD
                                                        : SHOALI_PHASE_FORWARD);
    if (collective)
        SHOALI_TRY(read_collective(r, node, &row->phase[phase]));
    else if (!number_of(node, "compute_ns", &row->phase[phase].compute_ns))
        row->phase[phase].compute_ns = ns;
    out->row_count++;
    return SHOAL_OK;
}

shoal_status shoali_chakra_parse(const char *name, const uint8_t *bytes, size_t len_bytes,
                                 shoal_arena *arena, shoali_workload *out)
{
    reader r = {.name = name, .at = bytes, .end = bytes + len_bytes};
    const uint8_t *message = NULL;
    size_t len = 0;
    *out = (shoali_workload){.parallelism = ""};
    /* a node takes at least two bytes, and one for its length */
    size_t most = len_bytes / 3 + 1;
    most = most < SHOALI_WORKLOAD_ROWS_MAX ? most : SHOALI_WORKLOAD_ROWS_MAX;
    out->rows = shoali_arena_array(arena, most, sizeof *out->rows);
    if (out->rows == NULL)
        return SHOAL_ENOMEM;
    while (r.at < r.end) {
        if (!next_message(&r, &message, &len))
            return shoali_fail(SHOAL_ECORRUPT, "%s: message %u is cut off", name, r.message);
        if (r.message == 1)
            continue; /* the version and what else is known of the whole */
        node_pb *node = shoal__chakra__node__unpack(NULL, len, message);
        if (node == NULL)
            return shoali_fail(SHOAL_ECORRUPT, "%s: message %u is no node", name, r.message);
        shoal_status status = out->row_count < most
                                  ? read_node(&r, node, arena, out)
                                  : shoali_fail(SHOAL_ECORRUPT, "%s: too many nodes", name);
        shoal__chakra__node__free_unpacked(node, NULL);
        if (status != SHOAL_OK)
            return status;
    }
    return out->row_count > 0 ? SHOAL_OK : shoali_fail(SHOAL_ECORRUPT, "%s: no nodes", name);
}

shoal_status shoali_chakra_load(const char *path, shoal_arena *arena, shoali_workload *out)
{
    char *bytes;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, TRACE_MAX, &bytes, &len_bytes));
    shoal_status status = shoali_chakra_parse(path, (const uint8_t *)bytes, len_bytes, arena, out);
    shoali_free(bytes);
    return status;
}

/* ---------------------------------------------------------------- writing */

static void put_length(FILE *out, size_t length)
{
    for (; length >= 0x80; length >>= 7)
        fputc((int)(length & 0x7f) | 0x80, out);
    fputc((int)length, out);
}

static attribute_pb number(char *name, double value)
{
    attribute_pb a;
    shoal__chakra__attribute__init(&a);
    a.name = name;
    a.has_int64_val = true;
    a.int64_val = (int64_t)value;
    return a;
}

/* One node after the one before it. */
static void put_node(FILE *out, uint64_t *id, const char *layer, shoali_phase_kind phase,
                     const shoali_phase *what, bool collective)
{
    static const int types[] = {0, 7, 2, 0, 6}; /* CollectiveCommType by shoali_comm_kind */
    char name[192], cpu[] = "is_cpu_op", kind[] = "comm_type", size[] = "comm_size",
                    ns[] = "compute_ns";
    uint8_t bytes[1024];
    node_pb node;
    attribute_pb list[3] = {number(cpu, 0), number(kind, types[what->comm]),
                            number(size, what->bytes)};
    attribute_pb *attributes[] = {&list[0], &list[1], &list[2]};
    uint64_t before = *id;
    list[0].has_int64_val = false;
    list[0].has_bool_val = true;
    if (!collective)
        list[1] = number(ns, what->compute_ns);
    shoal__chakra__node__init(&node);
    snprintf(name, sizeof name, "%.128s.%s", layer, shoali_phase_name(phase));
    node.name = name;
    node.has_id = node.has_type = node.has_duration_micros = true;
    node.id = ++*id;
    node.type = collective ? NODE_COLLECTIVE : NODE_COMP;
    node.duration_micros = collective ? 0 : (uint64_t)(what->compute_ns / 1e3 + 0.5);
    node.data_deps = &before;
    node.n_data_deps = before > 0;
    node.attr = attributes;
    node.n_attr = collective ? 3 : 2;
    size_t length = shoal__chakra__node__pack(&node, bytes);
    put_length(out, length);
    fwrite(bytes, 1, length, out);
}

void shoali_chakra_print(const shoali_workload *workload, FILE *out)
{
    uint8_t bytes[64];
    char version[] = "1.0";
    Shoal__Chakra__Metadata head;
    uint64_t id = 0;
    shoal__chakra__metadata__init(&head);
    head.version = version;
    size_t length = shoal__chakra__metadata__pack(&head, bytes);
    put_length(out, length);
    fwrite(bytes, 1, length, out);
    for (uint32_t i = 0; i < workload->row_count * SHOALI_PHASES; i++) {
        const shoali_workload_row *row = &workload->rows[i / SHOALI_PHASES];
        shoali_phase_kind kind = (shoali_phase_kind)(i % SHOALI_PHASES);
        const shoali_phase *phase = &row->phase[kind];
        if (phase->compute_ns > 0)
            put_node(out, &id, row->name, kind, phase, false);
        if (phase->comm != SHOALI_COMM_NONE)
            put_node(out, &id, row->name, kind, phase, true);
    }
}
