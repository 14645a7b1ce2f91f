/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer kind, alone and among others, against the double reference: scores, loss, and all
 * gradients against central differences of it. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "nn/nn.h"
#include "support/net_cases.h"
#include "support/reference_net.h"

enum { COUNT = 3, FRAMES = 7 };

enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct setting {
    shoal_model *model;
    shoali_net *net;
    size_t count;
    float x[COUNT * 256];
    double xd[COUNT * 256];
    double *params;
    uint32_t labels[COUNT * FRAMES], lengths[COUNT];
    reference_batch reference;
    shoali_batch batch;
} setting;

/* Sequences of different lengths, one of them whole: nothing but 0 behind their ends. */
static void shorten(const net_case *c, uint64_t seed, setting *s)
{
    uint32_t frames = c->input.height, values = c->input.width;
    for (uint32_t n = 0; n < COUNT; n++) {
        s->lengths[n] = n == 1 ? frames : 1 + (uint32_t)shoali_rng_below(seed, 4, n, frames);
        for (size_t i = (size_t)s->lengths[n] * values; i < (size_t)frames * values; i++)
            s->xd[n * frames * values + i] = s->x[n * frames * values + i] = 0;
    }
    s->batch.lengths = s->reference.lengths = s->lengths;
}

static void open_case(const net_case *c, uint64_t seed, setting *s)
{
    shoali_model_text text = {.name = "case", .input = c->input, .layers = c->layers};
    while (text.layer_count < NET_CASE_LAYERS && c->layers[text.layer_count] != NULL)
        text.layer_count++;
    *s = (setting){0};
    assert_ok(shoali_model_build("case", &text, false, &s->model));
    assert_ok(shoali_net_create(s->model, COUNT + 1, seed, &s->net));
    s->count = shoali_net_count(s->net);
    s->params = calloc(s->count, sizeof *s->params);
    for (size_t i = 0; i < s->count; i++) { /* biases and scales, too, leave their round values */
        shoali_net_params(s->net)[i] += (float)(0.2 * shoali_rng_normal(seed, 1, i));
        s->params[i] = shoali_net_params(s->net)[i];
    }
    size_t elems = (size_t)shoali_shape_elems(c->input) * COUNT;
    assert_true(elems <= sizeof s->x / sizeof s->x[0]);
    for (size_t i = 0; i < elems; i++)
        s->xd[i] = s->x[i] = (float)shoali_rng_normal(seed, 2, i);
    for (uint32_t n = 0; n < COUNT * FRAMES; n++)
        s->labels[n] = (uint32_t)shoali_rng_below(seed, 3, n, 3);
    s->batch = (shoali_batch){
        .x = s->x, .labels = s->labels, .count = COUNT, .first_serial = 1234567, .weight = 1.75f};
    s->reference = (reference_batch){.x = s->xd,
                                     .labels = s->labels,
                                     .count = COUNT,
                                     .first_serial = 1234567,
                                     .seed = seed,
                                     .weight = 1.75,
                                     .training = true};
    if (s->model->sequence)
        shorten(c, seed, s);
}

static void close_case(setting *s)
{
    shoali_net_destroy(s->net);
    shoal_model_close(s->model);
    free(s->params);
}

/* Largest difference over the largest true value. */
static void assert_near(const float *got, const double *want, size_t count, double bound,
                        size_t which, const char *what)
{
    double worst = 0, most = 1e-2; /* a bias before a batch norm has gradient 0: there, what counts
                                      is the scale of the net */
    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        most = fmax(most, fabs(want[i]));
    }
    if (!(worst <= bound * most))
        fail_msg("case %zu: %s differ by %g of %g", which, what, worst, most);
}

static void scores_and_losses_match(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        setting s;
        double scores[COUNT * 8 * FRAMES];
        shoali_loss loss;
        open_case(&cases[i], seed, &s);
        assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss));
        double want = reference_loss(s.model, s.params, &s.reference, scores);
        size_t classes = (size_t)shoali_shape_elems(s.model->layers[s.model->layer_count - 1].out);
        assert_near(shoali_net_scores(s.net), scores, COUNT * classes, 1e-5, i, "scores");
        assert_true(fabs(1.75 * loss.sum / COUNT - want) < 1e-5 * (1 + want));
        close_case(&s);
    }
}

/* Central difference of the reference's loss at parameter p. */
static double slope_at(setting *s, size_t p)
{
    const double h = 1e-6;
    double before = s->params[p];
    s->params[p] = before + h;
    double up = reference_loss(s->model, s->params, &s->reference, NULL);
    s->params[p] = before - h;
    double down = reference_loss(s->model, s->params, &s->reference, NULL);
    s->params[p] = before;
    return (up - down) / (2 * h);
}

/* All values of small tensors, a sample of large ones. */
static void check_gradients(const net_case *c, size_t which, size_t sample)
{
    enum { SAMPLE = 60 };
    uint64_t seed = check_seed();
    setting s;
    shoali_loss loss;
    open_case(c, seed, &s);
    assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss));
    for (uint32_t t = 0; t < s.model->tensor_count; t++) {
        const shoal_tensor *tensor = &s.model->tensors[t];
        float got[SAMPLE];
        double want[SAMPLE];
        size_t some = s.model->tensor_count > 20 ? 6 : sample; /* deep nets take their time */
        size_t count = tensor->count < some ? tensor->count : some;
        for (size_t k = 0; k < count; k++) {
            size_t p = tensor->offset + k;
            if (count < tensor->count)
                p = tensor->offset + (size_t)shoali_rng_below(seed, tensor->key, k, tensor->count);
            uint32_t block = s.model->tensor_params[t].block; /* gradients are means over it */
            got[k] = shoali_net_grads(s.net)[p] * (float)(block > 1 ? block : 1);
            want[k] = slope_at(&s, p);
        }
        assert_near(got, want, count, 5e-5, which, s.model->tensor_params[t].name);
    }
    close_case(&s);
}

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        check_gradients(&cases[i], i, 60);
}

/* Matrices so large that their products run in the frequency domain. */
static void gradients_of_large_matrices_match_differences(void **state)
{
    (void)state;
    static const net_case large = {{1, 3, 64}, {"lstm:out=64,k=8", "framewise:out=3"}};
    check_gradients(&large, CASES, 5);
}

static void evaluation_uses_running_statistics_and_no_dropout(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        setting s;
        shoali_loss loss;
        double scores[COUNT * 8 * FRAMES], running[64] = {0};
        size_t state_count;
        open_case(&cases[i], seed, &s);
        assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss)); /* moves the statistics */
        float *values = shoali_net_state(s.net, &state_count);
        for (size_t v = 0; v < state_count; v++)
            running[v] = values[v];
        s.reference.training = false;
        s.reference.state = running;
        s.reference.weight = 1;
        double want = reference_loss(s.model, s.params, &s.reference, scores);
        assert_ok(shoali_net_evaluate(s.net, &s.batch, &loss));
        size_t classes = (size_t)shoali_shape_elems(s.model->layers[s.model->layer_count - 1].out);
        assert_near(shoali_net_scores(s.net), scores, COUNT * classes, 1e-5, i, "scores");
        assert_true(fabs(loss.sum / COUNT - want) < 1e-5 * (1 + want));
        close_case(&s);
    }
}

static void every_layer_kind_is_covered(void **state)
{
    (void)state;
    for (size_t k = 0; k < shoali_layer_row_count(); k++) {
        const char *kind = shoali_layer_row_at(k)->name;
        if ((shoali_layer_row_at(k)->traits & SHOALI_LAYER_DESCRIBED) != 0)
            continue;
        /* their input is ids, or the loss is another: lookup_test.c, sparse_test.c,
         * masked_test.c */
        bool seen = strcmp(kind, "lookup") == 0 || strcmp(kind, "sparse") == 0 ||
                    strcmp(kind, "hinge") == 0 || strcmp(kind, "masked") == 0;
        for (size_t i = 0; i < CASES; i++)
            for (size_t l = 0; l < NET_CASE_LAYERS && cases[i].layers[l] != NULL; l++)
                seen = seen || strncmp(cases[i].layers[l], kind, strlen(kind)) == 0;
        if (!seen)
            fail_msg("no case has a %s", kind);
    }
}

/* ---------------------------------------------------------------- ranges, splits, refusals */

typedef struct ranges {
    const shoal_model *model;
    const float *grads;
    float *copy; /* gradients as they were when reported final */
    size_t next; /* end of the range expected */
    uint32_t calls;
} ranges;

static shoal_status note_range(void *ctx, size_t offset, size_t count)
{
    ranges *r = ctx;
    assert_int_equal(offset + count, r->next);
    memcpy(r->copy + offset, r->grads + offset, count * sizeof *r->copy);
    r->next = offset;
    r->calls++;
    return SHOAL_OK;
}

static void ranges_are_final_and_come_back_to_front(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        for (uint32_t count = 0; count <= COUNT; count += COUNT) {
            setting s;
            shoali_loss loss;
            open_case(&cases[i], seed, &s);
            ranges r = {s.model, shoali_net_grads(s.net), calloc(s.count, sizeof(float)), s.count,
                        0};
            s.batch.count = count;
            assert_ok(shoali_net_train(s.net, &s.batch, note_range, &r, &loss));
            assert_int_equal(r.next, 0);
            assert_memory_equal(r.copy, r.grads, s.count * sizeof(float));
            if (count == 0)
                for (size_t p = 0; p < s.count; p++)
                    assert_true(r.grads[p] == 0.0f);
            free(r.copy);
            close_case(&s);
        }
}

static shoal_status refuse_range(void *ctx, size_t offset, size_t count)
{
    (void)ctx;
    (void)offset;
    (void)count;
    return SHOAL_ECANCELLED;
}

static void a_failing_hook_ends_the_pass(void **state)
{
    setting s;
    shoali_loss loss;
    (void)state;
    open_case(&cases[0], 1, &s);
    assert_int_equal(shoali_net_train(s.net, &s.batch, refuse_range, NULL, &loss),
                     SHOAL_ECANCELLED);
    close_case(&s);
}

/* Workers with weights N n_i / B, summed and divided by N, give the gradient of the whole batch:
 * contract 4a. */
static void splits_give_the_same_gradient(void **state)
{
    static const uint32_t shares[] = {2, 1, 0};
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        setting s;
        shoali_loss loss;
        open_case(&cases[i], seed, &s);
        if (s.model->state_count >
            0) { /* batch statistics are of a worker's own samples: not the same by nature */
            close_case(&s);
            continue;
        }
        double *sum = calloc(s.count, sizeof *sum);
        size_t elems = (size_t)shoali_shape_elems(cases[i].input);
        for (uint32_t r = 0, from = 0; r < 3; from += shares[r++]) {
            uint32_t labels = s.model->sequence ? cases[i].input.height : 1;
            shoali_batch part = {s.x + from * elems,
                                 s.labels + (size_t)from * labels,
                                 shares[r],
                                 1234567 + from,
                                 3.0f * (float)shares[r] / COUNT,
                                 s.model->sequence ? s.lengths + from : NULL};
            assert_ok(shoali_net_train(s.net, &part, NULL, NULL, &loss));
            for (size_t p = 0; p < s.count; p++)
                sum[p] += shoali_net_grads(s.net)[p] / 3.0;
        }
        s.batch.weight = 1;
        assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss));
        assert_near(shoali_net_grads(s.net), sum, s.count, 2e-6, i, "gradients of splits");
        free(sum);
        close_case(&s);
    }
}

static void the_same_call_gives_the_same_bits(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        setting a, b;
        shoali_loss loss_a, loss_b;
        open_case(&cases[i], seed, &a);
        open_case(&cases[i], seed, &b);
        assert_ok(
            shoali_net_evaluate(b.net, &b.batch, &loss_b)); /* leaves other bytes in all buffers */
        assert_ok(shoali_net_train(a.net, &a.batch, NULL, NULL, &loss_a));
        assert_ok(shoali_net_train(b.net, &b.batch, NULL, NULL, &loss_b));
        assert_memory_equal(&loss_a.sum, &loss_b.sum, sizeof loss_a.sum);
        assert_memory_equal(shoali_net_grads(a.net), shoali_net_grads(b.net),
                            a.count * sizeof(float));
        close_case(&a);
        close_case(&b);
    }
}

/* A value that is no number goes through every kind of layer to the gradients, where the exchange
 * finds it. */
static void nan_is_not_lost_on_the_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        for (size_t at = 0; at < 2; at++) {
            setting s;
            shoali_loss loss;
            open_case(&cases[i], 1, &s);
            size_t elems = (size_t)shoali_shape_elems(cases[i].input) * COUNT;
            for (size_t k = at; k < elems; k += 2)
                s.x[k] = NAN;
            assert_ok(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss));
            if (!isnan(loss.sum))
                fail_msg("case %zu, from %zu: lost", i, at);
            assert_true(isnan(shoali_net_grads(s.net)[s.count - 1]));
            close_case(&s);
        }
}

static void bad_batches_and_models_are_refused(void **state)
{
    static const char *const image_out[] = {"conv:out=3,kernel=3"}, *const nothing[] = {"flatten"};
    const shoali_model_text texts[] = {
        {"image", NULL, {1, 8, 8}, SHOALI_INIT_HE, image_out, 1, 0, false, false},
        {"nothing", NULL, {1, 8, 8}, SHOALI_INIT_HE, nothing, 1, 0, false, false}};
    static const char *const reasons[] = {"needs a vector", "no parameters"};
    setting s;
    shoali_loss loss;
    (void)state;
    open_case(&cases[0], 1, &s);
    s.labels[1] = 99;
    assert_status(shoali_net_train(s.net, &s.batch, NULL, NULL, &loss), SHOAL_EINVAL);
    assert_error_has("label 99");
    s.batch.count = COUNT + 2;
    assert_status(shoali_net_evaluate(s.net, &s.batch, &loss), SHOAL_EINVAL);
    close_case(&s);
    for (size_t i = 0; i < 2; i++) {
        shoal_model *model;
        shoali_net *net;
        assert_ok(shoali_model_build("m", &texts[i], false, &model));
        assert_status(shoali_net_create(model, 4, 1, &net), SHOAL_EINVAL);
        assert_error_has(reasons[i]);
        shoal_model_close(model);
    }
}

/* A layer whose output a branch leaves behind would never learn. */
static void what_nobody_reads_is_refused(void **state)
{
    static const char *const layers[] = {"dense:out=4", "dense:out=5", "branch:back=2",
                                         "dense:out=3"};
    const shoali_model_text text = {"m", NULL, {4, 1, 1}, SHOALI_INIT_HE, layers,
                                    4,   0,    false,     false};
    shoal_model *model;
    shoali_net *net;
    (void)state;
    assert_ok(shoali_model_build("m", &text, false, &model));
    assert_status(shoali_net_create(model, 4, 1, &net), SHOAL_ENOTSUP);
    assert_error_has("nothing reads what layer 2, dense2 ('dense:out=5'), gives");
    shoal_model_close(model);
}

static void memory_runs_out_cleanly(void **state)
{
    shoal_model *model;
    shoali_net *net = NULL;
    (void)state;
    assert_ok(shoal_model_open("lenet", &model));
    shoal_status status = SHOAL_ENOMEM;
    size_t k = 0;
    while (status == SHOAL_ENOMEM) {
        (void)shoali_alloc_fail_at(++k);
        status = shoali_net_create(model, 2, 1, &net);
    }
    (void)shoali_alloc_fail_at(0);
    assert_ok(status);
    assert_true(k > 2);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(scores_and_losses_match),
        CHECK_TEST(gradients_match_differences),
        CHECK_TEST(gradients_of_large_matrices_match_differences),
        CHECK_TEST(evaluation_uses_running_statistics_and_no_dropout),
        CHECK_TEST(every_layer_kind_is_covered),
        CHECK_TEST(ranges_are_final_and_come_back_to_front),
        CHECK_TEST(a_failing_hook_ends_the_pass),
        CHECK_TEST(splits_give_the_same_gradient),
        CHECK_TEST(the_same_call_gives_the_same_bits),
        CHECK_TEST(nan_is_not_lost_on_the_way),
        CHECK_TEST(bad_batches_and_models_are_refused),
        CHECK_TEST(what_nobody_reads_is_refused),
        CHECK_TEST(memory_runs_out_cleanly),
    };
    return CHECK_RUN(tests);
}
