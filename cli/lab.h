/* SPDX-License-Identifier: Apache-2.0 */
/* The lab: an emulated network on one machine. New (user,) network and process namespaces; a bridge
 * in a namespace of its own, one namespace per host, joined by veth pairs that tbf shapes in both
 * directions. No address of the lab exists outside, and everything in it dies with the process that
 * made it (PR_SET_PDEATHSIG and the process namespace), so that nothing stays behind after kill -9.
 */
#ifndef SHOAL_CLI_LAB_H
#define SHOAL_CLI_LAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shoal/cluster.h"

enum { LAB_MAX_HOSTS = 64 };

/* Without a switch each cable is a veth pair with a subnet of its own, and nobody forwards. */
enum { LAB_SWITCH, LAB_LINE, LAB_RING, LAB_MESH };

typedef struct lab_desc {
    uint64_t rate_bits;                /* of every link, each way; 0: unshaped */
    uint64_t up_bits, down_bits;       /* from a host, and to it; 0: rate_bits */
    uint64_t link_up[LAB_MAX_HOSTS];   /* of one host's link, 0: as the others' */
    uint64_t link_down[LAB_MAX_HOSTS]; /* the same towards it */
    char trace[256];                   /* file of rates that change while the job runs, "": none */
    double slow[LAB_MAX_HOSTS];        /* compute slow-down of a rank, 0: none (SHOAL_SLOW) */
    char random[32];                   /* iterations that are slow by chance (SHOAL_RANDOM) */
    double throttle[LAB_MAX_HOSTS];    /* part of a processor that a rank gets, 0: all of it */
    uint32_t hole[LAB_MAX_HOSTS];      /* frames above so many bytes vanish at its port, 0: none */
    uint32_t hosts;                    /* 0: one per rank */
    uint32_t mtu;                      /* 1500 */
    uint32_t burst_kb, limit_kb;       /* of tbf: 96, 1024; burst 0: by each link's rate */
    double loss;                       /* part of the packets that the switch loses, 0..1 */
    bool loss_udp;                     /* of UDP only */
    uint32_t cables;                   /* LAB_SWITCH, or how hosts are joined without one */
    uint32_t parallel;                 /* cables between two hosts that are joined */
    bool speaks;                       /* the switch has an address: processes run on it */
    uint32_t workers;                  /* of the cluster that it is made after; 0: any */
    char text[SHOAL_CLUSTER_LAB_MAX];  /* the keys, those of a cluster's file in its place */
} lab_desc;

/** Parse "rate=1gbit,hosts=4,link=2:100mbit,slow=2:5x,throttle=2:25%,mtu=1500,burst=96,limit=1024,
 *  loss=1%,cables=ring", "up=10mbit,down=50mbit,trace=FILE,random=6x:0.1",
 *  "cluster=FILE"; prints the error and returns false. */
bool lab_parse(const char *verb, const char *text, lab_desc *lab_out);
/** What a host may send, and what may come to it, bits per second; 0: as much as there is. */
uint64_t lab_up_bits(const lab_desc *lab, uint32_t host);
uint64_t lab_down_bits(const lab_desc *lab, uint32_t host);
/** The slower way of the usual link: what a connection can have. */
uint64_t lab_usual_bits(const lab_desc *lab);
/** Help text of the keys, for --help. */
extern const char lab_help[];

/**
 * Run inside() as first process of new namespaces and wait for it; signals INT and TERM go on to
 * it.
 * @return its exit code; CLI_CANNOT_HERE with a printed reason when the kernel refuses.
 */
int lab_enter(const char *verb, int (*inside)(void *arg), void *arg);

/** Inside: make hosts and what joins them. Prints the reason and returns false on failure. */
bool lab_build(const char *verb, lab_desc *lab, uint32_t hosts);
/** Inside, once it is built: a process that changes the links as lab->trace says from now on, and
 *  ends with the lab; without a trace there is none. Prints the reason and returns false. */
bool lab_follow(const char *verb, const lab_desc *lab, uint32_t hosts);
/** Inside: move the calling (single-threaded) process to a host's network namespace. */
bool lab_join(uint32_t host);
/** IPv4 address of a host, "10.77.0.1", once it is built; with cables: on its first one. */
const char *lab_address(uint32_t host);
/** And that of a switch that speaks. */
extern const char lab_switch_address[];
/** The switch's ports, "sw0,sw1"; static buffer. */
const char *lab_ports(uint32_t hosts);

#endif
