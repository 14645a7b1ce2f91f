/* SPDX-License-Identifier: Apache-2.0 */
/* A file of sequences, as both splits: read or refused with a reason; what was read is within its
 * bounds. The file lives in memory, behind links in one directory. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static const char *const names[2] = {"train.shoalseq", "test.shoalseq"};
static char dir[] = "/tmp/shoal-fuzz-XXXXXX";
static int file;

static void clean(void)
{
    char path[80];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void make_links(void)
{
    char path[80], target[48];
    file = memfd_create("sequences", MFD_CLOEXEC);
    if (file < 0 || mkdtemp(dir) == NULL)
        abort();
    snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), file);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (symlink(target, path) != 0)
            abort();
    }
    atexit(clean);
}

static void check(const shoali_dataset *d, const shoali_split *split)
{
    if (!d->sequences || split->count == 0 || split->starts[0] != 0)
        abort();
    uint64_t frames = split->starts[split->count];
    for (uint32_t i = 0; i < split->count; i++)
        if (split->starts[i + 1] <= split->starts[i] ||
            split->starts[i + 1] - split->starts[i] > d->height)
            abort();
    for (uint64_t t = 0; t < frames; t++)
        if (split->labels[t] >= d->classes)
            abort();
    volatile float last = split->frames[frames * d->width - 1];
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_dataset *d = NULL;
    if (file == 0)
        make_links();
    if (ftruncate(file, 0) != 0 || pwrite(file, bytes, len_bytes, 0) != (ssize_t)len_bytes)
        abort();
    shoal_status status = shoali_dataset_open(dir, &d);
    if (status == SHOAL_OK) {
        check(d, &d->train);
        check(d, &d->test);
    } else if (d != NULL || shoal_last_error()->status != status) {
        abort();
    }
    shoali_dataset_close(d);
    return 0;
}
