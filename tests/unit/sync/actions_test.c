/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/arena.h"
#include "base/rng.h"
#include "sync/actions.h"

static void actions_come_out_in_order_with_their_payloads(void **state)
{
    (void)state;
    shoali_actions q = {0};
    const uint32_t members[] = {3, 1, 4};
    const shoali_mix_term terms[] = {{SHOALI_PARAM, 0.5f}, {SHOALI_SLOT + 2, -1}};
    assert_null(shoali_actions_front(&q));
    shoali_act_send(&q, 7, "hello", 5);
    shoali_act_op(&q, &(shoali_sync_op){.id = 9, .members = members, .member_count = 3});
    shoali_act_op(&q, &(shoali_sync_op){.id = 10, .collective = "ring:both"});
    shoali_act_mix(&q, SHOALI_PARAM, 10, 20, terms, 2);
    shoali_act_fail(&q, SHOAL_EPEER, 2, "worker %d", 2);

    const shoali_action *a = shoali_actions_front(&q);
    assert_int_equal(a->kind, SHOALI_ACT_SEND);
    assert_int_equal(a->send.peer, 7);
    assert_int_equal(a->send.len_bytes, 5);
    assert_memory_equal(a->send.bytes, "hello", 5);
    shoali_actions_pop(&q);
    a = shoali_actions_front(&q);
    assert_int_equal(a->kind, SHOALI_ACT_OP);
    assert_memory_equal(a->op.members, members, sizeof members);
    assert_null(a->op.collective);
    shoali_actions_pop(&q);
    a = shoali_actions_front(&q);
    assert_null(a->op.members);
    assert_string_equal(a->op.collective, "ring:both");
    shoali_actions_pop(&q);
    a = shoali_actions_front(&q);
    assert_int_equal(a->mix.term_count, 2);
    assert_int_equal(a->mix.terms[1].tensor, SHOALI_SLOT + 2);
    assert_true(a->mix.terms[1].weight == -1);
    shoali_actions_pop(&q);
    a = shoali_actions_front(&q);
    assert_string_equal(a->fail.text, "worker 2");
    shoali_actions_pop(&q);
    assert_null(shoali_actions_front(&q));
    shoali_actions_pop(&q); /* empty: nothing happens */
    shoali_actions_fini(&q);
}

/* Interleaved appends and pops of random sizes against a counter: the oldest is in front. */
static void a_long_mixed_life_keeps_order(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 1, 0};
    shoali_actions q = {0};
    uint64_t in = 0, out = 0;
    uint8_t bytes[300];
    for (int step = 0; step < 20000; step++) {
        uint64_t draw = shoali_rng_next(&rng);
        if (draw % 3 != 0 || in == out) {
            size_t len = 8 + (draw >> 8) % (sizeof bytes - 8);
            memset(bytes, (int)(in & 0xff), sizeof bytes);
            memcpy(bytes, &in, sizeof in);
            shoali_act_send(&q, 0, bytes, len);
            in++;
        }
        if (draw % 3 != 1 && in != out) {
            uint64_t number;
            const shoali_action *a = shoali_actions_front(&q);
            memcpy(&number, a->send.bytes, sizeof number);
            assert_int_equal(number, out);
            if (a->send.len_bytes > 8)
                assert_int_equal(a->send.bytes[a->send.len_bytes - 1], out & 0xff);
            shoali_actions_pop(&q);
            out++;
        }
    }
    assert_int_equal(q.status, SHOAL_OK);
    shoali_actions_fini(&q);
}

static void steady_use_does_not_allocate(void **state)
{
    (void)state;
    shoali_actions q = {0};
    shoal_verdict go = {.apply = true};
    for (int i = 0; i < 3; i++)
        shoali_act_go(&q, &go);
    (void)shoali_alloc_fail_at(0);
    for (int i = 0; i < 1000; i++) {
        shoali_act_timer(&q, 1, 2);
        shoali_actions_pop(&q);
        shoali_actions_pop(&q);
        shoali_act_go(&q, &go);
    }
    assert_int_equal(shoali_alloc_fail_at(0), 0);
    shoali_actions_fini(&q);
}

static void no_memory_sticks_and_drops_nothing_queued(void **state)
{
    (void)state;
    shoali_actions q = {0};
    uint8_t big[4096] = {0};
    shoali_act_cancel(&q, 5);
    (void)shoali_alloc_fail_at(1);
    shoali_act_send(&q, 1, big, sizeof big);
    (void)shoali_alloc_fail_at(0);
    assert_int_equal(q.status, SHOAL_ENOMEM);
    shoali_act_cancel(&q, 6);
    assert_int_equal(shoali_actions_front(&q)->cancel.id, 5);
    shoali_actions_pop(&q);
    assert_null(shoali_actions_front(&q));
    shoali_act_send(&q, 1, big, SIZE_MAX - 3); /* absurd sizes are ENOMEM, never a short record */
    assert_null(shoali_actions_front(&q));
    shoali_actions_clear(&q);
    shoali_actions_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(actions_come_out_in_order_with_their_payloads),
        CHECK_TEST(a_long_mixed_life_keeps_order),
        CHECK_TEST(steady_use_does_not_allocate),
        CHECK_TEST(no_memory_sticks_and_drops_nothing_queued),
    };
    return CHECK_RUN(tests);
}
