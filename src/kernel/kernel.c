/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* The builtin also asks whether the system saves wide registers; clang 14 does not know "f16c". */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1u) != 0;
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("popcnt");
}

/* CPUID leaves 0x80000002..4: 48 characters, padded with spaces. */
static void brand(char out[49])
{
    unsigned words[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (__get_cpuid(0x80000002u + i, words + 4 * i, words + 4 * i + 1, words + 4 * i + 2,
                        words + 4 * i + 3) == 0)
            break;
    memcpy(out, words, 48);
    out[48] = '\0';
    size_t start = strspn(out, " "), length = strlen(out + start);
    memmove(out, out + start, length + 1);
    while (length > 0 && out[length - 1] == ' ')
        out[--length] = '\0';
}

static const char *features(void)
{
    if (!has_avx2())
        return "";
    return __builtin_cpu_supports("avx512f") ? " avx2 fma f16c (avx512f unused)" : " avx2 fma f16c";
}
#else
/* Of an ARM core Linux tells numbers, no name. */
static void brand(char out[49])
{
#if defined(__aarch64__)
    snprintf(out, 49, "64-bit ARM");
#else
    snprintf(out, 49, "CPU without x86-64");
#endif
}

static const char *features(void)
{
#if defined(__aarch64__)
    return " neon";
#else
    return "";
#endif
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const shoali_kernels *rows[3]; /* best last, NULL at the end */
static const shoali_kernels *chosen;
static char cpu_name[128];

static void choose(void)
{
    size_t count = 0;
    rows[count++] = &shoali_kernels_ref;
#if defined(__x86_64__)
    if (has_avx2())
        rows[count++] = &shoali_kernels_avx2;
#elif defined(__aarch64__)
    rows[count++] = &shoali_kernels_neon;
#endif
    chosen = rows[count - 1];
    char name[49];
    brand(name);
    snprintf(cpu_name, sizeof cpu_name, "%s%s", name[0] != '\0' ? name : "unknown CPU", features());

    const char *wanted = getenv("SHOAL_KERNEL");
    if (wanted == NULL || wanted[0] == '\0')
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i]->name, wanted) == 0) {
            chosen = rows[i];
            return;
        }
    shoali_log(WARN, "SHOAL_KERNEL=%s: no such kernels on this CPU; using %s", wanted,
               chosen->name);
}

const shoali_kernels *shoali_kernel(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const shoali_kernels *shoali_kernel_row(size_t i)
{
    pthread_once(&once, choose);
    return i < sizeof rows / sizeof *rows ? rows[i] : NULL;
}

const char *shoali_cpu_name(void)
{
    pthread_once(&once, choose);
    return cpu_name;
}
