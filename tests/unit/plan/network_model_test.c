/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads made from models take the step that `shoal predict` says, on the same network: 80
 * models, layouts and rates drawn by seed, without overlap, latencies and starts. */
#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "plan/network.h"
#include "support/check.h"

typedef struct drawn {
    char cluster[64], model[64], network[64];
    uint32_t size[3];
    double rate[3]; /* GB/s */
    shoal_predict_desc desc;
} drawn;

static uint32_t power(shoali_rng *rng, uint32_t most)
{
    return UINT32_C(1) << (shoali_rng_next(rng) % (most + 1));
}

static void write_text(char *path, const char *text)
{
    strcpy(path, "/tmp/shoal-network-XXXXXX.json");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void write_files(drawn *d, shoali_rng *rng)
{
    char text[1024];
    for (int i = 0; i < 3; i++) {
        d->size[i] = 2 * power(rng, 2);
        d->rate[i] = 1 + 400 * shoali_rng_next_double(rng);
    }
    snprintf(d->network, sizeof d->network, "ring:%u, fc:%u, switch:%u", d->size[0], d->size[1],
             d->size[2]);
    snprintf(text, sizeof text,
             "{\"name\": \"drawn\", \"accelerators\": [{\"name\": \"a\", \"flops\": 3e14, "
             "\"vector_flops\": 7e13, \"memory_rate\": \"2000GB/s\"}], \"dimensions\": ["
             "{\"topology\": \"ring:%u\", \"rate\": \"%.17gGB/s\"}, "
             "{\"topology\": \"fc:%u\", \"rate\": \"%.17gGB/s\"}, "
             "{\"topology\": \"switch:%u\", \"rate\": \"%.17gGB/s\"}]}",
             d->size[0], d->rate[0], d->size[1], d->rate[1], d->size[2], d->rate[2]);
    write_text(d->cluster, text);
    write_text(d->model, "{\"model_type\": \"mixtral\", \"hidden_size\": 1024, "
                         "\"num_hidden_layers\": 8, \"num_attention_heads\": 16, \"vocab_size\": "
                         "32000, \"max_position_embeddings\": 2048, \"intermediate_size\": 3584, "
                         "\"num_local_experts\": 8, \"num_experts_per_tok\": 2}");
}

/* Stages on the last dimension, so that all of them are as far from their next one. */
static void draw(drawn *d, shoali_rng *rng)
{
    static const char *const models[] = {"megatron-22b", "gpt-3", "vgg-a"};
    uint64_t model = shoali_rng_next(rng) % 4;
    write_files(d, rng);
    d->desc = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
    d->desc.cluster = d->cluster;
    d->desc.model = model < 3 ? models[model] : d->model;
    d->desc.tensor = power(rng, 3);
    d->desc.batch = 32;
    d->desc.no_overlap = true;
    if (model == 2)
        return;
    d->desc.no_head = true;
    d->desc.microbatch = power(rng, 2);
    d->desc.recompute = (shoal_recompute)(shoali_rng_next(rng) % 3);
    d->desc.sequence = d->desc.tensor > 1 && shoali_rng_next(rng) % 2 == 0;
    d->desc.pipeline = shoali_rng_next(rng) % 2 == 0 ? 1 : power(rng, 1);
    d->desc.zero = d->desc.pipeline > 1 ? 0 : (uint32_t)(shoali_rng_next(rng) % 4);
    if (model == 3)
        d->desc.experts = power(rng, 2);
    if (d->desc.pipeline > 1 && shoali_rng_next(rng) % 2 == 0)
        d->desc.interleave = 2;
}

static bool compare(const drawn *d)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    shoal_network_job job = {NULL, NULL, 1, &d->desc};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network *net = NULL;
    desc.network = d->network;
    desc.jobs = &job;
    desc.job_count = 1;
    if (shoal_predict(&d->desc, &p) != SHOAL_OK) {
        assert_status(shoal_network_open(&desc, &net), SHOAL_EINVAL);
        return false;
    }
    assert_ok(shoal_network_open(&desc, &net));
    double got = 1e-9 * shoal_network_time(net, 0, d->rate);
    if (!(fabs(got - p.iteration_s) <= 1e-9 * p.iteration_s))
        fail_msg("%s on %s, tensor %u, pipeline %u, zero %u, experts %u, interleave %u: network "
                 "%.12g s, predicted %.12g s",
                 d->desc.model, d->network, d->desc.tensor, d->desc.pipeline, d->desc.zero,
                 d->desc.experts, d->desc.interleave, got, p.iteration_s);
    shoal_network_close(net);
    return true;
}

static void as_predicted(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    int compared = 0;
    for (int trial = 0; trial < 80; trial++) {
        drawn d;
        draw(&d, &rng);
        compared += compare(&d);
        (void)unlink(d.cluster);
        (void)unlink(d.model);
    }
    assert_true(compared > 40);
}

static shoal_status open_with(shoal_predict_desc *model, const char *groups)
{
    shoal_network_job job = {NULL, groups, 1, model};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network *net = NULL;
    desc.network = "ring:4, switch:8";
    desc.jobs = &job;
    desc.job_count = 1;
    shoal_status status = shoal_network_open(&desc, &net);
    shoal_network_close(net);
    return status;
}

static void what_is_refused(void **state)
{
    (void)state;
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    d.model = "megatron-22b";
    assert_status(open_with(&d, NULL), SHOAL_EINVAL);
    assert_error_has("needs a cluster file");
    d.cluster = SHOAL_SOURCE_DIR "/examples/clusters/a100-80g.json";
    assert_ok(open_with(&d, NULL));
    assert_status(open_with(&d, "tp=4"), SHOAL_EINVAL);
    assert_error_has("leave 'tp=4' out");
    d.tensor = 64;
    assert_status(open_with(&d, NULL), SHOAL_EINVAL);
    assert_error_has("32 workers");
    d.tensor = 4;
    d.codec = "fp16";
    assert_status(open_with(&d, NULL), SHOAL_EINVAL);
    assert_error_has("codec out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(as_predicted), CHECK_TEST(what_is_refused)};
    return CHECK_RUN(tests);
}
