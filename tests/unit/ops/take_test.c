/* SPDX-License-Identifier: Apache-2.0 */
/* What others send, to whom it goes: nothing malformed, nothing of a stranger to the operation, and
 * nothing for one that is over. */
#include "support/check.h"
#include "support/opsworld.h"
#include "wire/messages.h"

enum { COUNT = 100 };

static float buf[3][COUNT];

/* Between ranks 0 and 1 of three. */
static shoal_op *start(opsworld *world, uint32_t rank)
{
    static const uint32_t members[] = {0, 1};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.members = members;
    desc.member_count = 2;
    desc.collective = "direct";
    desc.buf = buf[rank];
    desc.count = COUNT;
    return opsworld_start(world, rank, &desc);
}

static void kinds_of_others_are_left_to_them(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    static const uint16_t others[] = {SHOALI_MESSAGE_heartbeat, SHOALI_MESSAGE_reform,
                                      SHOALI_MESSAGE_protocol, SHOALI_MESSAGE_datagram, 9999};
    const uint8_t bytes[SHOALI_READY_BYTES] = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(
            shoali_take_control(&world->rank[0].ops, 1, others[i], bytes, sizeof bytes),
            SHOALI_TAKEN_NOT);
    opsworld_destroy(world);
}

static void what_is_cut_short_is_bad(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    static const uint16_t ours[] = {SHOALI_MESSAGE_ready, SHOALI_MESSAGE_abort, SHOALI_MESSAGE_ask,
                                    SHOALI_MESSAGE_answer, SHOALI_MESSAGE_flow};
    const uint8_t bytes[8] = {0};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        for (size_t len = 0; len <= sizeof bytes; len++)
            assert_int_equal(shoali_take_control(&world->rank[0].ops, 1, ours[i], bytes, len),
                             SHOALI_TAKEN_BAD);
    assert_null(world->rank[0].ops.notes.first);
    opsworld_destroy(world);
}

static void a_ready_is_kept_for_who_enters_later(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    const shoali_ready ready = {.id = {0, 1, SHOALI_MAIN_ROUND}, .count = COUNT, .hash = 1};
    uint8_t bytes[SHOALI_READY_BYTES];
    const size_t len = shoali_ready_encode(&ready, bytes);
    assert_int_equal(shoali_take_control(&world->rank[0].ops, 1, SHOALI_MESSAGE_ready, bytes, len),
                     SHOALI_TAKEN);
    assert_non_null(world->rank[0].ops.notes.first);
    shoali_agree_forget(&world->rank[0].ops, 1);
    opsworld_destroy(world);
}

static uint32_t heard; /* messages of flows */
static uint32_t framed, frames;
static uint64_t packet_us; /* when the last packet came; 0: none */

static void hear(void *flow, uint32_t member, uint16_t kind, const void *bytes, size_t len_bytes)
{
    (void)flow, (void)bytes;
    assert_int_equal(member, 1);
    assert_int_equal(kind, 7);
    assert_int_equal(len_bytes, 2);
    heard++;
}

static void take_frames(void *flow, uint32_t member, const shoal_data *heads,
                        uint8_t *const *bodies, size_t count)
{
    (void)flow, (void)heads, (void)bodies;
    assert_int_equal(member, 1);
    framed++;
    frames += (uint32_t)count;
}

static bool take_packet(void *flow, uint32_t member, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_us)
{
    (void)flow;
    assert_int_equal(member, 1);
    if (len_bytes != 1 || bytes[0] != 42)
        return false;
    packet_us = now_us;
    return true;
}

/* An operation of rank 0 with rank 1, with another's ears. */
static shoal_op *listen(opsworld *world, shoali_flow_row *row)
{
    shoal_op *op = start(world, 0);
    assert_int_equal(op->state, SHOALI_OP_RUNNING);
    *row = *op->row;
    row->on_control = hear;
    row->on_frames = take_frames;
    op->row = row;
    heard = framed = frames = 0;
    packet_us = 0;
    return op;
}

static void end(opsworld *world)
{
    shoali_run_cancel_all(&world->rank[0].ops);
    opsworld_run(world, UINT64_MAX);
    opsworld_destroy(world);
}

static void a_word_of_a_flow_goes_to_its_operation(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    shoali_flow_row row;
    const shoal_op *op = listen(world, &row);
    shoali_ops *ops = &world->rank[0].ops;
    uint8_t bytes[SHOALI_FLOW_HEAD_BYTES + 2] = {0};
    shoali_flow_head head = {.id = op->id, .kind = 7};
    shoali_flow_head_encode(&head, bytes);
    const uint16_t flow = SHOALI_MESSAGE_flow;
    assert_int_equal(shoali_take_control(ops, 1, flow, bytes, sizeof bytes), SHOALI_TAKEN);
    assert_int_equal(heard, 1);
    assert_int_equal(shoali_take_control(ops, 2, flow, bytes, sizeof bytes), SHOALI_TAKEN);
    head.id.sequence++; /* of one that is over, or not begun */
    shoali_flow_head_encode(&head, bytes);
    assert_int_equal(shoali_take_control(ops, 1, flow, bytes, sizeof bytes), SHOALI_TAKEN);
    assert_int_equal(heard, 1);
    end(world);
}

static void frames_go_by_slot_and_member(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    shoali_flow_row row;
    shoal_op *op = listen(world, &row);
    shoali_ops *ops = &world->rank[0].ops;
    const uint32_t mine = op->slot, none = mine + 1;
    const shoal_data heads[] = {{.slot = mine}, {.slot = mine}, {.slot = none}, {.slot = mine}};
    uint8_t *const bodies[4] = {NULL};
    uint32_t member = 99;
    assert_ptr_equal(shoali_take_for(ops, 1, &heads[0], &member), op);
    assert_int_equal(member, 1);
    assert_null(shoali_take_for(ops, 2, &heads[0], &member)); /* no member */
    assert_null(shoali_take_for(ops, 1, &heads[2], &member)); /* no operation */
    shoali_take_frames(ops, 1, heads, bodies, 4);
    assert_int_equal(framed, 2); /* neighbours of one slot at once */
    assert_int_equal(frames, 3);
    shoali_take_frames(ops, 2, heads, bodies, 4);
    assert_int_equal(frames, 3);
    op->state = SHOALI_OP_ROUNDS;
    assert_null(shoali_take_for(ops, 1, &heads[0], &member));
    op->state = SHOALI_OP_RUNNING;
    end(world);
}

static void a_packet_is_whoever_takes_it(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    shoali_flow_row row;
    listen(world, &row);
    shoali_ops *ops = &world->rank[0].ops;
    const uint8_t good = 42, strange = 43;
    assert_false(shoali_take_datagram(ops, 1, &good, 1)); /* this flow takes no packets */
    row.on_datagram = take_packet;
    assert_false(shoali_take_datagram(ops, 1, &strange, 1));
    assert_false(shoali_take_datagram(ops, 2, &good, 1));
    assert_int_equal(packet_us, 0);
    assert_true(shoali_take_datagram(ops, 1, &good, 1));
    assert_int_equal(packet_us, world->now_us);
    row.on_datagram = NULL;
    end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(kinds_of_others_are_left_to_them),
        CHECK_TEST(what_is_cut_short_is_bad),
        CHECK_TEST(a_ready_is_kept_for_who_enters_later),
        CHECK_TEST(a_word_of_a_flow_goes_to_its_operation),
        CHECK_TEST(frames_go_by_slot_and_member),
        CHECK_TEST(a_packet_is_whoever_takes_it),
    };
    return CHECK_RUN(tests);
}
