/* SPDX-License-Identifier: Apache-2.0 */
/* Who reaches whom, from the addresses that ranks announce: two hosts with a subnet in common share
 * a cable (or a switch), and a rank with several of them passes on what is not for it. Pure; all
 * ranks come to the same picture. */
#ifndef SHOALI_RELAY_ROUTE_H
#define SHOALI_RELAY_ROUTE_H

#include "transport/address.h"

#define SHOALI_NO_ROUTE UINT32_MAX

/** The same host, or a subnet in common. */
bool shoali_route_joined(const shoali_address *a, const shoali_address *b);

/**
 * For every rank the neighbour by which `me` reaches it with the fewest relays, the lowest one
 * where several do: the rank itself if they are joined. Relays are ranks with a relay_port.
 * @param out [size] who neither passes on nor is reached directly; NULL: nobody
 * @param next_out [size] SHOALI_NO_ROUTE: there is none, other than the kernel's
 * @param queue [size] scratch
 */
void shoali_routes(const shoali_address *all, uint32_t size, uint32_t me, const bool *out,
                   uint32_t *next_out, uint32_t *queue);

#endif
