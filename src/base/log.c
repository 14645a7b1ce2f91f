/* SPDX-License-Identifier: Apache-2.0 */
/* A line is made on the stack and leaves in one write(), so lines of several processes never mix.
 * Text comes from peers, too (host names, labels): control characters never reach the terminal. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain_file.h"
#include "base/printable.h"

enum {
    TEXT_BYTES = 1024,
    LINE_BYTES = 2 * TEXT_BYTES + 256 /* worst case: every byte gets a backslash */
};

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int threshold = SHOALI_LOG_WARN;
static atomic_bool as_json;
static _Thread_local int32_t my_rank = -1, my_size = -1;

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(void *ctx, shoali_log_level level, const char *line);
static void *sink_ctx;
static atomic_int copy_fd = -1;

static void read_environment(void)
{
    const char *level = getenv("SHOAL_LOG");
    for (int i = SHOALI_LOG_ERROR; level != NULL && i <= SHOALI_LOG_TRACE; i++)
        if (strcasecmp(level, level_names[i]) == 0)
            atomic_store(&threshold, i);
    const char *format = getenv("SHOAL_LOG_FORMAT");
    if (format != NULL && strcmp(format, "json") == 0)
        atomic_store(&as_json, true);
}

void shoali_log_set_level(shoali_log_level level)
{
    pthread_once(&once, read_environment); /* what the program says wins over the environment */
    atomic_store(&threshold, (int)level);
}

void shoali_log_set_json(bool json)
{
    pthread_once(&once, read_environment);
    atomic_store(&as_json, json);
}

void shoali_log_set_rank(int32_t rank, int32_t size)
{
    my_rank = rank;
    my_size = size;
}

void shoali_log_set_sink(void (*new_sink)(void *ctx, shoali_log_level level, const char *line),
                         void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_ctx = ctx;
    pthread_mutex_unlock(&sink_lock);
}

void shoali_log_set_copy(int fd)
{
    pthread_mutex_lock(&sink_lock);
    atomic_store(&copy_fd, fd);
    pthread_mutex_unlock(&sink_lock);
}

static bool is_shown(shoali_log_level level)
{
    pthread_once(&once, read_environment);
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

static bool is_copied(shoali_log_level level)
{
    return level <= SHOALI_LOG_WARN && atomic_load_explicit(&copy_fd, memory_order_relaxed) >= 0;
}

bool shoali_log_on(shoali_log_level level)
{
    return is_shown(level) || is_copied(level);
}

/* Copy text so that it stays one line and, with json, the inside of a JSON string. Returns the
 * bytes written. */
static size_t put_text(char *out, const char *text, bool json)
{
    char *at = out;
    while (*text != '\0') {
        size_t length = shoali_printable(text);
        if (length == 0) {
            bool ascii = (unsigned char)*text < 0x80; /* a line break, mostly */
            *at++ = ascii ? ' ' : '?';
            length = 1;
        } else {
            if (json && (*text == '"' || *text == '\\'))
                *at++ = '\\';
            memcpy(at, text, length);
            at += length;
        }
        text += length;
    }
    return (size_t)(at - out);
}

static size_t put_head(char *out, shoali_log_level level, bool json)
{
    char when[SHOALI_UTC_BYTES], who[48] = "";
    if (json) {
        shoali_utc(when);
        if (my_rank >= 0)
            snprintf(who, sizeof who, "\"rank\":%d,\"size\":%d,", my_rank, my_size);
        return (size_t)snprintf(out, 256, "{\"time\":\"%s\",\"level\":\"%s\",%s\"text\":\"", when,
                                level_names[level], who);
    }
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now.tv_sec, &parts));
    if (my_rank >= 0)
        snprintf(who, sizeof who, " r%d/%d", my_rank, my_size);
    return (size_t)snprintf(out, 256, "shoal %s.%03ld %c%s ", when, now.tv_nsec / 1000000,
                            "EWIDT"[level], who);
}

/* A whole line without its end; returns its bytes. */
static size_t put_line(char line[LINE_BYTES], shoali_log_level level, bool json, const char *text)
{
    size_t used = put_head(line, level, json);
    used += put_text(line + used, text, json);
    if (json)
        used += (size_t)snprintf(line + used, 3, "\"}");
    line[used] = '\0';
    return used;
}

static void put_out(int fd, char *line, size_t used)
{
    line[used] = '\n';
    if (write(fd, line, used + 1) < 0)
        (void)0; /* nobody reads it: there is nowhere left to say so */
}

void shoali_log_write(shoali_log_level level, const char *format, ...)
{
    char text[TEXT_BYTES], line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    const bool shown = is_shown(level);
    size_t used = put_line(line, level, atomic_load(&as_json), text);
    pthread_mutex_lock(&sink_lock);
    if (shown && sink != NULL)
        sink(sink_ctx, level, line);
    else if (shown)
        put_out(STDERR_FILENO, line, used);
    if (is_copied(level)) {
        used = put_line(line, level, true, text);
        line[used] = '\n';
        (void)shoali_append_whole(atomic_load(&copy_fd), line, used + 1);
    }
    pthread_mutex_unlock(&sink_lock);
}
