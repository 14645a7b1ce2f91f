/* SPDX-License-Identifier: Apache-2.0 */
/* Plans from descriptors: what they keep is theirs, and they know what they are of. What cannot be
 * made is refused: op_test.c. */
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

static shoal_op_plan *make_at(uint32_t rank, const shoal_op_desc *desc)
{
    shoal_op_plan *plan = NULL;
    assert_ok(shoali_plan_make(&world->rank[rank].ops, desc, &plain, &plan));
    return plan;
}

static shoal_op_plan *make(const shoal_op_desc *desc)
{
    return make_at(1, desc);
}

static void its_parts_are_its_own(void **state)
{
    (void)state;
    char collective[] = "direct", codec[] = "fp16", label[] = "gradients";
    uint32_t members[] = {3, 1};
    shoal_tensor tensors[] = {{.key = 7, .count = COUNT, .lr_scale = 1}};
    shoal_op_desc desc = usual();
    desc.collective = collective;
    desc.push_codec = codec;
    desc.label = label;
    desc.members = members;
    desc.member_count = 2;
    desc.tensors = tensors;
    desc.tensor_count = 1;
    shoal_op_plan *plan = make(&desc);
    collective[0] = codec[0] = label[0] = 'x';
    members[0] = 0;
    tensors[0].key = 8;
    assert_string_equal(plan->given.desc.collective, "direct");
    assert_string_equal(plan->given.desc.push_codec, "fp16");
    assert_string_equal(plan->given.desc.label, "gradients");
    assert_string_equal(plan->tail, ", 100 elements, direct, fp16");
    assert_null(plan->given.desc.buf);
    assert_int_equal(plan->members[0], 3);
    assert_int_equal(plan->me, 1);
    assert_int_equal(plan->tensors[0].key, 7);
    shoali_plan_free(plan);
}

/* Each difference that makes another operation, and what differs from run to run. */
static void it_knows_what_it_is_of(void **state)
{
    (void)state;
    static const uint32_t some[] = {0, 1, 2};
    static const shoal_tensor two[] = {{.key = 1, .count = 60, .lr_scale = 1},
                                       {.key = 2, .offset = 60, .count = 40, .lr_scale = 1}};
    float elsewhere[COUNT];
    shoal_op_desc desc = usual(), other[9], again = usual();
    shoal_op_plan *plan = make(&desc);
    for (size_t i = 0; i < 9; i++)
        other[i] = desc;
    other[0].count--;
    other[1].reduce = SHOAL_MAX;
    other[2].collective = "ring"; /* which it is, but nobody has looked */
    other[3].push_codec = "fp16";
    other[4].pull_codec = "fp16";
    other[5].members = some;
    other[5].member_count = 3;
    other[6].kind = SHOAL_REDUCE_SCATTER;
    other[7].tensors = two;
    other[7].tensor_count = 2;
    other[8].contributors = 4;
    for (size_t i = 0; i < 9; i++)
        assert_false(shoali_plan_is(plan, &other[i], &plain));
    again.buf = elsewhere;
    again.label = "step 7";
    again.timeout_us = 5;
    again.tos = 0x28;
    again.id = (shoal_op_id){1, 2, 3, 0};
    assert_true(shoali_plan_is(plan, &again, &plain));
    shoali_op_extras feeds = plain, owned = plain;
    feeds.error_feedback = true;
    owned.owner_ctx = buf;
    assert_false(shoali_plan_is(plan, &again, &feeds));
    assert_true(shoali_plan_is(plan, &again, &owned)); /* whom an owner's job is for changes */
    shoali_plan_free(plan);
}

static void the_last_tensor_counts(void **state)
{
    (void)state;
    shoal_tensor two[] = {{.key = 1, .count = 60, .lr_scale = 1},
                          {.key = 2, .offset = 60, .count = 40, .lr_scale = 1}};
    shoal_op_desc desc = usual();
    desc.tensors = two;
    desc.tensor_count = 2;
    shoal_op_plan *plan = make(&desc);
    assert_true(shoali_plan_is(plan, &desc, &plain));
    two[1].flags = SHOAL_TENSOR_RAW;
    assert_false(shoali_plan_is(plan, &desc, &plain));
    shoali_plan_free(plan);
}

/* Whoever contributes rows codes them by their length, up to the last one; who only serves has
 * none. */
static void every_contributor_knows_how_long_a_row_is(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 3};
    const shoal_tensor matrix = {.key = 7, .count = COUNT, .rows = 4, .cols = 25, .lr_scale = 1};
    shoal_op_desc desc = usual();
    desc.collective = "omnireduce:input=coo";
    desc.tensors = &matrix;
    desc.tensor_count = 1;
    desc.rows = rows;
    desc.row_count = 2;
    desc.contributors = 3;
    for (uint32_t rank = 0; rank < 4; rank++) {
        shoal_op_plan *plan = make_at(rank, &desc);
        const bool knows = strstr(plan->collective.spec, "row=25") != NULL;
        assert_true(knows == (rank < 3));
        shoali_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_parts_are_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(it_knows_what_it_is_of, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_tensor_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(every_contributor_knows_how_long_a_row_is, setup,
                                        teardown)};
    return CHECK_RUN(tests);
}
