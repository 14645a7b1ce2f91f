/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "base/spec.h"

typedef struct params {
    bool strict;
    int64_t lanes;
    double clip;
    int32_t bound;
    char group[SHOALI_KEY_TEXT_BYTES];
} params;

#define AT(field) offsetof(params, field)
static const shoali_key keys[] = {
    {"strict", SHOALI_KEY_FLAG, AT(strict), 0, 0, NULL, "off", "really keep the bound"},
    {"lanes", SHOALI_KEY_INT, AT(lanes), 1, 1048576, NULL, "4", "connections per peer"},
    {"clip", SHOALI_KEY_FLOAT, AT(clip), 0, 8, NULL, "2^-10", "in standard deviations"},
    {"bound", SHOALI_KEY_CHOICE, AT(bound), 0, 0, "2^-6|2^-8|2^-10", "2^-8", "absolute error"},
    {"group", SHOALI_KEY_TEXT, AT(group), 0, 0, NULL, "", "hosts, separated by /"},
};
static const shoali_schema schema = {keys, 5, sizeof(params)};
static const shoali_schema no_keys = {NULL, 0, 0};

static shoal_status parse(const char *spec, params *out)
{
    return shoali_spec_parse("codec", spec, &schema, out);
}

static void defaults_come_first(void **state)
{
    (void)state;
    params p;
    assert_ok(parse("toy", &p));
    assert_false(p.strict);
    assert_int_equal(p.lanes, 4);
    assert_true(p.clip == 0x1p-10);
    assert_int_equal(p.bound, 1);
    assert_string_equal(p.group, "");
    assert_ok(shoali_spec_parse("codec", "identity", &no_keys, NULL));
}

static void every_kind_is_read(void **state)
{
    (void)state;
    params p;
    assert_ok(parse("toy:strict,lanes=64k,clip=2^-3,bound=2^-10,group=a/b:1", &p));
    assert_true(p.strict);
    assert_int_equal(p.lanes, 65536);
    assert_true(p.clip == 0.125);
    assert_int_equal(p.bound, 2);
    assert_string_equal(p.group, "a/b:1");
    assert_ok(parse("toy:lanes=2^20,strict=off,clip=0.5", &p));
    assert_int_equal(p.lanes, 1048576);
    assert_false(p.strict);
    assert_true(p.clip == 0.5);
    assert_ok(parse("toy:lanes=1m,strict=on,clip=2.5e-1", &p));
    assert_int_equal(p.lanes, 1048576);
    assert_true(p.strict && p.clip == 0.25);
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "toy:lanes=0",
        "toy:lanes=1048577",
        "toy:lanes=-1",
        "toy:lanes=1.5",
        "toy:lanes= 4",
        "toy:lanes=4x",
        "toy:lanes=4kk",
        "toy:lanes=",
        "toy:lanes",
        "toy:lanes=99999999999999999999",
        "toy:lanes=9g9",
        "toy:lanes=2^0.5",
        "toy:lanes=2^999",
        "toy:clip=-0.1",
        "toy:clip=8.1",
        "toy:clip=nan",
        "toy:clip=inf",
        "toy:clip=2^",
        "toy:clip=2^x",
        "toy:clip=2^- 3",
        "toy:clip=1e",
        "toy:clip=9000000000000000g",
        "toy:bound=2^-7",
        "toy:bound=2^-1",
        "toy:bound=2^-6|2^-8",
        "toy:bound=",
        "toy:strict=yes",
        "toy:strict=",
        "toy:=4",
        "toy:,",
        "toy:strict,",
        "toy:",
        "toy:strict,strict",
        "toy:group=a\nb",
        "toy:lanes=9223372036854775807g",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        params p;
        if (parse(specs[i], &p) != SHOAL_EINVAL)
            fail_msg("accepted %s", specs[i]);
    }
    char longest[400] = "toy:group=";
    params p;
    memset(longest + 10, 'x', 95);
    assert_ok(parse(longest, &p));
    memset(longest + 10, 'x', 96);
    assert_status(parse(longest, &p), SHOAL_EINVAL);
    memset(longest + 10, 'x', 380);
    assert_status(parse(longest, &p), SHOAL_EINVAL);
}

static void an_unknown_key_lists_the_known_ones(void **state)
{
    (void)state;
    params p;
    assert_status(parse("toy:bond=2^-8", &p), SHOAL_EINVAL);
    assert_error_has("codec 'toy:bond=2^-8': unknown key 'bond'");
    assert_error_has("strict, lanes=1..1048576, clip=0..8, bound=2^-6|2^-8|2^-10, group=TEXT");
    assert_error_has("Did you mean 'bound'?");
    assert_status(parse("toy:zzzzzz", &p), SHOAL_EINVAL);
    assert_string_equal(shoal_last_error()->advice, "");
    assert_status(shoali_spec_parse("codec", "identity:x=1", &no_keys, NULL), SHOAL_EINVAL);
    assert_error_has("it has no keys");
}

static void errors_name_the_value_and_its_range(void **state)
{
    (void)state;
    params p;
    assert_status(parse("toy:lanes=0", &p), SHOAL_EINVAL);
    assert_error_has("'0' is no valid value of key 'lanes'");
    assert_error_has("lanes=1..1048576");
    assert_status(parse("toy:lanes=2,lanes=3", &p), SHOAL_EINVAL);
    assert_error_has("'lanes' is given twice");
    assert_status(parse("toy:lanes", &p), SHOAL_EINVAL);
    assert_error_has("'lanes' needs a value");
}

static void an_unknown_name_suggests_the_closest(void **state)
{
    (void)state;
    static const char *const names[] = {"identity", "fp16", "inceptionn"};
    assert_status(shoali_spec_unknown("codec", "inception:bound=2^-10", names, 3), SHOAL_EINVAL);
    assert_error_has("unknown codec 'inception'; known: identity, fp16, inceptionn");
    assert_error_has("Did you mean 'inceptionn'?");
    assert_status(shoali_spec_unknown("codec", "zip", names, 3), SHOAL_EINVAL);
    assert_string_equal(shoal_last_error()->advice, "");
}

static void names_are_found_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"fp16", "identity", "identity2"};
    size_t index = 9;
    assert_ok(shoali_spec_find("codec", "identity", names, 3, &index));
    assert_int_equal(index, 1);
    assert_ok(shoali_spec_find("codec", "identity2:x=1", names, 3, &index));
    assert_int_equal(index, 2);
    assert_status(shoali_spec_find("codec", "ident", names, 3, &index), SHOAL_EINVAL);
    assert_status(shoali_spec_find("codec", "", names, 3, &index), SHOAL_EINVAL);
    assert_int_equal(index, 2);
}

static void the_canonical_spec_reads_back(void **state)
{
    (void)state;
    static const char *const specs[][2] = {
        {"toy", "toy"},
        {"toy:lanes=4,strict=off", "toy"},
        {"toy:bound=2^-6,strict", "toy:strict,bound=2^-6"},
        {"toy:clip=2^-7,lanes=2k", "toy:lanes=2048,clip=0.0078125"},
        {"toy:clip=2^-12", "toy:clip=2^-12"},
        {"toy:clip=0.1,group=x", "toy:clip=0.1,group=x"},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        params p;
        char text[160];
        assert_ok(parse(specs[i][0], &p));
        shoali_spec_format("toy", &schema, &p, text, sizeof text);
        assert_string_equal(text, specs[i][1]);
    }
    params p;
    char text[8];
    assert_ok(parse("toy:bound=2^-6", &p));
    shoali_spec_format("toy", &schema, &p, text, sizeof text);
    assert_string_equal(text, "toy:bou"); /* cut, never beyond the end */
}

/* Any double in range survives format and parse bit for bit. */
static void floats_survive_a_round_trip(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint64_t i = 0; i < 2000; i++) {
        params p, back;
        char text[160];
        assert_ok(parse("toy", &p));
        p.clip = ldexp(shoali_rng_double(seed, 1, i), -(int)(i % 300));
        shoali_spec_format("toy", &schema, &p, text, sizeof text);
        assert_ok(parse(text, &back));
        assert_memory_equal(&back.clip, &p.clip, sizeof p.clip);
    }
}

/* Random strings over the alphabet of specs: parsed or refused, never worse (asan watches). */
static void random_strings_are_safe(void **state)
{
    (void)state;
    static const char alphabet[] = "toy:,=^|-.0123456789kmgstricelanbouclpx \x01\xff";
    shoali_rng rng = {.seed = check_seed(), .stream = 2};
    size_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        char text[64] = "toy:";
        size_t len = 4 + shoali_rng_next(&rng) % 40;
        for (size_t j = 4; j < len; j++)
            text[j] = alphabet[shoali_rng_next(&rng) % (sizeof alphabet - 1)];
        text[len] = '\0';
        params p;
        shoal_status status = parse(text, &p);
        assert_true(status == SHOAL_OK || status == SHOAL_EINVAL);
        accepted += status == SHOAL_OK;
    }
    assert_true(accepted < 20000);
}

static void a_wrong_schema_is_an_internal_error(void **state)
{
    (void)state;
    static const shoali_key wrong[] = {
        {"n", SHOALI_KEY_INT, 0, 0, 1, NULL, "2", "default out of range"}};
    static const shoali_key beyond[] = {
        {"n", SHOALI_KEY_INT, 8, 0, 1, NULL, "1", "field out of the struct"}};
    static const shoali_schema bad[] = {{wrong, 1, 8}, {beyond, 1, 8}};
    int64_t field[2];
    assert_status(shoali_spec_parse("codec", "x", &bad[0], field), SHOAL_EINTERNAL);
    assert_status(shoali_spec_parse("codec", "x", &bad[1], field), SHOAL_EINTERNAL);
}

static const char *syntax_of(const char *name, char out[64])
{
    for (size_t i = 0; i < schema.count; i++)
        if (strcmp(schema.keys[i].name, name) == 0)
            shoali_spec_syntax(&schema.keys[i], out, 64);
    return out;
}

static void keys_have_a_syntax(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(syntax_of("lanes", out), "lanes=1..1048576");
    assert_string_equal(syntax_of("bound", out), "bound=2^-6|2^-8|2^-10");
    assert_string_equal(syntax_of("strict", out), "strict");
    shoali_spec_syntax(&schema.keys[0], out, 4); /* cut, and ended */
    assert_int_equal(strlen(out), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(defaults_come_first),
        CHECK_TEST(every_kind_is_read),
        CHECK_TEST(bad_values_are_refused),
        CHECK_TEST(an_unknown_key_lists_the_known_ones),
        CHECK_TEST(errors_name_the_value_and_its_range),
        CHECK_TEST(an_unknown_name_suggests_the_closest),
        CHECK_TEST(names_are_found_whole),
        CHECK_TEST(the_canonical_spec_reads_back),
        CHECK_TEST(floats_survive_a_round_trip),
        CHECK_TEST(random_strings_are_safe),
        CHECK_TEST(a_wrong_schema_is_an_internal_error),
        CHECK_TEST(keys_have_a_syntax),
    };
    return CHECK_RUN(tests);
}
