/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/rift.h"

#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "support/check.h"
#include "sync/graph.h"

enum { MOST = 16, DRAWS = 400 };

static uint32_t draw(uint64_t index, uint32_t below)
{
    return (uint32_t)(shoali_mix(check_seed(), index) % below);
}

/* Whether all that are left reach each other, by the closure of the neighbour relation. */
static bool is_whole(const char *spec, uint32_t nodes, const uint8_t *peers)
{
    bool reach[MOST][MOST] = {{false}};
    for (uint32_t a = 0; a < nodes; a++) {
        uint32_t to[MOST], count;
        assert_ok(shoali_graph_neighbours(spec, nodes, a, to, &count));
        for (uint32_t i = 0; i < count; i++)
            reach[a][to[i]] = (peers[a] & SHOALI_PEER_GONE) == 0 &&
                              (peers[to[i]] & SHOALI_PEER_GONE) == 0;
        reach[a][a] = true;
    }
    for (uint32_t by = 0; by < nodes; by++)
        for (uint32_t a = 0; a < nodes; a++)
            for (uint32_t b = 0; b < nodes; b++)
                reach[a][b] = reach[a][b] || (reach[a][by] && reach[by][b]);
    for (uint32_t a = 0; a < nodes; a++)
        for (uint32_t b = 0; b < nodes; b++)
            if ((peers[a] & SHOALI_PEER_GONE) == 0 && (peers[b] & SHOALI_PEER_GONE) == 0 &&
                !reach[a][b])
                return false;
    return true;
}

static void as_the_closure_says(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "chords", "double_ring", "complete", "parity"};
    uint32_t whole = 0, cut = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const char *spec = specs[draw(5 * i, 5)];
        uint32_t nodes = 8 + 4 * draw(5 * i + 1, 3), losses = draw(5 * i + 2, nodes);
        uint8_t peers[MOST] = {0};
        shoali_world world = {.workers = nodes};
        shoali_finale finale = {.world = &world, .peers = peers};
        for (uint32_t l = 0; l < losses; l++)
            peers[draw(1000000 + 50 * i + l, nodes)] = SHOALI_PEER_GONE;
        bool expected = is_whole(spec, nodes, peers);
        assert_int_equal(shoali_rift_check(spec, &finale), expected ? SHOAL_OK : SHOAL_EPEER);
        whole += expected;
        cut += !expected;
    }
    assert_true(whole > DRAWS / 10 && cut > DRAWS / 10);
}

static void names_a_worker_of_each_part(void **state)
{
    (void)state;
    uint8_t peers[8] = {[1] = SHOALI_PEER_GONE, [5] = SHOALI_PEER_GONE};
    shoali_world world = {.workers = 8};
    shoali_finale finale = {.world = &world, .peers = peers};
    assert_int_equal(shoali_rift_check("ring", &finale), SHOAL_EPEER);
    assert_string_equal(shoal_last_error()->text,
                        "the 2 workers that are lost have cut graph=ring: no way leads from worker "
                        "0 to worker 2 any more");
    assert_ok(shoali_rift_check("chords", &finale));
}

static void one_loss_ends_a_directed_graph(void **state)
{
    (void)state;
    uint8_t peers[8] = {0};
    shoali_world world = {.workers = 8};
    shoali_finale finale = {.world = &world, .peers = peers};
    assert_ok(shoali_rift_check("exponential", &finale));
    peers[3] = SHOALI_PEER_GONE;
    assert_int_equal(shoali_rift_check("exponential", &finale), SHOAL_EPEER);
    assert_string_equal(shoal_last_error()->text,
                        "worker 3 is lost, and graph=exponential is directed: without it averages "
                        "would lean to those that are heard most");
}

static void once_all_have_finished_parts_do_no_harm(void **state)
{
    (void)state;
    uint8_t peers[8];
    memset(peers, SHOALI_PEER_FINISHED, sizeof peers);
    peers[1] = peers[5] = SHOALI_PEER_GONE;
    shoali_world world = {.workers = 8};
    shoali_finale finale = {.world = &world, .peers = peers};
    assert_ok(shoali_rift_check("ring", &finale));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(as_the_closure_says),
        CHECK_TEST(names_a_worker_of_each_part),
        CHECK_TEST(one_loss_ends_a_directed_graph),
        CHECK_TEST(once_all_have_finished_parts_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
