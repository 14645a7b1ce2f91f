/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that every way of splitting a language model keeps: 300 layouts drawn by seed. Parts add up
 * to the step, and memory's parts to the memory; keys and values take as long as the bytes that
 * must come to each worker; and what a worker computes and keeps falls as the degree rises. */
#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "shoal/predict.h"
#include "support/check.h"

enum { CASES = 300, WIDTH = 2048, HEADS = 16, GROUPS = 4, BLOCKS = 8, LENGTH = 8192 };
#define HOST_RATE 20e9 /* bytes per second */

typedef struct drawn {
    char cluster[64], model[64];
    double rate; /* of all links, bytes per second */
    shoal_predict_desc desc;
} drawn;

static uint32_t power(shoali_rng *rng, uint32_t most)
{
    return UINT32_C(1) << (shoali_rng_next(rng) % (most + 1));
}

static void write_text(char *path, const char *text)
{
    strcpy(path, "/tmp/shoal-ways-XXXXXX.json");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void draw(drawn *d, shoali_rng *rng)
{
    char text[1024];
    d->rate = 1e9 * pow(10, 2.5 * shoali_rng_next_double(rng));
    snprintf(text, sizeof text,
             "{\"name\": \"drawn\", \"accelerators\": [{\"name\": \"a\", \"flops\": 3e14, "
             "\"vector_flops\": 7e13, \"memory\": 8e10, \"memory_rate\": \"2000GB/s\", "
             "\"host_rate\": \"20GB/s\"}], "
             "\"dimensions\": [{\"topology\": \"fc:8\", \"rate\": \"%.17gB/s\"}, {\"topology\": "
             "\"switch:16\", \"rate\": \"%.17gB/s\"}]}",
             d->rate, d->rate);
    write_text(d->cluster, text);
    snprintf(text, sizeof text,
             "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
             "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"vocab_size\": 32000, "
             "\"intermediate_size\": 5504, \"max_position_embeddings\": %d}",
             WIDTH, BLOCKS, HEADS, GROUPS, LENGTH);
    write_text(d->model, text);
    d->desc = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
    d->desc.cluster = d->cluster;
    d->desc.model = d->model;
    d->desc.tensor = power(rng, 2);
    d->desc.sequence = d->desc.tensor > 1 && shoali_rng_next(rng) % 2 == 0;
    d->desc.pipeline = power(rng, 1);
    d->desc.context = power(rng, 3);
    d->desc.workers = d->desc.tensor * d->desc.pipeline * d->desc.context * power(rng, 1);
    d->desc.batch = 8;
    d->desc.microbatch = power(rng, 1);
    d->desc.flash = shoali_rng_next(rng) % 2 == 0;
    d->desc.recompute = (shoal_recompute)(shoali_rng_next(rng) % 3);
    d->desc.no_overlap = shoali_rng_next(rng) % 2 == 0;
    d->desc.offload = (uint32_t)(shoali_rng_next(rng) % 4);
    d->desc.zero = (uint32_t)(shoali_rng_next(rng) % (d->desc.pipeline > 1 ? 2 : 4));
    if (d->desc.flash && d->desc.recompute == SHOAL_RECOMPUTE_SELECTIVE)
        d->desc.recompute = SHOAL_RECOMPUTE_NONE;
}

static void drop(const drawn *d)
{
    (void)unlink(d->cluster);
    (void)unlink(d->model);
}

static shoal_prediction ask(const shoal_predict_desc *desc)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    assert_ok(shoal_predict(desc, &p));
    return p;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void check_sums(const shoal_prediction *p)
{
    double parts = p->forward_s + p->backward_s + p->recompute_s + p->update_s + p->tensor_s +
                   p->tensor_again_s + p->experts_s + p->context_s + p->offload_s + p->pipeline_s +
                   p->exposed_s + p->bubble_s + p->straggler_s + p->other_s;
    const shoal_causes *c = &p->causes;
    double causes = c->matrix + c->vector + c->memory + c->network + c->fixed;
    assert_true(is_near(parts, p->iteration_s) && is_near(causes, p->iteration_s));
    assert_true(is_near(p->memory_bytes, p->weight_bytes + p->gradient_bytes + p->state_bytes +
                                             p->activation_bytes + p->buffer_bytes));
    assert_true(p->low_s <= p->iteration_s && p->iteration_s <= p->high_s);
}

/* Each worker computes for 1 / c of the tokens: keys and values of the others come to it, forward
 * and once more backward (and where they are made again), gradients of its own from the others. */
static void check_bytes(const drawn *d, const shoal_prediction *p)
{
    const shoal_predict_desc *q = &d->desc;
    double c = q->context, blocks = (double)BLOCKS / q->pipeline;
    double others = 2.0 * GROUPS * (WIDTH / (double)HEADS) / q->tensor * LENGTH * (c - 1) / c * 2;
    double again = q->recompute == SHOAL_RECOMPUTE_NONE ? 0 : 1;
    double least = others * (3 + again) * blocks * q->batch / d->rate;
    if (q->no_overlap && p->context_s < least * (1 - 1e-9))
        fail_msg("context %u: %.9g s for what takes %.9g", q->context, p->context_s, least);
    if (q->context == 1)
        assert_true(p->context_s == 0);
}

static void rules_of_any_layout(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int i = 0; i < CASES; i++) {
        drawn d;
        draw(&d, &rng);
        shoal_prediction p = ask(&d.desc);
        check_sums(&p);
        check_bytes(&d, &p);
        assert_int_equal(p.workers, p.data * p.tensor * p.pipeline * p.context);
        assert_int_equal(p.context, d.desc.context);
        drop(&d);
    }
}

/* Twice the workers for the same samples: half of what is computed for them and kept of them; the
 * same weights, each with one more copy. */
static void twice_the_context(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int i = 0; i < 60; i++) {
        drawn d;
        draw(&d, &rng);
        d.desc.offload = 0;
        shoal_prediction one = ask(&d.desc);
        d.desc.context *= 2;
        d.desc.workers *= 2;
        if (d.desc.workers <= 128) {
            shoal_prediction two = ask(&d.desc);
            assert_true(is_near(two.activation_bytes, one.activation_bytes / 2));
            assert_true(two.forward_s < one.forward_s && two.backward_s < one.backward_s);
            assert_true(two.gradient_bytes <= one.gradient_bytes);
            if (d.desc.zero < 3)
                assert_true(is_near(two.weight_bytes, one.weight_bytes));
            if (d.desc.zero > 0)
                assert_true(is_near(two.state_bytes, one.state_bytes / 2));
            assert_true(two.sent_bytes >= one.sent_bytes);
            assert_int_equal(two.data, one.data);
        }
        drop(&d);
    }
}

/* Less to hold, never a shorter step, and no faster than the bytes that must go and come: state
 * down and up once a step, what the blocks keep once each way beside their passes. */
static void check_offloading(shoal_predict_desc q)
{
    q.offload = 0;
    shoal_prediction here = ask(&q);
    q.offload = SHOAL_OFFLOAD_STATE;
    shoal_prediction state = ask(&q);
    q.offload = SHOAL_OFFLOAD_ACTIVATIONS;
    shoal_prediction kept = ask(&q);
    q.offload = SHOAL_OFFLOAD_STATE | SHOAL_OFFLOAD_ACTIVATIONS;
    shoal_prediction both = ask(&q);
    double passes = kept.forward_s + kept.backward_s + kept.recompute_s + kept.tensor_s +
                    kept.tensor_again_s + kept.context_s;
    assert_true(state.state_bytes < here.state_bytes);
    assert_true(is_near(state.activation_bytes, here.activation_bytes));
    assert_true(kept.activation_bytes <= here.activation_bytes);
    assert_true(is_near(kept.state_bytes, here.state_bytes));
    assert_true(is_near(both.offload_s, state.offload_s + kept.offload_s));
    assert_true(both.iteration_s >= here.iteration_s * (1 - 1e-12));
    assert_true(state.update_s + state.offload_s >= here.state_bytes / HOST_RATE * (1 - 1e-9));
    if (q.recompute == SHOAL_RECOMPUTE_NONE) { /* all blocks' and one's at work */
        double away = here.activation_bytes * BLOCKS / (BLOCKS + 1);
        assert_true(kept.activation_bytes < here.activation_bytes);
        assert_true(kept.offload_s + passes >= 2 * away / HOST_RATE * (1 - 1e-9));
    }
}

static void offloading(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    for (int i = 0; i < 100; i++) {
        drawn d;
        draw(&d, &rng);
        d.desc.pipeline = 1;
        d.desc.workers = d.desc.tensor * d.desc.context;
        d.desc.microbatch = d.desc.batch;
        d.desc.no_head = true;
        check_offloading(d.desc);
        drop(&d);
    }
}

static void refused(shoal_predict_desc desc, const char *text)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    assert_status(shoal_predict(&desc, &p), SHOAL_EINVAL);
    assert_error_has(text);
}

static void what_does_not_go_together(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    drawn d;
    draw(&d, &rng);
    shoal_predict_desc q = SHOAL_PREDICT_DESC_INIT;
    q.model = d.model;
    q.cluster = d.cluster;
    q.context = 3;
    q.workers = 12;
    refused(q, "context 3 does not divide a length of 8192");
    q.context = 2;
    q.sync = "diloco";
    refused(q, "context 2 needs gradients summed");
    q.sync = NULL;
    q.context = 1;
    q.offload = SHOAL_OFFLOAD_STATE;
    q.cluster = SHOAL_SOURCE_DIR "/examples/clusters/a100-80g.json";
    refused(q, "offload needs host_rate of accelerator a100-80g");
    q.cluster = d.cluster;
    q.offload = 4;
    refused(q, "neither optimizer nor activations");
    q.offload = 0;
    q.workers = 12;
    q.context = 2;
    q.model = "lenet";
    refused(q, "context and expert parallelism");
    q.model = d.model;
    q.workers = 5;
    refused(q, "5 workers are no multiple of tensor 1 x pipeline 1 x context 2");
    drop(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(rules_of_any_layout),
                                       CHECK_TEST(twice_the_context), CHECK_TEST(offloading),
                                       CHECK_TEST(what_does_not_go_together)};
    return CHECK_RUN(tests);
}
