/* SPDX-License-Identifier: Apache-2.0 */
/* Models in fixed point against the same ones in float32: how far scores are off, with 16 bits and
 * with 12; sequences in one piece and frame by frame; what has no form is refused by name. */
#include "nn/fixed_net.h"

#include <math.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "nn/nn.h"
#include "support/check.h"

enum { FRAMES = 9, LAYERS = 6 };

typedef struct fixed_case {
    shoal_shape input;
    const char *layers[LAYERS];
} fixed_case;

static const fixed_case cases[] = {
    {{20, 1, 1}, {"dense:out=30", "relu", "dense:out=7"}},
    {{24, 1, 1}, {"circulant:out=40,block=8", "tanh", "dropout", "dense:out=5,bias=off"}},
    {{2, 5, 4}, {"flatten", "circulant:out=33,block=4", "relu", "circulant:out=9,block=2"}},
    {{1, FRAMES, 13}, {"lstm:out=24,k=8", "framewise:out=6"}},
    {{1, FRAMES, 13},
     {"lstm:out=24,proj=11,peephole,kx=4,kr=8,ky=2,direction=both,merge=concat",
      "gru:out=16,k=4,direction=backward", "framewise:out=6,k=2"}},
    {{1, FRAMES, 10}, {"gru:out=32,k=16,direction=both", "framewise:out=6"}},
    {{1, FRAMES, 12}, {"lstm:out=18,gate=sigmoid,direction=both", "framewise:out=5", "ctc"}},
    {{1, FRAMES, 1}, {"onehot:classes=7", "lstm:out=16,k=4", "framewise:out=7"}},
    {{3, 8, 8}, {"conv:out=6,kernel=3,pad=1", "relu", "maxpool", "flatten", "dense:out=5"}},
    {{8, 6, 7},
     {"circulant_conv:out=12,kernel=3,block=4,stride=2,pad=1", "tanh", "avgpool:kernel=2,ceil=on",
      "circulant:out=6,block=2"}},
    {{5, 7, 6}, /* blocks that channels do not fill */
     {"circulant_conv:out=10,kernel=2,block=4,bias=off", "relu", "maxpool:kernel=3,stride=2,pad=1",
      "conv:out=4,kernel=1", "avgpool:kernel=3", "dense:out=3"}},
};

static shoal_model *model_of(const fixed_case *c)
{
    shoali_model_text text = {.name = "case", .input = c->input, .layers = c->layers};
    shoal_model *model = NULL;
    while (text.layer_count < LAYERS && c->layers[text.layer_count] != NULL)
        text.layer_count++;
    assert_ok(shoali_model_build("case", &text, false, &model));
    return model;
}

/* One sample, its frames and labels. */
typedef struct sample {
    float x[FRAMES * 40];
    uint32_t labels[FRAMES];
    int16_t words[FRAMES * 40], scores[FRAMES * 40];
    int32_t memory[4096];
    int16_t halves[4096];
} sample;

static void draw_sample(const shoal_model *model, uint64_t stream, sample *s)
{
    const bool tokens = strcmp(model->layers[0].row->name, "onehot") == 0;
    for (uint32_t i = 0; i < shoali_shape_elems(model->input); i++)
        s->x[i] = tokens ? (float)shoali_rng_below(check_seed(), stream, i, 7)
                         : (float)shoali_rng_normal(check_seed(), stream, i);
    memset(s->labels, 0, sizeof s->labels);
}

static void run_fixed(const shoali_fixed_model *f, sample *s, uint32_t frames, bool pieces)
{
    uint64_t words = 0, halves = 0;
    shoali_fixed_quantise(s->x, (size_t)frames * f->in, f->in_frac, f->net.bits, s->words);
    shoali_fixed_sizes(&f->net, frames, &words, &halves);
    assert_true(words <= 4096 && halves <= 4096);
    shoali_fixed_reset(&f->net, s->memory, s->halves);
    for (uint32_t t = 0; pieces && t < frames; t++)
        shoali_fixed_run(&f->net, s->words + (size_t)t * f->in, 1, s->scores + (size_t)t * f->out,
                         s->memory, s->halves);
    if (!pieces)
        shoali_fixed_run(&f->net, s->words, frames, s->scores, s->memory, s->halves);
}

/* Largest difference from the float scores over their largest magnitude. */
static double deviation(const fixed_case *c, uint32_t bits, bool pieces)
{
    enum { SAMPLES = 4 };
    static sample samples[SAMPLES];
    shoal_model *model = model_of(c);
    shoali_net *net = NULL;
    shoali_fixed_model *fixed = NULL;
    float most[LAYERS + 1] = {0};
    double off = 0, largest = 0;
    assert_ok(shoali_net_create(model, 1, 3, &net));
    for (int i = 0; i < SAMPLES; i++) {
        draw_sample(model, (uint64_t)i, &samples[i]);
        const shoali_batch batch = {samples[i].x, samples[i].labels, 1, 0, 1, NULL};
        assert_ok(shoali_net_magnitudes(net, &batch, most));
    }
    assert_ok(shoali_fixed_create(model, shoali_net_params(net), bits, most, &fixed));
    uint32_t frames = model->sequence ? FRAMES : 1;
    for (int i = 0; i < SAMPLES; i++) {
        const shoali_batch batch = {samples[i].x, samples[i].labels, 1, 0, 1, NULL};
        shoali_loss loss;
        assert_ok(shoali_net_evaluate(net, &batch, &loss));
        run_fixed(fixed, &samples[i], frames, pieces);
        for (uint32_t v = 0; v < frames * fixed->out; v++) {
            double want = (double)shoali_net_scores(net)[v];
            double got = ldexp(samples[i].scores[v], -(int)fixed->out_frac);
            off = fmax(off, fabs(got - want));
            largest = fmax(largest, fabs(want));
        }
    }
    shoali_fixed_destroy(fixed);
    shoali_net_destroy(net);
    shoal_model_close(model);
    return off / largest;
}

/* 12 bits: a word is 1/2048 of the largest, and a few dozen roundings meet in a score; lines in
 * place of curves are 2e-4 off, whatever the bits. */
static void scores_are_near(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double narrow = deviation(&cases[i], 12, false), wide = deviation(&cases[i], 16, false);
        if (!(narrow < 0.03) || !(wide < 0.004))
            fail_msg("case %zu: %g of the largest score off with 12 bits, %g with 16", i, narrow,
                     wide);
    }
}

/* Forward cells only: the state is kept between calls. */
static void frames_may_come_one_by_one(void **state)
{
    (void)state;
    assert_true(deviation(&cases[3], 16, true) < 0.004);
    assert_true(deviation(&cases[7], 16, true) < 0.004);
}

static void a_loss_is_that_of_the_scores_given(void **state)
{
    (void)state;
    static sample s;
    shoal_model *model = model_of(&cases[3]);
    shoali_net *net = NULL;
    shoali_loss own, other;
    float scores[FRAMES * 6];
    assert_ok(shoali_net_create(model, 1, 3, &net));
    draw_sample(model, 1, &s);
    const shoali_batch batch = {s.x, s.labels, 1, 0, 1, NULL};
    assert_ok(shoali_net_evaluate(net, &batch, &own));
    memcpy(scores, shoali_net_scores(net), sizeof scores);
    assert_ok(shoali_net_judge(net, &batch, scores, &other));
    assert_true(own.sum == other.sum && own.correct == other.correct);
    scores[0] += 1;
    assert_ok(shoali_net_judge(net, &batch, scores, &other));
    assert_true(own.sum != other.sum);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void refused(const fixed_case *c, uint32_t bits, float scale, shoal_status status,
                    const char *part)
{
    shoal_model *model = model_of(c);
    shoali_net *net = NULL;
    shoali_fixed_model *fixed = NULL;
    float most[LAYERS + 1] = {1, 1, 1, 1, 1, 1, 1};
    assert_ok(shoali_net_create(model, 1, 3, &net));
    for (size_t i = 0; i < shoali_net_count(net); i++)
        shoali_net_params(net)[i] *= scale;
    assert_status(shoali_fixed_create(model, shoali_net_params(net), bits, most, &fixed), status);
    assert_error_has(part);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void what_has_no_form_is_named(void **state)
{
    (void)state;
    const fixed_case normed = {{1, 6, 6}, {"conv:out=3,kernel=3", "batchnorm", "dense:out=3"}};
    const fixed_case odd = {{6, 6, 6}, {"circulant_conv:out=6,kernel=3,block=3", "dense:out=3"}};
    const fixed_case three = {{9, 1, 1}, {"circulant:out=6,block=3"}};
    const fixed_case wide = {{256, 1, 1}, {"circulant:out=256,block=128"}};
    refused(&normed, 12, 1, SHOAL_ENOTSUP, "batchnorm");
    refused(&odd, 12, 1, SHOAL_ENOTSUP, "blocks of 3");
    refused(&three, 12, 1, SHOAL_ENOTSUP, "blocks of 3");
    refused(&wide, 12, 1, SHOAL_ENOTSUP, "blocks of 128");
    refused(&cases[3], 13, 1, SHOAL_EINVAL, "13 bits");
    refused(&cases[3], 12, 1e6f, SHOAL_EINVAL, "too large");
}

static void words_are_the_nearest(void **state)
{
    (void)state;
    const float x[] = {0.25f, -0.25f, 0.125f, -0.125f, 7.9f, 100, -100, NAN};
    const int16_t want[] = {1, -1, 1, 0, 32, 2047, -2048, 0}; /* half goes up */
    int16_t got[8];
    shoali_fixed_quantise(x, 8, 2, 12, got);
    for (int i = 0; i < 5; i++)
        assert_int_equal(got[i], want[i]);
    shoali_fixed_quantise(x, 8, 8, 12, got);
    for (int i = 5; i < 8; i++)
        assert_int_equal(got[i], want[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CHECK_TEST(scores_are_near),
        CHECK_TEST(frames_may_come_one_by_one),
        CHECK_TEST(a_loss_is_that_of_the_scores_given),
        CHECK_TEST(what_has_no_form_is_named),
        CHECK_TEST(words_are_the_nearest),
    };
    return CHECK_RUN(tests);
}
