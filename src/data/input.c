/* SPDX-License-Identifier: Apache-2.0 */
#include "data/input.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/error.h"

/* Deflate makes at most 1032 bytes of one: a small file cannot ask for much memory. */
enum { DEFLATE_RATIO_MAX = 1032, READ_BYTES_MAX = 1 << 30 };

shoal_status shoali_input_open(const char *path, shoali_input *input_out)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", path);
    if (!S_ISREG(info.st_mode))
        return shoali_fail(SHOAL_EIO, "cannot read %s: not a regular file", path);
    gzFile stream = gzopen(path, "rbe");
    if (stream == NULL)
        return shoali_fail_os(SHOAL_EIO, errno != 0 ? errno : ENOMEM, "cannot open %s", path);
    (void)gzbuffer(stream, 1 << 17);
    bool compressed = gzdirect(stream) == 0;
    *input_out = (shoali_input){.path = path,
                                .stream = stream,
                                .most = (uint64_t)info.st_size *
                                        (compressed ? DEFLATE_RATIO_MAX : 1),
                                .compressed = compressed};
    return SHOAL_OK;
}

void shoali_input_close(shoali_input *input)
{
    if (input->stream != NULL)
        (void)gzclose(input->stream);
    input->stream = NULL;
}

shoal_status(shoali_input_corrupt)(const shoali_input *input, uint64_t offset, const char *format,
                                   ...)
{
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return shoali_fail(SHOAL_ECORRUPT, "%s, byte %llu%s: %s", input->path,
                       (unsigned long long)offset,
                       input->compressed ? " of the decompressed file" : "", reason);
}

/* Why gzread gave less than it was asked for. */
static shoal_status short_read(const shoali_input *input, size_t missing)
{
    int code;
    const char *text = gzerror(input->stream, &code);
    if (code == Z_ERRNO)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", input->path);
    if (code == Z_BUF_ERROR && missing == 0)
        return shoali_input_corrupt(input, input->offset, "its gzip trailer is cut off");
    if (code == Z_OK || code == Z_BUF_ERROR)
        return shoali_input_corrupt(input, input->offset, "the file ends, %zu bytes short",
                                    missing);
    return shoali_input_corrupt(input, input->offset, "%s", text);
}

shoal_status shoali_input_read(shoali_input *input, void *bytes_out, size_t len_bytes)
{
    for (size_t done = 0; done < len_bytes;) {
        size_t left = len_bytes - done;
        unsigned ask = left < READ_BYTES_MAX ? (unsigned)left : READ_BYTES_MAX;
        int got = gzread(input->stream, (char *)bytes_out + done, ask);
        if (got > 0) {
            input->offset += (unsigned)got;
            done += (unsigned)got;
        }
        if (got < 0 || (unsigned)got < ask)
            return short_read(input, len_bytes - done);
    }
    return SHOAL_OK;
}

shoal_status shoali_input_some(shoali_input *input, void *bytes_out, size_t room,
                               size_t *len_bytes_out)
{
    int code;
    const unsigned ask = room < READ_BYTES_MAX ? (unsigned)room : READ_BYTES_MAX;
    const int got = gzread(input->stream, bytes_out, ask);
    *len_bytes_out = got > 0 ? (size_t)got : 0;
    input->offset += *len_bytes_out;
    if (got > 0 && (unsigned)got == ask)
        return SHOAL_OK;
    (void)gzerror(input->stream, &code); /* a gzip file may end within its own checksum */
    return got < 0 || code < 0 ? short_read(input, 0) : SHOAL_OK;
}

shoal_status shoali_input_expect(const shoali_input *input, uint64_t len_bytes)
{
    if (len_bytes <= input->most && input->offset <= input->most - len_bytes)
        return SHOAL_OK;
    return shoali_input_corrupt(input, input->offset,
                                "%llu bytes should follow, the file is too small for them",
                                (unsigned long long)len_bytes);
}

shoal_status shoali_input_end(shoali_input *input)
{
    char more;
    int code;
    int got = gzread(input->stream, &more, 1);
    if (got > 0)
        return shoali_input_corrupt(input, input->offset,
                                    "the file goes on behind its last record");
    (void)gzerror(input->stream, &code); /* a gzip file may end within its own checksum */
    return got < 0 || code < 0 ? short_read(input, 0) : SHOAL_OK;
}
