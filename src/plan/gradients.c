/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of gradients, cut as the protocols cut them (back to front, whole tensors or whole layers
 * until a bucket is full), and what each one's all-reduce costs by its schedule and codec. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/predict.h"

/* What coding costs that nobody measured: a pass over the floats at the speed of memory. */
static double codec_s(const shoali_question *q, const shoali_collective_cost *cost, double count,
                      double *ratio_out)
{
    *ratio_out = 4 / shoal_codec_bytes_per_elem(q->codec, 1);
    if ((shoal_codec_traits(q->codec) & SHOAL_CODEC_RAW_BYTES) != 0)
        return 0;
    double encode = q->cluster->accelerators[0].memory_bytes_per_s, decode = encode;
    for (uint32_t i = 0; i < q->cluster->codec_count; i++) {
        const shoali_codec_cost *codec = &q->cluster->codecs[i];
        if (strcmp(codec->spec, shoal_codec_spec(q->codec)) == 0) {
            encode = codec->encode_bytes_per_s;
            decode = codec->decode_bytes_per_s;
            *ratio_out = codec->ratio;
        }
    }
    double floats = 4 * count;
    return floats * (cost->encoded_share / encode + cost->decoded_share / decode);
}

/* On a cluster of dimensions, unless a collective is asked for, each dimension sums by the
 * algorithm that matches it, as in LIBRA. */
static bool is_matched(const shoali_question *q)
{
    return q->cluster->dimension_count > 0 && q->desc.collective == NULL;
}

static double link_s(const shoali_question *q, const shoali_collective_cost *cost,
                     shoali_group group, double count, double bytes_per_elem)
{
    if (is_matched(q)) {
        shoali_exchange_kind kind = q->desc.zero > 0 ? SHOALI_EXCHANGE_SHARDED
                                                     : SHOALI_EXCHANGE_ALL_REDUCE;
        return shoali_cost_exchange_s(q->cluster, group, kind, count * bytes_per_elem);
    }
    return shoali_cost_link_s(cost, count, bytes_per_elem, q->desc.chunk_elems) /
           q->cluster->overhead.payload_share;
}

static shoali_group replicas_of(const shoali_question *q, bool experts)
{
    uint32_t apart = experts ? q->desc.experts : 1;
    return (shoali_group){q->desc.tensor * apart, q->replicas / apart};
}

static shoali_bucket_time price(const shoali_question *q, const shoali_collective_cost *cost,
                                shoali_group group, double count)
{
    const shoali_overhead *o = &q->cluster->overhead;
    double ratio = 1, codec = codec_s(q, cost, count, &ratio);
    double bytes_per_elem = q->language ? q->desc.element_bytes / ratio : 4 / ratio;
    shoali_bucket_time b = {.codec_s = codec};
    if (group.size < 2)
        return b;
    b.link_s = link_s(q, cost, group, count, bytes_per_elem);
    b.cpu_s = codec + cost->moved_share * count * bytes_per_elem * o->cpu_s_per_byte;
    b.wait_s = is_matched(q) ? 0 : cost->latency_s + o->operation_s;
    b.sent_bytes = cost->sent_share * count * bytes_per_elem;
    return b;
}

/* ---------------------------------------------------------------- what was counted before */

typedef struct counted {
    char collective[96], codec[96];
    shoali_groups groups;
    bool shards;
    shoali_collective_cost cost;
} counted;

struct shoali_memo {
    uint32_t count;
    counted item[1024]; /* what comes when it is full is counted anew */
};

shoal_status shoali_question_remember(shoali_question *q, shoal_arena *arena)
{
    q->memo = shoali_arena_alloc(arena, sizeof *q->memo);
    return q->memo != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static bool is_same(const counted *a, const counted *b)
{
    return a->shards == b->shards && a->groups.count == b->groups.count &&
           a->groups.each.stride == b->groups.each.stride &&
           a->groups.each.size == b->groups.each.size &&
           strcmp(a->collective, b->collective) == 0 && strcmp(a->codec, b->codec) == 0;
}

static shoal_status count_exchange(const shoali_question *q, shoali_groups groups,
                                   shoali_collective_cost *out)
{
    /* what is not summed as codes nor left out inside sites counts the same whatever the codec */
    bool grows = (shoal_codec_traits(q->codec) & SHOAL_CODEC_SUMMABLE) != 0 ||
                 (q->collective.traits & SHOALI_COLL_SITES) != 0;
    const char *codec = grows ? shoal_codec_spec(q->codec) : "";
    counted key = {.groups = groups, .shards = q->desc.zero > 0};
    bool fits = q->memo != NULL && strlen(q->collective.spec) < sizeof key.collective &&
                strlen(codec) < sizeof key.codec;
    if (fits) {
        strcpy(key.collective, q->collective.spec);
        strcpy(key.codec, codec);
    }
    for (uint32_t i = 0; fits && i < q->memo->count; i++)
        if (is_same(&q->memo->item[i], &key)) {
            *out = q->memo->item[i].cost;
            return SHOAL_OK;
        }
    if (key.shards)
        SHOALI_TRY(shoali_cost_shards(q->cluster, &q->collective, groups, out));
    else
        SHOALI_TRY(shoali_cost_collective(q->cluster, &q->collective, groups, q->codec, out));
    key.cost = *out;
    if (fits && q->memo->count < sizeof q->memo->item / sizeof *q->memo->item)
        q->memo->item[q->memo->count++] = key;
    return SHOAL_OK;
}

shoal_status shoali_replicas_cost(const shoali_question *q, shoali_replicas *out)
{
    uint32_t apart = q->desc.tensor * q->desc.pipeline;
    *out = (shoali_replicas){0};
    for (int i = 0; i < (q->desc.experts > 1 ? 2 : 1); i++) {
        const shoali_groups groups = {replicas_of(q, i == 1),
                                      apart * (i == 1 ? q->desc.experts : 1)};
        shoali_collective_cost *cost = i == 1 ? &out->experts : &out->all;
        SHOALI_TRY(count_exchange(q, groups, cost));
    }
    return SHOAL_OK;
}

shoali_bucket_time shoali_replicas_exchange(const shoali_question *q,
                                            const shoali_replicas *replicas, double params,
                                            double expert_params)
{
    if (q->desc.experts < 2)
        return price(q, &replicas->all, replicas_of(q, false), params);
    shoali_bucket_time b = price(q, &replicas->all, replicas_of(q, false), params - expert_params);
    shoali_bucket_time e = {0};
    if (expert_params > 0)
        e = price(q, &replicas->experts, replicas_of(q, true), expert_params);
    return (shoali_bucket_time){.link_s = b.link_s + e.link_s,
                                .cpu_s = b.cpu_s + e.cpu_s,
                                .wait_s = b.wait_s + e.wait_s,
                                .codec_s = b.codec_s + e.codec_s,
                                .sent_bytes = b.sent_bytes + e.sent_bytes};
}

/* When the gradients of unit i are final, from the start of the pass. */
static double ready_of(const shoali_question *q, const shoali_unit *units, uint32_t count,
                       uint32_t i, double forward_s, double backward_s)
{
    const shoali_profile *profile = shoali_cluster_profile(q->cluster, q->desc.model,
                                                           q->desc.batch);
    uint32_t from_back = 0;
    double whole = 0, later = 0;
    for (uint32_t k = count; k-- > 0;) {
        double backward = shoali_time_sum(units[k].cost.backward);
        whole += backward;
        later += k >= i ? backward : 0;
        from_back += k >= i && units[k].cost.params > 0;
    }
    if (profile != NULL && from_back > 0 && from_back <= profile->ready_count)
        return profile->ready_s[from_back - 1] / profile->compute_s * (forward_s + backward_s);
    return forward_s + (whole > 0 ? later / whole : 1) * backward_s;
}

shoal_status shoali_gradient_buckets(const shoali_question *q, const shoali_unit *units,
                                     uint32_t count, double forward_s, double backward_s,
                                     shoal_arena *arena, shoali_bucket_time **out,
                                     uint32_t *count_out)
{
    shoali_replicas replicas;
    uint32_t used = 0;
    double open = 0, experts = 0;
    size_t full = q->desc.bucket_bytes / 4;
    shoali_bucket_time *buckets = shoali_arena_array(arena, count + 1, sizeof *buckets);
    if (buckets == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_replicas_cost(q, &replicas));
    for (uint32_t i = count; i-- > 0;) {
        open += units[i].cost.params;
        experts += units[i].cost.expert_params;
        if (open > 0 && (open >= (double)full || i == 0)) {
            buckets[used] = shoali_replicas_exchange(q, &replicas, open, experts);
            buckets[used++].ready_s = ready_of(q, units, count, i, forward_s, backward_s);
            open = experts = 0;
        }
    }
    if (used > 0 && !is_matched(q))
        buckets[used - 1].wait_s += fmax(replicas.all.tails_s, replicas.experts.tails_s);
    *out = buckets;
    *count_out = used;
    return SHOAL_OK;
}
