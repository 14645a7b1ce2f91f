/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/sync.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "shoal/codec.h"

#define SHOAL_SYNC(name) extern const shoali_sync_row shoali_sync_##name;
#include "sync/syncs.def"
#undef SHOAL_SYNC

static const shoali_sync_row *const rows[] = {
#define SHOAL_SYNC(name) &shoali_sync_##name,
#include "sync/syncs.def"
#undef SHOAL_SYNC
};
enum { ROWS = sizeof rows / sizeof *rows };

size_t shoali_sync_count(void)
{
    return ROWS;
}

const shoali_sync_row *shoali_sync_row_at(size_t i)
{
    return i < ROWS ? rows[i] : NULL;
}

shoal_status shoali_sync_open_row(const shoali_sync_row *row, const char *spec,
                                  shoali_protocol *protocol_out)
{
    void *params = NULL;
    if (row->schema.params_size > 0 && (params = shoali_alloc(row->schema.params_size)) == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_spec_parse("sync", spec, &row->schema, params);
    if (status == SHOAL_OK && row->check != NULL)
        status = row->check(params);
    if (status != SHOAL_OK) {
        shoali_free(params);
        return status;
    }
    protocol_out->row = row;
    protocol_out->params = params;
    protocol_out->traits = row->traits_with != NULL ? row->traits_with(params) : row->traits;
    shoali_spec_format(row->name, &row->schema, params, protocol_out->spec,
                       sizeof protocol_out->spec);
    return SHOAL_OK;
}

/* Codecs and collectives are chosen by time, as all of them make the same sums, or nearly. Virtual
 * time, where nothing is lost by it, has its own choice (choose.h). */
static shoal_status none_by_itself(const char *const *names)
{
    char list[160];
    size_t used = 0;
    for (size_t i = 0; i < ROWS && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 names[i]);
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--sync auto: no protocol is chosen by itself, as it decides "
                                      "what a run learns and not only how long it takes; name one");
    shoali_error_advice("One of %s; docs/protocols.md says which for what, and `shoal sim --sync "
                        "auto` chooses one for links and workers.",
                        list);
    return status;
}

shoal_status shoali_sync_open(const char *spec, shoali_protocol *protocol_out)
{
    const char *names[ROWS];
    size_t found;
    for (size_t i = 0; i < ROWS; i++)
        names[i] = rows[i]->name;
    if (strcmp(spec, "auto") == 0 || strncmp(spec, "auto:", 5) == 0)
        return none_by_itself(names);
    SHOALI_TRY(shoali_spec_find("sync", spec, names, ROWS, &found));
    return shoali_sync_open_row(rows[found], spec, protocol_out);
}

void shoali_sync_close(shoali_protocol *protocol)
{
    shoali_free(protocol->params);
    *protocol = (shoali_protocol){0};
}

void shoali_sync_coded_by(shoali_protocol *protocol, uint32_t codec_traits)
{
    if ((codec_traits & SHOAL_CODEC_LOCAL) != 0)
        protocol->traits = (protocol->traits & ~(uint32_t)SHOALI_SYNC_EXACT) | SHOALI_SYNC_APART;
}

size_t shoali_tensor_boundary(const shoali_world *world, uint32_t part, uint32_t parts)
{
    size_t wanted = (size_t)((double)world->count * part / parts), at = 0;
    if (part == parts)
        return world->count;
    for (uint32_t i = 0; i < world->tensor_count && world->tensors[i].offset <= wanted; i++)
        at = world->tensors[i].offset;
    return at;
}

uint32_t shoali_sync_servers(const shoali_protocol *protocol)
{
    return protocol->row->servers != NULL ? protocol->row->servers(protocol->params) : 0;
}

shoal_status shoal_sync_servers(const char *spec, uint32_t *servers_out)
{
    shoali_protocol protocol;
    SHOALI_TRY(shoali_sync_open(spec, &protocol));
    *servers_out = shoali_sync_servers(&protocol);
    shoali_sync_close(&protocol);
    return SHOAL_OK;
}

shoal_status shoal_sync_survives(const char *spec, bool *survives_out)
{
    shoali_protocol protocol;
    SHOALI_TRY(shoali_sync_open(spec, &protocol));
    *survives_out = (protocol.traits & SHOALI_SYNC_SURVIVES) != 0;
    shoali_sync_close(&protocol);
    return SHOAL_OK;
}

shoal_status shoali_sync_asks(const char *spec, bool *exact_out, bool *carries_out)
{
    shoali_protocol protocol;
    uint32_t slot;
    SHOALI_TRY(shoali_sync_open(spec, &protocol));
    const shoali_world world = {.params = protocol.params};
    *exact_out = (protocol.traits & SHOALI_SYNC_EXACT) != 0;
    *carries_out = protocol.row->carries != NULL && protocol.row->carries(&world, &slot);
    shoali_sync_close(&protocol);
    return SHOAL_OK;
}
