/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution's executor against the definition in double: whole batches, rests, groups, and
 * what is no number. */
#include <math.h>

#include "model/model_text.h"
#include "nn/exec.h"
#include "support/check.h"
#include "support/conv_double.h"

extern const shoali_exec shoali_exec_conv;

typedef struct conv_case {
    uint32_t channels, height, width, count;
    const char *layer;
    bool rectify;
    uint32_t batch; /* that it is made for; 0: count */
} conv_case;

static const conv_case cases[] = {
    {1, 28, 28, 3, "conv:out=20,kernel=5", true, 0},
    {20, 12, 12, 5, "conv:out=50,kernel=5", false, 0},
    {40, 9, 8, 4, "conv:out=13,kernel=3,pad=1", true, 0},
    {3, 33, 17, 2, "conv:out=8,kernel=3,pad=1", true, 0},
    {2, 19, 21, 2, "conv:out=7,kernel=5,stride=2,pad=2", false, 0},
    {3, 11, 10, 3, "conv:out=4,kernel=4,stride=3,bias=off", false, 0},
    {9, 6, 5, 7, "conv:out=17,kernel=1", true, 0},
    {5, 7, 7, 2, "conv:out=3,kernel=7,pad=6", false, 0}, /* border as wide as it may be */
    {2, 5, 300, 1, "conv:out=2,kernel=2", false, 0},
    {3, 9, 9, 1, "conv:out=5,kernel=3", true, 64},             /* a rest alone */
    {3, 9, 9, 31, "conv:out=5,kernel=3", true, 32},            /* rests of 8, 2, 1 */
    {8, 64, 64, 7, "conv:out=16,kernel=3,pad=1", true, 9},     /* more than the cache takes */
    {16, 40, 40, 5, "conv:out=16,kernel=1,stride=2", true, 8}, /* the same, unbiased below */
    {16, 40, 40, 6, "conv:out=16,kernel=3,bias=off", false, 6},
    {6, 10, 9, 4, "conv:out=9,kernel=3,pad=1,groups=3", true, 0},
    {8, 7, 7, 3, "conv:out=8,kernel=3,groups=8", false, 0}, /* channel by channel */
};

typedef struct setting {
    shoal_model *model;
    shoali_node node;
    shoali_pass pass;
    conv_double_shape shape;
    size_t in, out, params, weights; /* floats: of all samples, of the layer */
    float *x, *y, *dy, *dx;
    double *want_y, *want_dx, *want_grads;
} setting;

/* Zeroed, and as long as it may be used. */
static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    memset(memory, 0, (bytes + 64) / 64 * 64);
    return memory;
}

static conv_double_shape shape_of(const shoali_layer *layer, uint32_t count)
{
    const shoali_conv_params *p = layer->params;
    return (conv_double_shape){layer->in.channels, layer->in.height,  layer->in.width,
                               (size_t)p->out,     (size_t)p->kernel, (size_t)p->stride,
                               (size_t)p->pad,     (size_t)p->groups, count};
}

static void make_node(const conv_case *c, setting *s)
{
    const shoali_layer *layer = &s->model->layers[0];
    const uint32_t batch = c->batch > 0 ? c->batch : c->count;
    s->node = (shoali_node){.layer = layer,
                            .exec = &shoali_exec_conv,
                            .params = conv_double_noise(s->params, 5),
                            .grads = conv_double_noise(s->params, 6),
                            .rectify = c->rectify};
    s->pass = (shoali_pass){.count = c->count, .training = true};
    s->pass.work = aligned(shoali_exec_conv.work_bytes(layer, batch));
    s->node.saved = aligned(shoali_exec_conv.saved_bytes(layer, batch));
    assert_ok(shoali_exec_conv.setup(&s->node, batch));
}

static void open_case(const conv_case *c, setting *s)
{
    shoali_model_text text = {.name = "c",
                              .input = {c->channels, c->height, c->width},
                              .layers = &c->layer,
                              .layer_count = 1};
    *s = (setting){0};
    assert_ok(shoali_model_build("c", &text, false, &s->model));
    const shoali_layer *layer = &s->model->layers[0];
    s->shape = shape_of(layer, c->count);
    s->in = (size_t)shoali_shape_elems(layer->in) * c->count;
    s->out = (size_t)shoali_shape_elems(layer->out) * c->count;
    s->params = (size_t)layer->param_count;
    s->weights = conv_double_weights(&s->shape);
    s->x = conv_double_noise(s->in, 1);
    s->dy = conv_double_noise(s->out, 2);
    s->y = conv_double_noise(s->out, 3); /* old values that must not matter */
    s->dx = conv_double_noise(s->in, 4);
    s->want_y = calloc(s->out, sizeof(double));
    s->want_dx = calloc(s->in, sizeof(double));
    s->want_grads = calloc(s->params, sizeof(double));
    make_node(c, s);
}

static void close_case(setting *s)
{
    shoali_exec_conv.teardown(&s->node);
    void *all[] = {s->x,          s->y,          s->dy,         s->dx,
                   s->want_y,     s->want_dx,    s->want_grads, s->node.params,
                   s->node.grads, s->node.saved, s->pass.work};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    shoal_model_close(s->model);
}

/* Index of output i's bias among the parameters. */
static size_t bias_of(const setting *s, size_t i)
{
    const size_t plane = (size_t)s->node.layer->out.height * s->node.layer->out.width;
    return s->weights + i / plane % s->shape.out;
}

static void want_output(setting *s)
{
    conv_double_forward(&s->shape, s->node.params, s->x, s->want_y);
    for (size_t i = 0; i < s->out; i++) {
        if (s->params > s->weights)
            s->want_y[i] += s->node.params[bias_of(s, i)];
        if (s->node.rectify)
            s->want_y[i] = fmax(s->want_y[i], 0);
    }
}

/* Whether a value is above 0 is for the rounded one to say. */
static void want_slopes(setting *s)
{
    float *dy = calloc(s->out, sizeof *dy);
    for (size_t i = 0; i < s->out; i++) {
        dy[i] = s->node.rectify && !(s->y[i] > 0) ? 0.0f : s->dy[i];
        if (s->params > s->weights)
            s->want_grads[bias_of(s, i)] += dy[i];
    }
    conv_double_backward(&s->shape, s->node.params, s->x, dy, s->want_grads, s->want_dx);
    free(dy);
}

static void it_is_a_convolution(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting s;
        open_case(&cases[i], &s);
        want_output(&s);
        shoali_exec_conv.forward(&s.node, &s.pass, s.x, s.y);
        conv_double_near(s.y, s.want_y, s.out, i, "outputs");
        want_slopes(&s);
        shoali_exec_conv.backward(&s.node, &s.pass, s.x, s.y, s.dy, s.dx);
        conv_double_near(s.dx, s.want_dx, s.in, i, "input gradients");
        conv_double_near(s.node.grads, s.want_grads, s.params, i, "parameter gradients");
        close_case(&s);
    }
}

/* Twice the same, whatever ran between: bit for bit. */
static void the_same_batch_gives_the_same_bits(void **state)
{
    (void)state;
    setting s;
    open_case(&(conv_case){8, 64, 64, 7, "conv:out=16,kernel=3,pad=1", false, 9}, &s);
    float *y = calloc(s.out, sizeof *y), *dx = calloc(s.in, sizeof *dx),
          *grads = calloc(s.params, sizeof *grads);
    for (int i = 0; i < 3; i++) {
        s.pass.count = i == 1 ? 2 : 7;
        shoali_exec_conv.forward(&s.node, &s.pass, s.x, s.y);
        shoali_exec_conv.backward(&s.node, &s.pass, s.x, s.y, s.dy, s.dx);
        if (i == 2) {
            assert_memory_equal(s.y, y, s.out * sizeof *y);
            assert_memory_equal(s.dx, dx, s.in * sizeof *dx);
            assert_memory_equal(s.node.grads, grads, s.params * sizeof *grads);
        }
        memcpy(y, s.y, s.out * sizeof *y);
        memcpy(dx, s.dx, s.in * sizeof *dx);
        if (i == 0)
            memcpy(grads, s.node.grads, s.params * sizeof *grads);
    }
    free(y);
    free(dx);
    free(grads);
    close_case(&s);
}

/* max(y, 0) does not swallow it: the exchange is to name it. */
static void what_is_no_number_stays_none(void **state)
{
    (void)state;
    setting s;
    open_case(&cases[2], &s);
    s.node.params[0] = NAN;
    shoali_exec_conv.forward(&s.node, &s.pass, s.x, s.y);
    assert_true(isnan(s.y[41])); /* row 5, column 1 of channel 0 */
    close_case(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_is_a_convolution),
        CHECK_TEST(the_same_batch_gives_the_same_bits),
        CHECK_TEST(what_is_no_number_stays_none),
    };
    return CHECK_RUN(tests);
}
