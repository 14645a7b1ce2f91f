/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the kernel's program, and its maps: what is missing is said; cells are given out, and
 * again once they are free. That it sums is xdp/program's (tests/sim/xdp_slots_test.c), that a job
 * uses it tests/cli/in_switch_test.py's. */
#include "aggregator/in_kernel.h"

#include "base/error.h"
#include "support/check.h"

static const char program[] = SHOAL_BUILD_DIR "/innet/switchml.bpf.o";

static void expect(const char *path, const char *ports, shoal_status status, const char *text)
{
    shoali_in_kernel *k = NULL;
    assert_int_equal(shoali_in_kernel_open(path, ports, &k), status);
    assert_null(k);
    assert_non_null(strstr(shoal_last_error()->text, text));
}

static void says_what_is_missing(void **state)
{
    (void)state;
    expect(program, "no-such-port", SHOAL_EINVAL, "no interface 'no-such-port'");
    expect(program, "lo,", SHOAL_EINVAL, "no interface ''");
    expect(program, "a-name-longer-than-any-interface-has", SHOAL_EINVAL, "no interface");
    expect("/nowhere/at.all", "", SHOAL_ENOTSUP, "no program at /nowhere/at.all");
    expect(SHOAL_SOURCE_DIR "/README.md", "", SHOAL_ENOTSUP, "");
}

static shoali_slot_share share_of(uint32_t slots, uint32_t workers, uint64_t key)
{
    return (shoali_slot_share){
        .count = 1000, .block = 8, .blocks = 125, .slots = slots, .workers = workers, .key = key};
}

static void workers_at(shoali_ip workers[], uint32_t count)
{
    for (uint32_t w = 0; w < count; w++) {
        assert_true(shoali_ip_parse("10.0.0.1", &workers[w]));
        shoali_ip_set_port(&workers[w], (uint16_t)(1000 + w));
    }
}

static void gives_cells_and_takes_them_back(void **state)
{
    (void)state;
    enum { HALF = SHOALI_KERNEL_CELLS / 2 };
    shoali_in_kernel *k = NULL;
    shoali_ip workers[SHOALI_KERNEL_WORKERS + 1];
    shoali_kernel_sum a, b, c;
    shoali_kernel_job counted;
    uint32_t slot, round, worker;
    if (shoali_in_kernel_open(program, "", &k) != SHOAL_OK) {
        print_message("skipped: %s\n", shoal_last_error()->text);
        skip();
    }
    workers_at(workers, SHOALI_KERNEL_WORKERS + 1);
    const shoali_slot_share half = share_of(HALF, 3, 7), other = share_of(HALF, 64, 8),
                            small = share_of(1, 2, 9), many = share_of(1, 65, 10);
    assert_ok(shoali_in_kernel_begin(k, &half, workers, &a));
    assert_ok(shoali_in_kernel_begin(k, &other, workers, &b));
    assert_int_equal(a.first_cell + b.first_cell, HALF);
    assert_int_equal(shoali_in_kernel_begin(k, &small, workers, &c), SHOAL_ENOTSUP);
    assert_non_null(strstr(shoal_last_error()->text, "no room for 1 slots more"));
    assert_int_equal(shoali_in_kernel_begin(k, &many, workers, &c), SHOAL_ENOTSUP);
    assert_true(shoali_in_kernel_missing(k, &a, &slot, &round, &worker));
    assert_int_equal(slot + round + worker, 0);
    shoali_in_kernel_end(k, &a);
    shoali_in_kernel_counted(k, &a, &counted); /* it is forgotten */
    assert_int_equal(counted.workers, 0);
    assert_ok(shoali_in_kernel_begin(k, &small, workers, &c));
    shoali_in_kernel_counted(k, &c, &counted);
    assert_int_equal(counted.workers, 2);
    assert_int_equal(counted.packets, 0);
    assert_true(shoali_ip_parse("fd00::1", &workers[1]));
    assert_int_equal(shoali_in_kernel_begin(k, &half, workers, &a), SHOAL_ENOTSUP);
    assert_non_null(strstr(shoal_last_error()->text, "worker 1 has no IPv4 address"));
    shoali_in_kernel_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(says_what_is_missing),
                                       CHECK_TEST(gives_cells_and_takes_them_back)};
    return CHECK_RUN(tests);
}
