/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "relay/route.h"

enum { MOST = 8 };

typedef struct world {
    shoali_address all[MOST];
    uint32_t size;
} world;

/* Rank i has an address in subnet 10.78.c.0/24 for each c of its list; "" ends it. */
static world made(uint32_t size, const char *const *subnets)
{
    world w = {.size = size};
    for (uint32_t i = 0; i < size; i++) {
        char text[SHOALI_ADDRESS_BYTES], ips[300] = "";
        size_t used = 0;
        for (const char *c = subnets[i]; *c != '\0'; c++)
            used += (size_t)snprintf(ips + used, sizeof ips - used, "%s10.78.%u.%u/24",
                                     used > 0 ? "," : "", (unsigned)(*c - '0'), i + 1);
        snprintf(text, sizeof text, "host=h port=9 ip=%s boot=b netns=%u%s", ips, i + 1,
                 strlen(subnets[i]) > 1 ? " relay=77" : "");
        assert_ok(shoali_address_parse(text, &w.all[i]));
    }
    return w;
}

static void expect_without(const world *w, const bool *out, uint32_t me, const uint32_t *next)
{
    uint32_t got[MOST], queue[MOST];
    shoali_routes(w->all, w->size, me, out, got, queue);
    for (uint32_t i = 0; i < w->size; i++)
        if (got[i] != next[i])
            fail_msg("from %u to %u by %u, not %u", me, i, got[i], next[i]);
}

static void expect(const world *w, uint32_t me, const uint32_t *next)
{
    expect_without(w, NULL, me, next);
}

static void a_switch_needs_no_relay(void **state)
{
    (void)state;
    world w = made(4, (const char *const[]){"0", "0", "0", "0"});
    for (uint32_t me = 0; me < 4; me++)
        expect(&w, me, (const uint32_t[]){0, 1, 2, 3});
}

static void a_ring_of_cables(void **state)
{
    (void)state;
    world w = made(4, (const char *const[]){"03", "01", "12", "23"});
    expect(&w, 0, (const uint32_t[]){0, 1, 1, 3});
    expect(&w, 1, (const uint32_t[]){0, 1, 2, 0});
    expect(&w, 2, (const uint32_t[]){1, 1, 2, 3});
    expect(&w, 3, (const uint32_t[]){0, 0, 2, 3});
    world six = made(6, (const char *const[]){"05", "01", "12", "23", "34", "45"});
    expect(&six, 0, (const uint32_t[]){0, 1, 1, 1, 5, 5});
}

/* Rank 1 of a ring is lost: what is left is a line, and nobody tries the way by it. */
static void a_ring_without_one_is_a_line(void **state)
{
    (void)state;
    const bool out[] = {false, true, false, false};
    const uint32_t none = SHOALI_NO_ROUTE;
    world w = made(4, (const char *const[]){"03", "01", "12", "23"});
    world line = made(3, (const char *const[]){"0", "01", "1"});
    expect_without(&w, out, 0, (const uint32_t[]){0, 3, 3, 3});
    expect_without(&w, out, 2, (const uint32_t[]){3, 3, 2, 3});
    expect_without(&line, out, 0, (const uint32_t[]){0, none, none});
}

static void a_line_has_ends(void **state)
{
    (void)state;
    world w = made(4, (const char *const[]){"0", "01", "12", "2"});
    expect(&w, 0, (const uint32_t[]){0, 1, 1, 1});
    expect(&w, 3, (const uint32_t[]){2, 2, 2, 3});
    expect(&w, 1, (const uint32_t[]){0, 1, 2, 2});
}

static void who_does_not_relay_is_no_way(void **state)
{
    (void)state;
    world w = made(4, (const char *const[]){"0", "01", "12", "2"});
    w.all[1].relay_port = 0;
    expect(&w, 0, (const uint32_t[]){0, 1, SHOALI_NO_ROUTE, SHOALI_NO_ROUTE});
}

static void ranks_of_one_host_have_the_same_ways(void **state)
{
    (void)state;
    world w = made(4, (const char *const[]){"0", "01", "01", "1"});
    w.all[2].netns = w.all[1].netns;
    expect(&w, 0, (const uint32_t[]){0, 1, 2, 1});
    expect(&w, 1, (const uint32_t[]){0, 1, 2, 3});
    expect(&w, 3, (const uint32_t[]){1, 1, 2, 3});
}

static void the_same_address_on_two_hosts_is_no_cable(void **state)
{
    (void)state;
    world w = made(2, (const char *const[]){"0", "1"});
    w.all[1].ips[0] = w.all[0].ips[0]; /* docker0 */
    expect(&w, 0, (const uint32_t[]){0, SHOALI_NO_ROUTE});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_switch_needs_no_relay),
        CHECK_TEST(a_ring_of_cables),
        CHECK_TEST(a_ring_without_one_is_a_line),
        CHECK_TEST(a_line_has_ends),
        CHECK_TEST(who_does_not_relay_is_no_way),
        CHECK_TEST(ranks_of_one_host_have_the_same_ways),
        CHECK_TEST(the_same_address_on_two_hosts_is_no_cable),
    };
    return CHECK_RUN(tests);
}
