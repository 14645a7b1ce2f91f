/* SPDX-License-Identifier: Apache-2.0 */
/* main() of a fuzz target without libFuzzer: every file of the folders named, whole and cut at
 * every length (short files) or at 64 lengths (long ones), so that a corpus found once guards every
 * build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { MAX_BYTES = 1 << 20, EVERY_CUT_BELOW = 512, CUTS = 64 };

/* The target gets an exact heap copy, so that a sanitizer sees a read beyond the end. */
static void feed(const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes > 0 ? len_bytes : 1);
    if (copy == NULL)
        abort();
    if (len_bytes > 0)
        memcpy(copy, bytes, len_bytes);
    LLVMFuzzerTestOneInput(copy, len_bytes);
    free(copy);
}

static int feed_file(const char *path)
{
    static uint8_t bytes[MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t len_bytes = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    size_t step = len_bytes < EVERY_CUT_BELOW ? 1 : len_bytes / CUTS;
    for (size_t cut = 0; cut < len_bytes; cut += step)
        feed(bytes, cut);
    feed(bytes, len_bytes);
    return 0;
}

static int feed_folder(const char *folder, int *count)
{
    DIR *dir = opendir(folder);
    int failed = 0;
    if (dir == NULL) {
        perror(folder);
        return 1;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= feed_file(path);
        ++*count;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0;
    feed(NULL, 0);
    for (int i = 1; i < argc; i++)
        failed |= feed_folder(argv[i], &count);
    if (count == 0) {
        fprintf(stderr, "no corpus: put at least one valid input there\n");
        return 1;
    }
    printf("%d files, each with its truncations\n", count);
    return failed;
}
