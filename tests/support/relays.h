/* SPDX-License-Identifier: Apache-2.0 */
/* Relays between subnets of loopback. */
#ifndef SHOALI_TESTS_SUPPORT_RELAYS_H
#define SHOALI_TESTS_SUPPORT_RELAYS_H

#include "relay/relay.h"

/** Of a job with one name and one token. */
shoali_relay_desc relay_desc(uint32_t me, uint32_t size);
/** Of a host of its own: ips as in an address, relay_port 0: it does not relay. */
shoali_address relay_address(uint32_t host, const char *ips, uint16_t relay_port);
/** A UDP port that is taken while *fd_out is open; with SO_REUSEADDR one can hear there. */
uint16_t relay_find_port(int *fd_out);

#endif
