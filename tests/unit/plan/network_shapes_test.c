/* SPDX-License-Identifier: Apache-2.0 */
/* Which shapes there are, and what is refused; network_best_test.c enumerates them by itself. */
#include "plan/network_shapes.h"

#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"

#define HERE SHOAL_SOURCE_DIR "/examples/network/"

static shoal_status open_with(const char *const *blocks, uint32_t count, const char *groups,
                              uint64_t npus, shoal_network_shapes **out)
{
    shoal_network_job job = {HERE "gpt3.txt", groups, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network_space space = SHOAL_NETWORK_SPACE_INIT;
    desc.jobs = &job;
    desc.job_count = 1;
    space.npus = npus;
    space.blocks = blocks;
    space.block_count = count;
    return shoal_network_shapes_open(&desc, &space, out);
}

/* Its bytes would pass others on their way, which no formula here counts. */
static void no_all_to_all_over_long_rings(void **state)
{
    (void)state;
    static const char rows[] = "tables -1 10 ALLTOALL 6400 10 NONE 0 10 NONE 0 10\n";
    static const char *const blocks[] = {"ring:cost=1", "fc:cost=9"}, *const limit = "cost <= 900";
    char path[] = "/tmp/shoal-shapes-XXXXXX.txt";
    shoal_network_job job = {path, NULL, 1, NULL};
    shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
    shoal_network_space space = {sizeof space, 12, blocks, 2, 2};
    shoal_network_question q = {sizeof q, SHOAL_NETWORK_PERF, &limit, 1};
    shoal_network_choice choice = {.size = sizeof choice};
    shoal_network_shapes *shapes = NULL;
    shoal_network_shape best[7];
    uint32_t found;
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0 && write(fd, rows, strlen(rows)) == (ssize_t)strlen(rows));
    assert_int_equal(close(fd), 0);
    desc.jobs = &job;
    desc.job_count = 1;
    assert_ok(shoal_network_shapes_open(&desc, &space, &shapes));
    assert_ok(shoal_network_shapes_best(shapes, &q, best, 7, &found, &choice));
    /* fc:12, four of two fc each, ring:2 or ring:3 below an fc; seven others of 14 */
    assert_int_equal(found, 7);
    assert_int_equal(choice.misfits, 7);
    for (uint32_t i = 0; i < found; i++)
        for (uint32_t d = 0; d < best[i].dims; d++)
            assert_true(strcmp(best[i].topology[d], "fc") == 0 || best[i].members[d] <= 3);
    shoal_network_shapes_close(shapes);
    assert_int_equal(unlink(path), 0);
}

static shoal_status once(void)
{
    const char *const blocks[] = {"ring:cost=2"}, *const limit = "sum == 5";
    shoal_network_question q = {sizeof q, SHOAL_NETWORK_PERF, &limit, 1};
    shoal_network_choice choice = {.size = sizeof choice};
    shoal_network_shapes *shapes = NULL;
    shoal_network_shape best;
    uint32_t found;
    shoal_status status = open_with(blocks, 1, "tp=2", 8, &shapes);
    if (status == SHOAL_OK)
        status = shoal_network_shapes_best(shapes, &q, &best, 1, &found, &choice);
    shoal_network_shapes_close(shapes);
    return status;
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    (void)shoali_alloc_fail_at(0);
    assert_ok(once());
    const size_t count = shoali_alloc_fail_at(0);
    assert_true(count > 5);
    for (size_t k = 1; k <= count; k++) {
        (void)shoali_alloc_fail_at(k);
        assert_status(once(), SHOAL_ENOMEM);
    }
    (void)shoali_alloc_fail_at(0);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *block, *groups;
        uint64_t npus;
        const char *text;
    } bad[] = {{"torus", NULL, 8, "torus"},
               {"ring:most=1", NULL, 8, "most"},
               {"ring:least=5,most=4", NULL, 8, "5 members at least"},
               {"ring:radix=4", NULL, 8, "radix"},
               {"ring:most=4", NULL, 7, "no sizes of these blocks"},
               {"ring", NULL, 1, "accelerators"},
               {"ring", "tp=3", 8, "tensor"},
               {"ring:most=2", "tp=6", 8, "tensor"},
               {"ring", HERE "gpt3-4d.yml", 4096, "groups of one shape"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_network_shapes *shapes = NULL;
        assert_status(open_with(&bad[i].block, 1, bad[i].groups, bad[i].npus, &shapes),
                      SHOAL_EINVAL);
        assert_error_has(bad[i].text);
        assert_null(shapes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(no_all_to_all_over_long_rings),
                                       CHECK_TEST(every_failing_allocation_is_reported),
                                       CHECK_TEST(what_is_refused)};
    return CHECK_RUN(tests);
}
