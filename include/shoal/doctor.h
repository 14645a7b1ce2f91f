/* SPDX-License-Identifier: Apache-2.0 */
/* A look at hosts and network before a job starts there: what would hang, fail or crawl, who is to
 * blame, and what to do about it.
 *
 *     shoal_doctor_run(&desc, &doctor)
 *     for (uint32_t i = 0; i < shoal_doctor_count(doctor); i++)
 *         shoal_doctor_finding(doctor, i, &finding)
 *     shoal_doctor_destroy(doctor)
 *
 * Every rank of the job calls it, as they would call shoal_comm_create, with the same rendezvous,
 * token and interface: what is looked at is what the job will use. Rank 0 learns everything. The
 * others learn what they see themselves, above all why they cannot reach rank 0. It never hangs:
 * ranks that do not come are a finding, too. */
#ifndef SHOAL_DOCTOR_H
#define SHOAL_DOCTOR_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_doctor shoal_doctor;

/** Something that is wrong. `kind` is one of
 *    name       a name that resolves to loopback, or not at all
 *    interface  an interface that does not lead to the others
 *    missing    a rank that did not come
 *    port       a port that others cannot reach: closed, filtered, no route
 *    token      no job token, or not the same
 *    mtu        large packets vanish on the way (small ones arrive)
 *    rate       a port or path much slower than the others
 *    latency    a path with a much longer round trip than the others
 *    clock      a clock that is off by a second or more
 *    buffers    socket buffers too small for the rate and round trip
 *    load       others compute on this host: a rank gets a part of a core
 *    speed      a core much slower than the others' (frequency, throttling, another model) */
typedef struct shoal_finding {
    size_t size;
    char kind[16];
    int32_t rank, peer; /* whom it is about; peer -1: not a matter of a pair */
    char host[64];
    char text[256];   /* one sentence with the figures */
    char advice[256]; /* one sentence: what to do */
} shoal_finding;

/** One rank's host, as it describes itself. */
typedef struct shoal_doctor_host {
    size_t size;
    bool here; /* it came; false: nothing below is known */
    char host[64], interface[16], address[64];
    uint32_t mtu;       /* bytes, of the interface */
    uint32_t port_mbit; /* what the interface's driver says, 0: nothing */
    uint32_t cores;
    bool kernel_tls; /* the kernel can encrypt connections itself: transport key ktls */
    uint64_t send_buffer_bytes, receive_buffer_bytes; /* up to which the kernel lets them grow */
    double clock_s;                         /* ahead of rank 0's clock; NaN: not compared */
    double cpu_share;                       /* of a core that a busy thread gets, 0 .. 1 */
    double speed;                           /* of its core, in units of the median rank's */
    double sends_bytes_s, receives_bytes_s; /* best pair of this rank; 0: not measured */
} shoal_doctor_host;

/** One way between two ranks. */
typedef struct shoal_doctor_pair {
    size_t size;
    bool reached;        /* a connection could be opened this way */
    double bytes_per_s;  /* payload; 0: not measured */
    double rtt_s;        /* of 64 bytes; 0: not measured */
    uint32_t hole_bytes; /* large packets vanish: the largest IP packet that arrived; 0: none do */
} shoal_doctor_pair;

/** A provider of libfabric, as the transport's key `provider` names it. */
typedef struct shoal_provider {
    size_t size;
    char name[16], domain[64]; /* domain: its first, an interface or adapter */
} shoal_provider;

/** Provider i on this host, provider_out->size set; the first call loads libfabric. @return false
 * beyond the last, or if libfabric is not here: then the last error says so */
SHOAL_API bool shoal_provider_at(size_t i, shoal_provider *provider_out);

/**
 * Meet, measure, compare. Takes about 2 s and, for each further rank, half a second.
 * @param desc       rendezvous, rank, world_size, job, token, interface, join_timeout_us [20 s] are
 *                   used; the rest is not.
 * @param doctor_out owned by the caller; shoal_doctor_destroy. Its findings are in order of rank.
 * @return SHOAL_OK, whatever was found | EINVAL (what shoal_comm_create would refuse at once) |
 *         ENOMEM | ESYSTEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_doctor_run(const shoal_comm_desc *desc,
                                                       shoal_doctor **doctor_out);

/** This rank and how many there are to be. met: it has talked to rank 0, so rank 0 reports for
 * all. */
SHOAL_API void shoal_doctor_place(const shoal_doctor *doctor, uint32_t *rank_out,
                                  uint32_t *ranks_out, bool *met_out);

/** Number of findings that this rank knows of. */
SHOAL_API uint32_t shoal_doctor_count(const shoal_doctor *doctor);

/** Finding i. @return SHOAL_OK | EINVAL (i >= count) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_doctor_finding(const shoal_doctor *doctor, uint32_t i,
                                                           shoal_finding *finding_out);

/** What is known of a rank's host. @return SHOAL_OK | EINVAL (no such rank) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_doctor_host_of(const shoal_doctor *doctor,
                                                           uint32_t rank,
                                                           shoal_doctor_host *host_out);

/** What is known of the way from one rank to another. @return SHOAL_OK | EINVAL (no such pair) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_doctor_pair_of(const shoal_doctor *doctor,
                                                           uint32_t from, uint32_t to,
                                                           shoal_doctor_pair *pair_out);

/** NULL is allowed. */
SHOAL_API void shoal_doctor_destroy(shoal_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
