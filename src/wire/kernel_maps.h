/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and its program in the kernel (innet/xdp) share: the values of the program's
 * maps. Like packet.h it is compiled for both. Numbers are in host order unless said otherwise. */
#ifndef SHOALI_WIRE_KERNEL_MAPS_H
#define SHOALI_WIRE_KERNEL_MAPS_H

#include <stdint.h>

enum {
    SHOALI_KERNEL_VALUES = 362, /* of a packet: an MTU of 1500 has room for them */
    SHOALI_KERNEL_WORKERS = 64, /* bits of `seen` */
    SHOALI_KERNEL_JOBS = 16,
    SHOALI_KERNEL_CELLS = 2048
};

/** Map `jobs`, by the key of a share's packets, as it lies in them: written by the daemon, but for
 * the counters. */
typedef struct shoali_kernel_job {
    uint32_t workers, block, blocks, slots, sparse;
    uint32_t first_cell; /* its cells follow each other in the array */
    uint32_t unassigned; /* first block that no slot has: counts up */
    uint32_t unused;
    uint64_t packets, received_bytes, sent_bytes; /* counters: of contributions and probes; of
                                                     datagrams' payload */
} shoali_kernel_job;

/** Map `cells`, by number: a slot. Zero at first, but for block, next and exponent. */
typedef struct shoali_kernel_cell {
#ifdef __bpf__
    struct bpf_spin_lock lock;
#else
    uint32_t lock; /* the kernel's; what is written here is left out */
#endif
    uint32_t round, block, next, count;
    uint32_t any;  /* values[round % 2] has values */
    uint64_t seen; /* bit w: worker w has sent in this round */
    int32_t exponent;
    uint32_t last_next, last_any; /* of the round before, whose result is */
    int32_t last_exponent;        /* values[(round - 1) % 2] */
    uint32_t finished;
    uint32_t values[2][SHOALI_KERNEL_VALUES];
} shoali_kernel_cell;

/** Keys of map `ports`. */
typedef struct shoali_kernel_port_key {
    uint64_t key; /* as in the packet */
    uint32_t worker, zero;
} shoali_kernel_port_key;

/** Map `ports`: where a worker is. The daemon writes address and port, and only packets from there
 * count; the program notes behind which interface that is, and the station of the way there. */
typedef struct shoali_kernel_port {
    uint32_t ip;  /* network order */
    uint16_t udp; /* network order */
    uint8_t mac[6];
    uint32_t ifindex; /* 0: not seen yet */
} shoali_kernel_port;

#endif
