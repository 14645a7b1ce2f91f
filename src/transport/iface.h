/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a process listens on and announces: those of the interface that was asked for, or
 * that leads to the rendezvous, and unless something was asked for one of every other interface
 * behind it, as each may be a link of its own. Loopback is never chosen when a peer may be
 * elsewhere: the rendezvous address tells. */
#ifndef SHOALI_TRANSPORT_IFACE_H
#define SHOALI_TRANSPORT_IFACE_H

#include "transport/address.h"

enum { SHOALI_IFACE_NAME_BYTES = 16, SHOALI_IFACE_LIST = 64 };

/** One address of one interface; an interface with several comes several times. */
typedef struct shoali_iface {
    char name[SHOALI_IFACE_NAME_BYTES];
    shoali_ip ip;
    uint8_t subnet_bits;
    bool up, loopback;
    bool bridge; /* joins containers or guests of this host; leads nowhere by itself */
} shoali_iface;

typedef struct shoali_iface_wish {
    const char *wanted;      /* names or addresses with commas between, NULL: choose */
    const char *wanted_from; /* "--interface", "SHOAL_INTERFACE": for texts */
    const char *toward;      /* the rendezvous as text, NULL: unknown */
    const shoali_ip *source; /* the address from which the kernel reaches it, NULL: unknown */
    bool here;               /* the rendezvous is on loopback: all peers are on this host */
    bool no_token;           /* nothing but loopback is allowed unless asked for */
} shoali_iface_wish;

typedef struct shoali_iface_choice {
    char name[SHOALI_IFACE_NAME_BYTES]; /* of the first, best one */
    bool loopback;
    uint32_t wires; /* interfaces */
    uint32_t ip_count;
    shoali_ip ips[SHOALI_ADDRESS_IPS]; /* of one interface: IPv4 before IPv6 */
    uint8_t subnet_bits[SHOALI_ADDRESS_IPS];
    uint8_t wire[SHOALI_ADDRESS_IPS]; /* 0: the first interface */
    char why[160];                    /* "it leads to the rendezvous 10.0.0.1" */
    uint64_t line_bytes_s;            /* of all of them together, as they say; 0: not known */
} shoali_iface_choice;

/** The interfaces of this network namespace, in the kernel's order; link-local addresses are left
 * out. */
SHOAL_MUST_USE shoal_status shoali_iface_list(shoali_iface out[SHOALI_IFACE_LIST],
                                              size_t *count_out);

/** The rule alone. @return SHOAL_OK | EINVAL (unknown or unfit interface; lists what there is) */
SHOAL_MUST_USE shoal_status shoali_iface_pick(const shoali_iface *list, size_t count,
                                              const shoali_iface_wish *wish,
                                              shoali_iface_choice *choice_out);

/** List, look up the way to `toward` (a name is resolved, which may take a moment), pick, log one
 * INFO line. wanted NULL: SHOAL_INTERFACE. */
SHOAL_MUST_USE shoal_status shoali_iface_choose(const char *wanted, const char *toward,
                                                bool no_token, shoali_iface_choice *choice_out);

#endif
