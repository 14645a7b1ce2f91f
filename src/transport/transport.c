/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/transport.h"

#include <string.h>

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
    size_t len = shoali_spec_name_len(spec);
    for (size_t i = 0; i < ROWS; i++) {
        names[i] = rows[i]->name;
        if (strlen(names[i]) == len && memcmp(names[i], spec, len) == 0)
            return rows[i];
    }
    (void)shoali_spec_unknown("transport", spec, names, ROWS);
    return NULL;
}
