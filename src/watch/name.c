/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* "tcp://host:29500" has a number that the user may know; a file's path has none. */
static unsigned number_of(const char *rendezvous)
{
    const char *colon = strrchr(rendezvous, ':');
    const bool port = strncmp(rendezvous, "tcp://", 6) == 0 && colon != NULL && colon[1] != '\0' &&
                      strspn(colon + 1, "0123456789") == strlen(colon + 1);
    return port ? (unsigned)strtoul(colon + 1, NULL, 10) % 100000
                : (unsigned)(shoali_hash(rendezvous, strlen(rendezvous), 0) % 100000);
}

void shoali_watch_label(const char *job, const char *program, const char *rendezvous,
                        char out[SHOALI_WATCH_LABEL_BYTES])
{
    const char *epoch = strrchr(job, '#');
    size_t length = strlen(job);
    if (epoch != NULL && epoch[1] != '\0' && strspn(epoch + 1, "0123456789") == strlen(epoch + 1))
        length = (size_t)(epoch - job);
    if (length == strlen(SHOALI_JOB_UNNAMED) && strncmp(job, SHOALI_JOB_UNNAMED, length) == 0)
        snprintf(out, SHOALI_WATCH_LABEL_BYTES, "%.40s-%u", program, number_of(rendezvous));
    else
        snprintf(out, SHOALI_WATCH_LABEL_BYTES, "%.*s", (int)length, job);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

void shoali_watch_plain(const char *label, char out[SHOALI_WATCH_JOB_CHARS + 1])
{
    size_t n = 0;
    for (; label[n] != '\0' && n < SHOALI_WATCH_JOB_CHARS; n++)
        out[n] = label[n];
    out[n] = '\0';
    while (n-- > 0)
        if (!is_plain(out[n]))
            out[n] = '_';
}

bool shoali_watch_name_format(const shoali_watch_name *name, char *out, size_t bytes)
{
    int length = snprintf(out, bytes, "%s.%08x.%u.%08x", name->job, name->number, name->rank,
                          name->random);
    return length > 0 && (size_t)length < bytes;
}

/* Digits of a base, then `end`; NULL: not so. */
static const char *read_number(const char *text, int base, char end, uint32_t *value_out)
{
    char *behind;
    if (strchr("0123456789abcdef", *text) == NULL || *text == '\0') /* no sign, no space */
        return NULL;
    unsigned long value = strtoul(text, &behind, base);
    if (value > UINT32_MAX || behind - text > 10 || *behind != end)
        return NULL;
    *value_out = (uint32_t)value;
    return end == '\0' ? behind : behind + 1;
}

bool shoali_watch_name_parse(const char *file, shoali_watch_name *name_out)
{
    size_t length = 0;
    while (is_plain(file[length]))
        length++;
    if (length == 0 || length > SHOALI_WATCH_JOB_CHARS || file[length] != '.')
        return false;
    memcpy(name_out->job, file, length);
    name_out->job[length] = '\0';
    const char *at = read_number(file + length + 1, 16, '.', &name_out->number);
    if (at != NULL)
        at = read_number(at, 10, '.', &name_out->rank);
    return at != NULL && read_number(at, 16, '\0', &name_out->random) != NULL;
}
