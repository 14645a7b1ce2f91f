/* SPDX-License-Identifier: Apache-2.0 */
/* Ops with precision=bf16 beside themselves in float32: what comes out, and all gradients. Where an
 * op is one product, they are those of operands that were rounded before, but for the order of
 * sums; where it is several, rounding errs as much as two values of 8 bits do. All once more as on
 * a CPU that does not multiply such values. */
#include "support/check.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "nn/exec.h"
#include "nn/rounded.h"

#define ROW(name)                                      \
    extern const shoali_layer_row shoali_layer_##name; \
    extern const shoali_exec shoali_exec_##name
ROW(conv);
ROW(dense);
ROW(framewise);
ROW(attention);
ROW(swiglu);

static const struct {
    const shoali_layer_row *row;
    const char *spec;
    shoal_shape input;
    bool one;        /* product: no value is rounded between x and y */
    uint32_t biases; /* tensors at the end that are no operands */
} cases[] = {
    {&shoali_layer_conv, "conv:out=24,kernel=3,pad=1", {17, 9, 9}, true, 1},
    {&shoali_layer_conv, "conv:out=8,kernel=5,stride=2,bias=off", {1, 14, 14}, true, 0},
    {&shoali_layer_conv, "conv:out=16,kernel=1", {32, 6, 6}, true, 1},
    {&shoali_layer_dense, "dense:out=10", {300, 1, 1}, true, 1},
    {&shoali_layer_dense, "dense:out=500,bias=off", {800, 1, 1}, true, 0},
    {&shoali_layer_framewise, "framewise:out=96", {1, 40, 64}, true, 1},
    {&shoali_layer_framewise, "framewise:out=512,bias=off", {1, 128, 128}, true, 0},
    {&shoali_layer_attention, "attention:heads=4,kv=2", {1, 40, 64}, false, 0},
    {&shoali_layer_attention, "attention:heads=4,bias,causal=off", {1, 130, 128}, false, 4},
    {&shoali_layer_swiglu, "swiglu:ff=200", {1, 30, 64}, false, 0},
};
enum { CASES = sizeof cases / sizeof *cases, COUNT = 5, ROUNDED = 1, OPERANDS = 2 };

typedef struct result {
    size_t in, out, params, operands; /* operands: the parameters without biases */
    float *y, *dx, *grads;
} result;

static void *memory(size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64 + 64;
    void *found = aligned_alloc(64, whole);
    assert_non_null(found);
    memset(found, 0, whole);
    return found;
}

static float *draw(size_t count, uint64_t stream, double size, bool rounded)
{
    float *x = memory(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(size * shoali_rng_normal(check_seed(), stream, i));
    if (rounded)
        shoali_round(x, x, count);
    return x;
}

static const shoali_exec *exec_of(size_t i)
{
    return shoali_exec_of(cases[i].row);
}

static size_t operands_of(size_t i, const shoal_model *model)
{
    const uint32_t last = model->tensor_count - cases[i].biases;
    return (size_t)(last < model->tensor_count ? model->tensors[last].offset : model->param_count);
}

/* Weights, and behind them biases, which stay as they are. */
static float *draw_params(size_t i, const shoal_model *model, bool rounded)
{
    const size_t count = (size_t)model->param_count,
                 size = (size_t)model->tensors[0].cols > 0 ? (size_t)model->tensors[0].cols : 1;
    float *params = draw(count, 2, 1 / sqrt((double)size), false);
    if (rounded)
        shoali_round(params, params, operands_of(i, model));
    return params;
}

/* how: ROUNDED, the op does it; OPERANDS, it is done to what the op reads; 0: nobody does. */
static result run(size_t i, int how)
{
    char spec[128];
    shoal_model *model = NULL;
    const shoali_exec *exec = exec_of(i);
    snprintf(spec, sizeof spec, "%s%s", cases[i].spec, how == ROUNDED ? ",precision=bf16" : "");
    assert_ok(shoali_model_of_row(cases[i].row, spec, cases[i].input, &model));
    const shoali_layer *layer = &model->layers[0];
    result r = {.in = COUNT * (size_t)shoali_shape_elems(layer->in),
                .out = COUNT * (size_t)shoali_shape_elems(layer->out),
                .params = (size_t)layer->param_count,
                .operands = operands_of(i, model)};
    float *x = draw(r.in, 1, 1, how == OPERANDS), *dy = draw(r.out, 3, 1, how == OPERANDS);
    r.y = memory(r.out * sizeof(float));
    r.dx = memory(r.in * sizeof(float));
    r.grads = memory(r.params * sizeof(float));
    shoali_node node = {.layer = layer, .exec = exec, .grads = r.grads};
    node.params = draw_params(i, model, how == OPERANDS);
    if (exec->saved_bytes != NULL)
        node.saved = memory(exec->saved_bytes(layer, COUNT));
    shoali_pass pass = {.count = COUNT, .training = true, .seed = 1};
    pass.work = memory(exec->work_bytes != NULL ? exec->work_bytes(layer, COUNT) : 0);
    if (exec->setup != NULL)
        assert_ok(exec->setup(&node, COUNT));
    exec->forward(&node, &pass, x, r.y);
    exec->backward(&node, &pass, x, r.y, dy, r.dx);
    if (exec->teardown != NULL)
        exec->teardown(&node);
    free(x);
    free(dy);
    free(node.params);
    free(node.saved);
    free(pass.work);
    shoal_model_close(model);
    return r;
}

static void end(result *r)
{
    free(r->y);
    free(r->dx);
    free(r->grads);
}

/* |a - b| / |b| */
static double apart(const float *a, const float *b, size_t count)
{
    double gap = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        gap += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(gap / norm);
}

static void hold(size_t i, const result *got, const result *want, double least, double most)
{
    const struct {
        const char *what;
        double gap;
    } found[] = {{"what comes out", apart(got->y, want->y, got->out)},
                 {"the gradient of x", apart(got->dx, want->dx, got->in)},
                 {"the gradient of the parameters", apart(got->grads, want->grads, got->params)}};
    for (size_t k = 0; k < 3; k++)
        if (!(found[k].gap >= least && found[k].gap <= most))
            fail_msg("%s: %s is %.3g apart, not %.3g to %.3g", cases[i].spec, found[k].what,
                     found[k].gap, least, most);
}

/* An operand errs by 2^-9 of itself at most, a third of that on the average. */
static void rounding_errs_as_eight_bits_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        result rounded = run(i, ROUNDED), whole = run(i, 0);
        hold(i, &rounded, &whole, 0x1p-11, 0x1p-7);
        end(&rounded);
        end(&whole);
    }
}

static void nothing_but_operands_is_rounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        if (!cases[i].one)
            continue;
        result rounded = run(i, ROUNDED), want = run(i, OPERANDS);
        rounded.params = rounded.operands; /* a bias's gradient is a sum and no product */
        hold(i, &rounded, &want, 0, 2e-6);
        end(&rounded);
        end(&want);
    }
}

static void the_same_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        result once = run(i, ROUNDED), again = run(i, ROUNDED);
        hold(i, &once, &again, 0, 0);
        end(&once);
        end(&again);
    }
}

static int all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_errs_as_eight_bits_do),
        cmocka_unit_test(nothing_but_operands_is_rounded),
        cmocka_unit_test(the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) { /* before the library is there, which reads it once */
        (void)setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        (void)setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
        exit(all());
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return 1;
    return all();
}
