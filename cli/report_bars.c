/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of what belongs to ranks, links and codecs, and the matrix of waits. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "chart.h"
#include "report_charts.h"
#include "report_table.h"

enum { BARS_MOST = 32, NAME = 96, WORD = 64, COLUMNS_MOST = 16 };

/* Rows of a picture, at most BARS_MOST, those with the largest `by` first where there are more. */
typedef struct rows {
    const json_t *row[BARS_MOST];
    char name[BARS_MOST][NAME];
    const char *names[BARS_MOST];
    double values[BARS_MOST * CHART_PARTS];
    size_t count, left_out;
} rows;

static void add_row(rows *r, const json_t *row, const char *by, bool least)
{
    if (r->count < BARS_MOST) {
        r->row[r->count++] = row;
        return;
    }
    size_t worst = 0;
    const double sign = least ? -1 : 1;
    for (size_t i = 1; i < r->count; i++)
        if (sign * report_number(r->row[i], by) < sign * report_number(r->row[worst], by))
            worst = i;
    if (sign * report_number(row, by) > sign * report_number(r->row[worst], by))
        r->row[worst] = row;
    r->left_out++;
}

static void name_row(rows *r, size_t i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void name_row(rows *r, size_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->name[i], NAME, format, args);
    va_end(args);
    r->names[i] = r->name[i];
}

static int64_t count_of(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static void draw(FILE *out, const rows *r, chart_bars *bars)
{
    bars->rows = r->names;
    bars->row_count = r->count;
    bars->values = r->values;
    const char *why = chart_draw_bars(out, bars);
    if (why != NULL)
        fprintf(out, "<p>%s</p>\n", why);
    if (r->left_out > 0)
        fprintf(out, "<p>%zu more are in the table.</p>\n", r->left_out);
}

/* ---------------------------------------------------------------- a step's parts */

typedef struct step_parts {
    const char *names[CHART_PARTS], *keys[CHART_PARTS];
    size_t count;
} step_parts;

/* Computing is told apart, but by a plan, and in the lines of older versions. */
static const step_parts *parts_of(const rows *r)
{
    static const step_parts whole = {{"compute", "waiting", "update", "other"},
                                     {"compute_ms", "wait_ms", "update_ms", "other_ms"},
                                     4},
                            apart = {{"batch", "forward", "backward", "waiting", "update", "other"},
                                     {"data_ms", "forward_ms", "backward_ms", "wait_ms",
                                      "update_ms", "other_ms"},
                                     6};
    for (size_t i = 0; i < r->count; i++)
        if (!(report_number(r->row[i], "backward_ms") > 0))
            return &whole;
    return &apart;
}

/* A bar for each is too many: how all of them lie. */
static void draw_spread(FILE *out, const json_t *facts, size_t count)
{
    static const report_column columns[] = {
        {"ms per step, mean", "part", 0, NULL},    {"least", "least", 0, "%.3f"},
        {"a tenth below", "tenth", 0, "%.3f"},     {"median", "median", 0, "%.3f"},
        {"a tenth above", "ninetieth", 0, "%.3f"}, {"largest", "most", 0, "%.3f"},
        {"of rank", "most_rank", 0, NULL}};
    char caption[WORD];
    snprintf(caption, sizeof caption, "A step by its parts, over all %zu ranks", count);
    fprintf(out,
            "<p>Of %zu ranks the picture has the %d that compute longest; the next table is about "
            "all of them together.</p>\n",
            count, BARS_MOST);
    report_table(out, caption, columns, sizeof columns / sizeof columns[0],
                 json_object_get(facts, "spread"));
}

void report_draw_parts(FILE *out, const char *id, const json_t *facts)
{
    static const report_column columns[] = {{"rank", "rank", 0, NULL},
                                            {"epoch of members", "members_epoch", 0, NULL},
                                            {"host", "host", 0, NULL},
                                            {"steps", "steps", 0, NULL},
                                            {"step, ms", "step_ms", 0, "%.3f"},
                                            {"compute, ms", "compute_ms", 0, "%.3f"},
                                            {"batch, ms", "data_ms", 0, "%.3f"},
                                            {"forward, ms", "forward_ms", 0, "%.3f"},
                                            {"backward, ms", "backward_ms", 0, "%.3f"},
                                            {"waiting, ms", "wait_ms", 0, "%.3f"},
                                            {"update, ms", "update_ms", 0, "%.3f"},
                                            {"other, ms", "other_ms", 0, "%.3f"},
                                            {"exchange, ms", "comm_ms", 0, "%.3f"},
                                            {"encode, ms", "encode_ms", 0, "%.3f"},
                                            {"decode, ms", "decode_ms", 0, "%.3f"},
                                            {"longest step, ms", "step_ms_most", 0, "%.3f"},
                                            {"sent, MB", "sent_bytes", 1e-6, "%.3f"},
                                            {"skipped", "skipped", 0, NULL}};
    char word[WORD];
    static rows r;
    size_t i;
    const json_t *rank;
    const json_t *ranks = json_object_get(facts, "ranks");
    memset(&r, 0, sizeof r);
    json_array_foreach(ranks, i, rank) if (count_of(rank, "steps") > 0)
        add_row(&r, rank, "compute_ms", false);
    if (r.count == 0)
        return;
    const step_parts *steps = parts_of(&r);
    for (i = 0; i < r.count; i++) {
        const int64_t epoch = count_of(r.row[i], "members_epoch");
        if (epoch > 0)
            name_row(&r, i, "rank %" PRId64 ", epoch %" PRId64, count_of(r.row[i], "rank"), epoch);
        else
            name_row(&r, i, "rank %" PRId64, count_of(r.row[i], "rank"));
        for (size_t p = 0; p < steps->count; p++)
            r.values[steps->count * i + p] = report_number(r.row[i], steps->keys[p]);
    }
    snprintf(word, sizeof word, "%s-parts", id);
    chart_bars bars = {.title = "A step by its parts, per rank",
                       .about = "A bar per rank: milliseconds of a mean step in which it makes the "
                                "batch, computes forward and backward, waits for the exchange, "
                                "updates weights, and does the rest.",
                       .x_label = "ms per step, mean",
                       .id = word,
                       .parts = steps->names,
                       .part_count = steps->count};
    fputs("<figure>\n", out);
    draw(out, &r, &bars);
    if (r.left_out > 0)
        draw_spread(out, facts, r.count + r.left_out);
    fputs("<figcaption>The exchange goes on beside computing; of it, encoding and decoding are in "
          "the table.</figcaption>\n",
          out);
    report_folded(out, bars.title, columns, sizeof columns / sizeof columns[0], ranks);
    fputs("</figure>\n", out);
}

/* ---------------------------------------------------------------- runs beside each other */

void report_draw_runs(FILE *out, const json_t *rows_of)
{
    static const char *const parts[] = {"compute", "waiting", "update", "other"}, *const keys[] = {
                                                                                      "compute_ms",
                                                                                      "wait_ms",
                                                                                      "update_ms",
                                                                                      "other_ms"};
    static const report_column columns[] = {{"run", "folder", 0, NULL},
                                            {"clock", "clock", 0, NULL},
                                            {"step, ms", "step_ms", 0, "%.3f"},
                                            {"compute, ms", "compute_ms", 0, "%.3f"},
                                            {"waiting, ms", "wait_ms", 0, "%.3f"},
                                            {"update, ms", "update_ms", 0, "%.3f"},
                                            {"other, ms", "other_ms", 0, "%.3f"}};
    static rows r;
    size_t i;
    const json_t *row;
    memset(&r, 0, sizeof r);
    json_array_foreach(rows_of, i, row) if (report_number(row, "step_ms") > 0)
        add_row(&r, row, "step_ms", false);
    for (i = 0; i < r.count; i++) {
        name_row(&r, i, "%.80s", report_text(r.row[i], "folder"));
        for (size_t p = 0; p < 4; p++)
            r.values[4 * i + p] = report_number(r.row[i], keys[p]);
    }
    chart_bars bars = {.title = "A step by its parts, per run",
                       .about = "A bar per run: milliseconds of a mean step of all ranks in "
                                "which they compute, wait for the exchange, update weights, and "
                                "do the rest.",
                       .x_label = "ms per step, mean of all ranks",
                       .id = "all-parts",
                       .parts = parts,
                       .part_count = 4};
    if (r.count == 0)
        return;
    fputs("<figure>\n", out);
    draw(out, &r, &bars);
    report_folded(out, bars.title, columns, sizeof columns / sizeof columns[0], rows_of);
    fputs("</figure>\n", out);
}

/* ---------------------------------------------------------------- waits */

static double at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double most_of(const json_t *rows_of)
{
    double most = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(rows_of, i, row) for (size_t k = 0; k < json_array_size(row); k++)
        most = fmax(most, at(row, k));
    return most;
}

/* Columns of the matrix from first to end; the exchange, one per row, comes last. */
typedef struct block {
    size_t first, end, all;
} block;

static void matrix_row(FILE *out, const json_t *waits, size_t i, const block *b, double most)
{
    const json_t *row = json_array_get(json_object_get(waits, "for_ms"), i);
    fprintf(out, "<tr><th scope=\"row\">rank %.0f</th>", at(json_object_get(waits, "ranks"), i));
    for (size_t k = b->first; k < b->end; k++) {
        const double value = at(row, k);
        if (i == k)
            fputs("<td>-</td>", out);
        else
            fprintf(out, "<td style=\"--w:%.2f\">%.3f</td>", most > 0 ? value / most : 0, value);
    }
    if (b->end == b->all)
        fprintf(out, "<td>%.3f</td>", at(json_object_get(waits, "exchange_ms"), i));
    fputs("</tr>\n", out);
}

static void matrix_foot(FILE *out, const json_t *list, const block *b, const char *head,
                        double scale)
{
    fprintf(out, "<tr><th scope=\"row\">%s</th>", head);
    for (size_t i = b->first; i < b->end; i++)
        fprintf(out, "<td>%.4g</td>", scale * at(list, i));
    fputs(b->end == b->all ? "<td>-</td></tr>\n" : "</tr>\n", out);
}

static void matrix_block(FILE *out, const json_t *waits, const block *b, double most)
{
    char caption[NAME];
    const json_t *ranks = json_object_get(waits, "ranks");
    const size_t parts = (b->all + COLUMNS_MOST - 1) / COLUMNS_MOST;
    const int length = snprintf(caption, sizeof caption, "Who waits for whom, ms per step");
    if (parts > 1)
        snprintf(caption + length, sizeof caption - (size_t)length, ", part %zu of %zu",
                 b->first / COLUMNS_MOST + 1, parts);
    report_table_begin(out, caption);
    fputs("<thead><tr><th scope=\"col\">waits</th>", out);
    for (size_t i = b->first; i < b->end; i++)
        fprintf(out, "<th scope=\"col\">for %.0f</th>", at(ranks, i));
    fputs(b->end == b->all ? "<th scope=\"col\">exchange</th></tr></thead>\n<tbody>\n"
                           : "</tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < b->all; i++)
        matrix_row(out, waits, i, b, most);
    matrix_foot(out, json_object_get(waits, "last_share"), b, "last in % of steps", 100);
    matrix_foot(out, json_object_get(waits, "caused_ms"), b, "longer than the next, ms", 1);
    report_table_end(out);
}

/* In parts as wide as a sheet of paper. */
void report_draw_waits(FILE *out, const json_t *facts)
{
    const json_t *waits = json_object_get(facts, "waits"), *all = json_object_get(waits, "for_ms");
    const double most = most_of(all);
    block b = {.all = json_array_size(all)};
    if (b.all == 0)
        return;
    fprintf(out,
            "<p>Milliseconds of a mean step that the rank of a row waited for the rank of a "
            "column, over the %" PRId64 " newest steps that all of them have made. Steps begin "
            "together, so who computes longest arrives last, and is waited for; what is left of a "
            "wait is the exchange itself.</p>\n",
            count_of(waits, "steps"));
    for (; b.first < b.all; b.first = b.end) {
        b.end = b.first + COLUMNS_MOST < b.all ? b.first + COLUMNS_MOST : b.all;
        matrix_block(out, waits, &b, most);
    }
    if (count_of(waits, "ranks_left_out") > 0)
        fprintf(out, "<p>%" PRId64 " ranks that caused less are left out.</p>\n",
                count_of(waits, "ranks_left_out"));
}

/* ---------------------------------------------------------------- links */

void report_draw_links(FILE *out, const char *id, const json_t *facts)
{
    static const char *const parts[] = {"measured while sending",
                                        "unused, of what the interface says"};
    static const report_column columns[] = {{"from rank", "from", 0, NULL},
                                            {"to rank", "to", 0, NULL},
                                            {"epoch of members", "members_epoch", 0, NULL},
                                            {"to host", "to_host", 0, NULL},
                                            {"by", "transport", 0, NULL},
                                            {"rate, Mbit/s", "bytes_s", 8e-6, "%.4g"},
                                            {"interface, Mbit/s", "line_bytes_s", 8e-6, "%.4g"},
                                            {"share, %", "share", 100, "%.3g"},
                                            {"sent, MB", "sent_bytes", 1e-6, "%.3f"},
                                            {"received, MB", "received_bytes", 1e-6, "%.3f"}};
    char word[WORD];
    static rows r;
    size_t i;
    const json_t *link, *links = json_object_get(facts, "links");
    if (json_array_size(links) == 0)
        return;
    memset(&r, 0, sizeof r);
    json_array_foreach(links, i, link) if (isfinite(report_number(link, "bytes_s")))
        add_row(&r, link, "bytes_s", true);
    for (i = 0; i < r.count; i++) {
        const double rate = report_number(r.row[i], "bytes_s");
        name_row(&r, i, "%" PRId64 " to %" PRId64, count_of(r.row[i], "from"),
                 count_of(r.row[i], "to"));
        r.values[2 * i] = rate * 8e-6;
        r.values[2 * i + 1] = (report_number(r.row[i], "line_bytes_s") - rate) * 8e-6;
    }
    snprintf(word, sizeof word, "%s-links", id);
    chart_bars bars = {.title = "Links between ranks",
                       .about = "A bar per connection: what it carried per second while it had "
                                "something to send, and what the interface could carry.",
                       .x_label = "Mbit/s",
                       .id = word,
                       .parts = parts,
                       .part_count = 2};
    fputs("<figure>\n", out);
    if (r.count > 0)
        draw(out, &r, &bars);
    else
        fputs("<p>No link sent for a tenth of a second, or all are shared memory: no rate is "
              "known.</p>\n",
              out);
    report_folded(out, bars.title, columns, sizeof columns / sizeof columns[0], links);
    if (count_of(facts, "links_left_out") > 0)
        fprintf(out, "<p>%" PRId64 " more lines of links are left out.</p>\n",
                count_of(facts, "links_left_out"));
    fputs("</figure>\n", out);
}

/* ---------------------------------------------------------------- bytes */

void report_draw_codecs(FILE *out, const char *id, const json_t *facts)
{
    static const char *const parts[] = {"sent", "spared, of dense float32"};
    static const report_column columns[] = {{"codec", "codec", 0, NULL},
                                            {"from step", "from_step", 0, NULL},
                                            {"steps of ranks", "lines", 0, NULL},
                                            {"sent, MB", "sent_bytes", 1e-6, "%.3f"},
                                            {"dense, MB", "dense_bytes", 1e-6, "%.3f"},
                                            {"times less", "times_less", 0, "%.3f"}};
    char word[WORD];
    static rows r;
    size_t i;
    const json_t *codec, *codecs = json_object_get(facts, "codecs");
    if (json_array_size(codecs) == 0)
        return;
    memset(&r, 0, sizeof r);
    json_array_foreach(codecs, i, codec) add_row(&r, codec, "sent_bytes", false);
    for (i = 0; i < r.count; i++) {
        const double sent = report_number(r.row[i], "sent_bytes");
        name_row(&r, i, "%s", report_text(r.row[i], "codec"));
        r.values[2 * i] = sent * 1e-6;
        r.values[2 * i + 1] = report_number(r.row[i], "dense_bytes") * 1e-6 - sent * 1e-6;
    }
    snprintf(word, sizeof word, "%s-codecs", id);
    chart_bars bars = {.title = "Bytes by codec, of all ranks",
                       .about = "A bar per codec: megabytes that were sent, and what the same "
                                "operations would have sent as dense float32.",
                       .x_label = "MB",
                       .id = word,
                       .parts = parts,
                       .part_count = 2};
    fputs("<figure>\n", out);
    draw(out, &r, &bars);
    report_folded(out, bars.title, columns, sizeof columns / sizeof columns[0], codecs);
    fputs("</figure>\n", out);
}
