/* SPDX-License-Identifier: Apache-2.0 */
#include "support/scratch_dir.h"

#include <dirent.h>
#include <ftw.h>
#include <unistd.h>
#include <zlib.h>

#include "support/check.h"

static char dir[64];

const char *scratch_dir_make(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

const char *scratch_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

size_t scratch_count(void)
{
    size_t count = 0;
    DIR *open = opendir(dir);
    assert_non_null(open);
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return count;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

void scratch_dir_remove(void)
{
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void scratch_write(const char *name, const void *bytes, size_t len_bytes)
{
    FILE *file = fopen(scratch_path(name), "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len_bytes, file), len_bytes);
    assert_int_equal(fclose(file), 0);
}

void scratch_write_gz(const char *name, const void *bytes, size_t len_bytes)
{
    gzFile file = gzopen(scratch_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len_bytes), (int)len_bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

void *scratch_read(const char *name, size_t *len_bytes_out)
{
    FILE *file = fopen(scratch_path(name), "rbe");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *len_bytes_out = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*len_bytes_out + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *len_bytes_out, file), *len_bytes_out);
    bytes[*len_bytes_out] = '\0'; /* for who takes it as text */
    fclose(file);
    return bytes;
}

int scratch_set_up(void **state)
{
    (void)state;
    (void)scratch_dir_make();
    return 0;
}

int scratch_tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}
