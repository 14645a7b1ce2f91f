/* SPDX-License-Identifier: Apache-2.0 */
/* No predicted exchange is faster than the bytes that must cross a NIC: 500 clusters, models and
 * layouts drawn by seed. Of a part of the model whose replicas are on several hosts, each host has
 * to send what its own replicas contribute, and to receive what the others do, whatever the
 * collective; and of tensor groups over several hosts their activations. */
#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "shoal/codec.h"
#include "shoal/model.h"
#include "shoal/predict.h"
#include "support/check.h"

enum { CASES = 500, HOSTS = 8, PER_HOST = 8, TRIES = 100000 };

typedef struct host {
    uint32_t workers;
    double up_bytes_s, down_bytes_s;
} host;

typedef struct drawn {
    host hosts[HOSTS];
    uint32_t host_count, workers;
    shoal_predict_desc desc;
    bool language;
    uint32_t blocks;
    double block_params, width, length; /* of a block; of what a token is; tokens */
    char path[64];
} drawn;

static const char *const models[] = {"lenet", "mlp",          "cnn",          "vgg-a",
                                     "gpt-3", "megatron-22b", "megatron-175b"};
static const char *const collectives[] = {NULL,     "ring",   "halving_doubling",
                                          "direct", "gather", "worker_aggregator"};
static const char *const codecs[] = {NULL, "fp16", "int8", "eden:bits=4", "topk", "terngrad"};

static uint64_t below(shoali_rng *rng, uint64_t bound)
{
    return shoali_rng_next(rng) % bound;
}

/* ---------------------------------------------------------------- drawing */

static double draw_rate(shoali_rng *rng)
{
    return 12.5e6 * pow(10, 3.5 * shoali_rng_next_double(rng)); /* 100 Mbit/s to 316 Gbit/s */
}

/* Equal hosts, half of them with dimensions that say the same; or each as it is. */
static void draw_hosts(drawn *d, shoali_rng *rng, bool equal)
{
    d->host_count = (uint32_t)(1 + below(rng, HOSTS));
    d->workers = 0;
    for (uint32_t h = 0; h < d->host_count; h++) {
        const double up = draw_rate(rng);
        d->hosts[h] = (host){(uint32_t)(1 + below(rng, PER_HOST)), up,
                             below(rng, 2) == 0 ? up : draw_rate(rng)};
        if (equal)
            d->hosts[h] = d->hosts[0];
        if (equal)
            d->hosts[h].down_bytes_s = d->hosts[h].up_bytes_s;
        d->workers += d->hosts[h].workers;
    }
}

static void write_cluster(drawn *d, shoali_rng *rng, bool dimensions)
{
    snprintf(d->path, sizeof d->path, "/tmp/shoal-bounds-XXXXXX.json");
    const int fd = mkstemps(d->path, 5);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "{\"name\": \"drawn\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e14, "
               "\"memory_rate\": \"1000GB/s\"}], \"hosts\": [");
    for (uint32_t h = 0; h < d->host_count; h++)
        fprintf(f,
                "%s{\"workers\": %u, \"nic\": \"%.17gB/s\", \"nic_down\": \"%.17gB/s\", "
                "\"latency_us\": %u, \"loss\": %.3f}",
                h > 0 ? ", " : "", d->hosts[h].workers, d->hosts[h].up_bytes_s,
                d->hosts[h].down_bytes_s, (unsigned)below(rng, 100),
                dimensions ? 0 : 0.01 * (double)below(rng, 5));
    fprintf(f, "]");
    if (dimensions)
        fprintf(f,
                ", \"dimensions\": [{\"topology\": \"fc:%u\", \"rate\": \"300GB/s\"}, "
                "{\"topology\": \"switch:%u\"}]",
                d->hosts[0].workers, d->host_count);
    else if (d->host_count > 1 && below(rng, 3) == 0) /* a pair may be said to be faster */
        fprintf(f, ", \"links\": [{\"from\": 0, \"to\": 1, \"rate\": \"%.17gB/s\"}]",
                draw_rate(rng));
    fprintf(f, ", \"overhead\": {\"payload_share\": %.3f}}", 0.9 + 0.001 * (double)below(rng, 101));
    assert_int_equal(fclose(f), 0);
}

static void describe_model(drawn *d)
{
    shoal_model *model;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    assert_ok(shoal_model_open(d->desc.model, &model));
    assert_ok(shoal_model_describe(model, &info));
    d->blocks = 0;
    for (uint32_t i = 0; i < info.layer_count; i++) {
        shoal_layer_info layer = SHOAL_LAYER_INFO_INIT;
        assert_ok(shoal_model_layer(model, i, &layer));
        if (strcmp(layer.kind, "transformer") != 0)
            continue;
        d->blocks++;
        d->block_params = (double)layer.param_count;
        d->width = layer.out.channels;
        d->length = (double)layer.out.height * layer.out.width;
    }
    d->language = d->blocks > 0;
    shoal_model_close(model);
}

static uint32_t draw_power(shoali_rng *rng, uint32_t most)
{
    return UINT32_C(1) << below(rng, most + 1);
}

static void draw_layout(drawn *d, shoali_rng *rng)
{
    shoal_predict_desc *p = &d->desc;
    p->workers = d->workers;
    p->batch = draw_power(rng, 3);
    p->tensor = d->language ? draw_power(rng, 4) : 1;
    p->pipeline = d->language ? draw_power(rng, 2) : 1;
    p->microbatch = p->pipeline > 1 ? 1 : p->batch;
    p->collective = collectives[below(rng, sizeof collectives / sizeof *collectives)];
    p->codec = codecs[below(rng, sizeof codecs / sizeof *codecs)];
    p->bucket_bytes = (size_t)1 << (18 + below(rng, 8));
    p->no_overlap = below(rng, 3) == 0;
    p->sequence = d->language && p->tensor > 1 && below(rng, 2) == 0;
    if (p->codec == NULL && below(rng, 3) == 0)
        p->zero = (uint32_t)below(rng, p->pipeline > 1 ? 2 : 4);
}

static void draw(drawn *d, shoali_rng *rng)
{
    const bool dimensions = below(rng, 4) == 0;
    *d = (drawn){.desc = SHOAL_PREDICT_DESC_INIT};
    draw_hosts(d, rng, dimensions || below(rng, 2) == 0);
    write_cluster(d, rng, dimensions);
    d->desc.cluster = d->path;
    d->desc.model = models[below(rng, sizeof models / sizeof *models)];
    describe_model(d);
    draw_layout(d, rng);
}

/* ---------------------------------------------------------------- bounds */

static uint32_t host_of(const drawn *d, uint32_t rank)
{
    uint32_t h = 0;
    for (; rank >= d->hosts[h].workers; h++)
        rank -= d->hosts[h].workers;
    return h;
}

/* Whether a group has a member on the host and one that is elsewhere. */
static bool crosses(const drawn *d, uint32_t first, uint32_t stride, uint32_t size, uint32_t h)
{
    bool here = false, elsewhere = false;
    for (uint32_t i = 0; i < size; i++) {
        const bool on = host_of(d, first + i * stride) == h;
        here = here || on;
        elsewhere = elsewhere || !on;
    }
    return here && elsewhere;
}

static double slowest_way(const host *h)
{
    return fmin(h->up_bytes_s, h->down_bytes_s);
}

/* Seconds in which the gradients of the parts with replicas elsewhere cross the NIC that they take
 * longest for. Ranks: tensor groups inside, then replicas, then stages. */
static double gradients_bound(const drawn *d, const shoal_prediction *p)
{
    shoal_codec *codec;
    double worst = 0;
    assert_ok(shoal_codec_open(d->desc.codec != NULL ? d->desc.codec : "identity", &codec));
    const double bytes = shoal_codec_bytes_per_elem(codec, 1) * (d->language ? 0.5 : 1);
    shoal_codec_close(codec);
    const double blocks = floor((double)d->blocks / p->pipeline);
    const double part = (d->language ? blocks * d->block_params : p->params) / p->tensor;
    for (uint32_t h = 0; h < d->host_count; h++) {
        double parts = 0;
        for (uint32_t stage = 0; stage < p->pipeline; stage++)
            for (uint32_t t = 0; t < p->tensor; t++)
                parts += crosses(d, stage * p->data * p->tensor + t, p->tensor, p->data, h);
        worst = fmax(worst, parts * part * bytes / slowest_way(&d->hosts[h]));
    }
    return worst;
}

/* The same of what tensor groups sum: twice forward and twice backward in each block. */
static double tensor_bound(const drawn *d, const shoal_prediction *p)
{
    const double blocks = floor((double)d->blocks / p->pipeline);
    const double each = 4 * blocks * d->desc.batch * d->length * d->width * 2;
    double worst = 0;
    for (uint32_t h = 0; d->language && h < d->host_count; h++) {
        double groups = 0;
        for (uint32_t stage = 0; stage < p->pipeline; stage++)
            for (uint32_t replica = 0; replica < p->data; replica++)
                groups += crosses(d, (stage * p->data + replica) * p->tensor, 1, p->tensor, h);
        worst = fmax(worst, groups * each / slowest_way(&d->hosts[h]));
    }
    return worst;
}

static void fail_on(const drawn *d, const shoal_prediction *p, const char *what, double told,
                    double bound)
{
    const shoal_predict_desc *q = &d->desc;
    fail_msg("%s on %u hosts, %u workers = %u x %u x %u, %s, %s, zero %u, batch %u: %s in %.6g s, "
             "and the bytes need %.6g (%s)",
             q->model, d->host_count, p->workers, p->data, p->tensor, p->pipeline,
             q->collective != NULL ? q->collective : "its own", q->codec != NULL ? q->codec : "-",
             q->zero, q->batch, what, told, bound, d->path);
}

static void no_exchange_is_faster_than_its_bytes(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    uint32_t answered = 0, crossing = 0, tensors = 0;
    for (uint32_t i = 0; i < TRIES && answered < CASES; i++) {
        drawn d;
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        draw(&d, &rng);
        const shoal_status status = shoal_predict(&d.desc, &p);
        if (status == SHOAL_OK) {
            const double gradients = gradients_bound(&d, &p), tensor = tensor_bound(&d, &p);
            if (p.exposed_s + p.hidden_s < gradients * (1 - 1e-9))
                fail_on(&d, &p, "gradients", p.exposed_s + p.hidden_s, gradients);
            if (p.tensor_s < tensor * (1 - 1e-9))
                fail_on(&d, &p, "tensor groups", p.tensor_s, tensor);
            answered++;
            crossing += gradients > 0;
            tensors += tensor > 0;
        } else {
            assert_true(status == SHOAL_EINVAL || status == SHOAL_ENOTSUP);
        }
        unlink(d.path);
    }
    assert_int_equal(answered, CASES);
    assert_true(crossing > CASES / 4 && tensors > CASES / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(no_exchange_is_faster_than_its_bytes)};
    return CHECK_RUN(tests);
}
