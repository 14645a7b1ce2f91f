/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "doctor/doctor.h"

static void what_one_says_the_other_hears(void **state)
{
    (void)state;
    shoali_facts said = {.host = "a", .interface = "eth1", .ip = "10.0.0.3", .route = "10.0.0.4"};
    shoali_facts heard;
    uint8_t bytes[SHOALI_DOCTOR_FACTS_BYTES];
    said.port = 40123;
    said.mtu = 9000;
    said.port_mbit = 1000;
    said.cores = 64;
    said.kernel_tls = true;
    said.send_buffer_bytes = 4194304;
    said.receive_buffer_bytes = 6291456;
    said.nonce = 0x123456789abcdef0;
    assert_int_equal(shoali_facts_encode(&said, bytes), sizeof bytes);
    assert_true(shoali_facts_decode(bytes, sizeof bytes, &heard));
    assert_true(heard.kernel_tls && heard.cores == said.cores && heard.mtu == said.mtu);
    assert_true(heard.port == said.port && heard.port_mbit == said.port_mbit);
    assert_true(heard.send_buffer_bytes == said.send_buffer_bytes &&
                heard.receive_buffer_bytes == said.receive_buffer_bytes &&
                heard.nonce == said.nonce);
    uint8_t again[SHOALI_DOCTOR_FACTS_BYTES]; /* and the texts */
    shoali_facts_encode(&heard, again);
    assert_memory_equal(bytes, again, sizeof bytes);
    for (size_t cut = 0; cut < sizeof bytes; cut++)
        assert_false(shoali_facts_decode(bytes, cut, &heard));
}

static void what_nobody_can_have_said_is_refused(void **state)
{
    (void)state;
    shoali_facts heard;
    uint8_t bytes[SHOALI_DOCTOR_FACTS_BYTES];
    memset(bytes, 0xff, sizeof bytes);
    assert_false(shoali_facts_decode(bytes, sizeof bytes, &heard));
    assert_int_equal(heard.host[sizeof heard.host - 1], '\0');
    shoali_facts said = {.host = "a\n\"b\x1b", .ip = "127.0.0.1", .port = 1};
    shoali_facts_encode(&said, bytes);
    assert_true(shoali_facts_decode(bytes, sizeof bytes, &heard));
    assert_string_equal(heard.host, "a??b?");
    said.port = 0;
    shoali_facts_encode(&said, bytes);
    assert_false(shoali_facts_decode(bytes, sizeof bytes, &heard));
}

static void a_core_has_a_speed(void **state)
{
    (void)state;
    double share, speed;
    shoali_facts_core(&share, &speed);
    assert_true(share > 0 && share < 1.1);
    assert_true(speed > 1e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_one_says_the_other_hears),
        CHECK_TEST(what_nobody_can_have_said_is_refused),
        CHECK_TEST(a_core_has_a_speed),
    };
    return CHECK_RUN(tests);
}
