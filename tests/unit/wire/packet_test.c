/* SPDX-License-Identifier: Apache-2.0 */
/* The packet of lossy aggregation: its bytes, and what is none. */
#include "wire/packet.h"

#include "support/check.h"

static const shoali_packet example = {.kind = SHOALI_PACKET_RESULT,
                                      .worker = 200,
                                      .slot = 0x123,
                                      .exponent = -3,
                                      .key = 0x0102030405060708,
                                      .round = 0x11121314,
                                      .next = 0x21222324};
static const uint8_t bytes_of_example[SHOALI_PACKET_BYTES] = {
    'S',  'A',  0x22, 200,  0x01, 0x23, 0xff, 0xfd, 0x01, 0x02, 0x03, 0x04,
    0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24};

static void bytes_are_for_ever(void **state)
{
    (void)state;
    uint8_t out[SHOALI_PACKET_BYTES];
    shoali_packet back;
    uint32_t values;
    uint64_t key;
    shoali_packet_encode(&example, out);
    assert_memory_equal(out, bytes_of_example, sizeof out);
    assert_true(shoali_packet_decode(out, sizeof out, &back, &values));
    assert_int_equal(values, 0);
    assert_true(back.kind == example.kind && back.worker == 200 && back.slot == 0x123);
    assert_true(back.exponent == -3 && back.key == example.key && back.round == example.round);
    assert_true(back.next == example.next);
    assert_true(shoali_packet_key(out, sizeof out, &key) && key == example.key);
}

static bool decodes(const uint8_t *bytes, size_t len_bytes)
{
    shoali_packet packet;
    uint32_t values;
    return shoali_packet_decode(bytes, len_bytes, &packet, &values);
}

static bool changed(size_t at, uint8_t value, size_t len_bytes)
{
    uint8_t bytes[SHOALI_PACKET_BYTES + 4 * SHOALI_PACKET_VALUES_MAX + 4] = {0};
    memcpy(bytes, bytes_of_example, SHOALI_PACKET_BYTES);
    bytes[at] = value;
    return decodes(bytes, len_bytes);
}

static void what_is_none(void **state)
{
    (void)state;
    enum { HEAD = SHOALI_PACKET_BYTES, MOST = HEAD + 4 * SHOALI_PACKET_VALUES_MAX };
    uint64_t key;
    assert_true(changed(0, 'S', HEAD) && changed(0, 'S', HEAD + 8) && changed(0, 'S', MOST));
    assert_false(changed(0, 'T', HEAD));  /* magic */
    assert_false(changed(2, 0x12, HEAD)); /* version */
    assert_false(changed(2, 0x20, HEAD)); /* kind */
    assert_false(changed(2, 0x25, HEAD));
    assert_false(changed(4, 0x10, HEAD)); /* slot */
    assert_false(changed(0, 'S', HEAD - 1));
    assert_false(changed(0, 'S', HEAD + 3)); /* no whole value */
    assert_false(changed(0, 'S', MOST + 4));
    assert_false(changed(2, 0x23, HEAD + 4)); /* a probe has none */
    assert_false(changed(2, 0x24, HEAD));     /* a state says who */
    assert_true(changed(2, 0x24, HEAD + SHOALI_PACKET_MISSING_BYTES));
    assert_false(shoali_packet_key(bytes_of_example, HEAD - 1, &key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(bytes_are_for_ever), CHECK_TEST(what_is_none)};
    return CHECK_RUN(tests);
}
