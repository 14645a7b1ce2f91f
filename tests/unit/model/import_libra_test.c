/* SPDX-License-Identifier: Apache-2.0 */
#include "model/import.h"

#include <math.h>

#include "support/check.h"

static shoal_status net_of(const char *text, shoali_libra_network *net)
{
    return shoali_libra_network_parse("n.yml", text, strlen(text), net);
}

static const char *const good_net = "Topology: [ Ring, FullyConnected, Switch ]  # 3D\n"
                                    "NpusCount: [ 16, 8, 32 ]\n"
                                    "CostDimension: [ InterPackage, InterNode, InterPod ]\n";

static void a_network_with_its_costs(void **state)
{
    (void)state;
    shoali_libra_network net;
    const char *cost = "InterPackage:\n  Link: 4.00001\n  Switch: 13\nInterNode:\n  Link: 4\n"
                       "InterPod:\n  Link: 7.8\n  Switch: 18\n  Nic: 31.6\nUnused:\n  Link: 1\n";
    assert_ok(net_of(good_net, &net));
    assert_int_equal(net.count, 3);
    assert_int_equal(net.dimension[1].topology, SHOALI_TOPOLOGY_FC);
    assert_int_equal(net.dimension[2].size, 32);
    assert_string_equal(net.cost_class[2], "InterPod");
    assert_ok(shoali_libra_cost_parse("c.yml", cost, strlen(cost), &net));
    assert_true(fabs(net.dimension[0].cost_link - 4.00001) < 1e-12);
    assert_true(fabs(net.dimension[2].cost_link + net.dimension[2].cost_switch +
                     net.dimension[2].cost_nic - 57.4) < 1e-12);
}

static void broken_networks(void **state)
{
    (void)state;
    shoali_libra_network net;
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"Topology: [Ring]\nNpusCount: [4]\n", "n.yml: CostDimension must be a list"},
        {"Topology: [Star]\nNpusCount: [4]\nCostDimension: [X]\n", "'Star' is no topology"},
        {"Topology: [Ring]\nNpusCount: [1]\nCostDimension: [X]\n", "NpusCount[0] must be"},
        {"Topology: [Ring]\nNpusCount: [4, 4]\nCostDimension: [X]\n", "of one length"},
        {"Topology: [Ring]\nNpusCount: [4]\nCostDimension: [X]\nSpeed: 1\n", "unknown key 'Speed'"},
        {"- 1\n", "expected keys such as Topology"},
        {"Topology: [Ring, Ring, Ring]\nNpusCount: [99999, 99999, 99999]\n"
         "CostDimension: [X, X, X]\n",
         "multiplies to"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(net_of(bad[i].text, &net), SHOAL_ECORRUPT);
        assert_error_has(bad[i].error);
    }
}

static void a_switch_needs_a_nic(void **state)
{
    (void)state;
    shoali_libra_network net;
    const char *no_nic = "InterPackage: {Link: 4}\nInterNode: {Link: 4}\n"
                         "InterPod: {Link: 7.8, Switch: 18}\n";
    const char *no_pod = "InterPackage: {Link: 4}\nInterNode: {Link: 4}\n";
    assert_ok(net_of(good_net, &net));
    assert_status(shoali_libra_cost_parse("c.yml", no_nic, strlen(no_nic), &net), SHOAL_ECORRUPT);
    assert_error_has("c.yml: InterPod: key \"Nic\" is missing");
    assert_status(shoali_libra_cost_parse("c.yml", no_pod, strlen(no_pod), &net), SHOAL_ECORRUPT);
    assert_error_has("no costs of 'InterPod'");
}

static void communicators(void **state)
{
    (void)state;
    shoali_libra_network net;
    shoali_communicator c;
    const char *good = "Forward: [4, -1, 1]\nInputGrad: [4, -1, -1]\nWeightGrad: [-1, 8, 32]\n";
    const char *wrong = "Forward: [5, -1, -1]\nInputGrad: [4, -1, -1]\nWeightGrad: [-1, 8, 32]\n";
    const char *few = "Forward: [4, -1]\nInputGrad: [4, -1, -1]\nWeightGrad: [-1, 8, 32]\n";
    assert_ok(net_of(good_net, &net));
    assert_ok(shoali_libra_communicator_parse("g.yml", good, strlen(good), net.dimension, 3, &c));
    assert_int_equal(c.size[SHOALI_PHASE_FORWARD][0], 4);
    assert_int_equal(c.size[SHOALI_PHASE_FORWARD][1], 1);
    assert_int_equal(c.size[SHOALI_PHASE_WEIGHT_GRAD][2], 32);
    assert_status(
        shoali_libra_communicator_parse("g.yml", wrong, strlen(wrong), net.dimension, 3, &c),
        SHOAL_ECORRUPT);
    assert_error_has("Forward[0] must be -1 or divide the 16");
    assert_status(shoali_libra_communicator_parse("g.yml", few, strlen(few), net.dimension, 3, &c),
                  SHOAL_ECORRUPT);
    assert_error_has("Forward has 2 entries, the network 3 dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_network_with_its_costs),
                                       CHECK_TEST(broken_networks),
                                       CHECK_TEST(a_switch_needs_a_nic), CHECK_TEST(communicators)};
    return CHECK_RUN(tests);
}
