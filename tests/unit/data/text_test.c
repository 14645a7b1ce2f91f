/* SPDX-License-Identifier: Apache-2.0 */
/* Text as tokens: what is kept, which token, what its label is. */
#include "support/check.h"
#include "support/scratch_dir.h"

#include "data/loader.h"
#include "shoal/data.h"

static void characters_are_labelled_with_the_next(void **state)
{
    enum { LENGTH = 4 };
    /* cleaned: "ab  \n" -> "ab ", command line gone, unknown character 0 */
    static const char text[] = ".TH page\nAb\t \n\xc3z9ababababababababababababababababababababab";
    const char *files[1];
    char path[256];
    shoal_text_desc desc = SHOAL_TEXT_DESC_INIT;
    shoal_text_info info;
    shoali_dataset *d;
    (void)state;
    desc.dir = scratch_dir_make();
    scratch_write("page.txt", text, sizeof text - 1);
    snprintf(path, sizeof path, "%s", scratch_path("page.txt"));
    files[0] = path;
    desc.files = files;
    desc.file_count = 1;
    desc.length = LENGTH;
    assert_status(shoal_text_make(&desc, &info), SHOAL_EINVAL); /* a tenth is too short to test */
    assert_error_has("less than one sequence");
    desc.length = 2;
    assert_ok(shoal_text_make(&desc, &info));
    assert_ok(shoali_dataset_open(desc.dir, &d));
    assert_true(d->tokens && d->width == 1 && d->height == 2 && d->classes == 64);
    /* "ab 0z9abab...": a is token 3, blank 2, z 28, 9 is 38 */
    static const float want[] = {3, 4, 2, 0, 28, 38};
    assert_memory_equal(d->train.frames, want, sizeof want);
    for (size_t i = 0; i < 5; i++)
        assert_true(d->train.labels[i] == (uint16_t)want[i + 1]);
    shoali_dataset_close(d);
    desc.tokens = "bytes";
    assert_status(shoal_text_make(&desc, &info), SHOAL_EINVAL);
    assert_error_has("holds another data set, as train.shoalseq says");
    scratch_dir_remove();
}

static void a_missing_file_is_named(void **state)
{
    static const char *const files[] = {"/nonexistent/file"};
    shoal_text_desc desc = SHOAL_TEXT_DESC_INIT;
    shoal_text_info info;
    (void)state;
    desc.dir = "/tmp";
    desc.files = files;
    desc.file_count = 1;
    assert_status(shoal_text_make(&desc, &info), SHOAL_EIO);
    assert_error_has("/nonexistent/file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(characters_are_labelled_with_the_next),
        CHECK_TEST(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
