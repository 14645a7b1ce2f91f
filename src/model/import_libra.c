/* SPDX-License-Identifier: Apache-2.0 */
/* LIBRA's network, cost and communicator files (planning.md 3.2). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "model/import.h"
#include "model/yaml.h"

enum { DIMS_MAX = SHOALI_CLUSTER_DIMENSIONS_MAX };

/* Put the file's name before the error just set. */
static shoal_status in_file(const char *name, shoal_status status)
{
    shoal_error error;
    if (status == SHOAL_OK || status == SHOAL_ENOMEM)
        return status;
    shoali_error_get(&error);
    return shoali_fail(status, "%s: %s", name, error.text);
}

static shoal_status only_keys(json_t *root, const char *const *known, size_t count)
{
    if (!json_is_object(root))
        return shoali_fail(SHOAL_ECORRUPT, "expected keys such as %s", known[0]);
    for (void *at = json_object_iter(root); at != NULL; at = json_object_iter_next(root, at)) {
        size_t i = 0;
        while (i < count && strcmp(known[i], json_object_iter_key(at)) != 0)
            i++;
        if (i == count)
            return shoali_fail(SHOAL_ECORRUPT, "unknown key '%.32s'", json_object_iter_key(at));
    }
    return SHOAL_OK;
}

static shoal_status list_of(const json_t *root, const char *key, const json_t **out)
{
    *out = json_object_get(root, key);
    if (json_array_size(*out) == 0 || json_array_size(*out) > DIMS_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "%s must be a list of 1 .. %d entries", key, DIMS_MAX);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- network */

static shoal_status read_topology(const char *text, shoali_topology *out)
{
    static const char *const names[] = {"Ring", "FullyConnected", "Switch"};
    static const shoali_topology kinds[] = {SHOALI_TOPOLOGY_RING, SHOALI_TOPOLOGY_FC,
                                            SHOALI_TOPOLOGY_SWITCH};
    for (size_t i = 0; text != NULL && i < 3; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = kinds[i];
            return SHOAL_OK;
        }
    }
    return shoali_fail(SHOAL_ECORRUPT,
                       "'%.32s' is no topology; known: Ring, FullyConnected, Switch",
                       text != NULL ? text : "");
}

static shoal_status read_dimension(const json_t *topology, const json_t *size, const json_t *cost,
                                   shoali_libra_network *out)
{
    const char *class = json_string_value(cost);
    json_int_t members = json_integer_value(size);
    shoali_dimension *d = &out->dimension[out->count];
    *d = (shoali_dimension){.efficiency = 1};
    SHOALI_TRY(read_topology(json_string_value(topology), &d->topology));
    if (!json_is_integer(size) || members < 2 || members > 1 << 20)
        return shoali_fail(SHOAL_ECORRUPT, "NpusCount[%u] must be a whole number of 2 .. %d",
                           out->count, 1 << 20);
    if (class == NULL || strlen(class) >= sizeof out->cost_class[0])
        return shoali_fail(SHOAL_ECORRUPT, "CostDimension[%u] must be a word such as InterPod",
                           out->count);
    d->size = (uint32_t)members;
    strcpy(out->cost_class[out->count], class);
    out->count++;
    return SHOAL_OK;
}

static shoal_status read_network(json_t *root, shoali_libra_network *out)
{
    static const char *const known[] = {"Topology", "NpusCount", "CostDimension"};
    const json_t *topology, *sizes, *costs;
    double npus = 1;
    SHOALI_TRY(only_keys(root, known, 3));
    SHOALI_TRY(list_of(root, known[0], &topology));
    SHOALI_TRY(list_of(root, known[1], &sizes));
    SHOALI_TRY(list_of(root, known[2], &costs));
    size_t count = json_array_size(topology);
    if (json_array_size(sizes) != count || json_array_size(costs) != count)
        return shoali_fail(SHOAL_ECORRUPT,
                           "Topology, NpusCount and CostDimension must be of one length");
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        SHOALI_TRY(read_dimension(json_array_get(topology, i), json_array_get(sizes, i),
                                  json_array_get(costs, i), out));
        npus *= out->dimension[i].size;
    }
    if (npus > 1e12)
        return shoali_fail(SHOAL_ECORRUPT, "NpusCount multiplies to %g; at most 1e12", npus);
    return SHOAL_OK;
}

shoal_status shoali_libra_network_parse(const char *name, const char *text, size_t len_bytes,
                                        shoali_libra_network *out)
{
    json_t *root;
    SHOALI_TRY(shoali_yaml_parse(name, text, len_bytes, &root));
    shoal_status status = in_file(name, read_network(root, out));
    json_decref(root);
    return status;
}

/* ---------------------------------------------------------------- cost */

/* A part that this dimension has no use for may be missing. */
static shoal_status read_part(const json_t *class, const char *key, bool needed, double *out)
{
    static const double nothing = 0;
    return shoali_json_double(class, key, 0, 1e12, needed ? NULL : &nothing, out);
}

static shoal_status read_costs(const json_t *root, shoali_libra_network *net)
{
    static const char *const parts[] = {"Link", "Switch", "Nic"};
    for (uint32_t d = 0; d < net->count; d++) {
        shoali_dimension *dim = &net->dimension[d];
        json_t *class = json_object_get(root, net->cost_class[d]);
        bool switched = dim->topology == SHOALI_TOPOLOGY_SWITCH;
        if (!json_is_object(class))
            return shoali_fail(SHOAL_ECORRUPT, "no costs of '%s', which dimension %u names",
                               net->cost_class[d], d);
        shoal_status status = only_keys(class, parts, 3);
        if (status == SHOAL_OK)
            status = read_part(class, "Link", true, &dim->cost_link);
        if (status == SHOAL_OK)
            status = read_part(class, "Switch", switched, &dim->cost_switch);
        if (status == SHOAL_OK)
            status = read_part(class, "Nic", switched, &dim->cost_nic);
        if (status != SHOAL_OK)
            return in_file(net->cost_class[d], status);
    }
    return SHOAL_OK;
}

shoal_status shoali_libra_cost_parse(const char *name, const char *text, size_t len_bytes,
                                     shoali_libra_network *net)
{
    json_t *root;
    SHOALI_TRY(shoali_yaml_parse(name, text, len_bytes, &root));
    shoal_status status = in_file(name, read_costs(root, net));
    json_decref(root);
    return status;
}

/* ---------------------------------------------------------------- communicator */

static shoal_status read_groups(const json_t *root, const char *key,
                                const shoali_dimension *dimensions, uint32_t count, uint32_t *sizes)
{
    const json_t *list;
    SHOALI_TRY(list_of(root, key, &list));
    if (json_array_size(list) != count)
        return shoali_fail(SHOAL_ECORRUPT, "%s has %zu entries, the network %u dimensions", key,
                           json_array_size(list), count);
    for (uint32_t d = 0; d < count; d++) {
        const json_t *entry = json_array_get(list, d);
        json_int_t size = json_integer_value(entry);
        bool unused = size == -1 || size == 1;
        if (!json_is_integer(entry) ||
            (!unused && (size < 2 || size > dimensions[d].size || dimensions[d].size % size != 0)))
            return shoali_fail(SHOAL_ECORRUPT, "%s[%u] must be -1 or divide the %u of dimension %u",
                               key, d, dimensions[d].size, d);
        sizes[d] = unused ? 1 : (uint32_t)size;
    }
    return SHOAL_OK;
}

static shoal_status read_communicator(json_t *root, const shoali_dimension *dimensions,
                                      uint32_t count, shoali_communicator *out)
{
    static const char *const known[] = {"Forward", "InputGrad", "WeightGrad"};
    SHOALI_TRY(only_keys(root, known, 3));
    for (uint32_t p = 0; p < SHOALI_PHASES; p++)
        SHOALI_TRY(read_groups(root, known[p], dimensions, count, out->size[p]));
    return SHOAL_OK;
}

shoal_status shoali_libra_communicator_parse(const char *name, const char *text, size_t len_bytes,
                                             const shoali_dimension *dimensions, uint32_t count,
                                             shoali_communicator *out)
{
    json_t *root;
    SHOALI_TRY(shoali_yaml_parse(name, text, len_bytes, &root));
    shoal_status status = in_file(name, read_communicator(root, dimensions, count, out));
    json_decref(root);
    return status;
}

/* ---------------------------------------------------------------- files */

shoal_status shoali_libra_network_load(const char *path, shoali_libra_network *out)
{
    char *text;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_IMPORT_TEXT_MAX, &text, &len_bytes));
    shoal_status status = shoali_libra_network_parse(path, text, len_bytes, out);
    shoali_free(text);
    return status;
}

shoal_status shoali_libra_cost_load(const char *path, shoali_libra_network *net)
{
    char *text;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_IMPORT_TEXT_MAX, &text, &len_bytes));
    shoal_status status = shoali_libra_cost_parse(path, text, len_bytes, net);
    shoali_free(text);
    return status;
}

shoal_status shoali_libra_communicator_load(const char *path, const shoali_dimension *dimensions,
                                            uint32_t count, shoali_communicator *out)
{
    char *text;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_IMPORT_TEXT_MAX, &text, &len_bytes));
    shoal_status status = shoali_libra_communicator_parse(path, text, len_bytes, dimensions, count,
                                                          out);
    shoali_free(text);
    return status;
}
