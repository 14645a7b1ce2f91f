/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of svmlight, and the files that are made of them. The first byte says which: bit 0 a text
 * (bit 1: indices from 0), else a file of pairs. Read or refused with a reason; what was read keeps
 * what the next one relies on. The bytes live in memory, behind a link. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/pairs.h"
#include "data/svmlight_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static char dir[32] = "/tmp/shoal-fuzz-XXXXXX", path[48];
static int file = -1;

static void clean(void)
{
    unlink(path);
    rmdir(dir);
}

static void make_link(void)
{
    char target[48];
    file = memfd_create("svmlight", MFD_CLOEXEC);
    if (file < 0 || mkdtemp(dir) == NULL)
        abort();
    snprintf(path, sizeof path, "%s/train.pairs", dir);
    snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), file);
    if (symlink(target, path) != 0)
        abort();
    atexit(clean);
}

static void check_pairs(const float *pairs, const uint64_t *starts, uint32_t count,
                        uint32_t features)
{
    for (uint32_t n = 0; n < count; n++)
        for (uint64_t i = starts[n]; i < starts[n + 1]; i++) {
            const float feature = pairs[2 * i];
            if (!(feature >= 0) || (uint32_t)feature >= features || !isfinite(pairs[2 * i + 1]) ||
                (i > starts[n] && feature <= pairs[2 * i - 2]))
                abort();
        }
}

static void read_text(bool zero_based)
{
    shoali_svmlight t;
    const shoal_status status = shoali_svmlight_read(path, zero_based, &t);
    if (status == SHOAL_OK ? t.count == 0 : shoal_last_error()->status != status)
        abort();
    if (status == SHOAL_OK)
        check_pairs(t.pairs, t.starts, t.count, t.features);
    shoali_svmlight_free(&t);
}

static void read_file(void)
{
    shoali_pairs p = {0};
    shoal_arena *arena = shoali_arena_create(1 << 12);
    const shoal_status status = shoali_pairs_read(dir, "train.pairs", arena, &p);
    if (status == SHOAL_OK ? p.count == 0 : shoal_last_error()->status != status)
        abort();
    for (uint32_t n = 0; status == SHOAL_OK && n < p.count; n++)
        if (p.labels[n] >= p.classes || p.starts[n + 1] - p.starts[n] > p.most)
            abort();
    if (status == SHOAL_OK)
        check_pairs(p.pairs, p.starts, p.count, p.features);
    shoali_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (file < 0)
        make_link();
    if (len_bytes == 0)
        return 0;
    if (ftruncate(file, 0) != 0 ||
        pwrite(file, bytes + 1, len_bytes - 1, 0) != (ssize_t)len_bytes - 1)
        abort();
    if ((bytes[0] & 1) != 0)
        read_text((bytes[0] & 2) != 0);
    else
        read_file();
    return 0;
}
