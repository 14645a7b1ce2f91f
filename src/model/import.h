/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other tools, read as they are. Formats, units and what is refused: docs/model-files.md.
 * All of them are hostile input: errors name the file, the line or key, and what was expected. */
#ifndef SHOALI_MODEL_IMPORT_H
#define SHOALI_MODEL_IMPORT_H

#include <stdio.h>

#include "base/arena.h"
#include "model/cluster.h"
#include "shoal/status.h"

enum { SHOALI_IMPORT_TEXT_MAX = 16 << 20, SHOALI_WORKLOAD_ROWS_MAX = 100000 };

/** What one phase of a layer exchanges. */
typedef enum {
    SHOALI_COMM_NONE,
    SHOALI_COMM_REDUCE_SCATTER,
    SHOALI_COMM_ALL_GATHER, /* bytes: of one member's shard */
    SHOALI_COMM_ALL_REDUCE,
    SHOALI_COMM_ALL_TO_ALL,
    SHOALI_COMM_SEND /* to the next stage of a pipeline; in no file */
} shoali_comm_kind;
const char *shoali_comm_kind_name(shoali_comm_kind kind);

typedef enum {
    SHOALI_PHASE_FORWARD,
    SHOALI_PHASE_INPUT_GRAD,
    SHOALI_PHASE_WEIGHT_GRAD,
    SHOALI_PHASES
} shoali_phase_kind;
const char *shoali_phase_name(shoali_phase_kind phase);

/** Who takes part in a phase's exchange: the phase's group, or one that files do not name. */
typedef enum {
    SHOALI_GROUP_PHASE,
    SHOALI_GROUP_EXPERTS,         /* replicas that share a mixture's experts; all-to-all */
    SHOALI_GROUP_EXPERT_REPLICAS, /* replicas that have the same ones of them */
    SHOALI_GROUP_STAGES,          /* of a pipeline */
    SHOALI_GROUPS
} shoali_group_kind;

typedef struct shoali_phase {
    double compute_ns;
    shoali_comm_kind comm;
    double bytes;
    shoali_group_kind group;
} shoali_phase;

/** One row of an ASTRA-sim 1.0 text workload. */
typedef struct shoali_workload_row {
    const char *name;
    shoali_phase phase[SHOALI_PHASES];
} shoali_workload_row;

typedef struct shoali_workload {
    const char *parallelism; /* "" where the file has no header (LIBRA's have none) */
    shoali_workload_row *rows;
    uint32_t row_count;
} shoali_workload;

/** ASTRA-sim 1.0 text, as LIBRA reads it (rows alone) or with ASTRA-sim's two header lines. */
SHOAL_MUST_USE shoal_status shoali_workload_parse(const char *name, const char *text,
                                                  size_t len_bytes, shoal_arena *arena,
                                                  shoali_workload *out);
SHOAL_MUST_USE shoal_status shoali_workload_load(const char *path, shoal_arena *arena,
                                                 shoali_workload *out);

/** A Chakra execution trace of one accelerator (length-delimited protobuf, usually FILE.et). */
SHOAL_MUST_USE shoal_status shoali_chakra_parse(const char *name, const uint8_t *bytes,
                                                size_t len_bytes, shoal_arena *arena,
                                                shoali_workload *out);
SHOAL_MUST_USE shoal_status shoali_chakra_load(const char *path, shoal_arena *arena,
                                               shoali_workload *out);
/** Write a workload as a trace that ASTRA-sim runs: one node after the other. Rows keep their
 *  order; shoali_chakra_parse gives back the same times and collectives. */
void shoali_chakra_print(const shoali_workload *workload, FILE *out);

/** Group size per phase and dimension; 1: the dimension is not used. Behind the phases' stand the
 * other groups, from SHOALI_GROUP_EXPERTS on; files have none of them. */
typedef struct shoali_communicator {
    uint32_t size[SHOALI_PHASES + SHOALI_GROUPS - 1][SHOALI_CLUSTER_DIMENSIONS_MAX];
} shoali_communicator;

/** LIBRA's network file: Topology, NpusCount, CostDimension. */
typedef struct shoali_libra_network {
    uint32_t count;
    shoali_dimension dimension[SHOALI_CLUSTER_DIMENSIONS_MAX];
    char cost_class[SHOALI_CLUSTER_DIMENSIONS_MAX][32]; /* "InterPod": key of the cost file */
} shoali_libra_network;

SHOAL_MUST_USE shoal_status shoali_libra_network_parse(const char *name, const char *text,
                                                       size_t len_bytes, shoali_libra_network *out);
SHOAL_MUST_USE shoal_status shoali_libra_network_load(const char *path, shoali_libra_network *out);

/** LIBRA's cost file, $ per GB/s, into the dimensions' costs; what a dimension needs must be there:
 * a switch without a Nic entry is an error. */
SHOAL_MUST_USE shoal_status shoali_libra_cost_parse(const char *name, const char *text,
                                                    size_t len_bytes, shoali_libra_network *net);
SHOAL_MUST_USE shoal_status shoali_libra_cost_load(const char *path, shoali_libra_network *net);

/** LIBRA's communicator file: Forward, InputGrad, WeightGrad. Sizes must fit their dimensions. */
SHOAL_MUST_USE shoal_status shoali_libra_communicator_parse(const char *name, const char *text,
                                                            size_t len_bytes,
                                                            const shoali_dimension *dimensions,
                                                            uint32_t count,
                                                            shoali_communicator *out);
SHOAL_MUST_USE shoal_status shoali_libra_communicator_load(const char *path,
                                                           const shoali_dimension *dimensions,
                                                           uint32_t count,
                                                           shoali_communicator *out);

#endif
