/* SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gnuplot.h"

enum { NAME_MOST = 18, ROW = 24, WIDTH = 720, HEIGHT = 440, KEY_ROW = 18 };

static const char no_room[] = "No picture: no memory for it.";

/* Okabe and Ito's colours, told apart by nearly all eyes. */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
static const char *const dashes[] = {"1", "'-'", "'.'", "'-.'", "'_'", "'-..'", "'_.'"};
enum { COLOURS = sizeof palette / sizeof palette[0] };

/* ---------------------------------------------------------------- scripts */

/* As gnuplot's text in ' ', in which only ' means something; in formats % does, too. */
static void put_text(FILE *script, const char *text, size_t most, bool format)
{
    fputc('\'', script);
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (i >= most && (text[i] & 0xC0) != 0x80) {
            fputs("...", script);
            break;
        }
        const bool none = (unsigned char)text[i] < ' ' || text[i] == 0x7f;
        const bool no_character = strncmp(text + i, "\xEF\xBF\xBE", 3) == 0 ||
                                  strncmp(text + i, "\xEF\xBF\xBF", 3) == 0;
        if (text[i] == '\'' || (format && text[i] == '%'))
            fputc(text[i], script);
        fputc(none || no_character ? '?' : text[i], script);
        i += no_character ? 2 : 0;
    }
    fputc('\'', script);
}

static void put_setting(FILE *script, const char *what, const char *text, const char *more)
{
    if (text == NULL)
        return;
    fprintf(script, "set %s ", what);
    put_text(script, text, SIZE_MAX, false);
    fprintf(script, "%s\n", more);
}

static void begin_script(FILE *script, const gnuplot_frame *f)
{
    fprintf(script,
            "reset\nset encoding utf8\nset decimalsign '.'\n"
            "set term svg size %u,%u noenhanced font 'sans-serif,12'\n"
            "set border 3 lc rgb '#333333'\nset tics out nomirror scale 0.5 textcolor rgb 'black'\n"
            "set grid lt 1 dt 1 lw 1 lc rgb '#dddddd'\nset format '%%.6g'\n",
            f->width, f->height);
}

/* Lines that are drawn: known points of each. */
static size_t known_of(const chart_plot *plot, const chart_line *line)
{
    size_t known = 0;
    for (size_t i = 0; i < line->count; i++)
        known += isfinite(line->x[i]) && isfinite(line->y[i]) && (!plot->log_x || line->x[i] > 0) &&
                 (!plot->log_y || line->y[i] > 0);
    return known;
}

static void put_number(FILE *script, double value, char after)
{
    if (isfinite(value))
        fprintf(script, "%.10g%c", value, after);
    else
        fprintf(script, "NaN%c", after);
}

/* Columns x, y, low, high. */
static void put_points(FILE *script, const chart_line *line, size_t place)
{
    fprintf(script, "$d%zu << END\n", place);
    for (size_t i = 0; i < line->count; i++) {
        const double low = line->low != NULL ? line->low[i] : line->y[i];
        const double high = line->high != NULL ? line->high[i] : line->y[i];
        put_number(script, line->x[i], ' ');
        put_number(script, line->y[i], ' ');
        put_number(script, low, ' ');
        put_number(script, high, '\n');
    }
    fputs("END\n", script);
}

static void put_name(FILE *script, const char *name)
{
    fputs(name != NULL ? " title " : " notitle", script);
    if (name != NULL)
        put_text(script, name, SIZE_MAX, false);
}

static void put_line(FILE *script, const chart_plot *plot, size_t place)
{
    const chart_line *line = &plot->lines[place];
    const char *colour = palette[(line->colour > 0 ? line->colour - 1 : place) % COLOURS];
    const char *dash = line->dashed ? "'-'" : dashes[plot->dashes ? place % COLOURS : 0];
    if (line->low != NULL && line->high != NULL)
        fprintf(script,
                ", $d%zu using 1:3:4 with filledcurves fs transparent solid 0.22 noborder "
                "lc rgb '%s' notitle",
                place, colour);
    if (!line->no_line) {
        fprintf(script, ", $d%zu using 1:2 with %s lw 2 dt %s lc rgb '%s'", place,
                line->stairs ? "steps" : "lines", dash, colour);
        put_name(script, line->name);
    }
    if (line->dots || line->no_line) {
        fprintf(script, ", $d%zu using 1:2 with points pt 7 ps 0.7 lc rgb '%s'", place, colour);
        put_name(script, line->no_line ? line->name : NULL);
    }
}

static void plot_script(FILE *script, const chart_plot *plot, const gnuplot_frame *f)
{
    double least = DBL_MAX;
    size_t all = 0;
    begin_script(script, f);
    put_setting(script, "title", plot->title, " font ',15'");
    put_setting(script, "xlabel", plot->x_label, "");
    put_setting(script, "ylabel", plot->y_label, "");
    fputs("set key outside bottom center horizontal Left reverse height 1\n", script);
    for (size_t l = 0; l < plot->line_count; l++) {
        put_points(script, &plot->lines[l], l);
        all += known_of(plot, &plot->lines[l]);
        for (size_t i = 0; i < plot->lines[l].count; i++)
            least = fmin(least, plot->lines[l].y[i]);
    }
    if (plot->log_x && all > 0)
        fputs("set logscale x\n", script);
    if (plot->log_y && all > 0)
        fputs("set logscale y\n", script);
    if (all == 0)
        fputs("set xrange [0:1]\nset yrange [0:1]\n", script);
    else if (plot->zero_y && !plot->log_y && least > 0)
        fputs("set yrange [0:*]\n", script);
    fputs("plot NaN notitle", script);
    for (size_t l = 0; l < plot->line_count; l++)
        if (known_of(plot, &plot->lines[l]) > 0)
            put_line(script, plot, l);
    fputc('\n', script);
}

const char *chart_draw(FILE *out, const chart_plot *plot)
{
    char *script = NULL;
    size_t length = 0, named = 0;
    for (size_t l = 0; l < plot->line_count; l++)
        named += plot->lines[l].name != NULL;
    const gnuplot_frame f = {.id = plot->id,
                             .title = plot->title != NULL ? plot->title : "",
                             .about = plot->about,
                             .width = plot->width > 0 ? plot->width : WIDTH,
                             .height = (plot->height > 0 ? plot->height : HEIGHT) +
                                       KEY_ROW * (unsigned)((named + 1) / 2)};
    FILE *file = open_memstream(&script, &length);
    if (file == NULL)
        return no_room;
    plot_script(file, plot, &f);
    const char *why = fclose(file) == 0 ? gnuplot_draw(out, &f, script, length) : no_room;
    free(script);
    return why;
}

/* ---------------------------------------------------------------- bars */

static double drawn(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static double sum_of(const chart_bars *bars, size_t row, size_t parts)
{
    double sum = 0;
    for (size_t p = 0; p < parts; p++)
        sum += drawn(bars->values[row * bars->part_count + p]);
    return sum;
}

/* Of each row: where this part begins and ends; returns whether it is drawn at all. */
static bool put_part(FILE *script, const chart_bars *bars, size_t part)
{
    bool any = false;
    fprintf(script, "$p%zu << END\n", part);
    for (size_t row = 0; row < bars->row_count; row++) {
        const double from = sum_of(bars, row, part), to = sum_of(bars, row, part + 1);
        if (to > from)
            fprintf(script, "%zu %.10g %.10g\n", row, from, to);
        any = any || to > from;
    }
    fputs("END\n", script);
    return any;
}

static void put_rows(FILE *script, const chart_bars *bars)
{
    fputs("set ytics (", script);
    for (size_t row = 0; row < bars->row_count; row++) {
        put_text(script, bars->rows[row], NAME_MOST, true);
        fprintf(script, " %zu%s", row, row + 1 < bars->row_count ? ", " : ") scale 0\n");
    }
    fputs("$sum << END\n", script);
    for (size_t row = 0; row < bars->row_count; row++)
        fprintf(script, "%zu %.10g\n", row, sum_of(bars, row, bars->part_count));
    fputs("END\n", script);
}

static void bars_script(FILE *script, const chart_bars *bars, const gnuplot_frame *f)
{
    static const char *const looks[CHART_PARTS] = {
        "solid 1 border lc rgb '#333333' lc rgb '#0072b2'",
        "pattern 5 lc rgb '#b07600'",
        "pattern 1 lc rgb '#d55e00'",
        "solid 1 border lc rgb '#333333' lc rgb '#e8e8e8'",
        "pattern 4 lc rgb '#009e73'",
        "pattern 2 lc rgb '#cc79a7'"};
    begin_script(script, f);
    put_setting(script, "key title", bars->title, " font ',15'");
    put_setting(script, "xlabel", bars->x_label, "");
    put_rows(script, bars);
    double most = 0;
    for (size_t row = 0; row < bars->row_count; row++)
        most = fmax(most, sum_of(bars, row, bars->part_count));
    fprintf(script,
            "set key outside top center horizontal Left reverse\nset lmargin 21\nset rmargin 10\n"
            "unset grid\nset grid x lt 1 dt 1 lw 1 lc rgb '#dddddd'\n"
            "set style fill border lc rgb '#333333'\nset yrange [%zu.5:-0.5]\nset xrange [0:%s]\n",
            bars->row_count - 1, most > 1e-300 && isfinite(most) ? "*" : "1");
    bool any[CHART_PARTS];
    for (size_t p = 0; p < bars->part_count; p++)
        any[p] = put_part(script, bars, p);
    fputs("plot ", script);
    for (size_t p = 0; p < bars->part_count; p++) {
        if (any[p])
            fprintf(script, "$p%zu using 2:1:2:3:($1-0.34):($1+0.34) with boxxyerror", p);
        else
            fputs("NaN with boxes", script);
        fprintf(script, " fs %s title ", looks[p]);
        put_text(script, bars->parts[p], SIZE_MAX, false);
        fputs(", ", script);
    }
    fputs("$sum using 2:1:(sprintf('%.4g',$2)) with labels left offset char 0.5,0 notitle\n",
          script);
}

const char *chart_draw_bars(FILE *out, const chart_bars *bars)
{
    char *script = NULL;
    size_t length = 0;
    const gnuplot_frame f = {.id = bars->id,
                             .title = bars->title,
                             .about = bars->about,
                             .width = WIDTH,
                             .height = 110 + ROW * (unsigned)bars->row_count + KEY_ROW};
    FILE *file = open_memstream(&script, &length);
    if (file == NULL)
        return no_room;
    bars_script(file, bars, &f);
    const char *why = fclose(file) == 0 ? gnuplot_draw(out, &f, script, length) : no_room;
    free(script);
    return why;
}
