/* SPDX-License-Identifier: Apache-2.0 */
/* The text by which others reach an endpoint, spread by the rendezvous:
 *   "host=a port=40123 ip=10.0.0.3/24,fd00::3/64 boot=<uuid> netns=4026531840"  tcp
 *   "... relay=40124"                  and it passes on what is not for it (relay/relay.h)
 *   "... pid=17,4026531836"            its process: number, PID namespace
 *   "... launch=9f2c11d0.3"            its name with its launcher
 *   "... via=2,10.78.1.2,40124"        the relay of rank 2 leads there; added by who dials
 *   "... fabric=tcp,0a00...,bell"      its endpoint with libfabric: provider, name, maybe a bell
 *   "host=a unix=shoal-<hex> boot=<uuid> netns=4026531840"                      shm
 * boot and netns say whether two endpoints share a host *and* its network: only then may shm go
 * round the network. An address comes with the bits of its subnet, which say who shares a link. */
#ifndef SHOALI_TRANSPORT_ADDRESS_H
#define SHOALI_TRANSPORT_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum {
    SHOALI_ADDRESS_IPS = 8,
    SHOALI_IP_TEXT_BYTES = 64,
    SHOALI_HOST_BYTES = 64,
    SHOALI_UNIX_BYTES = 64,
    SHOALI_LAUNCH_BYTES = 32,
    SHOALI_FABRIC_BYTES = 136
};

typedef union shoali_ip {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} shoali_ip;

typedef struct shoali_address {
    char host[SHOALI_HOST_BYTES];
    char boot[40];
    uint64_t netns;
    uint16_t port;
    uint32_t ip_count;
    shoali_ip ips[SHOALI_ADDRESS_IPS];       /* best first, with port */
    uint8_t subnet_bits[SHOALI_ADDRESS_IPS]; /* 0: unknown, so it shares a link with nobody */
    uint8_t wires[SHOALI_ADDRESS_IPS];       /* one's own: the interface behind it; from text: the
                                                n-th address of a family stands for the n-th */
    uint16_t relay_port;                     /* 0: none */
    shoali_ip via;                           /* any.sa_family 0: none */
    uint32_t via_rank;
    char unix_name[SHOALI_UNIX_BYTES]; /* abstract socket, without the leading NUL; "" if none */
    /* who may prove that it has ended: meet/proof.h */
    uint64_t pid, pid_space;          /* 0: not said */
    char launch[SHOALI_LAUNCH_BYTES]; /* its name with its launcher; "": none */
    char fabric[SHOALI_FABRIC_BYTES]; /* of the row libfabric, which reads it; "": none */
} shoali_address;

/** Host name, boot id and network namespace of this process; no ip. */
SHOAL_MUST_USE shoal_status shoali_address_local(shoali_address *address_out);
void shoali_address_format(const shoali_address *address, char out[SHOALI_ADDRESS_BYTES]);
/** @return SHOAL_OK | EINVAL naming the part that is wrong */
SHOAL_MUST_USE shoal_status shoali_address_parse(const char *text, shoali_address *address_out);
/** The same running kernel and the same network namespace. */
bool shoali_address_same_host(const shoali_address *a, const shoali_address *b);
/**
 * Put the addresses of another host in the order in which they are worth a try from here: first
 * one for each link that both share (interface and subnet), then the others as they came. Addresses
 * that this host has, too, lead elsewhere and go.
 * @return how many links they share; on one host always 1, and nothing moves
 */
uint32_t shoali_address_choose(const shoali_address *mine, shoali_address *theirs);
/** The interfaces that lead to theirs, as bits of their numbers; of one host, or without a subnet
 * in common: all bits. */
uint64_t shoali_address_wires(const shoali_address *mine, const shoali_address *theirs);
/** Both are in one subnet, by what either says of it. */
bool shoali_address_share(const shoali_address *a, uint32_t i, const shoali_address *b, uint32_t j);
/** Move the i-th address, known to work, to the front. */
void shoali_address_prefer(shoali_address *address, uint32_t i);

/** A numeric address, IPv4 or IPv6. False: neither. */
bool shoali_ip_parse(const char *text, shoali_ip *ip_out);
/** "10.0.0.3", without the port. */
void shoali_ip_format(const shoali_ip *ip, char out[SHOALI_IP_TEXT_BYTES]);
void shoali_ip_set_port(shoali_ip *ip, uint16_t port);
uint16_t shoali_ip_port(const shoali_ip *ip);
socklen_t shoali_ip_bytes(const shoali_ip *ip);
bool shoali_ip_is_loopback(const shoali_ip *ip);
/** The same family, and the first `bits` bits are equal. */
bool shoali_ip_same_subnet(const shoali_ip *a, const shoali_ip *b, uint32_t bits);
/** Ports do not count; an IPv4 address mapped into IPv6 equals the plain one. */
bool shoali_ip_equal(const shoali_ip *a, const shoali_ip *b);

/**
 * Begin to connect a non-blocking socket. A port of the ephemeral range where nobody listens yet
 * may be the one that the kernel chooses for fd, which then is connected to itself, and keeps the
 * port from whoever was to listen there, for a minute after its end, too. That counts as refused,
 * and closing fd frees the port at once.
 * @return false: errno says why; fd is the caller's to close
 */
bool shoali_ip_connect(int fd, const struct sockaddr *to, socklen_t to_bytes);

#endif
