/* SPDX-License-Identifier: Apache-2.0 */
/* Single characters, looked up in UnicodeData.txt by hand; cli/wordpiece_test asks for all. */
#include "data/unicode_fold.h"
#include "support/check.h"

static void bases_are_those_of_unicode(void **state)
{
    static const struct {
        uint32_t c, count, bases[3];
    } cases[] = {
        {'e', 1, {'e'}},
        {0xE9, 1, {'e'}},
        {0x1EBF, 1, {'e'}},
        {0xDF, 1, {0xDF}},
        {0x9CB, 2, {0x9C7, 0x9BE}},
        {0xF900, 1, {0x8C48}},
        {0x2F800, 1, {0x4E3D}},
        {0xAC00, 2, {0x1100, 0x1161}},
        {0xAC01, 3, {0x1100, 0x1161, 0x11A8}},
        {0xD7A3, 3, {0x1112, 0x1175, 0x11C2}},
        {0x10FFFF, 1, {0x10FFFF}},
        {0, 1, {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[SHOALI_FOLD_MAX] = {0};
        assert_int_equal(shoali_fold_bases(cases[i].c, out), cases[i].count);
        assert_memory_equal(out, cases[i].bases, cases[i].count * sizeof *out);
    }
}

static void small_letters(void **state)
{
    static const uint32_t cases[][2] = {
        {'A', 'a'},         {'Z', 'z'},       {'[', '['},     {'@', '@'},
        {0xC9, 0xE9},       {0xD7, 0xD7},     {0x100, 0x101}, {0x101, 0x101},
        {0x130, 0x130},     {0x3A3, 0x3C3},   {0x1E9E, 0xDF}, {0x10400, 0x10428},
        {0x1E921, 0x1E943}, {0xFF21, 0xFF41}, {0x212A, 'k'},  {0x10FFFF, 0x10FFFF}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(shoali_fold_small(cases[i][0]), cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(bases_are_those_of_unicode),
                                       CHECK_TEST(small_letters)};
    return CHECK_RUN(tests);
}
