/* SPDX-License-Identifier: Apache-2.0 */
#include "files/safetensors.h"

#include <openssl/sha.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"

static char folder[] = "/tmp/shoal-safetensors-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if a temporary file stayed behind */
}

static void put(const void *bytes, size_t len_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len_bytes, file), len_bytes);
    assert_int_equal(fclose(file), 0);
}

/* A header of our own words and n bytes of data. */
static void put_file(const char *header, size_t data_bytes)
{
    uint8_t bytes[1024] = {0};
    size_t length = strlen(header);
    assert_true(8 + length + data_bytes <= sizeof bytes);
    bytes[0] = (uint8_t)length;
    bytes[1] = (uint8_t)(length >> 8);
    memcpy(bytes + 8, header, length);
    put(bytes, 8 + length + data_bytes);
}

static void write_two(void)
{
    static const float a[6] = {1, -2, 3.5f, 0, 1e-30f, 5}, b[1] = {7};
    const shoali_named_tensor tensors[] = {
        {.name = "dense1.weight", .data = a, .count = 6, .rows = 2},
        {.name = "dense1.bias", .data = b, .count = 1}};
    json_t *about = json_pack("{s:s}", "step", "12");
    assert_ok(shoali_safetensors_write(path, tensors, 2, about));
    json_decref(about);
}

/* The layout as the format's own description gives it, byte by byte. */
static void layout_is_the_formats(void **state)
{
    (void)state;
    uint8_t bytes[512];
    write_two();
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t got = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    size_t length = bytes[0] | (size_t)bytes[1] << 8;
    assert_int_equal(length % 8, 0);
    assert_int_equal(got, 8 + length + 7 * sizeof(float));
    static const char about[] = "{\"__metadata__\":{\"step\":\"12\",\"sha256\":\"";
    static const char want[] =
        "\"},\"dense1.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"dense1.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}";
    uint8_t *digest = bytes + 8 + sizeof about - 1, sum[SHA256_DIGEST_LENGTH];
    char text[2 * sizeof sum + 1], written[2 * sizeof sum];
    assert_memory_equal(bytes + 8, about, sizeof about - 1);
    assert_memory_equal(digest + sizeof written, want, sizeof want - 1);
    memcpy(written, digest, sizeof written);
    memset(digest, '0', sizeof written); /* it counts as zeros in what it is the digest of */
    SHA256(bytes + 8, got - 8, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    assert_memory_equal(written, text, sizeof written);
    float last;
    memcpy(&last, bytes + got - sizeof last, sizeof last);
    assert_true(last == 7.0f);
}

static void reads_back(void **state)
{
    (void)state;
    shoali_safetensors *file = NULL;
    float a[6] = {0}, b[1];
    size_t count = 0;
    write_two();
    assert_ok(shoali_safetensors_open(path, &file));
    assert_ok(shoali_safetensors_read(file, "dense1.weight", a, 6));
    assert_true(a[0] == 1 && a[1] == -2 && a[4] == 1e-30f);
    assert_string_equal(shoali_safetensors_metadata(file, "step"), "12");
    assert_null(shoali_safetensors_metadata(file, "epoch"));
    assert_string_equal(shoali_safetensors_name(file, 1, &count), "dense1.bias");
    assert_int_equal(count, 1);
    assert_null(shoali_safetensors_name(file, 2, &count));
    assert_status(shoali_safetensors_read(file, "dense1.weight", a, 5), SHOAL_ECORRUPT);
    assert_error_has("24 bytes, wanted F32 of 20");
    assert_status(shoali_safetensors_read(file, "dense2.weight", b, 1), SHOAL_ECORRUPT);
    shoali_safetensors_close(file);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *reason;
        size_t data_bytes;
    } cases[] = {
        {"", "JSON", 0},
        {"[]", "no object", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", "outside the file", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "outside the file", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "outside the file",
         4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "outside the file", 4},
        {"{\"a\":{\"data_offsets\":[0,4]},\"b\":{\"data_offsets\":[0,4]}}", "overlap", 4},
        {"{\"a\":{\"data_offsets\":[0,4]}}", "differs from the tensors' sum", 8},
        {"{\"a\":{\"data_offsets\":[0,4]},\"b\":{\"data_offsets\":[0,4]}}", "overlap", 8},
        {"{\"a\":{\"data_offsets\":[4,8]}}", "a hole", 8},
    };
    shoali_safetensors *file = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_file(cases[i].header, cases[i].data_bytes);
        assert_status(shoali_safetensors_open(path, &file), SHOAL_ECORRUPT);
        if (i > 0)
            assert_error_has(cases[i].reason);
    }
    put("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_status(shoali_safetensors_open(path, &file), SHOAL_ECORRUPT);
    assert_error_has("beyond the file");
    put("abc", 3);
    assert_status(shoali_safetensors_open(path, &file), SHOAL_ECORRUPT);
    assert_error_has("shorter than 8");
    unlink(path);
    assert_status(shoali_safetensors_open(path, &file), SHOAL_EIO);
}

/* Whichever bit of a file changes after it was written, the file is refused. */
static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[512];
    shoali_safetensors *file = NULL;
    write_two();
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t got = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    for (size_t i = 0; i < 8 * got; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        put(bytes, got);
        shoal_status status = shoali_safetensors_open(path, &file);
        if (status ==
            SHOAL_OK) /* the digest's own name, or the metadata's: then nobody asks for it */
            assert_null(shoali_safetensors_metadata(file, "sha256"));
        else
            assert_int_equal(status, SHOAL_ECORRUPT);
        if (status == SHOAL_OK)
            shoali_safetensors_close(file);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

/* Whole or not at all: a full disk (a limit on file size stands in for it) leaves the old file as
 * it was. */
static void a_failed_write_keeps_the_old_file(void **state)
{
    (void)state;
    char elsewhere[96];
    static const float a[1] = {1};
    const shoali_named_tensor tensor = {.name = "a", .data = a, .count = 1};
    write_two();
    snprintf(elsewhere, sizeof elsewhere, "%s/missing/a.safetensors", folder);
    assert_status(shoali_safetensors_write(elsewhere, &tensor, 1, NULL), SHOAL_EIO);
    assert_error_has("missing");
    char temporary[96];
    snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
    struct rlimit unlimited, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    small = (struct rlimit){.rlim_cur = 16, .rlim_max = unlimited.rlim_max};
    assert_int_equal(unlink(path), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const shoal_status status = shoali_safetensors_write(path, &tensor, 1, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_status(status, SHOAL_EIO);
    assert_error_has("File too large");
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(temporary, F_OK), 0);
    write_two();
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    write_two();
    for (size_t k = 1;; k++) {
        shoali_safetensors *file = NULL;
        shoali_alloc_fail_at(k);
        shoal_status status = shoali_safetensors_open(path, &file);
        size_t made = shoali_alloc_fail_at(0);
        if (status == SHOAL_OK) {
            shoali_safetensors_close(file);
            assert_true(made < k);
            break;
        }
        assert_int_equal(status, SHOAL_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(layout_is_the_formats),        CHECK_TEST(reads_back),
        CHECK_TEST(bad_files_are_refused),        CHECK_TEST(a_failed_write_keeps_the_old_file),
        CHECK_TEST(every_flipped_bit_is_noticed), CHECK_TEST(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
