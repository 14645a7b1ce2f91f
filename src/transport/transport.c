/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/transport.h"

#define SHOAL_TRANSPORT(name) extern const shoali_transport_row shoali_transport_##name;
#include "transport/transports.def"
#undef SHOAL_TRANSPORT

static const shoali_transport_row *const rows[] = {
#define SHOAL_TRANSPORT(name) &shoali_transport_##name,
#include "transport/transports.def"
#undef SHOAL_TRANSPORT
};
enum { ROWS = sizeof rows / sizeof rows[0] };

size_t shoali_transport_count(void)
{
    return ROWS;
}

const shoali_transport_row *shoali_transport_row_at(size_t i)
{
    return rows[i];
}

const shoali_transport_row *shoali_transport_find(const char *spec)
{
    const char *names[ROWS];
    size_t found;
    for (size_t i = 0; i < ROWS; i++)
        names[i] = rows[i]->name;
    return shoali_spec_find("transport", spec, names, ROWS, &found) == SHOAL_OK ? rows[found]
                                                                                : NULL;
}
