/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/address.h"

static void text_survives_both_ways(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "host=a port=40123 ip=10.0.0.3 boot=0b8a netns=4026531840",
        "host=a.b-c port=1 ip=10.0.0.3,fd00::1,192.168.1.1 boot=0b8a netns=0",
        "host=a port=9 ip=10.0.0.3/24,fd00::1/64,10.1.0.1/31,10.2.0.1 boot=0b8a netns=7",
        "host=a port=9 ip=10.0.0.3/24 boot=0b8a netns=7 relay=65535 via=4095,fd00::9,1",
        "host=a port=9 ip=10.0.0.3/24 boot=0b8a netns=7 pid=2147483647,4026531836",
        "host=a port=9 ip=10.0.0.3/24 boot=0b8a netns=7 relay=9 pid=1,7 launch=9f2c.3 "
        "via=4095,fd00::9,1",
        "host=a port=9 ip=10.0.0.3/24 boot=0b8a netns=7 launch=9f2c.3 fabric=tcp,0a00,bell "
        "via=4095,fd00::9,1",
        "host=a unix=shoal-123 boot=0b8a netns=4026531840",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        shoali_address address;
        char text[SHOALI_ADDRESS_BYTES];
        assert_ok(shoali_address_parse(texts[i], &address));
        shoali_address_format(&address, text);
        assert_string_equal(text, texts[i]);
    }
}

static void wrong_texts_are_refused_by_part(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"", "0 bytes"},
        {"host=a", "no ip and port"},
        {"host=a port=40123", "no ip and port"},
        {"host=a ip=10.0.0.3", "no ip and port"},
        {"host=a port=0 ip=10.0.0.3", "'port'"},
        {"host=a port=65536 ip=10.0.0.3", "'port'"},
        {"host=a port=-1 ip=10.0.0.3", "'port'"},
        {"host=a port=12x ip=10.0.0.3", "'port'"},
        {"host=a port=1 ip=10.0.0", "'ip'"},
        {"host=a port=1 ip=localhost", "'ip'"},
        {"host=a port=1 ip=1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,"
         "1.1.1.9",
         "'ip'"},
        {"host=a port=1 ip=1.1.1.1/33", "'ip'"},
        {"host=a port=1 ip=1.1.1.1/0", "'ip'"},
        {"host=a port=1 ip=1.1.1.1/", "'ip'"},
        {"host=a port=1 ip=1.1.1.1/-8", "'ip'"},
        {"host=a port=1 ip=::1/129", "'ip'"},
        {"host=a port=1 ip=::ffff:1.1.1.1/128", "'ip'"},
        {"host=a port=1 ip=1.1.1.1 relay=0", "'relay'"},
        {"host=a port=1 ip=1.1.1.1 relay=x", "'relay'"},
        {"host=a port=1 ip=1.1.1.1 via=1", "'via'"},
        {"host=a port=1 ip=1.1.1.1 via=1,1.1.1.2", "'via'"},
        {"host=a port=1 ip=1.1.1.1 via=1,1.1.1.2,0", "'via'"},
        {"host=a port=1 ip=1.1.1.1 via=65536,1.1.1.2,1", "'via'"},
        {"host=a port=1 ip=1.1.1.1 via=1,name,1", "'via'"},
        {"host=a port=1 ip=1.1.1.1 pid=1", "'pid'"},
        {"host=a port=1 ip=1.1.1.1 pid=1,2,3", "'pid'"},
        {"host=a port=1 ip=1.1.1.1 pid=0,3", "'pid'"},
        {"host=a port=1 ip=1.1.1.1 pid=-1,3", "'pid'"},
        {"host=a port=1 ip=1.1.1.1 pid=2147483648,3", "'pid'"},
        {"host=a port=1 ip=1.1.1.1 launch=0123456789012345678901234567890123456789", "'launch'"},
        {"host= port=1 ip=10.0.0.3", "'host'"},
        {"nonsense", "'nonsense'"},
        {"colour=red port=1 ip=10.0.0.3", "'colour'"},
        {"host=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa port=1 "
         "ip=1.1.1.1",
         "'host'"},
        {"host=a port=1 ip=1.1.1.1 netns=99999999999999999999999", "'netns'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        shoali_address address;
        assert_status(shoali_address_parse(wrong[i].text, &address), SHOAL_EINVAL);
        assert_error_has(wrong[i].part);
    }
    char endless[2 * SHOALI_ADDRESS_BYTES];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    shoali_address address;
    assert_status(shoali_address_parse(endless, &address), SHOAL_EINVAL);
}

static void same_host_needs_kernel_and_network(void **state)
{
    (void)state;
    shoali_address here, other;
    assert_ok(shoali_address_local(&here));
    other = here;
    assert_true(shoali_address_same_host(&here, &other));
    other.netns++;
    assert_false(
        shoali_address_same_host(&here, &other)); /* a lab's namespaces share the boot id only */
    other = here;
    other.boot[0] ^= 1;
    assert_false(shoali_address_same_host(
        &here, &other)); /* containers of two hosts may share the inode only */
    shoali_address nothing = {0};
    assert_false(shoali_address_same_host(&nothing, &nothing));
}

static void local_address_is_this_host(void **state)
{
    (void)state;
    shoali_address here;
    char name[64] = "";
    assert_ok(shoali_address_local(&here));
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    assert_string_equal(here.host, name);
    assert_int_equal(strlen(here.boot), 36);
    assert_true(here.netns > 0);
}

static shoali_address parsed(const char *ips, const char *boot)
{
    char text[SHOALI_ADDRESS_BYTES];
    shoali_address address;
    snprintf(text, sizeof text, "host=h port=9 ip=%s boot=%s netns=1", ips, boot);
    assert_ok(shoali_address_parse(text, &address));
    for (uint32_t i = 0; i < address.ip_count; i++)
        address.wires[i] = (uint8_t)i; /* of its own each, unless a test says otherwise */
    return address;
}

static void expect_choice(const shoali_address *mine, const char *theirs, uint32_t links,
                          const char *order)
{
    shoali_address to = parsed(theirs, "there");
    char text[SHOALI_ADDRESS_BYTES], expected[SHOALI_ADDRESS_BYTES];
    assert_int_equal(shoali_address_choose(mine, &to), links);
    shoali_address_format(&to, text);
    snprintf(expected, sizeof expected, "host=h port=9 ip=%s boot=there netns=1", order);
    assert_string_equal(text, expected);
}

static void shared_subnets_come_first(void **state)
{
    (void)state;
    shoali_address mine = parsed("10.0.0.3/24,10.78.1.1/30,192.168.5.3/24,fd00::3/64", "here");
    expect_choice(&mine, "172.16.0.1/16,10.78.1.2/30,10.0.0.9/24", 2,
                  "10.78.1.2/30,10.0.0.9/24,172.16.0.1/16");
    expect_choice(&mine, "10.0.1.9/24,10.0.2.9/24", 0, "10.0.1.9/24,10.0.2.9/24");
    /* Two of the other's addresses on one of our links: one lane's worth. */
    expect_choice(&mine, "10.0.0.8/24,10.0.0.9/24", 1, "10.0.0.8/24,10.0.0.9/24");
    /* The narrower of two opinions counts, and an unknown subnet is shared with nobody. */
    expect_choice(&mine, "10.0.0.9/16,10.0.0.10", 1, "10.0.0.9/16,10.0.0.10");
    expect_choice(&mine, "10.78.1.9/24,fd00::9/64", 1, "fd00::9/64,10.78.1.9/24");
    /* Everybody has docker0: what we have, too, would lead back here. */
    expect_choice(&mine, "192.168.5.3/24,10.0.0.9/24", 1, "10.0.0.9/24");
    expect_choice(&mine, "192.168.5.3/24", 1, "192.168.5.3/24");
}

static void one_wire_with_two_addresses_is_one_link(void **state)
{
    (void)state;
    shoali_address mine = parsed("10.0.0.3/24,fd00::3/64", "here");
    mine.wires[1] = 0;
    expect_choice(&mine, "fd00::9/64,10.0.0.9/24", 1, "fd00::9/64,10.0.0.9/24");
    shoali_address there = parsed("10.0.0.9/24,fd00::9/64", "there");
    shoali_address_prefer(&there, 1);
    char ip[SHOALI_IP_TEXT_BYTES];
    shoali_ip_format(&there.ips[0], ip);
    assert_string_equal(ip, "fd00::9");
    assert_int_equal(there.subnet_bits[0], 64);
    shoali_address here = parsed("10.0.0.9/24,fd00::9/64", "here");
    assert_int_equal(shoali_address_choose(&mine, &here), 1);
}

static void numeric_addresses(void **state)
{
    (void)state;
    shoali_ip v4, mapped, v6;
    char text[SHOALI_IP_TEXT_BYTES];
    assert_true(shoali_ip_parse("127.3.2.1", &v4));
    assert_true(shoali_ip_parse("::ffff:127.3.2.1", &mapped));
    assert_true(shoali_ip_parse("fd00::7", &v6));
    assert_false(shoali_ip_parse("fd00::7%eth0", &v6));
    assert_false(shoali_ip_parse("300.1.1.1", &v4));
    assert_true(shoali_ip_equal(&v4, &mapped));
    assert_false(shoali_ip_equal(&v4, &v6));
    assert_true(shoali_ip_is_loopback(&v4) && shoali_ip_is_loopback(&mapped));
    assert_false(shoali_ip_is_loopback(&v6));
    shoali_ip_format(&mapped, text);
    assert_string_equal(text, "127.3.2.1");
    shoali_ip_set_port(&v6, 4711);
    assert_int_equal(shoali_ip_port(&v6), 4711);
}

/* What the kernel may do with a port of the ephemeral range, brought about by binding to it. */
static void who_would_reach_itself_is_refused(void **state)
{
    (void)state;
    shoali_ip at = {0};
    socklen_t bytes = sizeof at;
    int on = 1, self = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(shoali_ip_parse("127.0.0.1", &at));
    assert_int_equal(bind(self, &at.any, shoali_ip_bytes(&at)), 0);
    assert_int_equal(getsockname(self, &at.any, &bytes), 0);
    assert_false(shoali_ip_connect(self, &at.any, shoali_ip_bytes(&at)));
    assert_int_equal(errno, ECONNREFUSED);
    close(self);
    int listener = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(listener, &at.any, shoali_ip_bytes(&at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_true(shoali_ip_connect(other, &at.any, shoali_ip_bytes(&at)));
    close(other);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(text_survives_both_ways),
        CHECK_TEST(wrong_texts_are_refused_by_part),
        CHECK_TEST(same_host_needs_kernel_and_network),
        CHECK_TEST(local_address_is_this_host),
        CHECK_TEST(shared_subnets_come_first),
        CHECK_TEST(one_wire_with_two_addresses_is_one_link),
        CHECK_TEST(numeric_addresses),
        CHECK_TEST(who_would_reach_itself_is_refused),
    };
    return CHECK_RUN(tests);
}
