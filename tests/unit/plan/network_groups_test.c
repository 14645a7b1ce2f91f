/* SPDX-License-Identifier: Apache-2.0 */
/* Groups inside out, and all-to-alls that are never left out. */
#include "plan/network.h"

#include "support/check.h"

static void expect(const uint32_t *got, uint32_t a, uint32_t b, uint32_t c)
{
    if (got[0] != a || got[1] != b || got[2] != c)
        fail_msg("%u %u %u, expected %u %u %u", got[0], got[1], got[2], a, b, c);
}

static shoal_network three(void)
{
    return (shoal_network){
        .dims = 3, .npus = 256, .dimension = {{.size = 4}, {.size = 8}, {.size = 8}}};
}

static void inside_out(void **state)
{
    (void)state;
    shoal_network net = three();
    shoali_network_job job = {0};
    const shoali_network_split split = {8, 4, 2, 4};
    assert_ok(shoali_network_place(&split, &net, &job.communicator));
    shoali_phase phase = {.group = SHOALI_GROUP_PHASE};
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, &phase), 4, 2, 1);
    expect(shoali_network_group(&job, SHOALI_PHASE_INPUT_GRAD, &phase), 4, 2, 1);
    expect(shoali_network_group(&job, SHOALI_PHASE_WEIGHT_GRAD, &phase), 1, 4, 2);
    phase.group = SHOALI_GROUP_EXPERTS;
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, &phase), 1, 4, 1);
    phase.group = SHOALI_GROUP_EXPERT_REPLICAS;
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, &phase), 1, 1, 2);
    phase.group = SHOALI_GROUP_STAGES;
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, &phase), 1, 1, 4);
    const shoali_network_split uneven = {3, 1, 1, 1}, large = {512, 1, 1, 1};
    assert_status(shoali_network_place(&uneven, &net, &job.communicator), SHOAL_EINVAL);
    assert_error_has("tensor parallelism of 3 does not divide dimension 0 of 4");
    assert_status(shoali_network_place(&large, &net, &job.communicator), SHOAL_EINVAL);
    assert_error_has("more than the network's 256");
}

static void all_to_alls_have_a_group(void **state)
{
    (void)state;
    shoal_network net = three();
    shoali_workload_row row = {.name = "tables"};
    shoali_network_job job = {.workload = {"", &row, 1}};
    shoali_phase *forward = &row.phase[SHOALI_PHASE_FORWARD];
    forward->comm = SHOALI_COMM_ALL_TO_ALL;
    forward->bytes = 64;
    assert_ok(shoali_network_groups("tp=1", &net, &job));
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, forward), 4, 8, 8);
    assert_ok(shoali_network_groups("tp=4", &net, &job));
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, forward), 1, 8, 8);
    assert_ok(shoali_network_groups("tp=4,ep=16", &net, &job));
    expect(shoali_network_group(&job, SHOALI_PHASE_FORWARD, forward), 1, 8, 2);
    assert_ok(shoali_network_check_groups("file", &net, &job));
    assert_ok(shoali_network_groups("tp=256", &net, &job));
    assert_status(shoali_network_check_groups("file", &net, &job), SHOAL_EINVAL);
    assert_error_has("all-to-all of tables (forward)");
    forward->bytes = 0;
    assert_ok(shoali_network_check_groups("file", &net, &job));
}

static void texts(void **state)
{
    (void)state;
    static const char *const bad[] = {"tp=",        "tp=0",     "tp=-4",
                                      "tp=4,",      "tp=4,ep=", "tp=4,ep=0",
                                      "tp=4,ep=2,", "ep=2",     "tp=99999999999",
                                      "tp= 4"};
    shoal_network net = three();
    shoali_network_job job = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_status(shoali_network_groups(bad[i], &net, &job), SHOAL_EINVAL);
    assert_status(shoali_network_groups("tp=4,ep=128", &net, &job), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(inside_out), CHECK_TEST(all_to_alls_have_a_group),
                                       CHECK_TEST(texts)};
    return CHECK_RUN(tests);
}
