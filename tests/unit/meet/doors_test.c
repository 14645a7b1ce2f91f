/* SPDX-License-Identifier: Apache-2.0 */
/* Where newcomers look for doors. */
#include "support/check.h"
#include "support/doors.h"
#include "support/ports.h"

#include <unistd.h>

#include "base/log.h"

static doors d;

static void assert_known(const char *const *expected, uint32_t count)
{
    char address[SHOALI_DOOR_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        assert_true(shoali_door_known(d.door, i, address));
        assert_string_equal(address, expected[i]);
    }
    assert_false(shoali_door_known(d.door, count, address));
}

static void the_rendezvous_comes_first_then_the_list(void **state)
{
    (void)state;
    char path[64];
    assert_int_equal(setenv("SHOAL_DOORS", "10.0.0.1:7,[fd00::1]:8,", 1), 0);
    doors_open(&d, 1, "tcp://10.0.0.9:29500");
    assert_int_equal(unsetenv("SHOAL_DOORS"), 0); /* it was copied */
    assert_known((const char *const[]){"10.0.0.9:29500", "10.0.0.1:7", "[fd00::1]:8"}, 3);
    assert_null(shoali_doors_file(d.door, path, sizeof path));
    doors_close(&d);
    assert_int_equal(setenv("SHOAL_DOORS", "10.0.0.1:7,10.0.0.2:7", 1), 0);
    doors_open(&d, 1, "file:///tmp/nothing-is-there");
    assert_int_equal(unsetenv("SHOAL_DOORS"), 0);
    assert_known((const char *const[]){"10.0.0.1:7", "10.0.0.2:7"}, 2);
    doors_close(&d);
    doors_open(&d, 1, "tcp://10.0.0.9:29500");
    assert_known((const char *const[]){"10.0.0.9:29500"}, 1);
    doors_close(&d);
}

static void a_shared_file_lists_them_as_long_as_there_is_a_leader(void **state)
{
    (void)state;
    char place[256], path[300];
    int nothing;
    place_reserve("file", place, sizeof place, &nothing);
    doors_open(&d, 0, place);
    assert_ptr_equal(shoali_doors_file(d.door, path, sizeof path), path);
    assert_int_equal(strncmp(path, place + 7, strlen(place + 7)), 0);
    assert_string_equal(path + strlen(place + 7), ".doors");
    assert_known(NULL, 0);                                  /* nobody has written it */
    snprintf(d.others[0], SHOALI_DOOR_BYTES, "10.0.0.0:1"); /* its own is not asked for */
    snprintf(d.others[2], SHOALI_DOOR_BYTES, "10.0.0.2:1");
    doors_start(&d, 3);
    assert_known((const char *const[]){d.door->address, "10.0.0.2:1"}, 2);
    doors_close(&d);
    assert_int_equal(access(path, F_OK), -1);
    /* who does not lead writes nothing, and takes nothing away */
    doors_open(&d, 1, place);
    doors_start(&d, 3);
    assert_known(NULL, 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("10.0.0.7:1\n10.0.0.8:1", file) >= 0); /* the last line may lack its end */
    assert_int_equal(fclose(file), 0);
    assert_known((const char *const[]){"10.0.0.7:1", "10.0.0.8:1"}, 2);
    doors_close(&d);
    assert_int_equal(unlink(path), 0);
    place_release(place, nothing);
}

static void numbers_need_no_name_server(void **state)
{
    (void)state;
    shoali_ip ips[SHOALI_DOOR_PLACES];
    static const char *const places[] = {"tcp://10.0.0.9:29500", "tcp://[fd00::1]:7",
                                         "file:///tmp/x"};
    for (size_t i = 0; i < 3; i++) {
        doors_open(&d, 1, places[i]);
        assert_int_equal(shoali_door_resolve(d.door, ips), 0);
        assert_int_equal(d.door->place_count, 0);
        doors_close(&d);
    }
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_rendezvous_comes_first_then_the_list),
        CHECK_TEST(a_shared_file_lists_them_as_long_as_there_is_a_leader),
        CHECK_TEST(numbers_need_no_name_server)};
    return CHECK_RUN(tests);
}
