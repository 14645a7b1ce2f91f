/* SPDX-License-Identifier: Apache-2.0 */
#include "event_file.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "tensorboard_min.pb-c.h"

enum { SCALARS_MOST = 16, RECORD_MOST = 2048, AROUND = 16, HELD_MOST = 1 << 15 };

struct event_file {
    FILE *out;
    double flushed_s;
    char buffer[HELD_MOST];
    size_t held; /* bytes of whole records that the file has not got yet */
    int failed;  /* errno of the first failure; 0: none */
};

static double unix_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------ records */

/* Castagnoli's polynomial, reflected; a byte at a time is enough for a few records a step. */
static uint32_t crc32c(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    return ~crc;
}

static void put_number(FILE *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 0xff), out);
}

/* A checksum of bytes that may hold checksums themselves is masked, as TFRecord has it. */
static void put_checksum(FILE *out, const uint8_t *bytes, size_t count)
{
    const uint32_t crc = crc32c(bytes, count);
    put_number(out, ((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

static void flush_records(event_file *file)
{
    if (fflush(file->out) != 0 && file->failed == 0)
        file->failed = errno != 0 ? errno : EIO;
    file->held = 0;
}

static void put_record(event_file *file, const Shoal__Board__Event *event)
{
    uint8_t length[8], bytes[RECORD_MOST];
    const size_t count = shoal__board__event__get_packed_size(event);
    if (count > sizeof bytes)
        return; /* tags are ours and short: it never is */
    (void)shoal__board__event__pack(event, bytes);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)count >> (8 * i));
    if (file->held + count + AROUND > HELD_MOST) /* whole records: a buffer that is full cuts one */
        flush_records(file);
    file->held += count + AROUND;
    fwrite(length, 1, sizeof length, file->out);
    put_checksum(file->out, length, sizeof length);
    fwrite(bytes, 1, count, file->out);
    put_checksum(file->out, bytes, count);
    const double now_s = event->wall_time;
    if (now_s - file->flushed_s >= 1 || now_s < file->flushed_s) {
        file->flushed_s = now_s;
        flush_records(file);
    }
}

static Shoal__Board__Event event_at(uint64_t step)
{
    Shoal__Board__Event event = SHOAL__BOARD__EVENT__INIT;
    event.has_wall_time = event.has_step = true;
    event.wall_time = unix_s();
    event.step = (int64_t)step;
    return event;
}

/* ------------------------------------------------------------------ files */

static FILE *make(const char *folder)
{
    static unsigned number; /* of this process's files */
    char path[PATH_MAX], host[65] = "";
    (void)gethostname(host, sizeof host - 1);
    cli_make_printable(host);
    if ((size_t)snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%ld.%u", folder,
                         (long long)unix_s(), host, (long)getpid(), number++) >= sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return cli_create(path);
}

event_file *event_file_create(const char *folder, uint64_t first_step)
{
    event_file *file = calloc(1, sizeof *file);
    if (file == NULL || (file->out = make(folder)) == NULL) {
        free(file);
        return NULL;
    }
    (void)setvbuf(file->out, file->buffer, _IOFBF, sizeof file->buffer);
    static char version[] = "brain.Event:2";
    Shoal__Board__Event event = event_at(0);
    event.file_version = version;
    put_record(file, &event);
    if (first_step > 0) {
        Shoal__Board__SessionLog start = SHOAL__BOARD__SESSION_LOG__INIT;
        start.has_status = true;
        start.status = SHOAL__BOARD__SESSION_LOG__STATUS__START;
        event = event_at(first_step);
        event.session_log = &start;
        put_record(file, &event);
    }
    return file;
}

void event_file_add(event_file *file, uint64_t step, const event_scalar *scalars, size_t count)
{
    Shoal__Board__Value values[SCALARS_MOST], *list[SCALARS_MOST];
    char tags[SCALARS_MOST][48];
    Shoal__Board__Summary summary = SHOAL__BOARD__SUMMARY__INIT;
    for (size_t i = 0; i < count && summary.n_value < SCALARS_MOST; i++) {
        const size_t n = summary.n_value;
        if (!isfinite(scalars[i].value))
            continue;
        snprintf(tags[n], sizeof tags[n], "%s", scalars[i].tag);
        shoal__board__value__init(&values[n]);
        values[n].tag = tags[n];
        values[n].has_simple_value = true;
        values[n].simple_value = (float)scalars[i].value;
        list[n] = &values[n];
        summary.n_value++;
    }
    summary.value = list;
    Shoal__Board__Event event = event_at(step);
    event.summary = &summary;
    if (summary.n_value > 0)
        put_record(file, &event);
}

bool event_file_close(event_file *file)
{
    if (file == NULL)
        return true;
    if (fclose(file->out) != 0 && file->failed == 0)
        file->failed = errno;
    const int failed = file->failed;
    free(file);
    errno = failed;
    return failed == 0;
}
