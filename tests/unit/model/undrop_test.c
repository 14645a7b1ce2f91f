/* SPDX-License-Identifier: Apache-2.0 */
/* dropout=off: no layer leaves anything out, and nothing else changes. */
#include "model/model_text.h"
#include "support/check.h"

static void rates_are_gone(void **state)
{
    static const char *const layers[] = {"embedding:vocab=5,width=8,positions=9,drop=0.1",
                                         "transformer:heads=2,ff=4,drop=0.2,attdrop=0.3,eps=1e-6",
                                         "dropout",
                                         "attention:heads=2,drop=0.5,causal=off",
                                         "add:back=2",
                                         "tanh"};
    static const char *const want[] = {"embedding:vocab=5,width=8,positions=9",
                                       "transformer:heads=2,ff=4,eps=1e-06",
                                       "dropout:rate=0",
                                       "attention:heads=2,causal=off",
                                       "add:back=2",
                                       "tanh"};
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text = {.name = "m", .input = {1, 9, 1}, .layers = layers, .layer_count = 6};
    (void)state;
    assert_non_null(arena);
    assert_ok(shoali_model_undrop(arena, &text));
    assert_int_equal(text.layer_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(text.layers[i], want[i]);
    shoali_arena_destroy(arena);
}

static void the_key_asks_for_it(void **state)
{
    shoal_model *with, *without;
    (void)state;
    assert_ok(shoal_model_open("alexnet", &with));
    assert_ok(shoal_model_open("alexnet:dropout=off", &without));
    bool seen = false;
    for (uint32_t i = 0; i < with->layer_count; i++)
        if (strcmp(with->layers[i].row->name, "dropout") == 0) {
            const shoali_dropout_params *p = with->layers[i].params;
            const shoali_dropout_params *q = without->layers[i].params;
            seen = true;
            assert_true(p->rate == 0.5 && q->rate == 0);
        }
    assert_true(seen);
    shoal_model_close(with);
    shoal_model_close(without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(rates_are_gone), CHECK_TEST(the_key_asks_for_it)};
    return CHECK_RUN(tests);
}
