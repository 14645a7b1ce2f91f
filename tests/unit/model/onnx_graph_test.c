/* SPDX-License-Identifier: Apache-2.0 */
#include "model/onnx_graph.h"
#include "support/check.h"

#define IN SHOALI_ONNX_INPUTS

/* What is written is what the format's reader finds, in order. */
static void there_and_back(void **state)
{
    (void)state;
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    shoali_onnx_graph g = {.arena = shoali_arena_create(4096), .pb = SHOAL__ONNX__GRAPH__INIT};
    shoali_onnx_floats(&g, "w", weights, 2, (const int64_t[]){2, 3});
    shoali_onnx_list(&g, "shape", (const int64_t[]){0, -1}, 2);
    shoali_onnx_scalar(&g, "half", 0.5f);
    Shoal__Onnx__Node *node = shoali_onnx_node(&g, "Split", "a", IN("x", "w"));
    shoali_onnx_second(&g, node, "b");
    shoali_onnx_int(&g, node, "axis", -1);
    shoali_onnx_float(&g, node, "eps", 0.25f);
    shoali_onnx_ints(&g, node, "perm", (const int64_t[]){1, 0}, 2);
    assert_false(g.failed);
    assert_int_equal(g.bytes, 24 + 16 + 4);

    uint8_t packed[1024];
    assert_in_range(shoal__onnx__graph__get_packed_size(&g.pb), 1, sizeof packed);
    const size_t len = shoal__onnx__graph__pack(&g.pb, packed);
    Shoal__Onnx__Graph *back = shoal__onnx__graph__unpack(NULL, len, packed);
    assert_non_null(back);
    assert_int_equal(back->n_initializer, 3);
    assert_int_equal(back->initializer[0]->n_dims, 2);
    assert_memory_equal(back->initializer[0]->raw_data.data, weights, sizeof weights);
    assert_int_equal(back->initializer[1]->data_type, 7);
    assert_int_equal(back->initializer[2]->n_dims, 0);
    assert_int_equal(back->n_node, 1);
    assert_string_equal(back->node[0]->op_type, "Split");
    assert_int_equal(back->node[0]->n_input, 2);
    assert_int_equal(back->node[0]->n_output, 2);
    assert_string_equal(back->node[0]->output[1], "b");
    assert_int_equal(back->node[0]->attribute[0]->i, -1);
    assert_int_equal(back->node[0]->attribute[0]->type, 2);
    assert_true(back->node[0]->attribute[1]->f == 0.25f);
    assert_int_equal(back->node[0]->attribute[2]->n_ints, 2);
    shoal__onnx__graph__free_unpacked(back, NULL);
    shoali_arena_destroy(g.arena);
}

/* More nodes and tensors than there was room for at first. */
static void lists_grow(void **state)
{
    (void)state;
    shoali_onnx_graph g = {.arena = shoali_arena_create(4096), .pb = SHOAL__ONNX__GRAPH__INIT};
    for (int i = 0; i < 1000; i++) {
        shoali_onnx_scalar(&g, shoali_onnx_text(&g, "t%d", i), (float)i);
        shoali_onnx_node(&g, "Add", shoali_onnx_text(&g, "n%d", i), IN("x", "y"));
    }
    assert_false(g.failed);
    assert_int_equal(g.pb.n_node, 1000);
    assert_int_equal(g.pb.n_initializer, 1000);
    assert_string_equal(g.pb.node[63]->output[0], "n63");
    assert_string_equal(g.pb.node[999]->output[0], "n999");
    shoali_arena_destroy(g.arena);
}

/* The batch is left open. */
static void a_value_has_sizes_behind_its_batch(void **state)
{
    (void)state;
    shoali_onnx_graph g = {.arena = shoali_arena_create(4096), .pb = SHOAL__ONNX__GRAPH__INIT};
    const Shoal__Onnx__ValueInfo *v = shoali_onnx_value(&g, "input", true, 2,
                                                        (const int64_t[]){3, 5});
    assert_int_equal(v->type->tensor->elem_type, 7);
    const Shoal__Onnx__Shape *shape = v->type->tensor->shape;
    assert_int_equal(shape->n_dim, 3);
    assert_false(shape->dim[0]->has_value);
    assert_string_equal(shape->dim[0]->param, "batch");
    assert_int_equal(shape->dim[2]->value, 5);
    shoali_arena_destroy(g.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(there_and_back), CHECK_TEST(lists_grow),
                                       CHECK_TEST(a_value_has_sizes_behind_its_batch)};
    return CHECK_RUN(tests);
}
