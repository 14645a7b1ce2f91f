/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/log.h"
#include "transport/iface.h"

/* An invented host: loopback, a bridge of containers, a wire with both families, a second wire, one
 * that is down. */
static size_t host(shoali_iface list[8])
{
    static const struct {
        const char *name, *ip;
        bool up, loopback, bridge;
    } all[] = {
        {"lo", "127.0.0.1", true, true, false},  {"docker0", "172.17.0.1", true, false, true},
        {"eth0", "fd00::5", true, false, false}, {"eth0", "10.0.0.5", true, false, false},
        {"ib0", "10.1.0.5", true, false, false}, {"wlan0", "192.168.1.5", false, false, false},
        {"lo", "::1", true, true, false},
    };
    size_t count = sizeof all / sizeof all[0];
    for (size_t i = 0; i < count; i++) {
        list[i] = (shoali_iface){
            .up = all[i].up, .loopback = all[i].loopback, .bridge = all[i].bridge};
        strcpy(list[i].name, all[i].name);
        assert_true(shoali_ip_parse(all[i].ip, &list[i].ip));
    }
    return count;
}

static void expect(const shoali_iface_wish *wish, const char *name, const char *first_ip,
                   uint32_t ips, const char *why)
{
    shoali_iface list[8];
    shoali_iface_choice choice;
    char ip[SHOALI_IP_TEXT_BYTES];
    assert_ok(shoali_iface_pick(list, host(list), wish, &choice));
    assert_string_equal(choice.name, name);
    shoali_ip_format(&choice.ips[0], ip);
    assert_string_equal(ip, first_ip);
    assert_int_equal(choice.ip_count, ips);
    assert_int_equal(choice.loopback, strcmp(name, "lo") == 0);
    if (strstr(choice.why, why) == NULL)
        fail_msg("'%s' does not say '%s'", choice.why, why);
}

static void expect_refusal(const shoali_iface_wish *wish, const char *says)
{
    shoali_iface list[8];
    shoali_iface_choice choice;
    assert_status(shoali_iface_pick(list, host(list), wish, &choice), SHOAL_EINVAL);
    assert_error_has(says);
}

static void what_is_asked_for_wins(void **state)
{
    (void)state;
    shoali_ip source;
    assert_true(shoali_ip_parse("10.0.0.5", &source));
    shoali_iface_wish wish = {
        .wanted = "ib0", .wanted_from = "--interface", .toward = "10.0.0.1", .source = &source};
    expect(&wish, "ib0", "10.1.0.5", 1, "--interface asks for it");
    wish.wanted = "eth0";
    expect(&wish, "eth0", "10.0.0.5", 2, "asks"); /* IPv4 first */
    wish.wanted = "fd00::5";
    expect(&wish, "eth0", "fd00::5", 1, "asks");
    wish.wanted = "ib0,eth0";
    expect(&wish, "ib0", "10.1.0.5", 3, "asks");
    wish.wanted = "10.0.0.5,eth9";
    expect_refusal(&wish, "'eth9'");
    wish.wanted = ",";
    expect_refusal(&wish, "','");
    wish.wanted = "lo";
    expect_refusal(&wish, "loopback, but the rendezvous 10.0.0.1 is not");
    wish.wanted = "127.0.0.1";
    expect_refusal(&wish, "10.0.0.1");
    wish.toward = NULL;
    expect(&wish, "lo", "127.0.0.1", 1, "asks");
    wish.wanted = "eth9";
    expect_refusal(&wish, "docker0 (172.17.0.1)");
    wish.wanted = "wlan0";
    expect_refusal(&wish, "that is up");
}

static void the_way_to_the_rendezvous_decides(void **state)
{
    (void)state;
    shoali_ip source;
    assert_true(shoali_ip_parse("10.1.0.5", &source));
    shoali_iface_wish wish = {.toward = "10.1.0.1", .source = &source};
    expect(&wish, "ib0", "10.1.0.5", 2, "leads to the rendezvous 10.1.0.1");
    assert_true(shoali_ip_parse("fd00::5", &source));
    expect(&wish, "eth0", "fd00::5", 2, "leads to");
}

/* Every other interface stands behind the chosen one with one address: IPv4, if it has that. */
static void others_follow(void **state)
{
    (void)state;
    shoali_iface list[8];
    shoali_iface_choice choice;
    shoali_ip source, eth0;
    size_t count = host(list);
    assert_true(shoali_ip_parse("10.1.0.5", &source));
    assert_true(shoali_ip_parse("10.0.0.5", &eth0));
    shoali_iface_wish wish = {.toward = "10.1.0.1", .source = &source};
    list[3].subnet_bits = 24;
    assert_ok(shoali_iface_pick(list, count, &wish, &choice));
    assert_int_equal(choice.wires, 2);
    assert_int_equal(choice.wire[1], 1);
    assert_int_equal(choice.subnet_bits[1], 24);
    assert_true(shoali_ip_equal(&choice.ips[1], &eth0));
    wish.wanted = "ib0";
    assert_ok(shoali_iface_pick(list, count, &wish, &choice));
    assert_int_equal(choice.wires, 1);
}

static void loopback_only_when_nobody_is_elsewhere(void **state)
{
    (void)state;
    shoali_ip loopback;
    shoali_iface_wish here = {.toward = "127.0.0.1", .here = true};
    expect(&here, "lo", "127.0.0.1", 2, "on this host");
    /* A host name that its own host maps to 127.0.1.1 says nothing about the others. */
    assert_true(shoali_ip_parse("127.0.0.1", &loopback));
    shoali_iface_wish own_name = {.toward = "thishost", .source = &loopback};
    expect(&own_name, "eth0", "10.0.0.5", 3, "first that is up");
    shoali_iface_wish unknown = {0};
    expect(&unknown, "eth0", "10.0.0.5", 3, "first that is up");
    shoali_iface_wish no_token = {.no_token = true};
    expect(&no_token, "lo", "127.0.0.1", 2, "without a job token");
}

static void a_host_with_nothing_but_loopback(void **state)
{
    (void)state;
    shoali_iface list[8];
    shoali_iface_choice choice;
    shoali_iface_wish unknown = {0}, remote = {.toward = "10.0.0.1"};
    host(list);
    assert_ok(shoali_iface_pick(list, 1, &unknown, &choice));
    assert_string_equal(choice.name, "lo");
    assert_status(shoali_iface_pick(list, 1, &remote, &choice), SHOAL_EINVAL);
    assert_error_has("no network interface is up");
    assert_status(shoali_iface_pick(list, 0, &unknown, &choice), SHOAL_EINVAL);
}

static void a_bridge_comes_last(void **state)
{
    (void)state;
    shoali_iface list[8];
    shoali_iface_choice choice;
    shoali_iface_wish unknown = {0};
    host(list);
    assert_ok(shoali_iface_pick(list, 2, &unknown, &choice)); /* lo and docker0 only */
    assert_string_equal(choice.name, "docker0");
}

static void collect(void *ctx, shoali_log_level level, const char *line)
{
    (void)level;
    strncat(ctx, line, 511 - strlen(ctx));
}

static void the_real_host_says_what_it_chose(void **state)
{
    (void)state;
    char log[512] = "";
    shoali_iface_choice choice;
    shoali_log_set_level(SHOALI_LOG_INFO);
    shoali_log_set_sink(collect, log);
    assert_ok(shoali_iface_choose(NULL, "localhost", false, &choice));
    shoali_log_set_sink(NULL, NULL);
    assert_true(choice.loopback);
    assert_non_null(strstr(log, "interface lo (127.0.0.1): the rendezvous is on this host"));
    assert_int_equal(setenv("SHOAL_INTERFACE", "nonsense0", 1), 0);
    assert_status(shoali_iface_choose(NULL, "127.0.0.1", false, &choice), SHOAL_EINVAL);
    assert_error_has("SHOAL_INTERFACE");
    assert_ok(shoali_iface_choose("127.0.0.1", "127.0.0.1", false, &choice));
    assert_int_equal(unsetenv("SHOAL_INTERFACE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_asked_for_wins),
        CHECK_TEST(the_way_to_the_rendezvous_decides),
        CHECK_TEST(others_follow),
        CHECK_TEST(loopback_only_when_nobody_is_elsewhere),
        CHECK_TEST(a_host_with_nothing_but_loopback),
        CHECK_TEST(a_bridge_comes_last),
        CHECK_TEST(the_real_host_says_what_it_chose),
    };
    return CHECK_RUN(tests);
}
