/* SPDX-License-Identifier: Apache-2.0 */
/* The one description of a cluster: what computes, where it stands, what joins it, what goes wrong
 * over time. The simulator runs on it, the planners cost on it, `shoal calibrate` writes it.
 * docs/cluster.md is the format; files are hostile input, and an error names file, path and what
 * was expected.
 *
 * Units: bytes, FLOP/s (a multiply-add counts as 2), bytes per second, seconds; GB = 1e9 bytes.
 * Everything that may be absent has a value that says so (0, UINT32_MAX, infinity), noted below.
 *
 * Threads: a cluster never changes after it was read. */
#ifndef SHOALI_MODEL_CLUSTER_H
#define SHOALI_MODEL_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "shoal/status.h"

enum {
    SHOALI_CLUSTER_NAME_MAX = 64,
    SHOALI_CLUSTER_WORKERS_MAX = 1 << 20,
    SHOALI_CLUSTER_DIMENSIONS_MAX = 8,
    SHOALI_CLUSTER_STEPS_MAX = 32
};

/** Share of a peak against the size of one operation: FLOPs, or bytes for memory. Steps go down in
 *  `from`; the first whose from <= size counts, or, smooth, the line between the two neighbours
 *  over log(size). No steps: share 1. */
typedef struct shoali_efficiency {
    char kind[24]; /* "matrix", "vector", "memory", or a layer kind: "conv" */
    bool smooth;
    uint32_t count;
    struct {
        double from, share;
    } step[SHOALI_CLUSTER_STEPS_MAX];
} shoali_efficiency;
double shoali_efficiency_at(const shoali_efficiency *table, double size);

/** What one worker computes with. */
typedef struct shoali_accelerator {
    const char *name;
    double flops, vector_flops; /* peaks: matrix products; everything else (default: flops) */
    double memory_bytes;        /* capacity; infinity: not said */
    double memory_bytes_per_s;  /* infinity: not said */
    double host_bytes_per_s;    /* to the memory of its host, each way; 0: not said */
    double watts;               /* of one at work, its part of the host included; 0: not said */
    double price;               /* of one for an hour, in any currency; 0: not said */
    bool additive;              /* an operation takes flops + memory time, not the larger of both */
    double spread;              /* relative standard deviation of its calibration; 0: data sheet */
    shoali_efficiency *tables;
    uint32_t table_count;
} shoali_accelerator;
/** The table of a kind; NULL: none, so share 1. A layer kind without its own takes "matrix". */
const shoali_efficiency *shoali_accelerator_table(const shoali_accelerator *accelerator,
                                                  const char *kind);

/** One host: workers share its NIC. */
typedef struct shoali_host {
    uint32_t accelerator;  /* index */
    uint32_t first_worker; /* ranks go host by host */
    uint32_t workers;
    double up_bytes_per_s, down_bytes_per_s; /* infinity: not said */
    double inside_bytes_per_s;               /* of each worker, among those of the host */
    double latency_s;                        /* one way, to any other host */
    double loss;                             /* of packets, 0 .. 1 */
    double slowdown;                         /* 2: computes half as fast as its accelerator says */
} shoali_host;

typedef enum { SHOALI_TOPOLOGY_RING, SHOALI_TOPOLOGY_FC, SHOALI_TOPOLOGY_SWITCH } shoali_topology;

/** One dimension of the network, inner ones first, in LIBRA's terms: every worker is joined with
 *  size - 1 others, through `bytes_per_s` of its own. */
typedef struct shoali_dimension {
    shoali_topology topology;
    uint32_t size;
    double bytes_per_s; /* 0: still to be designed */
    double latency_s, loss;
    double efficiency;                       /* share of bytes_per_s that payload reaches */
    double efficiency_sharded;               /* the same of reduce-scatter and all-gather */
    double cost_link, cost_switch, cost_nic; /* per GB/s; 0: free or not said */
} shoali_dimension;

/** A measured or special link between two hosts; stands before their NICs' figures. */
typedef struct shoali_link {
    uint32_t from, to; /* hosts */
    double bytes_per_s, latency_s, loss, spread;
} shoali_link;

/** A worker that is slow for a while; or, with probability > 0, any worker in any iteration. */
typedef struct shoali_straggler {
    uint32_t worker; /* UINT32_MAX: any */
    double slowdown, probability;
    double from_s, until_s; /* until: infinity = for ever */
} shoali_straggler;

/** Hosts that for a while reach each other only, and nobody else reaches them. */
typedef struct shoali_partition {
    const uint32_t *hosts;
    uint32_t host_count;
    double from_s, until_s;
} shoali_partition;

/** What a codec was measured to cost on this machine, per second and core of float32 bytes. */
typedef struct shoali_codec_cost {
    const char *spec;
    double encode_bytes_per_s, decode_bytes_per_s;
    double ratio; /* float32 bytes by coded bytes */
    double spread;
} shoali_codec_cost;

/** One training step of a model, measured on one worker while as many as the machine has cores
 * computed: stands before the efficiency tables. */
typedef struct shoali_profile {
    const char *model; /* spec */
    uint32_t batch;
    double compute_s, update_s; /* forward and backward pass; optimiser */
    const double *ready_s; /* when each layer's gradients were final, from the start of the step,
                              last layer first */
    uint32_t ready_count;
    double spread;
} shoali_profile;

/** What communication costs beside the link: measured by calibrate, 0 where nobody measured. */
typedef struct shoali_overhead {
    double cpu_s_per_byte; /* processor time per byte sent and received, per worker */
    double operation_s;    /* start and end of one operation */
    double round_s;        /* on top of a link's latency */
    double step_s;         /* of one training step: loop, data, optimiser start */
    double payload_share;  /* of a NIC's rate that payload reaches; 1 unless measured */
    double busy_share;     /* of an accelerator while it communicates (Calculon's usage) */
} shoali_overhead;

typedef struct shoali_cluster {
    shoal_arena *arena; /* everything below lives here */
    const char *name;
    uint32_t workers; /* of all hosts */
    uint32_t cores; /* that all hosts share, when they are processes of one machine; 0: each worker
                         has its accelerator to itself */
    shoali_accelerator *accelerators;
    uint32_t accelerator_count;
    shoali_host *hosts; /* one entry per host: counts are unrolled */
    uint32_t host_count;
    shoali_dimension dimensions[SHOALI_CLUSTER_DIMENSIONS_MAX];
    uint32_t dimension_count; /* 0: hosts and NICs are all there is */
    shoali_link *links;
    uint32_t link_count;
    shoali_straggler *stragglers;
    uint32_t straggler_count;
    shoali_partition *partitions;
    uint32_t partition_count;
    shoali_codec_cost *codecs;
    uint32_t codec_count;
    shoali_profile *profiles;
    uint32_t profile_count;
    shoali_overhead overhead;
} shoali_cluster;

/**
 * Read a cluster file.
 * @param cluster_out owned by the caller; shoali_cluster_close.
 * @return SHOAL_OK | EINVAL, ECORRUPT (what the text says) | EIO | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_cluster_load(const char *path, shoali_cluster **cluster_out);
/** The same from a text; name is for errors. */
SHOAL_MUST_USE shoal_status shoali_cluster_parse(const char *name, const char *text,
                                                 size_t len_bytes, shoali_cluster **cluster_out);
/** NULL is allowed. */
void shoali_cluster_close(shoali_cluster *cluster);

/** Write a cluster so that shoali_cluster_parse reads the same again (hosts in runs of equals). */
SHOAL_MUST_USE shoal_status shoali_cluster_save(const shoali_cluster *cluster, const char *path);
void shoali_cluster_print(const shoali_cluster *cluster, FILE *file);

/** The profile of a model, of this batch if there is one, else the nearest; NULL: none. */
const shoali_profile *shoali_cluster_profile(const shoali_cluster *cluster, const char *model,
                                             uint32_t batch);
/** The host that a worker stands on. worker < cluster->workers. */
uint32_t shoali_cluster_host_of(const shoali_cluster *cluster, uint32_t worker);
/** Slowdown of a worker at a time: its host's times that of every straggler entry without
 *  probability. */
double shoali_cluster_slowdown(const shoali_cluster *cluster, uint32_t worker, double at_s);
/** Two hosts reach each other at this time. */
bool shoali_cluster_reachable(const shoali_cluster *cluster, uint32_t a, uint32_t b, double at_s);

/**
 * Read dimensions as LIBRA writes them, inner ones first: "ring:4, fc:8, ring:4, switch:32"; each
 * may bring its rate: "fc:8@300GB/s". Latency 0, efficiency 1, no cost.
 * @param dimensions_out SHOALI_CLUSTER_DIMENSIONS_MAX entries
 */
SHOAL_MUST_USE shoal_status shoali_dimensions_parse(const char *text,
                                                    shoali_dimension *dimensions_out,
                                                    uint32_t *count_out);
const char *shoali_topology_name(shoali_topology topology);
/** "25gbit", "300GB/s", "12.5MB/s" in bytes per second; false: not a rate. */
bool shoali_rate_parse(const char *text, double *bytes_per_s_out);

#endif
