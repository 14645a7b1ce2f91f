/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const levels[] = {"info", "warn", "error"};

bool said_as_json(void)
{
    const char *format = getenv("SHOAL_LOG_FORMAT");
    return format != NULL && strcmp(format, "json") == 0;
}

/* As the library's log writes it; bytes that are no text become '?'. To be freed. */
static char *object_of(said_level level, const char *text, const char *advice, bool with_time)
{
    char when[40] = "";
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL) {
        const size_t used = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(when + used, sizeof when - used, ".%03dZ", (int)(now.tv_nsec / 1000000));
    }
    json_t *object = json_object();
    if (with_time)
        json_object_set_new(object, "time", json_string(when));
    json_object_set_new(object, "level", json_string(levels[level]));
    json_object_set_new(object, "text", json_string(text));
    if (advice != NULL)
        json_object_set_new(object, "advice", json_string(advice));
    char *line = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return line;
}

/* In one piece, so that lines of several processes never mix. */
static void write_out(const char *text, size_t bytes)
{
    fflush(stderr);
    if (write(STDERR_FILENO, text, bytes) < 0)
        return; /* nobody listens */
}

void said_line(said_level level, const char *text, const char *advice)
{
    char *line = NULL, *object = said_as_json() ? object_of(level, text, advice, true) : NULL;
    int length;
    if (object != NULL)
        length = asprintf(&line, "%s\n", object);
    else
        length = asprintf(&line, "%s\n%s%s", text, advice != NULL ? advice : "",
                          advice != NULL ? "\n" : "");
    if (length > 0)
        write_out(line, (size_t)length);
    if (length >= 0)
        free(line);
    free(object);
}

void said(said_level level, const char *verb, const char *format, ...)
{
    char text[1024];
    va_list args;
    const int used = snprintf(text, sizeof text, "shoal %s: ", verb);
    va_start(args, format);
    if (used > 0 && (size_t)used < sizeof text)
        vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    said_line(level, text, NULL);
}

void said_later(said_level level, const char *text, char *out, size_t bytes)
{
    char *object = said_as_json() ? object_of(level, text, NULL, false) : NULL;
    snprintf(out, bytes, "%s\n", object != NULL ? object : text);
    free(object);
}
