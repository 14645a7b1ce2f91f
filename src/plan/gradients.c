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

static double link_s(const shoali_question *q, const shoali_collective_cost *cost, double count,
                     double bytes_per_elem)
{
    if (is_matched(q)) {
        shoali_group group = {q->desc.tensor, q->data};
        return shoali_cost_exchange_s(q->cluster, group, SHOALI_EXCHANGE_ALL_REDUCE,
                                      count * bytes_per_elem);
    }
    return shoali_cost_link_s(cost, count, bytes_per_elem, q->desc.chunk_elems) /
           q->cluster->overhead.payload_share;
}

static shoali_bucket_time price(const shoali_question *q, const shoali_collective_cost *cost,
                                double count, double ready_s)
{
    const shoali_overhead *o = &q->cluster->overhead;
    double ratio = 1, codec = codec_s(q, cost, count, &ratio);
    double bytes_per_elem = q->language ? q->desc.element_bytes / ratio : 4 / ratio;
    shoali_bucket_time b = {.ready_s = ready_s, .codec_s = codec};
    b.link_s = link_s(q, cost, count, bytes_per_elem);
    b.cpu_s = codec + cost->moved_share * count * bytes_per_elem * o->cpu_s_per_byte;
    b.wait_s = is_matched(q) ? 0 : cost->latency_s + o->operation_s;
    b.sent_bytes = cost->sent_share * count * bytes_per_elem;
    return b;
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
    shoali_collective_cost cost;
    uint32_t used = 0;
    double open = 0;
    size_t full = q->desc.bucket_bytes / 4;
    shoali_bucket_time *buckets = shoali_arena_array(arena, count + 1, sizeof *buckets);
    if (buckets == NULL)
        return SHOAL_ENOMEM;
    const shoali_groups groups = {{q->desc.tensor, q->data}, q->desc.tensor * q->desc.pipeline};
    SHOALI_TRY(shoali_cost_collective(q->cluster, &q->collective, groups, q->codec, &cost));
    for (uint32_t i = count; i-- > 0;) {
        open += units[i].cost.params;
        if (open > 0 && (open >= (double)full || i == 0)) {
            double ready = ready_of(q, units, count, i, forward_s, backward_s);
            buckets[used++] = price(q, &cost, open, ready);
            open = 0;
        }
    }
    *out = buckets;
    *count_out = used;
    return SHOAL_OK;
}
