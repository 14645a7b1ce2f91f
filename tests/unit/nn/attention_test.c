/* SPDX-License-Identifier: Apache-2.0 */
/* A small LLaMA beside PyTorch's numbers in double (tests/support/llama_numbers.py); sequences
 * longer than a tile against the definition; what a later frame may not change. net_test.c
 * holds the layers against the double reference. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "nn/nn.h"
#include "support/llama_numbers.h"
#include "support/reference_net.h"

enum { VOCAB = 11, FRAMES = 7, COUNT = 2 };

static shoal_model *build(shoal_shape input, const char *const *layers, uint32_t count)
{
    shoal_model *model;
    const shoali_model_text text = {
        .name = "m", .input = input, .layers = layers, .layer_count = count};
    assert_ok(shoali_model_build("m", &text, false, &model));
    return model;
}

static float value_of(size_t i, float base)
{
    const double turn = (double)(i % 31);
    return (float)(0.5 * sin(0.9 * (double)i + 0.05 * turn * turn) + (double)base);
}

static shoal_model *make_llama(void)
{
    static const char block[] = "transformer:heads=4,kv=2,ff=20,theta=50,gated,bias=off";
    const char *const layers[] = {"embedding:vocab=11,width=16", block, block,
                                  "unembedding:vocab=11,norm=1,tied=off"};
    shoali_model_text text = {.name = "llama", .layers = layers, .layer_count = 4};
    text.input = (shoal_shape){1, FRAMES, 1};
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_model *model;
    assert_non_null(arena);
    assert_ok(shoali_model_parts("llama", arena, &text));
    assert_ok(shoali_model_build("llama", &text, false, &model));
    shoali_arena_destroy(arena);
    return model;
}

static void assert_close(double got, double want, double most, const char *what, size_t i)
{
    if (!(fabs(got - want) <= 1e-4 * most))
        fail_msg("%s %zu: %.9g, PyTorch has %.9g", what, i, got, want);
}

static void compare(shoali_net *net, const shoali_loss *loss)
{
    double most = 0;
    assert_close(loss->sum / COUNT, llama_loss, 1, "loss", 0);
    for (size_t i = 0; i < COUNT * VOCAB; i++) {
        const size_t at = ((i / VOCAB + 1) * FRAMES - 1) * VOCAB + i % VOCAB;
        assert_close(shoali_net_scores(net)[at], llama_scores[i], 1, "score", i);
    }
    const size_t kept = sizeof llama_grads / sizeof *llama_grads;
    assert_int_equal(kept, (LLAMA_PARAMS + LLAMA_EVERY - 1) / LLAMA_EVERY);
    for (size_t i = 0; i < kept; i++)
        most = fmax(most, fabs(llama_grads[i]));
    for (size_t i = 0; i < kept; i++)
        assert_close(shoali_net_grads(net)[i * LLAMA_EVERY], llama_grads[i], most, "gradient",
                     i * LLAMA_EVERY);
}

static void a_small_llama_is_pytorchs(void **state)
{
    float x[COUNT * FRAMES];
    uint32_t labels[COUNT * FRAMES];
    shoal_model *model = make_llama();
    shoali_net *net;
    shoali_loss loss;
    (void)state;
    assert_ok(shoali_net_create(model, COUNT, 1, &net));
    assert_int_equal(shoali_net_count(net), LLAMA_PARAMS);
    for (uint32_t t = 0; t < model->tensor_count; t++)
        for (size_t i = 0; i < model->tensors[t].count; i++) {
            const size_t at = model->tensors[t].offset + i;
            const bool scale = model->tensor_params[t].fill == SHOALI_FILL_ONE;
            shoali_net_params(net)[at] = value_of(at, scale ? 1 : 0);
        }
    for (uint32_t i = 0; i < COUNT * FRAMES; i++) {
        const uint32_t n = i / FRAMES, t = i % FRAMES;
        x[i] = (float)((5 * n + 3 * t * t + t) % VOCAB);
        labels[i] = (2 * n + 7 * t + 1) % VOCAB;
    }
    const shoali_batch batch = {.x = x, .labels = labels, .count = COUNT, .weight = 1};
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    compare(net, &loss);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

/* ---------------------------------------------------------------- long ones, ends, the future */

enum { LONG = 150, WIDTH = 8 };

typedef struct setting {
    shoal_model *model;
    shoali_net *net;
    float x[2 * LONG * WIDTH];
    uint32_t labels[2 * LONG], lengths[2];
    shoali_batch batch;
} setting;

static void open_long(const char *attention, setting *s)
{
    const char *const layers[] = {attention, "framewise:out=3"};
    *s = (setting){.lengths = {LONG, 131}};
    s->model = build((shoal_shape){1, LONG, WIDTH}, layers, 2);
    assert_ok(shoali_net_create(s->model, 2, 9, &s->net));
    for (size_t i = 0; i < (size_t)2 * LONG * WIDTH; i++)
        if (i / WIDTH < LONG + s->lengths[1])
            s->x[i] = (float)shoali_rng_normal(9, 1, i);
    for (size_t i = 0; i < (size_t)2 * LONG; i++)
        s->labels[i] = (uint32_t)shoali_rng_below(9, 2, i, 3);
    s->batch = (shoali_batch){
        .x = s->x, .labels = s->labels, .count = 2, .weight = 1, .lengths = s->lengths};
}

static void close_long(setting *s)
{
    shoali_net_destroy(s->net);
    shoal_model_close(s->model);
}

static double reference_of(const setting *s, const double *params)
{
    static double x[2 * LONG * WIDTH];
    for (size_t i = 0; i < (size_t)2 * LONG * WIDTH; i++)
        x[i] = (double)s->x[i];
    const reference_batch batch = {.x = x,
                                   .labels = s->labels,
                                   .count = 2,
                                   .weight = 1,
                                   .training = true,
                                   .lengths = s->lengths};
    return reference_loss(s->model, params, &batch, NULL);
}

/* A few gradients of each matrix: a tile is 64 frames. */
static void check_long(const char *attention)
{
    setting s;
    shoali_loss loss;
    double params[1024];
    open_long(attention, &s);
    assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss));
    assert_true(shoali_net_count(s.net) <= 1024);
    for (size_t i = 0; i < shoali_net_count(s.net); i++)
        params[i] = (double)shoali_net_params(s.net)[i];
    assert_true(fabs(loss.sum / 2 - reference_of(&s, params)) < 1e-5);
    for (uint32_t t = 0; t < s.model->tensor_count; t++)
        for (size_t k = 0; k < 3; k++) {
            const size_t at = s.model->tensors[t].offset + k * (s.model->tensors[t].count - 1) / 2;
            const double kept = params[at], h = 1e-5;
            params[at] = kept + h;
            const double up = reference_of(&s, params);
            params[at] = kept - h;
            const double down = reference_of(&s, params), want = (up - down) / (2 * h);
            params[at] = kept;
            if (!(fabs((double)shoali_net_grads(s.net)[at] - want) < 1e-5))
                fail_msg("%s, tensor %u: %g, wanted %g", attention, t,
                         (double)shoali_net_grads(s.net)[at], want);
        }
    close_long(&s);
}

static void sequences_longer_than_a_tile(void **state)
{
    (void)state;
    check_long("attention:heads=4,kv=2");
    check_long("attention:heads=2,causal=off,rope=off");
}

/* What lies behind a frame changes none of its scores. */
static void frames_do_not_see_the_future(void **state)
{
    setting s;
    shoali_loss loss;
    float before[100 * 3];
    (void)state;
    open_long("attention:heads=2", &s);
    assert_ok(shoali_net_evaluate(s.net, &s.batch, &loss));
    memcpy(before, shoali_net_scores(s.net), sizeof before);
    for (size_t i = (size_t)100 * WIDTH; i < (size_t)LONG * WIDTH; i++)
        s.x[i] += 1;
    assert_ok(shoali_net_evaluate(s.net, &s.batch, &loss));
    assert_memory_equal(before, shoali_net_scores(s.net), sizeof before);
    assert_true(memcmp(before, shoali_net_scores(s.net) + sizeof before / sizeof *before,
                       3 * sizeof *before) != 0);
    close_long(&s);
}

/* ---------------------------------------------------------------- one frame after the other */

typedef struct growing {
    shoal_model *model;
    shoali_net *net;
    float x[LONG];
    uint32_t labels[LONG];
} growing;

static void open_growing(const char *const *layers, uint32_t count, growing *g)
{
    *g = (growing){.model = build((shoal_shape){1, LONG, 1}, layers, count)};
    assert_ok(shoali_net_create(g->model, 1, 9, &g->net));
    for (size_t i = 0; i < LONG; i++)
        g->x[i] = (float)shoali_rng_below(9, 3, i, 7);
}

/* Scores of the last of `count` frames by a whole pass of another net. */
static void assert_as_a_whole(growing *g, uint32_t count)
{
    shoali_net *whole;
    shoali_loss loss;
    const shoali_batch batch = {
        .x = g->x, .labels = g->labels, .count = 1, .weight = 1, .lengths = &count};
    const float *got = shoali_net_scores(g->net) + (size_t)(count - 1) * 3;
    assert_ok(shoali_net_create(g->model, 1, 9, &whole));
    assert_ok(shoali_net_evaluate(whole, &batch, &loss));
    const float *want = shoali_net_scores(whole) + (size_t)(count - 1) * 3;
    for (size_t i = 0; i < 3; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("frame %u: %g, as a whole %g", count, (double)got[i], (double)want[i]);
    shoali_net_destroy(whole);
}

static const char *const grows[][8] = {
    {"lookup:vocab=7,width=8,frames", "rmsnorm", "attention:kv=2", "add:back=3", "rmsnorm",
     "swiglu:ff=9", "add:back=3", "framewise:out=3"},
    {"onehot:classes=7", "framewise:out=8", "gelu", "attention:heads=2", "tanh", "relu",
     "attention:heads=1", "framewise:out=3"},
    /* these see all frames, or go through them: they start anew */
    {"onehot:classes=7", "framewise:out=8", "attention:heads=2,causal=off", "framewise:out=8",
     "attention:heads=2", "silu", "attention:heads=2", "framewise:out=3"},
    {"onehot:classes=7", "framewise:out=8", "gru:out=8", "framewise:out=8", "attention:heads=2",
     "sigmoid", "attention:heads=2", "framewise:out=3"},
};

static void frames_that_come_one_by_one_give_the_same(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof grows / sizeof *grows; c++) {
        growing g;
        open_growing(grows[c], 8, &g);
        shoali_net_continue(g.net, g.x, 0, 70); /* beyond a tile */
        assert_as_a_whole(&g, 70);
        for (uint32_t t = 71; t < 75; t++) {
            shoali_net_continue(g.net, g.x, t - 1, t);
            assert_as_a_whole(&g, t);
        }
        shoali_net_continue(g.net, g.x, 74, LONG); /* several at once */
        assert_as_a_whole(&g, LONG);
        g.x[20] = 6 - g.x[20]; /* from here on others, and fewer */
        shoali_net_continue(g.net, g.x, 20, 30);
        assert_as_a_whole(&g, 30);
        shoali_net_destroy(g.net);
        shoal_model_close(g.model);
    }
}

/* What another pass has left is nothing to go on from. */
static void other_passes_are_not_gone_on_from(void **state)
{
    growing g;
    shoali_loss loss;
    float other[LONG] = {0};
    const shoali_batch batch = {.x = other, .labels = g.labels, .count = 1, .weight = 1};
    (void)state;
    open_growing(grows[0], 8, &g);
    shoali_net_continue(g.net, g.x, 0, 40);
    assert_ok(shoali_net_evaluate(g.net, &batch, &loss));
    shoali_net_continue(g.net, g.x, 40, 41);
    assert_as_a_whole(&g, 41);
    shoali_net_destroy(g.net);
    shoal_model_close(g.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_llama_is_pytorchs),
        cmocka_unit_test(sequences_longer_than_a_tile),
        cmocka_unit_test(frames_do_not_see_the_future),
        cmocka_unit_test(frames_that_come_one_by_one_give_the_same),
        cmocka_unit_test(other_passes_are_not_gone_on_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
