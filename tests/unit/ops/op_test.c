/* SPDX-License-Identifier: Apache-2.0 */
/* Operations from descriptors: what is copied, what is refused, names, numbers, and the hash by
 * which members recognise each other's. */
#include "support/check.h"
#include "support/opsworld.h"

enum { COUNT = 100 };

static const shoali_op_extras plain = {.check_finite = true};
static float buf[COUNT];
static opsworld *world;

static int setup(void **state)
{
    (void)state;
    world = opsworld_create(4, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    opsworld_destroy(world);
    return 0;
}

static shoal_op_desc usual(void)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf;
    desc.count = COUNT;
    return desc;
}

static shoal_op *make(uint32_t rank, const shoal_op_desc *desc)
{
    shoal_op *op = NULL;
    assert_ok(shoali_op_make(&world->rank[rank].ops, desc, &plain, SHOALI_MAIN_ROUND, &op));
    return op;
}

static uint64_t hash_of(uint32_t rank, const shoal_op_desc *desc)
{
    shoal_op *op = make(rank, desc);
    const uint64_t hash = op->hash;
    shoali_op_free(op);
    return hash;
}

static void refused(const shoal_op_desc *desc, const char *text)
{
    shoal_op *op = NULL;
    assert_status(shoali_op_make(&world->rank[0].ops, desc, &plain, 1, &op), SHOAL_EINVAL);
    assert_error_has(text);
    assert_null(op);
}

static void a_name_has_all_that_matters(void **state)
{
    (void)state;
    shoal_op_desc desc = usual();
    desc.label = "gradients";
    shoal_op *op = make(2, &desc);
    assert_string_equal(op->name, "all-reduce 1 (gradients)");
    assert_string_equal(op->text, "all-reduce 1 gradients, 100 elements, ring, identity");
    assert_int_equal(op->plan->me, 2);
    assert_int_equal(op->plan->member_count, 4);
    assert_int_equal(op->plan->contributors, 4);
    assert_int_equal(op->timeout_us, world->rank[2].ops.timeout_us);
    assert_int_equal(op->plan->tensors[0].count, COUNT);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(shoali_member_of(op, i), i);
    shoali_op_free(op);
}

static void groups_are_numbered_apart(void **state)
{
    (void)state;
    static const uint32_t some[] = {3, 0};
    shoal_op_desc all = usual(), few = usual(), named = usual();
    few.members = some;
    few.member_count = 2;
    named.id = (shoal_op_id){5, 77, 1, 0};
    shoal_op *op = make(0, &all), *two = make(0, &few), *three = make(0, &all),
             *four = make(0, &named);
    assert_int_equal(op->id.sequence, 1);
    assert_int_equal(two->id.sequence, 1);
    assert_int_equal(three->id.sequence, 2);
    assert_int_equal(four->id.sequence, 77);
    assert_int_equal(four->id.group, 5);
    assert_int_equal(op->id.group, 0);
    assert_true(two->id.group != 0 && two->id.group >> 63 == 0);
    assert_int_equal(two->plan->me, 1);
    assert_int_equal(shoali_member_of(two, 1), SHOALI_NONE);
    assert_int_equal(shoali_member_of(two, 3), 0);
    shoali_op_free(op);
    shoali_op_free(two);
    shoali_op_free(three);
    shoali_op_free(four);
}

static void the_hash_is_of_all_that_must_agree(void **state)
{
    (void)state;
    static const uint32_t some[] = {0, 1, 2};
    shoal_tensor two[] = {{.key = 1, .count = 60, .lr_scale = 1},
                          {.key = 2, .offset = 60, .count = 40, .lr_scale = 1}};
    const shoal_op_desc desc = usual();
    shoal_op_desc other[8];
    for (int i = 0; i < 8; i++)
        other[i] = desc;
    other[0].count--;
    other[1].reduce = SHOAL_MAX;
    other[2].collective = "direct";
    other[3].push_codec = "fp16";
    other[4].pull_codec = "fp16";
    other[5].members = some;
    other[5].member_count = 3;
    other[6].kind = SHOAL_REDUCE_SCATTER;
    other[7].tensors = two;
    other[7].tensor_count = 2;
    const uint64_t hash = hash_of(0, &desc);
    assert_true(hash_of(1, &desc) == hash);
    for (int i = 0; i < 8; i++)
        assert_true(hash_of(0, &other[i]) != hash);
    const uint64_t split = hash_of(0, &other[7]);
    two[1].key = 3;
    assert_true(hash_of(0, &other[7]) != split);
    two[1].key = 2;
    assert_true(hash_of(0, &other[7]) == split);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const uint32_t twice[] = {0, 1, 1}, beyond[] = {0, 4}, others[] = {1, 2};
    static const shoal_tensor gap[] = {{.key = 1, .offset = 1, .count = COUNT - 1}},
                              bits[] = {{.key = 1, .count = COUNT, .flags = SHOAL_TENSOR_BITS}},
                              less[] = {{.key = 1, .count = COUNT - 1}};
    shoal_op_desc desc = usual();
    desc.size--;
    refused(&desc, "wrong size");
    refused(NULL, "wrong size");
    desc = usual();
    desc.buf = NULL;
    refused(&desc, "100 elements at");
    desc = usual();
    desc.members = twice;
    desc.member_count = 3;
    refused(&desc, "member 2 is rank 1, which is listed twice");
    desc.members = beyond;
    desc.member_count = 2;
    refused(&desc, "none of this communicator");
    desc.members = others;
    refused(&desc, "rank 0 is no member of its own operation");
    desc = usual();
    desc.tensors = gap;
    desc.tensor_count = 1;
    refused(&desc, "does not start at element 0");
    desc.tensors = less;
    refused(&desc, "cover 99 of 100");
    desc.tensors = bits;
    refused(&desc, "tensors of bits");
    desc = usual();
    desc.contributors = 5;
    refused(&desc, "5 of them contribute");
    desc = usual();
    desc.root = 4;
    refused(&desc, "root 4");
    desc = usual();
    desc.collective = "broadcast";
    refused(&desc, "is not for all-reduce");
    desc = usual();
    desc.kind = (shoal_op_kind)9;
    refused(&desc, "operation of kind 9");
}

static void a_barrier_brings_its_own_buffer(void **state)
{
    (void)state;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BARRIER;
    shoal_op *op = make(1, &desc);
    assert_int_equal(op->plan->count, 1);
    assert_ptr_equal(op->buf, &op->barrier_value);
    assert_string_equal(op->text, "barrier 1");
    assert_string_equal(op->plan->collective.spec, "direct");
    shoali_op_free(op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_has_all_that_matters, setup, teardown),
        cmocka_unit_test_setup_teardown(groups_are_numbered_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(the_hash_is_of_all_that_must_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_barrier_brings_its_own_buffer, setup, teardown)};
    return CHECK_RUN(tests);
}
