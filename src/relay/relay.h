/* SPDX-License-Identifier: Apache-2.0 */
/* Networks without a switch: hosts joined by cables, a subnet each, whose kernels forward nothing.
 * A rank whose host has several cables listens for others that share none, and passes their bytes
 * on:
 *
 *   rank 2                       rank 1 (relay)                   rank 0
 *   opening, purpose RELAY  ->   proves that both hold the token
 *                                connects                    ->
 *   opening, TLS, frames   <->   bytes, unread                <-> as from rank 2 itself
 *
 * What is said through it is between the ends: under TLS a relay can neither read nor change it,
 * only end it. It runs on a thread of its own, from before the rendezvous (whose store others may
 * need it for) until the last connection through it has ended.
 *
 * Before they have met, ranks find a relay by asking on every cable (wire/find.h); afterwards the
 * addresses of all say who leads where (route.h). */
#ifndef SHOALI_RELAY_RELAY_H
#define SHOALI_RELAY_RELAY_H

#include "relay/route.h"

enum {
    SHOALI_RELAY_STORE = 0xffff, /* instead of an endpoint: rank 0's store */
    SHOALI_RELAY_HOPS = 16,
    SHOALI_RELAY_DOOR = 0x80 /* beside the hops: to its door */
};

typedef struct shoali_relay shoali_relay;

/** Where to connect to reach somebody. */
typedef struct shoali_way {
    shoali_ip ip;
    bool relayed;  /* there is a relay, which has to be told where to go on to */
    uint32_t rank; /* of the relay */
} shoali_way;

typedef struct shoali_relay_desc {
    uint32_t me, size;
    uint64_t incarnation;
    const char *job; /* copied, as the token */
    const uint8_t *token;
    size_t token_bytes;
    int64_t deadline_us; /* of connections: as in transport.h */
    uint16_t find_port;  /* where questions are asked and heard; 0: nowhere */
} shoali_relay_desc;

/** Relays if mine has several subnets; else it can only ask. mine: of tcp, with addresses. */
SHOAL_MUST_USE shoal_status shoali_relay_open(const shoali_relay_desc *desc,
                                              const shoali_address *mine, shoali_relay **relay_out);
/** Where it listens; 0: it does not relay. */
uint16_t shoali_relay_port(const shoali_relay *relay);
/** How this process reaches rank 0's store: from now on others are led there. NULL relay: nothing
 * happens. */
void shoali_relay_found(shoali_relay *relay, const shoali_way *store);
/** The addresses of all endpoints, copied. */
SHOAL_MUST_USE shoal_status shoali_relay_learn(shoali_relay *relay, const shoali_address *all,
                                               uint32_t size);
/** How `to` is reached when no address of it works. False: no relay leads there, or NULL. */
bool shoali_relay_way(shoali_relay *relay, uint32_t to, shoali_way *way_out);
/** From now on by way of nobody that is out, [size]. Progress thread. NULL relay: nothing
 * happens. */
void shoali_relay_avoid(shoali_relay *relay, const bool *out);
/** Where a rank takes visitors (door.h): others are led there. NULL relay: nothing happens. */
void shoali_relay_know_door(shoali_relay *relay, uint32_t rank, uint16_t port);
/** By endpoint: which of this host's links lead to it, as bits; NULL: there is but one, or nothing
 * is known. Constant once learned. */
const uint64_t *shoali_relay_links(const shoali_relay *relay);
/** Others lie between these two ranks. NULL relay: never. Progress thread. */
bool shoali_relay_between(shoali_relay *relay, uint32_t a, uint32_t b);
/** Waits for the connections of others to end, for a few seconds at most. NULL is allowed. */
void shoali_relay_close(shoali_relay *relay);

/* Around fork(); NULL is allowed. */
void shoali_relay_lock(shoali_relay *relay);
void shoali_relay_unlock(shoali_relay *relay);
void shoali_relay_forked(shoali_relay *relay);

/** call.c: ask on all cables who knows the way to rank 0's store. False: nobody, so far. */
bool shoali_relay_find(const shoali_relay *relay, uint64_t until_us, shoali_way *way_out);
/** Connect to rank 0's store that way; blocks until until_us at most. @return a socket, on which
 * the store is to be greeted; -1: last error */
int shoali_relay_call(const shoali_relay *relay, const shoali_way *way, uint64_t until_us);
/** The same to a rank's door, by whatever relay leads there. */
int shoali_relay_call_door(shoali_relay *relay, uint32_t rank, uint64_t until_us);

#endif
