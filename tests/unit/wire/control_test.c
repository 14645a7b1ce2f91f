/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/edge.h"
#include "support/hex.h"

#include "base/rng.h"
#include "wire/control.h"

enum { TRIALS = 2000 };

/* Random printable text, sometimes as long as the field allows. */
static void draw_text(shoali_rng *rng, char *text, size_t size)
{
    size_t length = shoali_rng_next(rng) % size;
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(' ' + shoali_rng_next(rng) % 95);
    memset(text + length, 0, size - length);
}

static shoali_wire_id draw_id(shoali_rng *rng)
{
    return (shoali_wire_id){shoali_rng_next(rng), shoali_rng_next(rng),
                            (uint32_t)shoali_rng_next(rng)};
}

static void assert_id(const shoali_wire_id *got, const shoali_wire_id *want)
{
    assert_true(got->group == want->group && got->sequence == want->sequence &&
                got->round == want->round);
}

static void operations_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 1, 0};
    for (int i = 0; i < TRIALS; i++) {
        shoali_ready ready = {.id = draw_id(&rng),
                              .epoch = shoali_rng_next(&rng),
                              .count = shoali_rng_next(&rng),
                              .hash = shoali_rng_next(&rng),
                              .dtype = (uint32_t)shoali_rng_next(&rng),
                              .slot = (uint32_t)shoali_rng_next(&rng)};
        draw_text(&rng, ready.text, sizeof ready.text);
        uint8_t bytes[SHOALI_ABORT_BYTES];
        shoali_ready got;
        assert_int_equal(shoali_ready_encode(&ready, bytes), SHOALI_READY_BYTES);
        assert_true(shoali_ready_decode(bytes, SHOALI_READY_BYTES, &got));
        assert_id(&got.id, &ready.id);
        assert_true(got.epoch == ready.epoch && got.count == ready.count &&
                    got.hash == ready.hash && got.dtype == ready.dtype && got.slot == ready.slot);
        assert_string_equal(got.text, ready.text);

        shoali_abort wrong = {draw_id(&rng), 10 + (uint32_t)(shoali_rng_next(&rng) % 90),
                              (uint32_t)shoali_rng_next(&rng), ""};
        draw_text(&rng, wrong.text, sizeof wrong.text);
        shoali_abort wrong_got;
        assert_int_equal(shoali_abort_encode(&wrong, bytes), SHOALI_ABORT_BYTES);
        assert_true(shoali_abort_decode(bytes, SHOALI_ABORT_BYTES, &wrong_got));
        assert_id(&wrong_got.id, &wrong.id);
        assert_true(wrong_got.status == wrong.status && wrong_got.culprit == wrong.culprit);
        assert_string_equal(wrong_got.text, wrong.text);
    }
}

static void questions_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 2, 0};
    for (int i = 0; i < TRIALS; i++) {
        uint8_t bytes[256];
        shoali_ask ask = draw_id(&rng), ask_got;
        assert_int_equal(shoali_ask_encode(&ask, bytes), SHOALI_ASK_BYTES);
        assert_true(shoali_ask_decode(bytes, SHOALI_ASK_BYTES, &ask_got));
        assert_id(&ask_got, &ask);

        shoali_answer answer = {draw_id(&rng), (uint32_t)(shoali_rng_next(&rng) % 4),
                                shoali_rng_next(&rng)},
                      answer_got;
        assert_int_equal(shoali_answer_encode(&answer, bytes), SHOALI_ANSWER_BYTES);
        assert_true(shoali_answer_decode(bytes, SHOALI_ANSWER_BYTES, &answer_got));
        assert_id(&answer_got.id, &answer.id);
        assert_true(answer_got.state == answer.state && answer_got.since_us == answer.since_us);

        uint64_t n = (uint64_t)i;
        shoali_heartbeat beat = {(uint32_t)(i % 2),
                                 shoali_rng_next(&rng),
                                 "",
                                 n,
                                 n + 1,
                                 n + 2,
                                 n + 3,
                                 n + 4,
                                 {n + 5, n + 6, n + 7, n + 8, n + 9},
                                 {n + 10, (uint32_t)i, -0.25F, 12.5F}},
                         beat_got;
        draw_text(&rng, beat.text, sizeof beat.text);
        assert_int_equal(shoali_heartbeat_encode(&beat, bytes), SHOALI_HEARTBEAT_BYTES);
        assert_true(shoali_heartbeat_decode(bytes, SHOALI_HEARTBEAT_BYTES, &beat_got));
        assert_true(beat_got.busy == beat.busy && beat_got.for_us == beat.for_us);
        assert_string_equal(beat_got.text, beat.text);
        assert_true(beat_got.ended == n && beat_got.idle_us == n + 1 &&
                    beat_got.sends_bytes_s == n + 2 && beat_got.receives_bytes_s == n + 3 &&
                    beat_got.to_you_bytes_s == n + 4);
        assert_memory_equal(beat_got.fares, beat.fares, sizeof beat.fares);
        assert_true(beat_got.progress.step == n + 10 && beat_got.progress.epoch == (uint32_t)i &&
                    beat_got.progress.loss == -0.25F && beat_got.progress.accuracy == 12.5F);

        shoali_flow_head head = {draw_id(&rng), (uint16_t)shoali_rng_next(&rng)}, head_got;
        assert_int_equal(shoali_flow_head_encode(&head, bytes), SHOALI_FLOW_HEAD_BYTES);
        assert_true(shoali_flow_head_decode(bytes, sizeof bytes, &head_got));
        assert_id(&head_got.id, &head.id);
        assert_int_equal(head_got.kind, head.kind);
    }
}

static void records_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 3, 0};
    for (int i = 0; i < TRIALS; i++) {
        shoali_record record = {.wire_version = (uint32_t)shoali_rng_next(&rng),
                                .world_size = 1 + (uint32_t)(shoali_rng_next(&rng) % 4096),
                                .chunk_elems = (uint32_t)shoali_rng_next(&rng),
                                .features = shoali_rng_next(&rng),
                                .seed = shoali_rng_next(&rng),
                                .incarnation = shoali_rng_next(&rng)};
        record.rank = (uint32_t)(shoali_rng_next(&rng) % record.world_size);
        record.workers = 1 + (uint32_t)(shoali_rng_next(&rng) % record.world_size);
        draw_text(&rng, record.software, sizeof record.software);
        draw_text(&rng, record.job, sizeof record.job);
        draw_text(&rng, record.host, sizeof record.host);
        draw_text(&rng, record.address, sizeof record.address);
        draw_text(&rng, record.near_address, sizeof record.near_address);
        uint8_t bytes[SHOALI_RECORD_BYTES];
        shoali_record got;
        memset(&got, 0, sizeof got);
        assert_int_equal(shoali_record_encode(&record, bytes), SHOALI_RECORD_BYTES);
        assert_true(shoali_record_decode(bytes, sizeof bytes, &got));
        uint8_t again[SHOALI_RECORD_BYTES];
        shoali_record_encode(&got, again);
        assert_memory_equal(bytes, again, sizeof bytes);
        assert_true(got.seed == record.seed && got.rank == record.rank &&
                    got.workers == record.workers && got.chunk_elems == record.chunk_elems);
        assert_string_equal(got.near_address, record.near_address);
    }
}

static void calls_to_aggregators_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 5, 0};
    for (int i = 0; i < TRIALS; i++) {
        shoali_serve serve = {.id = draw_id(&rng),
                              .count = shoali_rng_next(&rng),
                              .hash = shoali_rng_next(&rng),
                              .timeout_us = shoali_rng_next(&rng),
                              .contributors = 1 + (uint32_t)(shoali_rng_next(&rng) % 8)};
        serve.member_count = serve.contributors + 1 + (uint32_t)(shoali_rng_next(&rng) % 8);
        draw_text(&rng, serve.collective, sizeof serve.collective);
        uint8_t bytes[SHOALI_INVITE_BYTES] = {0};
        shoali_serve got;
        assert_int_equal(shoali_serve_encode(&serve, bytes), SHOALI_SERVE_BYTES);
        const size_t listed = SHOALI_SERVE_BYTES + 4 * serve.member_count;
        assert_true(shoali_serve_decode(bytes, SHOALI_SERVE_BYTES, &got));
        assert_true(shoali_serve_decode(bytes, listed, &got));
        assert_false(shoali_serve_decode(bytes, listed - 1, &got));
        assert_id(&got.id, &serve.id);
        assert_true(got.count == serve.count && got.hash == serve.hash &&
                    got.timeout_us == serve.timeout_us && got.contributors == serve.contributors &&
                    got.member_count == serve.member_count);
        assert_string_equal(got.collective, serve.collective);

        shoali_invite invite = {.ranks = 2 + (uint32_t)(shoali_rng_next(&rng) % 100),
                                .workers = 1 + (uint32_t)(shoali_rng_next(&rng) % 2),
                                .aggregators = 4,
                                .index = (uint32_t)(shoali_rng_next(&rng) % 4),
                                .chunk_elems = (uint32_t)shoali_rng_next(&rng),
                                .seed = shoali_rng_next(&rng),
                                .join_timeout_us = shoali_rng_next(&rng),
                                .peer_timeout_us = shoali_rng_next(&rng)};
        shoali_invite invited;
        draw_text(&rng, invite.job, sizeof invite.job);
        draw_text(&rng, invite.place, sizeof invite.place);
        draw_text(&rng, invite.transport, sizeof invite.transport);
        assert_int_equal(shoali_invite_encode(&invite, bytes), SHOALI_INVITE_BYTES);
        assert_true(shoali_invite_decode(bytes, SHOALI_INVITE_BYTES, &invited));
        assert_true(invited.ranks == invite.ranks && invited.workers == invite.workers &&
                    invited.aggregators == invite.aggregators && invited.index == invite.index &&
                    invited.chunk_elems == invite.chunk_elems && invited.seed == invite.seed &&
                    invited.join_timeout_us == invite.join_timeout_us &&
                    invited.peer_timeout_us == invite.peer_timeout_us);
        assert_string_equal(invited.job, invite.job);
        assert_string_equal(invited.place, invite.place);
        assert_string_equal(invited.transport, invite.transport);
    }
}

/* Each decoder on every length around its own, and on random bytes: no reads outside, texts
 * terminated and printable. */
static void assert_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    assert_true(length < size);
    for (size_t i = 0; i < length; i++)
        assert_true((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

static void hostile_bytes_are_harmless(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 4, 0};
    for (int i = 0; i < TRIALS; i++) {
        size_t length = shoali_rng_next(&rng) % 1400;
        uint8_t *bytes = malloc(length + 1); /* exact, so that asan sees one byte too many */
        for (size_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)shoali_rng_next(&rng);
        if (i % 2 == 0 && length >= 24)
            memset(bytes + 20, 0, 4); /* past the first check */
        shoali_ready ready;
        shoali_abort wrong;
        shoali_record record;
        for (size_t cut = 0; cut < 3; cut++) {
            size_t wanted[] = {SHOALI_READY_BYTES, SHOALI_ABORT_BYTES, SHOALI_RECORD_BYTES};
            size_t given = wanted[cut] <= length ? wanted[cut] : length;
            if (shoali_ready_decode(bytes, given, &ready))
                assert_text(ready.text, sizeof ready.text);
            if (shoali_abort_decode(bytes, given, &wrong))
                assert_text(wrong.text, sizeof wrong.text);
            if (shoali_record_decode(bytes, given, &record)) {
                assert_text(record.host, sizeof record.host);
                assert_true(record.rank < record.world_size);
            }
        }
        shoali_ask ask;
        shoali_answer answer;
        shoali_heartbeat beat;
        shoali_flow_head head;
        shoali_serve serve;
        shoali_invite invite;
        if (shoali_serve_decode(bytes, length, &serve))
            assert_true(serve.contributors >= 1 && serve.contributors < serve.member_count);
        if (shoali_invite_decode(bytes, length, &invite))
            assert_text(invite.place, sizeof invite.place);
        (void)shoali_ask_decode(bytes, length, &ask);
        (void)shoali_answer_decode(bytes, length, &answer);
        (void)shoali_heartbeat_decode(bytes, length, &beat);
        assert_int_equal(shoali_flow_head_decode(bytes, length < 25 ? length : 25, &head), false);
        free(bytes);
    }
}

static void what_no_encoder_writes_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_RECORD_BYTES];
    shoali_abort wrong = {{1, 2, 3}, 0, 0, "ok is no failure"}, wrong_got;
    shoali_abort_encode(&wrong, bytes);
    assert_false(shoali_abort_decode(bytes, SHOALI_ABORT_BYTES, &wrong_got));
    shoali_answer answer = {{1, 2, 3}, SHOALI_ANSWER_STATES, 0}, answer_got;
    shoali_answer_encode(&answer, bytes);
    assert_false(shoali_answer_decode(bytes, SHOALI_ANSWER_BYTES, &answer_got));
    shoali_heartbeat beat = {.busy = 2}, beat_got;
    shoali_heartbeat_encode(&beat, bytes);
    assert_false(shoali_heartbeat_decode(bytes, SHOALI_HEARTBEAT_BYTES, &beat_got));
    shoali_record record = {.world_size = 2, .rank = 2, .workers = 2}, record_got;
    shoali_record_encode(&record, bytes);
    assert_false(shoali_record_decode(bytes, SHOALI_RECORD_BYTES, &record_got));
    shoali_serve serve = {.contributors = 2, .member_count = 2}, serve_got;
    shoali_serve_encode(&serve, bytes);
    assert_false(shoali_serve_decode(bytes, SHOALI_SERVE_BYTES, &serve_got)); /* nobody to serve */
    shoali_invite invite = {.ranks = 2, .workers = 2, .aggregators = 1, .index = 1}, invite_got;
    shoali_invite_encode(&invite, bytes);
    assert_false(shoali_invite_decode(bytes, SHOALI_INVITE_BYTES, &invite_got));
    record.rank = 0;
    record.workers = 0;
    shoali_record_encode(&record, bytes);
    assert_false(shoali_record_decode(bytes, SHOALI_RECORD_BYTES, &record_got));
}

/* The body of name in golden/control.txt. */
static size_t golden(const char *name, uint8_t *out, size_t capacity)
{
    static char line[2 * SHOALI_RECORD_BYTES + 64];
    char path[512];
    size_t length = strlen(name), bytes = 0;
    snprintf(path, sizeof path, "%s/tests/golden/control.txt", SHOAL_SOURCE_DIR);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (bytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = '\0';
            bytes = hex_parse(line + length + 1, out, capacity);
        }
    fclose(file);
    assert_true(bytes > 0);
    return bytes;
}

/* Decodes into `message` and encodes to the same bytes; without its end it is refused, and what is
 * missing is not read. */
#define GOLDEN(name, message, size)                                                    \
    do {                                                                               \
        uint8_t wanted[SHOALI_RECORD_BYTES], got[SHOALI_RECORD_BYTES];                 \
        assert_int_equal(golden(#name, wanted, sizeof wanted), (size));                \
        for (size_t n = 0; n < (size); n++)                                            \
            assert_false(shoali_##name##_decode(edge_copy(wanted, n), n, &(message))); \
        assert_true(shoali_##name##_decode(wanted, (size), &(message)));               \
        assert_int_equal(shoali_##name##_encode(&(message), got), (size));             \
        assert_memory_equal(got, wanted, (size));                                      \
    } while (0)

static void golden_bodies_stay_as_they_are(void **state)
{
    (void)state;
    const shoali_wire_id id = {0x1122334455667788, 7, 1};
    shoali_ready ready;
    shoali_abort failure;
    shoali_ask ask;
    shoali_answer answer;
    shoali_heartbeat beat;
    shoali_flow_head head;
    shoali_record record;
    uint8_t bytes[64], again[64];
    GOLDEN(ready, ready, SHOALI_READY_BYTES);
    assert_id(&ready.id, &id);
    assert_true(ready.count == 1000 && ready.hash == 0x8877665544332211 && ready.slot == 3);
    assert_string_equal(ready.text, "all-reduce 7, 1000 elements, ring, identity");
    GOLDEN(abort, failure, SHOALI_ABORT_BYTES);
    assert_true(failure.status == 40 && failure.culprit == 3);
    assert_string_equal(failure.text, "rank 3 (host b) is lost");
    GOLDEN(ask, ask, SHOALI_ASK_BYTES);
    assert_id(&ask, &id);
    GOLDEN(answer, answer, SHOALI_ANSWER_BYTES);
    assert_true(answer.state == SHOALI_FINISHED && answer.since_us == 12345);
    GOLDEN(heartbeat, beat, SHOALI_HEARTBEAT_BYTES);
    assert_true(beat.busy == 1 && beat.for_us == 99 && beat.ended == 6 && beat.idle_us == 70000 &&
                beat.to_you_bytes_s == 116000000);
    assert_true(beat.fares[SHOALI_FARE_DATA_US] == 50000 &&
                beat.fares[SHOALI_FARE_DISK_US] == 60000 &&
                beat.fares[SHOALI_FARE_PAUSED_US] == 70000 && beat.fares[SHOALI_FARE_PAUSES] == 2 &&
                beat.fares[SHOALI_FARE_SAMPLES] == 4096);
    assert_true(beat.progress.step == 600 && beat.progress.epoch == 3 &&
                beat.progress.loss == 0.5F && beat.progress.accuracy == 87.5F);
    shoali_serve serve;
    GOLDEN(serve, serve, SHOALI_SERVE_BYTES);
    assert_true(serve.count == 1000 && serve.contributors == 8 && serve.member_count == 16);
    shoali_invite invite;
    GOLDEN(invite, invite, SHOALI_INVITE_BYTES);
    assert_true(invite.ranks == 9 && invite.workers == 8 && invite.aggregators == 4 &&
                invite.index == 3 && invite.peer_timeout_us == 2500000);
    assert_string_equal(invite.place, "tcp://10.77.0.1:29401");
    GOLDEN(record, record, SHOALI_RECORD_BYTES);
    assert_true(record.rank == 2 && record.world_size == 4 && record.workers == 3);
    assert_true(record.chunk_elems == 65536 && record.features == 5 && record.incarnation == 77);
    assert_string_equal(record.near_address, "host=a unix=shoal-1");
    assert_int_equal(golden("flow", bytes, sizeof bytes), SHOALI_FLOW_HEAD_BYTES);
    assert_true(shoali_flow_head_decode(bytes, SHOALI_FLOW_HEAD_BYTES, &head));
    assert_int_equal(head.kind, 513);
    shoali_flow_head_encode(&head, again);
    assert_memory_equal(again, bytes, SHOALI_FLOW_HEAD_BYTES);
}

static void golden_status_stays_as_it_is(void **state)
{
    (void)state;
    shoali_status_head head;
    shoali_status_row row;
    GOLDEN(status_head, head, SHOALI_STATUS_HEAD_BYTES);
    assert_true(head.rank == 1 && head.ranks == 4 && head.age_us == 500000);
    GOLDEN(status_row, row, SHOALI_STATUS_ROW_BYTES);
    assert_true(row.state == SHOALI_RANK_UNRESPONSIVE && row.cause == 1 && row.busy == 1 &&
                row.last_permille == 750 && row.last_seen_us == 1200000 && row.ended == 41 &&
                row.slow_for_us == 12000000 && row.receives_bytes_s == 12000000);
    assert_string_equal(row.text, "all-reduce 42");
    assert_true(row.data_us == 1500 && row.disk_us == 2500 && row.paused_us == 3500 &&
                row.samples_milli == 32500 && row.progress.step == 600 && row.progress.epoch == 3 &&
                row.progress.loss == 0.5F && row.progress.accuracy == 87.5F);
    uint8_t bytes[SHOALI_STATUS_ROW_BYTES];
    row.state = SHOALI_RANK_STATES;
    shoali_status_row_encode(&row, bytes);
    assert_false(shoali_status_row_decode(bytes, sizeof bytes, &row));
    head.ranks = 0;
    shoali_status_head_encode(&head, bytes);
    assert_false(shoali_status_head_decode(bytes, SHOALI_STATUS_HEAD_BYTES, &head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(golden_status_stays_as_it_is),
                                       CHECK_TEST(operations_return_as_they_went),
                                       CHECK_TEST(questions_return_as_they_went),
                                       CHECK_TEST(calls_to_aggregators_return_as_they_went),
                                       CHECK_TEST(records_return_as_they_went),
                                       CHECK_TEST(hostile_bytes_are_harmless),
                                       CHECK_TEST(what_no_encoder_writes_is_refused),
                                       CHECK_TEST(golden_bodies_stay_as_they_are)};
    return CHECK_RUN(tests);
}
