/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

#undef shoali_fail /* here stand the functions behind the macros */
#undef shoali_fail_os

/* A path, and a sentence around it; room for ": No such file or directory" behind. */
enum { FORMATTED = 4608, REASON = 64 };

static _Thread_local shoal_error last = {.rank = -1, .waited_us = -1};

static void set(shoal_status status, int os_error, const char *format, va_list args)
{
    char text[FORMATTED];
    vsnprintf(text, sizeof text, format, args); /* an argument may be the last error's own text */
    shoali_shorten(text, sizeof last.text - (os_error != 0 ? REASON : 0));
    shoali_make_printable(text); /* and another one a peer's or a file's */
    last = (shoal_error){.status = status, .rank = -1, .waited_us = -1, .os_error = os_error};
    memcpy(last.text, text, strlen(text) + 1);
}

shoal_status shoali_fail(shoal_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(status, 0, format, args);
    va_end(args);
    return status;
}

shoal_status shoali_fail_os(shoal_status status, int os_error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(status, os_error, format, args);
    va_end(args);
    size_t used = strlen(last.text);
    snprintf(last.text + used, sizeof last.text - used, ": %s", strerror(os_error));
    return status;
}

static void keep(char *out, size_t bytes, const char *text)
{
    snprintf(out, bytes, "%s", text);
    shoali_make_printable(out);
}

void shoali_error_about(int32_t rank, const char *host, const char *operation, int64_t waited_us)
{
    if (rank >= 0)
        last.rank = rank;
    if (host != NULL)
        keep(last.host, sizeof last.host, host);
    if (operation != NULL)
        keep(last.operation, sizeof last.operation, operation);
    if (waited_us >= 0)
        last.waited_us = waited_us;
}

void shoali_error_advice(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last.advice, sizeof last.advice, format, args);
    shoali_make_printable(last.advice);
    va_end(args);
}

shoal_status shoali_error_set(const shoal_error *error)
{
    if (error != &last)
        last = *error;
    return last.status;
}

void shoali_error_get(shoal_error *error_out)
{
    *error_out = last;
}

const shoal_error *shoal_last_error(void)
{
    return &last;
}

const char *shoal_status_name(shoal_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case SHOAL_##name:                 \
        return #name;
        SHOAL_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "?";
}

const char *shoal_status_text(shoal_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case SHOAL_##name:                 \
        return text;
        SHOAL_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}
