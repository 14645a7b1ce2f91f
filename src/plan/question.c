/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a question: files and specs, defaults, what must divide what; and clusters that are a
 * little different from the one in the file. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/predict.h"
#include "shoal/job.h"

/* ---------------------------------------------------------------- a changed cluster */

static void scale_accelerators(shoali_cluster *c, const shoali_scale *scale)
{
    for (uint32_t i = 0; i < c->accelerator_count; i++) {
        c->accelerators[i].flops *= scale->compute;
        c->accelerators[i].vector_flops *= scale->compute;
        c->accelerators[i].memory_bytes_per_s *= scale->memory;
    }
    for (uint32_t i = 0; i < c->codec_count; i++) {
        c->codecs[i].encode_bytes_per_s *= scale->compute;
        c->codecs[i].decode_bytes_per_s *= scale->compute;
    }
    for (uint32_t i = 0; i < c->profile_count; i++) {
        double *ready = (double *)(uintptr_t)c->profiles[i].ready_s;
        c->profiles[i].compute_s /= scale->compute;
        c->profiles[i].update_s /= scale->compute;
        for (uint32_t k = 0; k < c->profiles[i].ready_count; k++)
            ready[k] /= scale->compute;
    }
    c->overhead.cpu_s_per_byte /= scale->compute;
}

static void scale_links(shoali_cluster *c, const shoali_scale *scale)
{
    for (uint32_t i = 0; i < c->host_count; i++) {
        c->hosts[i].up_bytes_per_s *= scale->link;
        c->hosts[i].down_bytes_per_s *= scale->link;
        c->hosts[i].inside_bytes_per_s *= scale->link;
        c->hosts[i].latency_s *= scale->latency;
    }
    for (uint32_t i = 0; i < c->dimension_count; i++) {
        c->dimensions[i].bytes_per_s *= scale->link;
        c->dimensions[i].latency_s *= scale->latency;
    }
    for (uint32_t i = 0; i < c->link_count; i++) {
        c->links[i].bytes_per_s *= scale->link;
        c->links[i].latency_s *= scale->latency;
    }
    c->overhead.round_s *= scale->latency;
    c->overhead.operation_s *= scale->latency;
}

static shoal_status add_hosts(shoali_cluster *c, uint32_t more)
{
    if (c->dimension_count > 0) {
        shoali_dimension *outer = &c->dimensions[c->dimension_count - 1];
        more = more * (c->workers / outer->size) / c->hosts[c->host_count - 1].workers;
        outer->size++;
    }
    shoali_host *hosts = shoali_arena_array(c->arena, (size_t)c->host_count + more, sizeof *hosts);
    if (hosts == NULL)
        return SHOAL_ENOMEM;
    memcpy(hosts, c->hosts, c->host_count * sizeof *hosts);
    for (uint32_t i = 0; i < more; i++) {
        hosts[c->host_count] = hosts[c->host_count - 1];
        hosts[c->host_count].first_worker = c->workers;
        c->workers += hosts[c->host_count++].workers;
    }
    c->hosts = hosts;
    return SHOAL_OK;
}

/* Only what computes is left of the cluster: exchanges take no time, and nothing was measured. */
static shoal_status replace_network(shoali_cluster *c, const shoali_dimension *dimensions,
                                    uint32_t count)
{
    double workers = 1;
    for (uint32_t d = 0; d < count; d++) {
        workers *= dimensions[d].size;
        c->dimensions[d] = dimensions[d];
        c->dimensions[d].bytes_per_s = INFINITY;
        c->dimensions[d].efficiency = c->dimensions[d].efficiency_sharded = 1;
        c->dimensions[d].latency_s = c->dimensions[d].loss = 0;
    }
    if (workers > SHOALI_CLUSTER_WORKERS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a model on %.0f accelerators; at most %d", workers,
                           SHOALI_CLUSTER_WORKERS_MAX);
    c->dimension_count = count;
    c->workers = c->hosts[0].workers = (uint32_t)workers;
    c->hosts[0].first_worker = 0;
    c->host_count = 1;
    c->link_count = c->straggler_count = c->partition_count = c->profile_count = c->cores = 0;
    c->overhead = (shoali_overhead){.payload_share = 1};
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- language models */

static bool is_kind(const shoali_layer *layer, const char *kind)
{
    return strcmp(layer->row->name, kind) == 0;
}

shoali_transformer shoali_question_block(const shoali_layer *layer)
{
    const shoali_transformer_params *p = layer->params;
    const shoali_transformer_sizes sizes = shoali_transformer_sizes_of(p, layer->in.channels);
    double met = p->active > 0 ? (double)p->active : 1;
    return (shoali_transformer){
        .hidden = layer->in.channels,
        .sequence = layer->in.height,
        .heads = sizes.heads,
        .kv_heads = sizes.kv,
        .head_dim = sizes.dim,
        .value_dim = sizes.value_dim,
        .query_rank = (double)p->qrank,
        .kv_rank = (double)p->kvrank,
        .rope = (double)p->rope,
        .norms = (double)p->norms,
        .feedforward = (double)p->ff * met + (double)p->shared,
        .experts = (double)p->experts,
        .routed = p->experts > 0 ? (double)p->ff : 0,
        .met = met,
        .gated = p->gated,
    };
}

/* Blocks, an embedding before them and scores behind. */
static void read_language(shoali_question *q)
{
    double vocab = 0;
    for (uint32_t i = 0; i < q->model->layer_count; i++) {
        const shoali_layer *layer = &q->model->layers[i];
        if (is_kind(layer, "transformer")) {
            q->transformer = shoali_question_block(layer);
            q->blocks++;
        } else if (is_kind(layer, "unembedding") && !q->desc.no_head) {
            const shoali_unembedding_params *p = layer->params;
            vocab = (double)p->vocab;
        }
    }
    q->transformer.vocab = vocab;
    q->language = q->blocks > 0;
}

static shoal_status check_experts(const shoali_question *q)
{
    uint32_t group = q->desc.experts;
    if (group > 1 && q->transformer.experts == 0)
        return shoali_fail(SHOAL_EINVAL, "experts %u for model %s, which has none", group,
                           q->desc.model);
    if (fmod(q->transformer.experts, group) != 0 || q->data % group != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "experts %u divides %.0f experts and %u replicas, or one of them not",
                           group, q->transformer.experts, q->data);
    return SHOAL_OK;
}

static shoal_status check_context(const shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    if (d->context < 2)
        return SHOAL_OK;
    if (fmod(q->transformer.sequence, d->context) != 0)
        return shoali_fail(SHOAL_EINVAL, "context %u does not divide a length of %.0f tokens",
                           d->context, q->transformer.sequence);
    if (d->experts > 1)
        return shoali_fail(SHOAL_EINVAL, "context %u with experts %u is not costed: leave one out",
                           d->context, d->experts);
    if (d->sync != NULL && strcmp(d->sync, "all_reduce") != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "context %u needs gradients summed in every step, which sync %s does "
                           "not: use all_reduce",
                           d->context, d->sync);
    return SHOAL_OK;
}

static shoal_status check_ways(const shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    if (d->flash && d->recompute == SHOAL_RECOMPUTE_SELECTIVE)
        return shoali_fail(SHOAL_EINVAL, "recompute selective is of scores, which attention flash "
                                         "never keeps: use recompute none or full");
    if (d->sequence && d->tensor < 2)
        return shoali_fail(SHOAL_EINVAL, "sequence parallelism is of a tensor group, and tensor is "
                                         "1: use tensor 2 or more");
    SHOALI_TRY(check_context(q));
    return check_experts(q);
}

static shoal_status check_language(const shoali_question *q)
{
    const shoali_transformer *t = &q->transformer;
    uint32_t tp = q->desc.tensor, pp = q->desc.pipeline, v = q->desc.interleave;
    if (fmod(t->hidden, tp) != 0 || fmod(t->heads, tp) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "a tensor group of %u does not divide a width of %.0f and %.0f heads",
                           tp, t->hidden, t->heads);
    if (pp > q->blocks)
        return shoali_fail(SHOAL_EINVAL, "%u stages for %u blocks", pp, q->blocks);
    uint32_t per_stage = (q->blocks + pp - 1) / pp;
    if (v > 1 && (pp == 1 || per_stage % v != 0 || (uint64_t)pp * v > q->blocks))
        return shoali_fail(SHOAL_EINVAL, "%u blocks of a stage do not split into %u chunks",
                           per_stage, v);
    if (v > 1 && q->desc.batch / q->desc.microbatch % pp != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "interleaved stages take microbatches in groups of one per stage: %u do "
                           "not divide by pipeline %u; choose another batch or microbatch, or no "
                           "interleave",
                           q->desc.batch / q->desc.microbatch, pp);
    return check_ways(q);
}

/* ---------------------------------------------------------------- defaults */

static shoal_status fill_defaults(shoali_question *q)
{
    shoal_predict_desc *d = &q->desc;
    if (d->workers == 0)
        d->workers = q->cluster->workers;
    if (d->tensor == 0)
        d->tensor = 1;
    if (d->pipeline == 0)
        d->pipeline = 1;
    if (d->batch == 0)
        d->batch = 64;
    if (d->interleave == 0)
        d->interleave = 1;
    if (d->microbatch == 0)
        d->microbatch = d->pipeline > 1 ? 1 : d->batch;
    if (d->element_bytes == 0)
        d->element_bytes = q->language ? 2 : 4;
    if (d->experts == 0)
        d->experts = 1;
    if (d->context == 0)
        d->context = 1;
    if (d->gradient_bytes == 0)
        d->gradient_bytes = 4;
    if (d->state_bytes == 0)
        d->state_bytes = d->element_bytes < 4 ? 12 : 4;
    if (d->bucket_bytes == 0)
        d->bucket_bytes = (size_t)4 << 20;
    if (d->chunk_elems == 0)
        d->chunk_elems = 65536;
    if (!(d->element_bytes >= 0.5 && d->element_bytes <= 8))
        return shoali_fail(SHOAL_EINVAL, "elements of %g bytes; they must have 0.5 .. 8",
                           d->element_bytes);
    if (!(d->gradient_bytes >= 0.5 && d->gradient_bytes <= 8))
        return shoali_fail(SHOAL_EINVAL, "gradients of %g bytes; they must have 0.5 .. 8",
                           d->gradient_bytes);
    if (!(d->state_bytes >= 0 && d->state_bytes <= 1024))
        return shoali_fail(SHOAL_EINVAL, "%g bytes of optimiser state per parameter; 0 .. 1024",
                           d->state_bytes);
    return SHOAL_OK;
}

/* ZeRO and what it is not with. */
static shoal_status check_zero(const shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    if (d->zero == 0)
        return SHOAL_OK;
    if (d->zero > 3)
        return shoali_fail(SHOAL_EINVAL, "zero %u: stages are 0 .. 3", d->zero);
    if (d->sync != NULL && strcmp(d->sync, "all_reduce") != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "zero %u shares what all replicas agree on in every step, "
                           "which sync %s does not: use all_reduce",
                           d->zero, d->sync);
    if ((shoal_codec_traits(q->codec) & SHOAL_CODEC_RAW_BYTES) == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "zero %u with codec %s is not costed: sums end in parts, "
                           "and weights travel, too; leave the codec out",
                           d->zero, shoal_codec_spec(q->codec));
    if ((q->collective.row->traits & SHOALI_COLL_SHARDED) == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "zero %u needs a collective that sums into parts, which %s "
                           "is not: use ring, direct or hierarchical",
                           d->zero, q->collective.row->name);
    if (d->zero > 1 && d->pipeline > 1)
        return shoali_fail(SHOAL_EINVAL,
                           "zero %u with pipeline %u would gather and scatter for "
                           "each microbatch of each stage: use zero 1",
                           d->zero, d->pipeline);
    if (d->zero == 3 && q->cluster->cores > 0)
        return shoali_fail(SHOAL_EINVAL,
                           "zero 3 is not costed where workers share the cores of "
                           "cluster %s: use zero 2",
                           q->cluster->name);
    return SHOAL_OK;
}

static shoal_status check_offload(const shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    if (d->offload > (SHOAL_OFFLOAD_STATE | SHOAL_OFFLOAD_ACTIVATIONS))
        return shoali_fail(SHOAL_EINVAL, "offload %u is neither optimizer nor activations",
                           d->offload);
    if (d->offload == 0)
        return SHOAL_OK;
    if (q->cluster->cores > 0)
        return shoali_fail(SHOAL_EINVAL,
                           "offload on cluster %s: its workers are processes of one machine, whose "
                           "memory is the host's",
                           q->cluster->name);
    if (d->plan != NULL || d->experts > 1)
        return shoali_fail(SHOAL_EINVAL,
                           "offload is not costed with a plan or with experts shared by replicas: "
                           "leave it, or those, out");
    for (uint32_t i = 0; i < q->cluster->accelerator_count; i++)
        if (q->cluster->accelerators[i].host_bytes_per_s <= 0)
            return shoali_fail(SHOAL_EINVAL,
                               "offload needs host_rate of accelerator %s in cluster %s: how fast "
                               "its host's memory is reached",
                               q->cluster->accelerators[i].name, q->cluster->name);
    return SHOAL_OK;
}

static shoal_status check_sizes(shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    uint64_t group = (uint64_t)d->tensor * d->pipeline * d->context;
    if (d->workers > q->cluster->workers)
        return shoali_fail(SHOAL_EINVAL, "%u workers, but cluster %s has %u", d->workers,
                           q->cluster->name, q->cluster->workers);
    if (d->workers % group != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%u workers are no multiple of tensor %u x pipeline %u x context %u",
                           d->workers, d->tensor, d->pipeline, d->context);
    if (d->batch % d->microbatch != 0)
        return shoali_fail(SHOAL_EINVAL, "a batch of %u is no multiple of the microbatch %u",
                           d->batch, d->microbatch);
    for (uint32_t i = 0; i < q->cluster->dimension_count; i++)
        if (q->cluster->dimensions[i].bytes_per_s == 0)
            return shoali_fail(SHOAL_EINVAL, "dimension %u of cluster %s has no rate", i,
                               q->cluster->name);
    q->data = (uint32_t)(d->workers / group);
    q->replicas = q->data * d->context;
    q->args = (shoali_block_args){.microbatch = d->microbatch,
                                  .tensor = d->tensor,
                                  .sequence = d->sequence,
                                  .recompute = (shoali_recompute)d->recompute,
                                  .element_bytes = d->element_bytes,
                                  .state_sharded = d->zero > 0,
                                  .data = q->replicas,
                                  .experts = d->experts,
                                  .context = d->context,
                                  .flash = d->flash,
                                  .no_overlap = d->no_overlap};
    SHOALI_TRY(check_zero(q));
    SHOALI_TRY(check_offload(q));
    if (q->language)
        return check_language(q);
    if (d->interleave > 1 || d->recompute != SHOAL_RECOMPUTE_NONE || d->sequence || d->flash ||
        d->experts > 1 || d->context > 1)
        return shoali_fail(SHOAL_EINVAL,
                           "interleaved stages, recomputation, sequence, context and expert "
                           "parallelism and flash attention are for language models");
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- open, close */

/* A plan says what is trained and by how many; and shoal train --plan runs it in one way. */
static shoal_status open_plan(shoali_question *q)
{
    shoal_predict_desc *d = &q->desc;
    if (d->model != NULL || d->batch > 0 || d->workers > 0 || d->tensor > 0 || d->pipeline > 0 ||
        d->microbatch > 0 || d->sync != NULL || d->collective != NULL || d->codec != NULL ||
        d->zero > 0 || d->experts > 0 || d->context > 0 || d->flash || d->no_overlap)
        return shoali_fail(SHOAL_EINVAL,
                           "a plan brings model, batch and workers with it, and is predicted for "
                           "all_reduce by rings without a codec: leave these options out");
    SHOALI_TRY(shoal_partition_open(d->plan, &q->plan));
    if (q->plan->why_not != NULL)
        return shoali_fail(SHOAL_EINVAL, "plan %s cannot be trained, so it has no time: %s",
                           d->plan, q->plan->why_not);
    d->model = q->plan->model;
    d->workers = 1u << q->plan->levels;
    d->batch = q->plan->batch / d->workers;
    return SHOAL_OK;
}

static shoal_status open_ways(shoali_question *q)
{
    const shoal_predict_desc *d = &q->desc;
    const shoal_job job = {
        .size = sizeof job, .sync = d->sync, .codec = d->codec, .collective = d->collective};
    SHOALI_TRY(shoal_codec_open(d->codec != NULL ? d->codec : "identity", &q->codec));
    SHOALI_TRY(shoal_job_check(&job));
    if ((shoal_codec_traits(q->codec) & SHOAL_CODEC_LOCAL) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "codec %s sends in some steps only, and a prediction is of one step: "
                           "leave local= out",
                           shoal_codec_spec(q->codec));
    const bool gathers = (shoal_codec_traits(q->codec) & SHOAL_CODEC_GATHERS) != 0;
    const char *collective = d->collective != NULL ? d->collective : "ring";
    return shoali_collective_open(gathers ? "gather" : collective, &q->collective);
}

static shoal_status settle(shoali_question *q)
{
    read_language(q);
    SHOALI_TRY(fill_defaults(q));
    return check_sizes(q);
}

static shoal_status open_parts(shoali_question *q, const shoali_scale *scale)
{
    const shoal_predict_desc *d = &q->desc;
    if (d->plan != NULL)
        SHOALI_TRY(open_plan(q));
    SHOALI_TRY(shoal_model_open(d->model, &q->model));
    SHOALI_TRY(shoali_cluster_load(d->cluster, &q->cluster));
    SHOALI_TRY(open_ways(q));
    scale_accelerators(q->cluster, scale);
    scale_links(q->cluster, scale);
    if (scale->more_hosts > 0)
        SHOALI_TRY(add_hosts(q->cluster, scale->more_hosts));
    return settle(q);
}

shoal_status shoali_question_open(const shoal_predict_desc *desc, const shoali_scale *scale,
                                  shoali_question *question_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->cluster == NULL ||
        (desc->model == NULL && desc->plan == NULL))
        return shoali_fail(SHOAL_EINVAL, "a prediction needs a model and a cluster");
    *question_out = (shoali_question){.desc = *desc};
    shoal_status status = open_parts(question_out, scale);
    if (status != SHOAL_OK)
        shoali_question_close(question_out);
    return status;
}

static shoal_status open_compute(shoali_question *q, const shoali_dimension *dimensions,
                                 uint32_t count)
{
    SHOALI_TRY(shoal_model_open(q->desc.model, &q->model));
    SHOALI_TRY(shoali_cluster_load(q->desc.cluster, &q->cluster));
    SHOALI_TRY(open_ways(q));
    SHOALI_TRY(replace_network(q->cluster, dimensions, count));
    return settle(q);
}

shoal_status shoali_question_compute(const shoal_predict_desc *desc,
                                     const shoali_dimension *dimensions, uint32_t dimension_count,
                                     shoali_question *question_out)
{
    *question_out = (shoali_question){.desc = *desc};
    shoal_status status = open_compute(question_out, dimensions, dimension_count);
    if (status != SHOAL_OK)
        shoali_question_close(question_out);
    return status;
}

shoal_status shoali_question_again(const shoali_question *base, const shoal_predict_desc *desc,
                                   shoali_question *out)
{
    *out = (shoali_question){.desc = *desc,
                             .model = base->model,
                             .cluster = base->cluster,
                             .memo = base->memo,
                             .borrowed = true,
                             .language = base->language,
                             .blocks = base->blocks,
                             .transformer = base->transformer};
    shoal_status status = open_ways(out);
    if (status == SHOAL_OK)
        status = fill_defaults(out);
    if (status == SHOAL_OK)
        status = check_sizes(out);
    if (status != SHOAL_OK)
        shoali_question_close(out);
    return status;
}

void shoali_question_close(shoali_question *q)
{
    if (!q->borrowed) {
        shoal_model_close(q->model);
        shoali_cluster_close(q->cluster);
    }
    if (q->collective.row != NULL)
        shoali_collective_close(&q->collective);
    shoal_codec_close(q->codec);
    shoal_partition_destroy(q->plan);
    *q = (shoali_question){0};
}
