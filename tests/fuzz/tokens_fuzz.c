/* SPDX-License-Identifier: Apache-2.0 */
/* A file of tokens, as both splits, beside the tokenizer.json of bytes: read or refused with a
 * reason; what was read is within its bounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/loader.h"
#include "data/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static const char *const names[] = {"train.shoaltok", "test.shoaltok", "tokenizer.json"};
static char dir[] = "/tmp/shoal-fuzz-XXXXXX";
static char file[sizeof dir + 16];

static void clean(void)
{
    char path[80];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    unlink(file);
    rmdir(dir);
}

static void make_folder(void)
{
    char path[80];
    shoali_tokenizer *t = NULL;
    if (mkdtemp(dir) == NULL || shoali_tokenizer_of_bytes(&t) != SHOAL_OK)
        abort();
    snprintf(path, sizeof path, "%s/%s", dir, names[2]);
    if (shoali_tokenizer_write(t, path) != SHOAL_OK)
        abort();
    shoali_tokenizer_close(t);
    snprintf(file, sizeof file, "%s/both", dir);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (symlink("both", path) != 0)
            abort();
    }
    atexit(clean);
}

static void check(const shoali_dataset *d)
{
    const uint32_t last = d->test.count - 1;
    float *x = calloc(d->height, sizeof *x);
    uint32_t *labels = calloc(d->height, sizeof *labels), length;
    if (x == NULL || labels == NULL || d->classes != 257 || d->test.count == 0)
        abort();
    shoali_dataset_fill_sequences(d, &d->test, &last, 1, d->height, x, labels, &length);
    for (uint32_t t = 0; t < length; t++)
        if (x[t] >= 257 || labels[t] >= 257)
            abort();
    free(x);
    free(labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_dataset *d = NULL;
    if (file[0] == '\0')
        make_folder();
    FILE *f = fopen(file, "wb");
    if (f == NULL || fwrite(bytes, 1, len_bytes, f) != len_bytes || fclose(f) != 0)
        abort();
    if (shoali_dataset_open(dir, &d) == SHOAL_OK) {
        check(d);
        shoali_dataset_close(d);
    }
    return 0;
}
