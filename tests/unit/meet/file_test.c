/* SPDX-License-Identifier: Apache-2.0 */
/* A meeting in a file, in places where other things are. */
#include "support/check.h"
#include "support/party.h"
#include "support/ports.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static void left_over_files_do_not_count(void **state)
{
    (void)state;
    static party old, p;
    party_prepare(&old, "file", 3, PARTY_LONG_US);
    char kept[256];
    snprintf(kept, sizeof kept, "%s", old.place);
    party_prepare(&p, "file", 3, PARTY_LONG_US);
    /* an old job in the same place: its table stays, and one answer, too */
    for (uint32_t i = 0; i < 3; i++)
        old.guests[i].meeting.place = p.place;
    char place[256];
    snprintf(place, sizeof place, "%s", p.place);
    for (uint32_t i = 0; i < 3; i++) {
        old.guests[i].mine.incarnation += 50;
        party_start(&old.guests[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        party_end(&old.guests[i]);
    party_assert_all(&old, SHOAL_OK, NULL);
    char stale[300], link_to[300];
    snprintf(stale, sizeof stale, "%s", place + 7);
    snprintf(link_to, sizeof link_to, "%s.1", place + 7);
    assert_int_equal(link(stale, link_to), 0);
    party_run(&p, PARTY_RANKS);
    party_assert_all(&p, SHOAL_OK, NULL);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(p.guests[i].records[k].incarnation, 1000 + k);
    place_release(kept, old.fd);
}

static void path_of(const party *p, uint32_t rank, char out[300])
{
    snprintf(out, 300, rank == 0 ? "%s" : "%s.%u", p->place + 7, rank);
}

/* What others put in the place of rank 0's file is named, and read by nobody. */
static void what_is_no_file_of_ours_is_named(void **state)
{
    (void)state;
    static party p;
    char path[300];
    for (int kind = 0; kind < 3; kind++) {
        static const char *const parts[] = {"Too many levels of symbolic links",
                                            "is not a file of this user", "holds something else"};
        party_prepare(&p, "file", 2, 100 * 1000);
        path_of(&p, 0, path);
        if (kind == 0) {
            assert_int_equal(symlink("/dev/zero", path), 0);
        } else if (kind == 1) {
            assert_int_equal(mkfifo(path, 0600), 0);
        } else {
            FILE *file = fopen(path, "w");
            assert_non_null(file);
            assert_true(fputs("something that is long enough to hold a head and a MAC behind it, "
                              "and no rendezvous",
                              file) >= 0);
            assert_int_equal(fclose(file), 0);
        }
        party_run(&p, 0);
        assert_int_equal(p.guests[1].status, SHOAL_ETIMEDOUT);
        if (strstr(p.guests[1].error.text, parts[kind]) == NULL)
            fail_msg("%s", p.guests[1].error.text);
    }
}

static void answers_do_not_stay(void **state)
{
    (void)state;
    static party p;
    char path[300];
    party_prepare(&p, "file", 3, PARTY_LONG_US);
    for (uint32_t i = 0; i < 3; i++)
        party_start(&p.guests[i]);
    for (uint32_t i = 0; i < 3; i++)
        party_end(&p.guests[i]);
    party_assert_all(&p, SHOAL_OK, NULL);
    for (uint32_t rank = 0; rank < 3; rank++) {
        path_of(&p, rank, path);
        assert_int_equal(access(path, F_OK), rank == 0 ? 0 : -1);
    }
    struct stat about;
    path_of(&p, 0, path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    place_release(p.place, p.fd);
}

static void a_place_that_cannot_be_written_is_said(void **state)
{
    (void)state;
    static party p;
    party_prepare(&p, "file", 2, PARTY_LONG_US);
    p.guests[0].meeting.place = "file:///proc/no/such/place";
    assert_status(shoali_meet(&p.guests[0].meeting, p.guests[0].records), SHOAL_EIO);
    assert_error_has("/proc/no/such/place");
    place_release(p.place, p.fd);
}

/* An old job's answer, of the right shape and token, lies where rank 0 looks for one. */
static void an_answer_to_another_call_does_not_count(void **state)
{
    (void)state;
    static party old, p;
    char kept[256], answer[300], spare[300];
    party_prepare(&p, "file", 3, PARTY_LONG_US);
    party_prepare(&old, "file", 3, PARTY_LONG_US);
    snprintf(kept, sizeof kept, "%s", old.place);
    for (uint32_t i = 0; i < 3; i++) {
        old.guests[i].meeting.place = p.place;
        old.guests[i].mine.incarnation += 50;
    }
    path_of(&p, 1, answer);
    snprintf(spare, sizeof spare, "%s.spare", p.place + 7);
    party_start(&old.guests[0]);
    party_start(&old.guests[1]);
    while (link(answer, spare) != 0) /* it waits for rank 2 meanwhile */
        (void)poll(NULL, 0, 5);
    party_start(&old.guests[2]);
    for (uint32_t i = 0; i < 3; i++)
        party_end(&old.guests[i]);
    party_assert_all(&old, SHOAL_OK, NULL);
    assert_int_equal(rename(spare, answer), 0);
    party_run(&p, PARTY_RANKS);
    party_assert_all(&p, SHOAL_OK, NULL);
    assert_int_equal(p.guests[0].records[1].incarnation, 1001);
    place_release(kept, old.fd);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(left_over_files_do_not_count), CHECK_TEST(what_is_no_file_of_ours_is_named),
        CHECK_TEST(an_answer_to_another_call_does_not_count), CHECK_TEST(answers_do_not_stay),
        CHECK_TEST(a_place_that_cannot_be_written_is_said)};
    return CHECK_RUN(tests);
}
