/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_frame.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "status_show.h"

enum {
    BARS_LEAST = 8,
    BARS_MOST = 60,
    NOW_LEAST = 14, /* less of it says nothing */
    NOW_MOST = 36,
    RANKS_LEAST = 3,
    CHANGES_SHOWN = 4,
    CELL_BYTES = 96,
    TEXT_BYTES = 256
};

/* ------------------------------------------------------------------ words */

/* "12 s", "3:07 min", "2:03 h" */
static void up(double seconds, char out[32])
{
    const long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
    if (s < 60)
        snprintf(out, 32, "%lld s", s);
    else if (s < 3600)
        snprintf(out, 32, "%lld:%02lld min", s / 60, s % 60);
    else
        snprintf(out, 32, "%lld:%02lld h", s / 3600, s % 3600 / 60);
}

static void rate_text(double per_s, char out[32])
{
    snprintf(out, 32,
             per_s < 0      ? "-"
             : per_s >= 1e6 ? "%.3g"
             : per_s >= 100 ? "%.0f"
                            : "%.1f",
             per_s);
}

void watch_frame_states(const shoal_watch *watch, char *out, size_t bytes)
{
    static const char *const names[] = {"running", "missing", "unresponsive", "dead", "left"};
    uint32_t counts[5] = {0};
    const uint32_t ranks = shoal_watch_ranks(watch);
    shoal_watch_rank_state r = {.size = sizeof r};
    size_t used = (size_t)snprintf(out, bytes, "%u rank%s", ranks, ranks == 1 ? "" : "s");
    for (uint32_t i = 0; i < ranks && shoal_watch_rank(watch, i, &r) == SHOAL_OK; i++)
        for (size_t k = 0; k < 5; k++)
            counts[k] += strcmp(r.state, names[k]) == 0;
    for (size_t k = 0; k < 5 && used < bytes; k++)
        if (counts[k] == ranks)
            used += (size_t)snprintf(out + used, bytes - used, ", all %s", names[k]);
        else if (counts[k] > 0)
            used += (size_t)snprintf(out + used, bytes - used, ", %u %s", counts[k], names[k]);
}

static screen_style style_of(const shoal_watch_rank_state *r)
{
    if (strcmp(r->state, "dead") == 0)
        return SCREEN_RED;
    return status_is_lost(r) || r->cause[0] != '\0' ? SCREEN_YELLOW : SCREEN_PLAIN;
}

/* ------------------------------------------------------------------ columns */

typedef enum column {
    RANK,
    HOST,
    STATE,
    SEEN,
    ENDED,
    COMPUTE,
    LAST,
    SENDS,
    RECEIVES,
    RATE,
    BARS,
    NOW,
    COLUMNS
} column;

static const struct {
    const char *title;
    unsigned width;
    bool left;
} columns[COLUMNS] = {[RANK] = {"rank", 4, false},        [HOST] = {"host", 12, true},
                      [STATE] = {"state", 12, true},      [SEEN] = {"seen s", 6, false},
                      [ENDED] = {"ended", 9, false},      [COMPUTE] = {"comp ms", 8, false},
                      [LAST] = {"last %", 6, false},      [SENDS] = {"sends Mb", 8, false},
                      [RECEIVES] = {"recv Mb", 8, false}, [RATE] = {"ops/s", 6, false},
                      [BARS] = {"history", 0, false},     [NOW] = {"now", 0, true}};

/* What comes first where there is little room. */
static const column wanted[] = {RANK, STATE, RATE,  BARS,  COMPUTE,  LAST,
                                HOST, NOW,   ENDED, SENDS, RECEIVES, SEEN};

/* Widths of the columns, 0: not shown. What is left is shared by bars and now. */
static void share(unsigned width, unsigned out[COLUMNS])
{
    unsigned used = 0;
    memset(out, 0, COLUMNS * sizeof *out);
    for (size_t i = 0; i < COLUMNS; i++) {
        const column c = wanted[i];
        const unsigned least = c == BARS ? BARS_LEAST : c == NOW ? NOW_LEAST : columns[c].width;
        if (used + least + 1 > width + 1) /* a blank behind each but the last */
            break;
        out[c] = least;
        used += least + 1;
    }
    unsigned left = width + 1 > used ? width + 1 - used : 0;
    if (out[NOW] > 0) {
        const unsigned more = left < NOW_MOST - NOW_LEAST ? left : NOW_MOST - NOW_LEAST;
        out[NOW] += more;
        left -= more;
    }
    if (out[BARS] > 0)
        out[BARS] += left < BARS_MOST - BARS_LEAST ? left : BARS_MOST - BARS_LEAST;
}

static void mbit(double bytes_per_s, char out[CELL_BYTES])
{
    snprintf(out, CELL_BYTES, bytes_per_s > 0 ? "%.4g" : "-", bytes_per_s * 8e-6);
}

static void now_text(const shoal_watch_rank_state *r, char out[CELL_BYTES])
{
    if (strcmp(r->state, "running") != 0)
        out[0] = '\0';
    else if (r->busy)
        snprintf(out, CELL_BYTES, "in %.1f s: %s", r->doing_s, r->operation);
    else
        snprintf(out, CELL_BYTES, "computing %.1f s", r->doing_s);
}

static void cell(const shoal_watch_rank_state *r, uint32_t rank, column c, char out[CELL_BYTES])
{
    switch (c) {
    case RANK:
        snprintf(out, CELL_BYTES, "%u", rank);
        break;
    case HOST:
        snprintf(out, CELL_BYTES, "%s", r->host);
        break;
    case STATE:
        snprintf(out, CELL_BYTES, "%s", r->state);
        break;
    case SEEN:
        snprintf(out, CELL_BYTES, "%.1f", r->last_seen_s);
        break;
    case ENDED:
        snprintf(out, CELL_BYTES, "%llu", (unsigned long long)r->ended);
        break;
    case COMPUTE:
        snprintf(out, CELL_BYTES, r->compute_ms < 1e5 ? "%.2f" : "%.3g", r->compute_ms);
        break;
    case LAST:
        snprintf(out, CELL_BYTES, "%.0f", 100 * r->last_share);
        break;
    case SENDS:
        mbit(r->sends_bytes_s, out);
        break;
    case RECEIVES:
        mbit(r->receives_bytes_s, out);
        break;
    default:
        now_text(r, out);
    }
}

/* Cut at the column's width by the next column's place, where the page allows no more. */
static void put_cell(screen *s, unsigned row, unsigned at, unsigned width, bool left,
                     screen_style style, const char *text)
{
    screen_pad(s, row, at);
    if (left)
        screen_put(s, row, style, "%.*s", (int)width, text);
    else
        screen_put(s, row, style, "%*.*s", (int)width, (int)width, text);
}

static void put_titles(screen *s, unsigned row, const unsigned width[COLUMNS])
{
    unsigned at = 0;
    for (column c = 0; c < COLUMNS; c++) {
        if (width[c] == 0)
            continue;
        put_cell(s, row, at, width[c], columns[c].left, SCREEN_DIM, columns[c].title);
        at += width[c] + 1;
    }
}

static void put_rank(screen *s, unsigned row, const unsigned width[COLUMNS],
                     const shoal_watch *watch, const watch_history *h, uint32_t rank)
{
    char text[4 * BARS_MOST + 1];
    unsigned at = 0;
    shoal_watch_rank_state r = {.size = sizeof r};
    if (shoal_watch_rank(watch, rank, &r) != SHOAL_OK)
        return;
    cli_make_printable(r.host);
    for (column c = 0; c < COLUMNS; c++) {
        if (width[c] == 0)
            continue;
        if (c == BARS) {
            watch_history_bars(h, rank, width[c], screen_unicode(s), text, sizeof text);
            screen_pad(s, row, at);
            screen_put(s, row, SCREEN_PLAIN, "%s", text);
        } else {
            if (c == RATE)
                rate_text(watch_history_rate(h, rank), text);
            else
                cell(&r, rank, c, text);
            put_cell(s, row, at, width[c], columns[c].left,
                     c == STATE ? style_of(&r) : SCREEN_PLAIN, text);
        }
        at += width[c] + 1;
    }
}

/* ------------------------------------------------------------------ what is said below */

/* A sentence in as many lines as it needs, later ones indented. @return the row behind it */
static unsigned put_wrapped(screen *s, unsigned row, unsigned end, screen_style style,
                            const char *text, size_t length)
{
    const size_t width = screen_width(s);
    for (size_t indent = 0; length > 0 && row < end; indent = 4) {
        const size_t room = width > indent + 8 ? width - indent : 8;
        size_t part = length;
        if (part > room) {
            part = room;
            while (part > room / 2 && text[part] != ' ')
                part--;
            if (text[part] != ' ')
                part = room;
        }
        screen_put(s, row++, style, "%*s%.*s", (int)indent, "", (int)part, text);
        text += part;
        length -= part;
        while (length > 0 && *text == ' ') {
            text++;
            length--;
        }
    }
    return row;
}

/* Who holds up the others, what is said of links, what changed: in rows [row, end). */
static unsigned put_sentences(screen *s, unsigned row, unsigned end, const shoal_watch *watch,
                              const watch_history *h)
{
    char text[TEXT_BYTES];
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    uint32_t more = 0;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK ||
            !status_sentence(&others, i, &r, text, sizeof text))
            continue;
        if (row + 1 < end)
            row = put_wrapped(s, row, end - 1, style_of(&r), text, strlen(text));
        else
            more++;
    }
    if (more > 0 && row < end)
        screen_put(s, row++, SCREEN_YELLOW, "and %u more", more);
    for (const char *note = shoal_watch_notes(watch); *note != '\0' && row < end;) {
        const size_t length = strcspn(note, "\n");
        row = put_wrapped(s, row, end, SCREEN_YELLOW, note, length);
        note += length + (note[length] == '\n');
    }
    const uint32_t first = h->changes > CHANGES_SHOWN ? h->changes - CHANGES_SHOWN : 0;
    for (uint32_t i = h->changes; i > first && row < end; i--)
        row = put_wrapped(s, row, end, SCREEN_DIM, h->change[i - 1], strlen(h->change[i - 1]));
    return row;
}

/* ------------------------------------------------------------------ pages */

const char *watch_frame_verdict(const shoal_watch *watch)
{
    char text[TEXT_BYTES];
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    uint64_t most = 0;
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++) {
        if (shoal_watch_rank(watch, i, &r) != SHOAL_OK ||
            status_sentence(&others, i, &r, text, sizeof text))
            return "";
        most = r.ended > most ? r.ended : most;
    }
    return most < SHOAL_VERDICT_STEPS ? "too few operations to say who is slow" : "no straggler";
}

/* `training`: the row for how far the training is; 1: behind what is there. */
static void put_head(screen *s, const shoal_watch *watch, const watch_history *h, double silent_s,
                     unsigned training)
{
    const char *job, *verdict = watch_frame_verdict(watch);
    const status_training trained = status_trains(watch);
    uint32_t by;
    double age_s;
    char age[32], pace[32], states[TEXT_BYTES], far[TEXT_BYTES];
    shoal_watch_job(watch, &job, &by, &age_s);
    up(age_s, age);
    rate_text(watch_history_pace(h, watch), pace);
    watch_frame_states(watch, states, sizeof states);
    status_training_text(&trained, far, sizeof far);
    screen_put(s, 0, SCREEN_BOLD, "job %s", job);
    screen_put(s, 0, SCREEN_PLAIN, "  up %s  %s operations/s  (rank %u answers)", age, pace, by);
    if (silent_s > 0)
        screen_put(s, 1, SCREEN_RED, "no rank answers, for %.0f s; before: %s", silent_s, states);
    else
        screen_put(s, 1, status_code(watch) == CLI_OK ? SCREEN_PLAIN : SCREEN_RED, "%s%s%s", states,
                   verdict[0] != '\0' ? "; " : "", verdict);
    screen_put(s, training, SCREEN_PLAIN, "%s%s", training == 1 && far[0] != '\0' ? "; " : "", far);
}

/* Ranks get what the sentences leave, and these a third at least. */
void watch_frame_job(screen *s, const shoal_watch *watch, const watch_history *h, watch_place *at)
{
    const unsigned rows = screen_height(s), table = rows > 12 ? 4 : 3;
    const unsigned body = rows > table + 1 ? rows - table - 1 : 0;
    const uint32_t ranks = shoal_watch_ranks(watch);
    unsigned width[COLUMNS];
    screen_clear(s);
    put_head(s, watch, h, at->silent_s, table > 3 ? 2 : 1);
    share(screen_width(s), width);
    put_titles(s, table - 1, width);
    at->shown = ranks < body ? ranks : body;
    const unsigned spare = body - at->shown, floor = body / 3;
    if (spare < floor && at->shown > floor - spare + RANKS_LEAST)
        at->shown -= floor - spare;
    at->first = at->first + at->shown > ranks ? ranks - at->shown : at->first;
    for (uint32_t i = 0; i < at->shown; i++)
        put_rank(s, table + i, width, watch, h, at->first + i);
    unsigned below = table + at->shown;
    below += below + 3 < rows;
    (void)put_sentences(s, below, rows - 1, watch, h);
    if (at->shown < ranks)
        screen_put(s, rows - 1, SCREEN_DIM, "q ends  arrows, PgUp, PgDn: ranks %u to %u of %u",
                   at->first, at->first + at->shown - 1, ranks);
    else
        screen_put(s, rows - 1, SCREEN_DIM, "q ends");
}

static void put_job(screen *s, unsigned row, uint32_t number, const shoal_watch *watch)
{
    const char *job;
    uint32_t by;
    double age_s;
    char age[32], text[TEXT_BYTES] = "all ranks are there";
    const unsigned name = screen_width(s) >= 100 ? 32 : 18;
    screen_style style = SCREEN_PLAIN;
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    shoal_watch_job(watch, &job, &by, &age_s);
    up(age_s, age);
    screen_put(s, row, SCREEN_PLAIN, "%3u  %.*s", number, (int)name, job);
    screen_pad(s, row, 5 + name);
    if (shoal_watch_ranks(watch) == 0) {
        screen_put(s, row, SCREEN_PLAIN, " %5s %9s  ", "-", "-");
        screen_put(s, row, SCREEN_RED, "no rank answers: are they stopped?");
        return;
    }
    for (uint32_t i = 0; i < shoal_watch_ranks(watch); i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK &&
            status_sentence(&others, i, &r, text, sizeof text)) {
            style = style_of(&r);
            break;
        }
    screen_put(s, row, SCREEN_PLAIN, " %5u %9s  ", shoal_watch_ranks(watch), age);
    screen_put(s, row, style, "%s", text);
}

void watch_frame_list(screen *s, const shoal_watch *first, double silent_s)
{
    const unsigned rows = screen_height(s), name = screen_width(s) >= 100 ? 32 : 18;
    uint32_t number = 0;
    screen_clear(s);
    for (const shoal_watch *watch = first; watch != NULL; watch = shoal_watch_next(watch))
        if (++number + 2 < rows)
            put_job(s, number + 1, number, watch);
    screen_put(s, 0, SCREEN_BOLD, "%u job%s of this user on this host", number,
               number == 1 ? "" : "s");
    if (silent_s > 0)
        screen_put(s, 0, SCREEN_RED, "  none answers, for %.0f s", silent_s);
    screen_put(s, 1, SCREEN_DIM, "  #  %-*s %5s %9s", (int)name, "job", "ranks", "up");
    screen_put(s, rows - 1, SCREEN_DIM,
               "q ends  `shoal watch --job NAME` or its number: its ranks");
}

/* ------------------------------------------------------------------ a line */

void watch_frame_line(const shoal_watch *watch, const watch_history *h, char *out, size_t bytes)
{
    const char *job;
    uint32_t by;
    double age_s;
    char pace[32], text[TEXT_BYTES];
    shoal_watch_rank_state r = {.size = sizeof r};
    const status_wait others = status_waits(watch);
    shoal_watch_job(watch, &job, &by, &age_s);
    if (shoal_watch_ranks(watch) == 0) {
        snprintf(out, bytes, "job %s: no rank answers: are they stopped?", job);
        cli_make_printable(out);
        return;
    }
    watch_frame_states(watch, text, sizeof text);
    size_t used = (size_t)snprintf(out, bytes, "job %s: %s; up %.0f s", job, text, age_s);
    rate_text(h != NULL ? watch_history_pace(h, watch) : -1, pace);
    if (h != NULL && used < bytes)
        used += (size_t)snprintf(out + used, bytes - used, "; %s operations/s", pace);
    const status_training trained = status_trains(watch);
    status_training_text(&trained, text, sizeof text);
    if (text[0] != '\0' && used < bytes)
        used += (size_t)snprintf(out + used, bytes - used, "; %s", text);
    for (uint32_t i = 0; i < shoal_watch_ranks(watch) && used + TEXT_BYTES < bytes; i++)
        if (shoal_watch_rank(watch, i, &r) == SHOAL_OK &&
            status_sentence(&others, i, &r, text, sizeof text))
            used += (size_t)snprintf(out + used, bytes - used, "; %s", text);
    for (const char *note = shoal_watch_notes(watch); *note != '\0' && used + 2 < bytes;) {
        const size_t length = strcspn(note, "\n");
        used += (size_t)snprintf(out + used, bytes - used, "; %.*s", (int)length, note);
        note += length + (note[length] == '\n');
    }
    cli_make_printable(out);
}
