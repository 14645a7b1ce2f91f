/* SPDX-License-Identifier: Apache-2.0 */
/* What every op must keep, for every row of the table of layers and the example of docs/add-op.md,
 * at its defaults and at each value of its switches: gradients against differences of its own
 * forward pass along random directions, summed in double. That the forward pass is right is for
 * unit/nn/net_test and the op's own test. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "support/example_op.h"

#define SHOAL_LAYER_DESCRIBED(name)
#define SHOAL_LAYER(name)                              \
    extern const shoali_layer_row shoali_layer_##name; \
    extern const shoali_exec shoali_exec_##name;
#include "model/layers.def"
#undef SHOAL_LAYER

typedef struct op {
    const shoali_layer_row *row;
    const shoali_exec *exec;
} op;
static const op ops[] = {
#define SHOAL_LAYER(name) {&shoali_layer_##name, &shoali_exec_##name},
#include "model/layers.def"
#undef SHOAL_LAYER
#undef SHOAL_LAYER_DESCRIBED
    {&shoali_layer_example, &shoali_exec_example},
};

enum { COUNT = 3, DIRECTIONS = 4 };

/* One op over a batch of three. All arrays are malloc'ed at their exact size. */
typedef struct setting {
    const op *op;
    const char *spec;
    shoal_model *model;
    shoali_node node;
    shoali_pass pass;
    uint32_t lengths[COUNT];
    size_t in, out, params; /* values of the batch; of the op */
    float *x, *y, *dy, *dx;
    double *weights; /* [out]: the loss is the sum of weights * y */
    bool ids;        /* x names rows of a table, and has no slope */
} setting;

static void *exactly(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    assert_non_null(memory);
    return memory;
}

/* What ops keep and work in lies as in a net's arena. */
static void *aligned(size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64 + 64;
    void *memory = aligned_alloc(64, whole);
    assert_non_null(memory);
    memset(memory, 0, whole);
    return memory;
}

/* ---------------------------------------------------------------- one op */

/* Values on a grid in a random order: no two are as near as a step of the differences, nor is one
 * to 0, so that no maximum changes hands. */
static void draw_input(setting *s, uint64_t seed)
{
    for (size_t i = 0; i < s->in; i++)
        s->x[i] = s->ids ? (float)(i % 3)
                         : ((float)i - (float)(s->in / 2) + 0.5f) * 4 / (float)s->in;
    for (size_t i = s->in; !s->ids && i-- > 1;) {
        const size_t k = (size_t)shoali_rng_below(seed, 1, i, i + 1);
        const float kept = s->x[i];
        s->x[i] = s->x[k];
        s->x[k] = kept;
    }
}

/* Behind a sample's end x and the slope of y are 0. */
static void shorten(setting *s)
{
    const uint32_t frames = s->node.layer->in.height;
    const size_t in = s->in / COUNT / frames, out = s->out / COUNT / frames;
    for (uint32_t n = 0; n < COUNT; n++) {
        s->lengths[n] = n == 1 ? frames : 1 + frames / (n + 2);
        for (uint32_t t = s->lengths[n]; t < frames; t++) {
            memset(s->x + (n * frames + t) * in, 0, in * sizeof *s->x);
            memset(s->weights + (n * frames + t) * out, 0, out * sizeof *s->weights);
        }
    }
    s->pass.lengths = s->lengths;
    s->pass.longest = frames;
}

static void make_node(setting *s, uint64_t seed)
{
    const shoali_layer *layer = &s->model->layers[0];
    const shoali_exec *exec = s->op->exec;
    s->node = (shoali_node){.layer = layer, .exec = exec};
    s->node.params = exactly(s->params, sizeof(float));
    s->node.grads = exactly(s->params, sizeof(float));
    s->node.state = exactly((size_t)layer->state_count, sizeof(float));
    for (uint32_t t = 0; t < layer->tensor_count; t++) {
        const shoal_tensor *tensor = &s->model->tensors[t];
        const double size = tensor->cols > 0 ? 1 / sqrt((double)tensor->cols) : 0.5;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            s->node.params[i] = (float)(size * shoali_rng_normal(seed, 2, i));
    }
    if (exec->saved_bytes != NULL)
        s->node.saved = aligned(exec->saved_bytes(layer, COUNT));
    s->pass = (shoali_pass){.count = COUNT, .training = true, .seed = seed, .first_serial = 77};
    if (exec->work_bytes != NULL)
        s->pass.work = aligned(exec->work_bytes(layer, COUNT));
    if (exec->setup != NULL)
        assert_ok(exec->setup(&s->node, COUNT));
}

static void open_op(const op *o, const char *spec, shoal_model *model, uint64_t seed, setting *s)
{
    const shoali_layer *layer = &model->layers[0];
    *s = (setting){.op = o, .spec = spec, .model = model, .params = (size_t)layer->param_count};
    s->in = COUNT * (size_t)shoali_shape_elems(layer->in);
    s->out = COUNT * (size_t)shoali_shape_elems(layer->out);
    s->ids = strcmp(o->row->name, "lookup") == 0 || strcmp(o->row->name, "onehot") == 0 ||
             (o->row->traits & SHOALI_LAYER_PAIRS) != 0;
    s->x = exactly(s->in, sizeof *s->x);
    s->dx = exactly(s->in, sizeof *s->dx);
    s->y = exactly(s->out, sizeof *s->y);
    s->dy = exactly(s->out, sizeof *s->dy);
    s->weights = exactly(s->out, sizeof *s->weights);
    make_node(s, seed);
    draw_input(s, seed);
    for (size_t i = 0; i < s->out; i++)
        s->weights[i] = (float)shoali_rng_normal(seed, 3, i);
    if ((o->row->traits & SHOALI_LAYER_FRAMES) != 0)
        shorten(s);
}

static void close_op(setting *s)
{
    if (s->op->exec->teardown != NULL)
        s->op->exec->teardown(&s->node);
    free(s->node.params);
    free(s->node.grads);
    free(s->node.state);
    free(s->node.saved);
    free(s->pass.work);
    free(s->x);
    free(s->y);
    free(s->dy);
    free(s->dx);
    free(s->weights);
    shoal_model_close(s->model);
}

/* A joint reads the batch twice. */
static shoali_inputs twice(const setting *s)
{
    const uint32_t channels = s->node.layer->in.channels;
    return (shoali_inputs){.count = 2, .x = {s->x, s->x}, .channels = {channels, channels}};
}

static double forward(setting *s)
{
    double sum = 0;
    if (s->op->exec->join_forward != NULL) {
        const shoali_inputs in = twice(s);
        s->op->exec->join_forward(&s->node, &s->pass, &in, s->y);
    } else {
        s->op->exec->forward(&s->node, &s->pass, s->x, s->y);
    }
    for (size_t i = 0; i < s->out; i++)
        sum += s->weights[i] * (double)s->y[i];
    return sum;
}

static void backward(setting *s, float *dx)
{
    for (size_t i = 0; i < s->out; i++)
        s->dy[i] = (float)s->weights[i];
    if (s->op->exec->join_backward != NULL) {
        const shoali_inputs in = twice(s);
        for (uint32_t k = 0; k < 2; k++)
            s->op->exec->join_backward(&s->node, &s->pass, &in, k, s->dy, dx, k > 0);
        return;
    }
    s->op->exec->backward(&s->node, &s->pass, s->x, s->y, s->dy, dx);
}

/* ---------------------------------------------------------------- what is checked */

/* Component i of a direction: from -2 to 2. */
static float along(uint64_t direction, size_t i)
{
    return (float)(shoali_mix(check_seed() + direction, i) >> 40) * 0x1p-22f - 2;
}

/* How fast the loss changes as values[count] move along direction d, from steps of h either way. */
static double difference(setting *s, float *values, const float *kept, size_t count, uint64_t d,
                         float h)
{
    double sides[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            values[i] = kept[i] + (side == 0 ? h : -h) * along(d, i);
        sides[side] = forward(s);
    }
    memcpy(values, kept, count * sizeof *kept);
    return (sides[0] - sides[1]) / (2 * (double)h);
}

/* The same by the gradient. times: entries of a circulant block that share a value; the gradient is
 * their mean. */
static void check_slope(setting *s, float *values, const float *slope, size_t count, uint32_t block,
                        const char *what)
{
    const double times = block > 1 ? block : 1;
    float *kept = exactly(count, sizeof *kept);
    memcpy(kept, values, count * sizeof *kept);
    for (uint64_t d = 0; d < DIRECTIONS; d++) {
        double got = 0, norm = 0;
        for (size_t i = 0; i < count; i++) {
            got += times * (double)slope[i] * (double)along(d, i);
            norm += (double)slope[i] * (double)slope[i];
        }
        const double coarse = difference(s, values, kept, count, d, 0x1p-9f);
        const double want = (4 * difference(s, values, kept, count, d, 0x1p-10f) - coarse) / 3;
        if (!(fabs(got - want) <= 0.01 * (sqrt(norm) * times + 0.5)))
            fail_msg("%s: gradient of %s along direction %d is %g, differences say %g", s->spec,
                     what, (int)d, got, want);
    }
    free(kept);
}

static void check_gradients(setting *s)
{
    const shoali_layer *layer = s->node.layer;
    for (size_t i = 0; i < s->params; i++)
        s->node.grads[i] = NAN; /* overwritten, never added to */
    for (size_t i = 0; i < s->in; i++)
        s->dx[i] = NAN;
    (void)forward(s);
    backward(s, s->dx);
    float *grads = exactly(s->params, sizeof *grads);
    memcpy(grads, s->node.grads, s->params * sizeof *grads);
    for (uint32_t t = 0; t < layer->tensor_count; t++) {
        const shoal_tensor *tensor = &s->model->tensors[t];
        const shoali_param *param = &s->model->tensor_params[t];
        check_slope(s, s->node.params + tensor->offset, grads + tensor->offset, tensor->count,
                    param->block, param->role);
    }
    for (size_t i = 0; s->ids && i < s->in; i++)
        assert_true(s->dx[i] == 0.0f || (s->op->row->traits & SHOALI_LAYER_PAIRS) != 0);
    if (!s->ids && s->pass.lengths == NULL)
        check_slope(s, s->x, s->dx, s->in, 0, "x");
    else if (!s->ids)
        for (uint32_t n = 0; n < COUNT; n++) {
            const size_t sample = s->in / COUNT, frame = sample / layer->in.height;
            check_slope(s, s->x + n * sample, s->dx + n * sample, s->lengths[n] * frame, 0, "x");
        }
    free(grads);
}

/* The same bits once more, also where nobody asks for the slope of x, and over x's own memory. */
static void check_again(setting *s)
{
    const bool joint = s->op->exec->join_forward != NULL;
    float *grads = exactly(s->params, sizeof *grads), *y = exactly(s->out, sizeof *y);
    (void)forward(s);
    backward(s, s->dx);
    memcpy(grads, s->node.grads, s->params * sizeof *grads);
    memcpy(y, s->y, s->out * sizeof *y);
    (void)forward(s);
    assert_memory_equal(y, s->y, s->out * sizeof *y);
    if (!joint)
        backward(s, NULL);
    assert_memory_equal(grads, s->node.grads, s->params * sizeof *grads);
    if ((s->op->row->traits & SHOALI_LAYER_IN_PLACE) != 0 && !joint) {
        float *dx = s->dx, *apart = s->y;
        s->y = s->x;
        s->node.in_place = true;
        (void)forward(s);
        assert_memory_equal(y, s->y, s->out * sizeof *y);
        backward(s, s->dy);
        assert_memory_equal(dx, s->dy, s->in * sizeof *dx);
        assert_memory_equal(grads, s->node.grads, s->params * sizeof *grads);
        s->y = apart;
    }
    free(grads);
    free(y);
}

/* ---------------------------------------------------------------- all ops */

/* The op alone over each of some small inputs that fits; of ids and pairs over the first. */
static bool check_spec(const op *o, const char *spec)
{
    static const shoal_shape inputs[] = {{1, 6, 1}, {1, 6, 2}, {1, 6, 8}, {2, 6, 6}, {12, 1, 1}};
    const bool ids = strcmp(o->row->name, "lookup") == 0 || strcmp(o->row->name, "onehot") == 0;
    const bool pairs = (o->row->traits & SHOALI_LAYER_PAIRS) != 0;
    bool fits = false;
    for (size_t i = ids     ? 0
                    : pairs ? 1
                            : 2;
         i < sizeof inputs / sizeof *inputs && !(fits && (ids || pairs)); i++) {
        setting s;
        shoal_model *model = NULL;
        if (shoali_model_of_row(o->row, spec, inputs[i], &model) != SHOAL_OK)
            continue;
        if (model->described != NULL) {
            shoal_model_close(model);
            continue;
        }
        fits = true;
        open_op(o, spec, model, check_seed(), &s);
        check_gradients(&s);
        check_again(&s);
        close_op(&s);
    }
    return fits;
}

/* Value k of a switch; false: there is none. */
static bool value_of(const shoali_key *key, int k, char *text, size_t size)
{
    const char *at = key->choices;
    if (key->kind == SHOALI_KEY_FLAG)
        at = "on|off";
    else if (key->kind != SHOALI_KEY_CHOICE ||
             strcmp(key->name, "precision") == 0) /* bf16_test.c: steps of the input vanish in it */
        return false;
    for (; k > 0 && at != NULL; k--) {
        at = strchr(at, '|');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at != NULL)
        snprintf(text, size, "%.*s", (int)strcspn(at, "|"), at);
    return at != NULL;
}

/* Specs beside the probes: what numbers, not switches, turn on. */
static void check_further(const op *o)
{
    static const char *const further[] = {
        "lrn:size=4,alpha=3,beta=1.5,k=2",
        "conv:out=4,groups=2,kernel=3,pad=1",
        "avgpool:kernel=3,stride=2,pad=2",
        "avgpool:kernel=3,stride=2,pad=1,include_pad",
        "attention:heads=2,drop=0.4",
        "attention:heads=2,kv=1,causal=off,bias,rope=off,drop=0.2"};
    const size_t length = strlen(o->row->name);
    for (size_t i = 0; i < sizeof further / sizeof *further; i++)
        if (strncmp(further[i], o->row->name, length) == 0 && further[i][length] == ':')
            assert_true(check_spec(o, further[i]));
}

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const op *o = &ops[i];
        const char *probe = o->row->probe != NULL ? o->row->probe : o->row->name;
        char spec[SHOALI_LAYER_SPEC_MAX], value[32];
        if ((o->row->traits & SHOALI_LAYER_ALIAS) != 0)
            continue; /* another shape of the same values, or a loss */
        if (!check_spec(o, probe))
            fail_msg("%s fits no small input: give its row a probe", probe);
        check_further(o);
        for (size_t k = 0; k < o->row->schema.count; k++)
            for (int v = 0; value_of(&o->row->schema.keys[k], v, value, sizeof value); v++) {
                snprintf(spec, sizeof spec, "%s%c%s=%s", probe, strchr(probe, ':') ? ',' : ':',
                         o->row->schema.keys[k].name, value);
                (void)check_spec(o, spec); /* values that need another key fit nothing */
            }
    }
}

/* Caller frees. */
static char *read_file(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", SHOAL_SOURCE_DIR, path);
    FILE *file = fopen(whole, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
    fclose(file);
    return text;
}

static void the_page_shows_the_file(void **state)
{
    (void)state;
    char *page = read_file("docs/add-op.md"), *code = read_file("tests/support/example_op.c");
    char *shown = strstr(page, "```c\n/* SPDX");
    assert_non_null(shown);
    shown += strlen("```c\n");
    char *end = strstr(shown, "```");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(shown, code);
    free(page);
    free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(gradients_match_differences),
        CHECK_TEST(the_page_shows_the_file),
    };
    return CHECK_RUN(tests);
}
