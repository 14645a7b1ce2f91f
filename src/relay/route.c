/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/route.h"

bool shoali_route_joined(const shoali_address *a, const shoali_address *b)
{
    if (shoali_address_same_host(a, b))
        return true;
    for (uint32_t i = 0; i < a->ip_count; i++)
        for (uint32_t j = 0; j < b->ip_count; j++)
            if (shoali_address_share(a, i, b, j) && !shoali_ip_equal(&a->ips[i], &b->ips[j]))
                return true;
    return false;
}

/* Breadth first, so the first way found is among the shortest. A relay on this host would not
 * know more than we do. */
void shoali_routes(const shoali_address *all, uint32_t size, uint32_t me, const bool *out,
                   uint32_t *next_out, uint32_t *queue)
{
    uint32_t first = 0, last = 0;
    for (uint32_t i = 0; i < size; i++) {
        bool joined = i == me ||
                      ((out == NULL || !out[i]) && shoali_route_joined(&all[me], &all[i]));
        next_out[i] = joined ? i : SHOALI_NO_ROUTE;
        if (joined && i != me && !shoali_address_same_host(&all[me], &all[i]))
            queue[last++] = i;
    }
    while (first < last) {
        uint32_t at = queue[first++];
        for (uint32_t i = 0; i < size && all[at].relay_port != 0; i++) {
            if (next_out[i] != SHOALI_NO_ROUTE || !shoali_route_joined(&all[at], &all[i]))
                continue;
            next_out[i] = next_out[at];
            if (out == NULL || !out[i])
                queue[last++] = i;
        }
    }
}
