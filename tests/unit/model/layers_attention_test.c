/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, counts and refusals of the kinds of language models. */
#include "model/model_text.h"
#include "support/check.h"

static shoal_status build(shoal_shape input, const char *first, const char *second,
                          shoal_model **model)
{
    const char *const layers[] = {first, second};
    const shoali_model_text text = {
        .name = "m", .input = input, .layers = layers, .layer_count = second != NULL ? 2 : 1};
    return shoali_model_build("m", &text, false, model);
}

static void groups_share_keys_and_values(void **state)
{
    shoal_model *model;
    (void)state;
    assert_ok(
        build((shoal_shape){1, 10, 12}, "attention:heads=6,kv=2,dim=4", "swiglu:ff=5", &model));
    assert_int_equal(model->layers[0].param_count, 12 * 24 * 2 + 12 * 8 * 2);
    assert_int_equal(model->layers[1].param_count, 3 * 12 * 5);
    assert_int_equal(model->layers[1].out.width, 12);
    assert_true(model->sequence);
    /* 10 frames see 55; products of queries with keys, of scores with values */
    assert_true(model->layers[0].forward_flops == 2.0 * 10 * 768 + 4.0 * 55 * 24);
    assert_string_equal(model->layers[0].spec, "attention:heads=6,kv=2,dim=4");
    shoal_model_close(model);
}

static void a_table_is_lent_to_the_scores(void **state)
{
    shoal_model *model;
    (void)state;
    assert_ok(build((shoal_shape){1, 4, 1}, "lookup:vocab=7,width=3,frames",
                    "framewise:out=7,tied,bias=off", &model));
    assert_int_equal(model->param_count, 21);
    assert_true(model->layers[0].lends);
    assert_int_equal(model->layers[1].param_offset, 0);
    shoal_model_close(model);
}

static void what_does_not_fit_is_said(void **state)
{
    static const struct {
        shoal_shape input;
        const char *first, *second, *says;
    } cases[] = {
        {{1, 5, 7}, "attention:heads=2", NULL, "7 values of a frame do not divide into 2 heads"},
        {{1, 5, 8}, "attention:heads=4,kv=3", NULL, "kv must divide heads"},
        {{1, 5, 6}, "attention:heads=2", NULL, "a head has 3, which is odd"},
        {{3, 8, 8}, "attention", NULL, "3 x 8 x 8 is no sequence"},
        {{3, 8, 8}, "rmsnorm", NULL, "3 x 8 x 8 is no sequence"},
        {{3, 8, 8}, "swiglu", NULL, "3 x 8 x 8 is no sequence"},
        {{1, 5, 65536}, "attention:heads=4096,dim=65536", NULL, "are too large"},
        {{1, 4, 1},
         "lookup:vocab=7,width=3,frames",
         "framewise:out=8,tied,bias=off",
         "a table of 7 rows of 3 values is no matrix of 8 x 3"},
        {{1, 4, 1}, "lookup:vocab=7,width=3,frames", "framewise:out=7,tied", "bias=off"},
        {{1, 4, 3}, "rmsnorm", "framewise:out=7,tied,bias=off", "does not begin with a lookup"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *model = NULL;
        assert_int_equal(build(cases[i].input, cases[i].first, cases[i].second, &model),
                         SHOAL_EINVAL);
        if (strstr(shoal_last_error()->text, cases[i].says) == NULL)
            fail_msg("%s: said '%s'", cases[i].first, shoal_last_error()->text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_share_keys_and_values),
        cmocka_unit_test(a_table_is_lent_to_the_scores),
        cmocka_unit_test(what_does_not_fit_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
