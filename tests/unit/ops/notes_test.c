/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about operations that are not entered yet: taken in order of arrival, by their whole
 * name, READY and ABORT apart, and no more than a peer may have. */
#include "ops/notes.h"

#include "support/check.h"

enum { SIZE = 4 };

static shoali_notes notes;

static int setup(void **state)
{
    (void)state;
    assert_ok(shoali_notes_init(&notes, SIZE));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shoali_notes_free(&notes);
    return 0;
}

static void add_ready(uint32_t endpoint, uint64_t sequence, uint32_t slot)
{
    const shoali_ready ready = {.id = {0, sequence, 1}, .slot = slot, .text = "a call"};
    assert_ok(shoali_notes_add(&notes, endpoint, &ready, NULL));
}

static void add_abort(uint32_t endpoint, uint64_t sequence, uint32_t culprit)
{
    const shoali_abort abort = {.id = {0, sequence, 1}, .culprit = culprit, .text = "an end"};
    assert_ok(shoali_notes_add(&notes, endpoint, NULL, &abort));
}

static void readies_come_in_order(void **state)
{
    (void)state;
    add_ready(2, 7, 20);
    add_ready(1, 8, 10);
    add_abort(3, 7, 1);
    add_ready(1, 7, 11);
    add_ready(3, 7, 30);
    static const uint32_t want[][2] = {{2, 20}, {1, 11}, {3, 30}};
    const shoali_wire_id id = {0, 7, 1};
    shoali_note **at = NULL;
    shoali_ready ready;
    uint32_t endpoint;
    for (int i = 0; i < 3; i++) {
        assert_true(shoali_notes_take_ready(&notes, &at, &id, &endpoint, &ready));
        assert_int_equal(endpoint, want[i][0]);
        assert_int_equal(ready.slot, want[i][1]);
        assert_string_equal(ready.text, "a call");
    }
    assert_false(shoali_notes_take_ready(&notes, &at, &id, &endpoint, &ready));
    at = NULL;
    assert_false(
        shoali_notes_take_ready(&notes, &at, &(shoali_wire_id){1, 8, 1}, &endpoint, &ready));
    at = NULL;
    assert_false(
        shoali_notes_take_ready(&notes, &at, &(shoali_wire_id){0, 8, 2}, &endpoint, &ready));
    at = NULL;
    assert_true(
        shoali_notes_take_ready(&notes, &at, &(shoali_wire_id){0, 8, 1}, &endpoint, &ready));
    assert_int_equal(ready.slot, 10);
}

static void an_abort_is_taken_once(void **state)
{
    (void)state;
    const shoali_wire_id id = {0, 5, 1};
    shoali_abort abort;
    uint32_t endpoint;
    add_ready(2, 5, 1);
    add_abort(3, 6, 9);
    assert_false(shoali_notes_take_abort(&notes, &id, &endpoint, &abort));
    add_abort(1, 5, 3);
    add_abort(2, 5, 0);
    assert_true(shoali_notes_take_abort(&notes, &id, &endpoint, &abort));
    assert_int_equal(endpoint, 1);
    assert_int_equal(abort.culprit, 3);
    assert_string_equal(abort.text, "an end");
    assert_true(shoali_notes_take_abort(&notes, &id, &endpoint, &abort));
    assert_int_equal(endpoint, 2);
    assert_false(shoali_notes_take_abort(&notes, &id, &endpoint, &abort));
    assert_int_equal(notes.count_of[1], 0);
    assert_int_equal(notes.count_of[2], 1);
}

/* A note that was used before still holds what it was about. */
static void an_old_note_is_of_one_kind(void **state)
{
    (void)state;
    const shoali_wire_id five = {0, 5, 1}, six = {0, 6, 1};
    shoali_note **at = NULL;
    shoali_ready ready;
    shoali_abort abort;
    uint32_t endpoint;
    add_ready(1, 5, 7);
    assert_true(shoali_notes_take_ready(&notes, &at, &five, &endpoint, &ready));
    add_abort(1, 6, 2);
    at = NULL;
    assert_false(shoali_notes_take_ready(&notes, &at, &five, &endpoint, &ready));
    assert_true(shoali_notes_take_abort(&notes, &six, &endpoint, &abort));
    add_ready(1, 5, 7);
    assert_false(shoali_notes_take_abort(&notes, &six, &endpoint, &abort));
}

static void a_peer_may_have_so_many(void **state)
{
    (void)state;
    const shoali_ready ready = {.id = {0, 1, 1}};
    for (uint32_t i = 0; i < SHOALI_NOTES_PER_PEER; i++)
        add_ready(1, i, i);
    assert_status(shoali_notes_add(&notes, 1, &ready, NULL), SHOAL_EPEER);
    assert_error_has("more operations than this rank can remember");
    add_ready(2, 1, 1); /* others may, and so may this one once something is taken */
    shoali_note **at = NULL;
    shoali_ready taken;
    uint32_t endpoint;
    assert_true(
        shoali_notes_take_ready(&notes, &at, &(shoali_wire_id){0, 3, 1}, &endpoint, &taken));
    add_ready(1, 3, 3);
    assert_status(shoali_notes_add(&notes, 1, &ready, NULL), SHOAL_EPEER);
}

static void what_a_peer_sent_is_forgotten(void **state)
{
    (void)state;
    add_ready(1, 1, 1);
    add_ready(2, 1, 2);
    add_abort(1, 2, 0);
    add_ready(1, 3, 3);
    shoali_notes_forget(&notes, 1);
    assert_int_equal(notes.count_of[1], 0);
    assert_int_equal(notes.count_of[2], 1);
    shoali_note **at = NULL;
    shoali_ready ready;
    uint32_t endpoint;
    assert_true(
        shoali_notes_take_ready(&notes, &at, &(shoali_wire_id){0, 1, 1}, &endpoint, &ready));
    assert_int_equal(endpoint, 2);
    assert_null(notes.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(readies_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_is_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_note_is_of_one_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_may_have_so_many, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_peer_sent_is_forgotten, setup, teardown)};
    return CHECK_RUN(tests);
}
