/* SPDX-License-Identifier: Apache-2.0 */
/* Who talks to whom on the dimensions of a network. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

const uint32_t *shoali_network_group(const shoali_network_job *job, shoali_phase_kind phase,
                                     const shoali_phase *what)
{
    if (what->group == SHOALI_GROUP_PHASE)
        return job->communicator.size[phase];
    return job->communicator.size[SHOALI_PHASES - 1 + (uint32_t)what->group];
}

/* Of each dimension as many members as the group still needs; `left` is what remains of it. */
static shoal_status take(const shoal_network *net, const char *what, uint64_t members,
                         uint32_t *left, uint32_t *out)
{
    uint64_t rest = members;
    for (uint32_t d = 0; d < net->dims; d++) {
        uint32_t part = rest >= left[d] ? left[d] : (uint32_t)rest;
        if (left[d] % part != 0 || rest % part != 0)
            return shoali_fail(SHOAL_EINVAL, "%s of %llu does not divide dimension %u of %u", what,
                               (unsigned long long)members, d, net->dimension[d].size);
        out[d] = part;
        left[d] /= part;
        rest /= part;
    }
    return rest == 1 ? SHOAL_OK
                     : shoali_fail(SHOAL_EINVAL,
                                   "%s of %llu is more than the network's %.0f accelerators", what,
                                   (unsigned long long)members, net->npus);
}

shoal_status shoali_network_place(const shoali_network_split *split, const shoal_network *net,
                                  shoali_communicator *out)
{
    uint32_t left[SHOALI_CLUSTER_DIMENSIONS_MAX];
    uint32_t *tensor = out->size[SHOALI_PHASE_FORWARD];
    uint32_t *experts = out->size[SHOALI_PHASES - 1 + SHOALI_GROUP_EXPERTS];
    uint32_t *replicas = out->size[SHOALI_PHASES - 1 + SHOALI_GROUP_EXPERT_REPLICAS];
    uint32_t *stages = out->size[SHOALI_PHASES - 1 + SHOALI_GROUP_STAGES];
    for (uint32_t d = 0; d < net->dims; d++)
        left[d] = net->dimension[d].size;
    SHOALI_TRY(take(net, "tensor parallelism", split->tensor, left, tensor));
    SHOALI_TRY(take(net, "a group that shares experts", split->experts, left, experts));
    SHOALI_TRY(take(net, "a group of replicas", split->replicas, left, replicas));
    SHOALI_TRY(take(net, "a pipeline", split->stages, left, stages));
    for (uint32_t d = 0; d < net->dims; d++) {
        out->size[SHOALI_PHASE_INPUT_GRAD][d] = tensor[d];
        out->size[SHOALI_PHASE_WEIGHT_GRAD][d] = experts[d] * replicas[d];
    }
    return SHOAL_OK;
}

/* "16" up to a comma or the end. */
static bool read_members(const char **at, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = **at >= '0' && **at <= '9' ? strtoull(*at, &end, 10) : 0;
    if (end == NULL || errno != 0 || value == 0 || value > UINT32_MAX)
        return false;
    *at = end;
    *out = value;
    return true;
}

shoal_status shoali_network_groups(const char *text, const shoal_network *net,
                                   shoali_network_job *job)
{
    shoali_network_split split = {1, 0, 1, 1};
    const char *at = text + 3;
    bool good = strncmp(text, "tp=", 3) == 0 && read_members(&at, &split.tensor);
    if (good && strncmp(at, ",ep=", 4) == 0) {
        at += 4;
        good = read_members(&at, &split.experts);
    }
    if (!good || *at != '\0')
        return shoali_fail(
            SHOAL_EINVAL,
            "communicator '%.64s' is neither a file in .yml nor like tp=16 or tp=16,ep=8", text);
    uint64_t replicas = (uint64_t)(net->npus / split.tensor);
    replicas = replicas > 0 ? replicas : 1;
    split.experts = split.experts != 0 ? split.experts : replicas;
    split.replicas = replicas >= split.experts ? replicas / split.experts : 1;
    SHOALI_TRY(shoali_network_place(&split, net, &job->communicator));
    job->split = split;
    for (uint32_t i = 0; i < job->workload.row_count * SHOALI_PHASES; i++) {
        shoali_phase *phase = &job->workload.rows[i / SHOALI_PHASES].phase[i % SHOALI_PHASES];
        if (phase->comm == SHOALI_COMM_ALL_TO_ALL)
            phase->group = SHOALI_GROUP_EXPERTS;
    }
    return SHOAL_OK;
}

shoal_status shoali_network_check_groups(const char *name, const shoal_network *net,
                                         const shoali_network_job *job)
{
    for (uint32_t i = 0; i < job->workload.row_count * SHOALI_PHASES; i++) {
        const shoali_workload_row *row = &job->workload.rows[i / SHOALI_PHASES];
        shoali_phase_kind kind = (shoali_phase_kind)(i % SHOALI_PHASES);
        const shoali_phase *phase = &row->phase[kind];
        const uint32_t *group = shoali_network_group(job, kind, phase);
        bool alone = phase->comm == SHOALI_COMM_ALL_TO_ALL && phase->bytes > 0;
        for (uint32_t d = 0; d < net->dims; d++)
            alone = alone && group[d] <= 1;
        if (alone)
            return shoali_fail(SHOAL_EINVAL,
                               "%s: the all-to-all of %s (%s) has a group of one accelerator, so "
                               "it would not be counted; give it others in the communicator, or a "
                               "smaller tp",
                               name, row->name, shoali_phase_name(kind));
    }
    return SHOAL_OK;
}
