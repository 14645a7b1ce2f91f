/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/hex.h"

#include "wire/hello.h"

static const uint8_t token[] = "0123456789abcdef";
enum { TOKEN_BYTES = 16 };

/* Message `name` of tests/golden/hello.txt. */
static size_t golden(const char *name, uint8_t out[SHOALI_HELLO_BYTES])
{
    char line[512];
    size_t bytes = 0, len = strlen(name);
    FILE *file = fopen(SHOAL_SOURCE_DIR "/tests/golden/hello.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, len) == 0 && line[len] == ' ')
            bytes = hex_parse(line + len + 1, out, SHOALI_HELLO_BYTES);
    fclose(file);
    assert_true(bytes > 0);
    return bytes;
}

static shoali_hello dialler_hello(void)
{
    shoali_hello hello = {0, SHOALI_PURPOSE_DATA, 0x28, 3, 5, 2, 0x1122334455667788, {0}, "golden"};
    for (int i = 0; i < SHOALI_NONCE_BYTES; i++)
        hello.nonce[i] = (uint8_t)i;
    return hello;
}

static void golden_hello_encodes_and_decodes(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_HELLO_BYTES], encoded[SHOALI_HELLO_BYTES];
    shoali_hello hello = dialler_hello(), got;
    shoali_hello_type type;
    size_t whole;
    assert_int_equal(golden("dialler", bytes), SHOALI_HELLO_BYTES);
    shoali_hello_encode(&hello, encoded);
    assert_memory_equal(encoded, bytes, sizeof bytes);
    assert_ok(shoali_prefix_decode(bytes, &type, &whole));
    assert_int_equal(type, SHOALI_TYPE_HELLO);
    assert_int_equal(whole, SHOALI_HELLO_BYTES);
    assert_ok(shoali_hello_decode(bytes, &got));
    assert_memory_equal(&got, &hello, sizeof got);
}

static void a_prefix_is_of_one_of_three_types(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_HELLO_BYTES];
    static const size_t wanted[] = {[SHOALI_TYPE_HELLO] = SHOALI_HELLO_BYTES,
                                    [SHOALI_TYPE_PROOF] = SHOALI_PROOF_BYTES,
                                    [SHOALI_TYPE_REFUSAL] = SHOALI_REFUSAL_BYTES};
    golden("dialler", bytes);
    for (int value = 0; value < 256; value++) {
        shoali_hello_type type;
        size_t whole = 0;
        bytes[6] = (uint8_t)value;
        if (value >= SHOALI_TYPE_HELLO && value <= SHOALI_TYPE_REFUSAL) {
            assert_ok(shoali_prefix_decode(bytes, &type, &whole));
            assert_int_equal(type, value);
            assert_int_equal(whole, wanted[value]);
        } else {
            assert_status(shoali_prefix_decode(bytes, &type, &whole), SHOAL_ECORRUPT);
        }
    }
}

static void golden_proofs(void **state)
{
    (void)state;
    uint8_t dialler[SHOALI_HELLO_BYTES], listener[SHOALI_HELLO_BYTES], want[SHOALI_HELLO_BYTES];
    uint8_t mac[SHOALI_MAC_BYTES], message[SHOALI_PROOF_BYTES];
    golden("dialler", dialler);
    golden("listener", listener);
    assert_ok(shoali_proof(token, TOKEN_BYTES, 1, dialler, listener, mac));
    shoali_proof_encode(mac, message);
    assert_int_equal(golden("dialler_proof", want), SHOALI_PROOF_BYTES);
    assert_memory_equal(message, want, SHOALI_PROOF_BYTES);
    assert_ok(shoali_proof(token, TOKEN_BYTES, 0, dialler, listener, mac));
    shoali_proof_encode(mac, message);
    golden("listener_proof", want);
    assert_memory_equal(message, want, SHOALI_PROOF_BYTES);
    assert_ok(shoali_proof(NULL, 0, 1, dialler, listener, mac));
    shoali_proof_encode(mac, message);
    golden("proof_without_token", want);
    assert_memory_equal(message, want, SHOALI_PROOF_BYTES);
}

static void golden_refusal(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_HELLO_BYTES], encoded[SHOALI_REFUSAL_BYTES];
    char text[SHOALI_REFUSAL_TEXT_BYTES];
    assert_int_equal(golden("refusal", bytes), SHOALI_REFUSAL_BYTES);
    shoali_refusal_encode(SHOAL_EAUTH, "wrong token", encoded);
    assert_memory_equal(encoded, bytes, sizeof encoded);
    assert_int_equal(shoali_refusal_decode(bytes, text), SHOAL_EAUTH);
    assert_string_equal(text, "wrong token");
}

static void a_refusal_of_any_bytes_is_printable(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_REFUSAL_BYTES];
    char text[SHOALI_REFUSAL_TEXT_BYTES];
    memset(bytes, 0x9b, sizeof bytes); /* an escape sequence of terminals, without end */
    assert_int_equal(shoali_refusal_decode(bytes, text), SHOAL_EAUTH);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_int_equal(strspn(text, "?"), sizeof text - 1);
}

static void wrong_prefixes_are_refused(void **state)
{
    (void)state;
    uint8_t good[SHOALI_HELLO_BYTES], bytes[SHOALI_HELLO_BYTES];
    shoali_hello_type type;
    size_t whole;
    golden("dialler", good);
    for (int i = 0; i < SHOALI_PREFIX_BYTES; i++) {
        memcpy(bytes, good, sizeof bytes);
        bytes[i] ^= 0x40;
        shoal_status want = i == 4 || i == 5 ? SHOAL_EVERSION : SHOAL_ECORRUPT;
        assert_status(shoali_prefix_decode(bytes, &type, &whole), want);
    }
    golden("refusal", bytes);
    bytes[4] = 9; /* a refusal is understood in every version */
    assert_ok(shoali_prefix_decode(bytes, &type, &whole));
    assert_int_equal(type, SHOALI_TYPE_REFUSAL);
}

static void wrong_hellos_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_HELLO_BYTES];
    shoali_hello got;
    golden("dialler", bytes);
    bytes[12] = SHOALI_PURPOSE_RELAY + 1;
    assert_status(shoali_hello_decode(bytes, &got), SHOAL_ECORRUPT);
    golden("dialler", bytes);
    memset(bytes + 64, 'x', SHOALI_JOB_BYTES);
    assert_status(shoali_hello_decode(bytes, &got), SHOAL_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(golden_hello_encodes_and_decodes),
        CHECK_TEST(a_prefix_is_of_one_of_three_types),
        CHECK_TEST(golden_proofs),
        CHECK_TEST(golden_refusal),
        CHECK_TEST(a_refusal_of_any_bytes_is_printable),
        CHECK_TEST(wrong_prefixes_are_refused),
        CHECK_TEST(wrong_hellos_are_refused),
    };
    return CHECK_RUN(tests);
}
