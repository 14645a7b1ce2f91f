/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/arena.h"
#include "base/rng.h"
#include "transport/outbox.h"
#include "wire/crc32c.h"

typedef struct tally {
    uint64_t cookies[64];
    size_t count;
    shoal_status status;
} tally;

static void sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    tally *t = ctx;
    assert_int_equal(peer, 3);
    t->cookies[t->count++] = cookie;
    t->status = status;
}

static void frames_leave_in_order_whatever_the_pieces(void **state)
{
    (void)state;
    enum { FRAMES = 1000 };
    static const uint8_t body[500];
    shoali_transport_args args = {0};
    shoali_outbox box = {0};
    shoali_rng rng = {check_seed(), 5, 0};
    uint64_t put = 0, gone = 0, pending = 0;
    while (gone < FRAMES) {
        shoal_data head = {.len_bytes = (uint32_t)(shoali_rng_next(&rng) % sizeof body)};
        if (put < FRAMES && shoali_rng_next(&rng) % 2 == 0) {
            assert_ok(shoali_outbox_put(&box, &args, false, &head, body, put++));
            pending += SHOALI_FRAME_BYTES + head.len_bytes;
        }
        size_t take = pending > 0 ? shoali_rng_next(&rng) % (pending + 1) : 0;
        shoali_out done;
        pending -= take;
        for (bool more = shoali_outbox_advance(&box, take, &done); more;
             more = shoali_outbox_advance(&box, 0, &done))
            assert_int_equal(done.cookie, gone++);
        assert_int_equal(box.count, put - gone);
    }
    assert_int_equal(box.queued_bytes, 0);
    assert_int_equal(box.front_done, 0);
    shoali_outbox_free(&box);
}

static void all_comes_back_but_our_own(void **state)
{
    (void)state;
    static const uint8_t body[10];
    shoali_transport_args args = {0};
    shoali_outbox box = {0};
    tally t = {.count = 0};
    shoali_transport_events events = {.ctx = &t, .sent = sent};
    shoal_data head = {.len_bytes = sizeof body};
    shoali_out done;
    for (uint64_t i = 0; i < 20; i++)
        assert_ok(shoali_outbox_put(&box, &args, false, &head, body, i));
    assert_ok(shoali_outbox_put_goodbye(&box));
    assert_true(shoali_outbox_advance(&box, SHOALI_FRAME_BYTES + sizeof body + 5, &done));
    shoali_outbox_return_all(&box, &events, 3, SHOAL_EPEER);
    assert_int_equal(t.count, 19);
    assert_int_equal(t.cookies[0], 1);
    assert_int_equal(t.status, SHOAL_EPEER);
    assert_int_equal(box.count + box.front_done + box.queued_bytes, 0);
    shoali_outbox_free(&box);
}

static void flip(void *ctx, uint8_t *header)
{
    (void)ctx;
    header[4] ^= 1;
}

static void headers_are_checked_and_can_be_tampered_with(void **state)
{
    (void)state;
    shoali_transport_args args = {0};
    shoali_outbox box = {0};
    shoali_frame frame;
    shoal_data head = {.slot = 9, .len_bytes = 4};
    assert_ok(shoali_outbox_put(&box, &args, true, &head, "body", 1));
    assert_ok(shoali_frame_decode(shoali_outbox_at(&box, 0)->header, &frame));
    assert_true(frame.summed);
    assert_int_equal(frame.body_crc, shoali_crc32c(0, "body", 4));
    args.tamper = flip;
    assert_ok(shoali_outbox_put(&box, &args, true, &head, "body", 2));
    assert_status(shoali_frame_decode(shoali_outbox_at(&box, 1)->header, &frame), SHOAL_ECORRUPT);
    shoali_outbox_free(&box);
}

static void no_memory_leaves_the_box_as_it_was(void **state)
{
    (void)state;
    shoali_transport_args args = {0};
    shoali_outbox box = {0};
    shoal_data head = {.len_bytes = 4};
    for (uint64_t i = 0; i < 8; i++)
        assert_ok(shoali_outbox_put(&box, &args, false, &head, "body", i));
    shoali_alloc_fail_at(1);
    assert_status(shoali_outbox_put(&box, &args, false, &head, "body", 8), SHOAL_ENOMEM);
    shoali_alloc_fail_at(0);
    assert_int_equal(box.count, 8);
    assert_int_equal(box.queued_bytes, 32);
    shoali_outbox_free(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(frames_leave_in_order_whatever_the_pieces),
        CHECK_TEST(all_comes_back_but_our_own),
        CHECK_TEST(headers_are_checked_and_can_be_tampered_with),
        CHECK_TEST(no_memory_leaves_the_box_as_it_was),
    };
    return CHECK_RUN(tests);
}
