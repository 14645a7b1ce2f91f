/* SPDX-License-Identifier: Apache-2.0 */
/* One socket for packets that may be lost (wire/packet.h): flows of datagrams send and receive by
 * it. No row of the table of transports: a packet is what a switch reads, so nothing is put in
 * front of it, neither a frame's header nor a number to repeat it by. Who may send is in
 * docs/security.md. Packets are gathered and go out, as they come in, many in a system call. */
#ifndef SHOALI_TRANSPORT_UDP_H
#define SHOALI_TRANSPORT_UDP_H

#include "transport/address.h"

typedef struct shoali_udp shoali_udp;

typedef struct shoali_udp_stats {
    uint64_t sent, received, dropped; /* dropped: the queue was full, or the system refused */
} shoali_udp_stats;

/** A socket at this address, at a port of the kernel's choice; the largest datagram follows from
 *  the MTU of the interface that has the address. */
SHOAL_MUST_USE shoal_status shoali_udp_open(const shoali_ip *at, shoali_udp **udp_out);
void shoali_udp_close(shoali_udp *udp); /* NULL is allowed */
/** In a forked child: close the descriptor and touch nothing else. */
void shoali_udp_forked(shoali_udp *udp);

int shoali_udp_fd(const shoali_udp *udp);
/** Where the socket is, with its port. */
const shoali_ip *shoali_udp_address(const shoali_udp *udp);
/** Most bytes of a datagram that leaves in one piece. */
uint32_t shoali_udp_bytes(const shoali_udp *udp);

/** Queue a copy; dropped if there is no room. */
void shoali_udp_send(shoali_udp *udp, const shoali_ip *to, const void *bytes, size_t len_bytes);
/** Hand the queue to the kernel; false: it does not take everything now, the descriptor will be
 *  writable. */
bool shoali_udp_flush(shoali_udp *udp);

typedef void (*shoali_udp_take)(void *ctx, const shoali_ip *from, const uint8_t *bytes,
                                size_t len_bytes);
/** Hand over what has come, a bounded number; true: there may be more. */
bool shoali_udp_receive(shoali_udp *udp, shoali_udp_take take, void *ctx);
shoali_udp_stats shoali_udp_counted(const shoali_udp *udp);

#endif
