/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PATIENCE_MS = 2000, /* who is done sooner shows nothing */
    REDRAW_MS = 100,
    LINE_MS = 10000,
    BAR_LEAST = 8,
    BAR_MOST = 40,
    NOTE_LEAST = 10,
    COLUMNS_MOST = 300
};
static const char ERASE[] = "\r\033[K";

void progress_init(progress_bar *p, const char *verb, const char *unit, bool terminal,
                   int64_t now_ms)
{
    *p = (progress_bar){
        .verb = verb, .unit = unit, .terminal = terminal, .began_ms = now_ms, .shown_ms = -1};
}

void progress_set(progress_bar *p, double done, double total, const char *note)
{
    if (!p->counting)
        p->first = done;
    p->counting = true;
    p->hidden = false;
    p->done = done;
    p->total = total;
    if (note == NULL)
        return;
    snprintf(p->note, sizeof p->note, "%s", note);
    for (char *at = p->note; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') /* one column each, and nothing that moves the cursor */
            *at = '?';
}

/* ------------------------------------------------------------------ words */

/* "7 s", "3:07 min", "2:03 h" */
static void duration(double seconds, char out[24])
{
    const long long s = (long long)ceil(seconds);
    if (s < 60)
        snprintf(out, 24, "%lld s", s);
    else if (s < 3600)
        snprintf(out, 24, "%lld:%02lld min", s / 60, s % 60);
    else
        snprintf(out, 24, "%lld:%02lld h", s / 3600, s % 3600 / 60);
}

/* Four digits, and no exponent where none is needed. */
static void amount(double value, char out[24])
{
    snprintf(out, 24,
             value == floor(value) && value < 1e15 ? "%.0f"
             : value >= 100                        ? "%.0f"
                                                   : "%.3g",
             value);
}

static double rate_of(const progress_bar *p, int64_t now_ms)
{
    const double seconds = (double)(now_ms - p->began_ms) * 1e-3;
    return seconds > 0 && p->done > p->first ? (p->done - p->first) / seconds : 0;
}

static bool is_bounded(const progress_bar *p)
{
    return p->total > 0 && isfinite(p->total) && p->done <= p->total;
}

/* "120/600 steps  12.1/s  40 s left", or what is known of it. */
static void figures(const progress_bar *p, int64_t now_ms, char out[160])
{
    char done[24], total[24], speed[24], time[24];
    const double rate = rate_of(p, now_ms);
    size_t used = 0;
    out[0] = '\0';
    amount(p->done, done);
    amount(p->total, total);
    amount(rate, speed);
    if (p->counting && is_bounded(p))
        used = (size_t)snprintf(out, 160, "%s/%s %s  ", done, total, p->unit);
    else if (p->counting)
        used = (size_t)snprintf(out, 160, "%s %s  ", done, p->unit);
    if (rate > 0)
        used += (size_t)snprintf(out + used, 160 - used, "%s/s  ", speed);
    const bool left = rate > 0 && is_bounded(p);
    duration(left ? (p->total - p->done) / rate : floor((double)(now_ms - p->began_ms) * 1e-3),
             time);
    snprintf(out + used, 160 - used, left ? "%s left" : "for %s", time);
}

/* ------------------------------------------------------------------ lines */

/* Exactly as wide as it may be, or shorter: the last column stays free, as some terminals wrap. */
static size_t bar_line(const progress_bar *p, int64_t now_ms, unsigned columns, char *out)
{
    char words[160], head[48], text[COLUMNS_MOST + 1];
    const size_t width = columns > COLUMNS_MOST ? COLUMNS_MOST : columns > 1 ? columns - 1 : 1;
    const double part = is_bounded(p) ? p->done / p->total : 0;
    size_t used = 0;
    figures(p, now_ms, words);
    if (is_bounded(p))
        snprintf(head, sizeof head, "%s %3.0f %% ", p->verb, floor(100 * part));
    else
        snprintf(head, sizeof head, "%s: ", p->verb);
    const size_t plain = strlen(head) + strlen(words), room = width > plain ? width - plain : 0;
    const size_t note = strlen(p->note);
    size_t bar = is_bounded(p) && room >= BAR_LEAST + 3 ? room - 3 : 0;
    if (bar > BAR_LEAST && note > 0 && room >= BAR_LEAST + 5 + NOTE_LEAST)
        bar = room - 5 > note + BAR_LEAST ? room - 5 - note : BAR_LEAST;
    bar = bar > BAR_MOST ? BAR_MOST : bar;
    used = (size_t)snprintf(text, sizeof text, "%s", head);
    if (bar > 0) {
        const size_t full = (size_t)(part * (double)bar);
        text[used++] = '[';
        memset(text + used, '#', full);
        memset(text + used + full, '.', bar - full);
        used += bar;
        used += (size_t)snprintf(text + used, sizeof text - used, "] ");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "%s", words);
    if (note > 0 && used + 2 + NOTE_LEAST <= width)
        snprintf(text + used, sizeof text - used, "  %s", p->note);
    return (size_t)snprintf(out, PROGRESS_BYTES, "\r%.*s\033[K", (int)width, text);
}

static size_t text_line(const progress_bar *p, int64_t now_ms, char *out)
{
    char words[160];
    figures(p, now_ms, words);
    return (size_t)snprintf(out, PROGRESS_BYTES, "shoal %s: %s%s%s\n", p->verb, words,
                            p->note[0] != '\0' ? "  " : "", p->note);
}

size_t progress_tick(progress_bar *p, int64_t now_ms, unsigned columns, char out[PROGRESS_BYTES])
{
    const int64_t since_ms = now_ms - (p->shown_ms >= 0 ? p->shown_ms : p->began_ms);
    const int64_t due_ms = !p->terminal ? LINE_MS : p->shown_ms < 0 ? PATIENCE_MS : REDRAW_MS;
    if (p->hidden || since_ms < due_ms)
        return 0;
    p->shown_ms = now_ms;
    p->visible = p->terminal;
    return p->terminal ? bar_line(p, now_ms, columns, out) : text_line(p, now_ms, out);
}

size_t progress_hide(progress_bar *p, char out[PROGRESS_BYTES])
{
    const bool visible = p->visible;
    p->hidden = true;
    p->visible = false;
    return visible ? (size_t)snprintf(out, PROGRESS_BYTES, "%s", ERASE) : 0;
}
