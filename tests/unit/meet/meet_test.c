/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads meet over loopback and in a file. */
#include "support/check.h"
#include "support/party.h"
#include "support/ports.h"

#include "base/clock.h"
#include "base/log.h"

/* Who is there must come within the time in which the missing are waited for. On a busy machine a
 * thread may need longer than a short one: then there is more. */
enum { SHORT_US = 400 * 1000, LONG_US = 20 * 1000 * 1000 };

static const char *const schemes[] = {"tcp", "file"};

static bool ended(const party *p, uint32_t i, shoal_status status, const char *part)
{
    return p->guests[i].status == status &&
           (part == NULL || strstr(p->guests[i].error.text, part) != NULL);
}

static void assert_ended(const party *p, uint32_t i, shoal_status status, const char *part)
{
    if (!ended(p, i, status, part))
        fail_msg("rank %u: %s: %s", i, shoal_status_name(p->guests[i].status),
                 p->guests[i].error.text);
}

static void everyone_leaves_with_everyones_record(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++)
        for (uint32_t size = 1; size <= PARTY_RANKS; size++) {
            party_prepare(&p, schemes[s], size, PARTY_LONG_US);
            party_run(&p, PARTY_RANKS);
            party_assert_all(&p, SHOAL_OK, NULL);
            for (uint32_t i = 0; i < size; i++)
                for (uint32_t k = 0; k < size; k++) {
                    assert_int_equal(p.guests[i].records[k].rank, k);
                    assert_string_equal(p.guests[i].records[k].address, p.guests[k].mine.address);
                }
        }
}

static void the_missing_are_named(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++)
        for (uint32_t absent = 1; absent < 4; absent += 2) {
            char who[32];
            snprintf(who, sizeof who, "rank %u of 4 did not join", absent);
            for (int64_t time_us = SHORT_US; time_us < LONG_US; time_us *= 4) {
                party_prepare(&p, schemes[s], 4, time_us);
                for (uint32_t i = 1; i < 4; i++)
                    /* rank 0 is the first to give up */
                    p.guests[i].meeting.deadline_us += LONG_US;
                party_run(&p, absent);
                if (ended(&p, 0, SHOAL_ETIMEDOUT, who))
                    break;
            }
            p.guests[absent].status = SHOAL_ETIMEDOUT;
            snprintf(p.guests[absent].error.text, sizeof p.guests[absent].error.text, "%s", who);
            party_assert_all(&p, SHOAL_ETIMEDOUT, who);
        }
}

/* Clocks start at different moments: whoever is done waiting before rank 0 is waits for its words,
 * and does not guess. */
static void the_words_of_rank_0_are_waited_for(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        for (int64_t time_us = 2 * SHORT_US; time_us < LONG_US; time_us *= 4) {
            party_prepare(&p, schemes[s], 4, time_us);
            for (uint32_t i = 1; i < 4; i++)
                p.guests[i].meeting.deadline_us -= (uint64_t)time_us / 4;
            party_run(&p, 3);
            if (ended(&p, 0, SHOAL_ETIMEDOUT, "rank 3 of 4 did not join within"))
                break;
        }
        assert_ended(&p, 0, SHOAL_ETIMEDOUT, "rank 3 of 4 did not join within");
        for (uint32_t i = 1; i < 3; i++) {
            assert_int_equal(p.guests[i].status, SHOAL_ETIMEDOUT);
            assert_string_equal(p.guests[i].error.text, p.guests[0].error.text);
        }
    }
}

static void a_missing_store_is_named(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        party_prepare(&p, schemes[s], 3, 200 * 1000);
        party_run(&p, 0);
        p.guests[0].status = SHOAL_ETIMEDOUT;
        snprintf(p.guests[0].error.text, sizeof p.guests[0].error.text, "rank 0");
        party_assert_all(&p, SHOAL_ETIMEDOUT, "rank 0");
    }
}

static void disagreement_ends_it_for_all(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        party_prepare(&p, schemes[s], 3, PARTY_LONG_US);
        p.guests[2].mine.seed = 8;
        party_run(&p, PARTY_RANKS);
        party_assert_all(&p, SHOAL_EMISMATCH,
                         "rank 2 (host h2) has seed 8, rank 0 (host h0) has 7");
        party_prepare(&p, schemes[s], 3, PARTY_LONG_US);
        p.guests[1].mine.wire_version = 9;
        party_run(&p, PARTY_RANKS);
        party_assert_all(&p, SHOAL_EVERSION, "wire version 9");
    }
}

static void a_job_that_cannot_be_is_refused_to_all(void **state)
{
    (void)state;
    static party p;
    shoal_error why = {.status = SHOAL_EINVAL, .rank = -1};
    snprintf(why.text, sizeof why.text, "not today");
    for (size_t s = 0; s < 2; s++) {
        party_prepare(&p, schemes[s], 3, PARTY_LONG_US);
        p.guests[0].meeting.refusal = &why;
        p.guests[0].meeting.ranks = 3;
        party_run(&p, PARTY_RANKS);
        party_assert_all(&p, SHOAL_EINVAL, "not today");
    }
}

static void a_wrong_token_is_turned_away(void **state)
{
    (void)state;
    static party p;
    for (int64_t time_us = SHORT_US; time_us < LONG_US; time_us *= 4) {
        party_prepare(&p, "tcp", 3, time_us);
        p.guests[2].token.bytes[3] ^= 1;
        for (uint32_t i = 1; i < 3; i++)
            p.guests[i].meeting.deadline_us += LONG_US;
        party_run(&p, PARTY_RANKS);
        if (ended(&p, 0, SHOAL_ETIMEDOUT, "rank 2 of 3 did not join") &&
            ended(&p, 0, SHOAL_ETIMEDOUT, "wrong token"))
            break;
    }
    assert_ended(&p, 2, SHOAL_EAUTH, "token");
    assert_ended(&p, 0, SHOAL_ETIMEDOUT, "rank 2 of 3 did not join");
    assert_ended(&p, 0, SHOAL_ETIMEDOUT, "wrong token");
    assert_ended(&p, 1, SHOAL_ETIMEDOUT, NULL);

    for (int64_t time_us = SHORT_US; time_us < LONG_US; time_us *= 4) {
        party_prepare(&p, "file", 2, time_us);
        p.guests[1].token.bytes[3] ^= 1;
        party_run(&p, PARTY_RANKS);
        if (ended(&p, 1, SHOAL_ETIMEDOUT, "another token"))
            break;
    }
    party_assert_all(&p, SHOAL_ETIMEDOUT, NULL);
    assert_ended(&p, 1, SHOAL_ETIMEDOUT, "another token");
}

static void places_are_checked(void **state)
{
    (void)state;
    static party p;
    static const char *const bad[] = {
        "",           "tcp://",         "tcp://a",     "tcp://a:",  "tcp://:1",   "tcp://a:b",
        "tcp://a:1x", "tcp://a:123456", "tcp://::1:9", "udp://a:1", "file://a/b", "/tmp/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        party_prepare(&p, "file", 2, 100 * 1000);
        p.guests[1].meeting.place = bad[i];
        assert_status(shoali_meet(&p.guests[1].meeting, p.guests[1].records), SHOAL_EINVAL);
        place_release(p.place, p.fd);
    }
    /* off loopback nothing starts without a token */
    party_prepare(&p, "file", 2, 100 * 1000);
    for (uint32_t rank = 0; rank < 2; rank++) {
        p.guests[rank].meeting.place = "tcp://192.0.2.1:9";
        p.guests[rank].token.len_bytes = 0;
        assert_status(shoali_meet(&p.guests[rank].meeting, p.guests[rank].records), SHOAL_EAUTH);
        assert_error_has("SHOAL_TOKEN_FILE");
    }
    place_release(p.place, p.fd);
    char host[64], port[8];
    assert_true(shoali_meet_parse("tcp://[fe80::1]:29400", host, sizeof host, port, sizeof port));
    assert_string_equal(host, "fe80::1");
    assert_string_equal(port, "29400");
}

static void ranks_are_listed_briefly(void **state)
{
    (void)state;
    bool in[32] = {false};
    char text[128];
    in[0] = true;
    assert_int_equal(shoali_meet_missing(in, 2, text, sizeof text), 1);
    assert_string_equal(text, "rank 1");
    assert_int_equal(shoali_meet_missing(in, 3, text, sizeof text), 2);
    assert_string_equal(text, "ranks 1, 2");
    assert_int_equal(shoali_meet_missing(in, 32, text, sizeof text), 31);
    assert_string_equal(text, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 23 more");
    assert_int_equal(shoali_meet_missing(in, 32, text, 12), 31); /* cut, not beyond */
    assert_int_equal(strlen(text), 11);
}

static void whatever_must_be_equal_is_compared(void **state)
{
    (void)state;
    const shoali_record one = {.wire_version = 1,
                               .rank = 3,
                               .world_size = 8,
                               .workers = 7,
                               .chunk_elems = 100,
                               .features = 5,
                               .seed = 9,
                               .incarnation = 11,
                               .job = "party",
                               .host = "h3"};
    shoali_record other = one;
    other.rank = 4;
    other.incarnation = 12;
    snprintf(other.host, sizeof other.host, "h4");
    assert_ok(shoali_meet_agree(&one, &other));
    const struct {
        shoal_status status;
        const char *part;
        uint32_t *field;
        uint64_t *wide;
    } fields[] = {{SHOAL_EVERSION, "wire version 2", &other.wire_version, NULL},
                  {SHOAL_EVERSION, "other kinds", NULL, &other.features},
                  {SHOAL_EMISMATCH, "rank 4 (host h4) has world size 9", &other.world_size, NULL},
                  {SHOAL_EMISMATCH, "rank 4 (host h4) has workers 8", &other.workers, NULL},
                  {SHOAL_EMISMATCH, "has seed 10, rank 3 (host h3) has 9", NULL, &other.seed},
                  {SHOAL_EMISMATCH, "has chunk_elems 101", &other.chunk_elems, NULL}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].field != NULL)
            ++*fields[i].field;
        else
            ++*fields[i].wide;
        assert_status(shoali_meet_agree(&one, &other), fields[i].status);
        assert_error_has(fields[i].part);
        assert_int_equal(shoal_last_error()->rank, 4);
        if (fields[i].field != NULL)
            --*fields[i].field;
        else
            --*fields[i].wide;
    }
    snprintf(other.job, sizeof other.job, "wedding");
    assert_status(shoali_meet_agree(&one, &other), SHOAL_EMISMATCH);
    assert_error_has("rank 4 (host h4) belongs to job 'wedding', rank 3 (host h3) to 'party'");
}

static void a_join_can_be_given_up(void **state)
{
    (void)state;
    static party p;
    static const char *const all[] = {"tcp", "file"};
    atomic_bool cancel = false;
    assert_ok(shoali_meet_cancelled(NULL));
    assert_ok(shoali_meet_cancelled(&cancel));
    cancel = true;
    for (size_t s = 0; s < 2; s++) {
        party_prepare(&p, all[s], 2, PARTY_LONG_US);
        p.guests[1].meeting.cancel = &cancel;
        party_run(&p, 0);
        assert_int_equal(p.guests[1].status, SHOAL_ECANCELLED);
    }
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {CHECK_TEST(everyone_leaves_with_everyones_record),
                                       CHECK_TEST(the_missing_are_named),
                                       CHECK_TEST(the_words_of_rank_0_are_waited_for),
                                       CHECK_TEST(a_missing_store_is_named),
                                       CHECK_TEST(disagreement_ends_it_for_all),
                                       CHECK_TEST(a_job_that_cannot_be_is_refused_to_all),
                                       CHECK_TEST(a_wrong_token_is_turned_away),
                                       CHECK_TEST(places_are_checked),
                                       CHECK_TEST(ranks_are_listed_briefly),
                                       CHECK_TEST(whatever_must_be_equal_is_compared),
                                       CHECK_TEST(a_join_can_be_given_up)};
    return CHECK_RUN(tests);
}
