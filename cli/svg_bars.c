/* SPDX-License-Identifier: Apache-2.0 */
#include "svg_bars.h"

#include <math.h>
#include <string.h>

#include "svg.h"

enum { WIDTH = 720, LEFT = 130, RIGHT = 70, TOP = 58, ROW = 24, BAR = 16, BOTTOM = 46 };
enum { NAME_MOST = 18, TICKS = 5 };

typedef struct look {
    const char *colour;
    const char *strokes; /* of a hatch in 8 x 8; "": plain */
} look;
static const look looks[CLI_SVG_PARTS] = {{"#0072b2", ""},       {"#f0c674", "M0 8L8 0"},
                                          {"#d55e00", "M0 4H8"}, {"#e8e8e8", ""},
                                          {"#009e73", "M4 0V8"}, {"#cc79a7", "M0 0L8 8M0 8L8 0"}};

/* 1, 2 or 5 times a power of ten. */
static double step_of(double most)
{
    const double power = pow(10, floor(log10(most / TICKS))), rest = most / TICKS / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static double drawn(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static double sum_of(const cli_svg_bars *bars, size_t row)
{
    double sum = 0;
    for (size_t p = 0; p < bars->part_count; p++)
        sum += drawn(bars->values[row * bars->part_count + p]);
    return sum;
}

static void draw_hatches(FILE *out, const cli_svg_bars *bars)
{
    fputs("<defs>\n", out);
    for (size_t p = 0; p < bars->part_count; p++)
        fprintf(out,
                "<pattern id=\"%s-%zu\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
                "<rect width=\"8\" height=\"8\" fill=\"%s\"/><path d=\"%s\" stroke=\"#000\" "
                "stroke-width=\"1\" fill=\"none\"/></pattern>\n",
                bars->id != NULL ? bars->id : "part", p, looks[p].colour,
                looks[p].strokes[0] != '\0' ? looks[p].strokes : "M0 0");
    fputs("</defs>\n", out);
}

static void draw_box(FILE *out, const cli_svg_bars *bars, size_t part, double x, double y,
                     double width)
{
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"url(#%s-%zu)\" "
            "stroke=\"#333\" stroke-width=\"0.7\"/>\n",
            x, y, width, BAR, bars->id != NULL ? bars->id : "part", part);
}

static void draw_text(FILE *out, double x, double y, const char *more, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    cli_svg_text(out, text);
    fputs("</text>\n", out);
}

static void draw_row(FILE *out, const cli_svg_bars *bars, size_t row, double scale)
{
    const double y = TOP + (double)row * ROW;
    double x = LEFT;
    char name[NAME_MOST + 4], sum[32];
    size_t length = strlen(bars->rows[row]), kept = length;
    if (length > NAME_MOST)
        for (kept = NAME_MOST; kept > 0 && (bars->rows[row][kept] & 0xC0) == 0x80;)
            kept--; /* within a character */
    snprintf(name, sizeof name, "%.*s%s", (int)kept, bars->rows[row], length > kept ? "..." : "");
    draw_text(out, LEFT - 8, y + 13, "text-anchor=\"end\"", name);
    for (size_t p = 0; p < bars->part_count; p++) {
        const double width = drawn(bars->values[row * bars->part_count + p]) * scale;
        if (width > 0)
            draw_box(out, bars, p, x, y, width);
        x += width;
    }
    snprintf(sum, sizeof sum, "%.4g", sum_of(bars, row));
    draw_text(out, x + 5, y + 13, "", sum);
}

static void draw_ticks(FILE *out, const cli_svg_bars *bars, double most, double scale)
{
    char label[32];
    const double step = step_of(most), bottom = TOP + (double)(bars->row_count * ROW);
    for (int i = 0; i <= 2 * TICKS && i * step <= most * 1.0001; i++) {
        const double x = LEFT + i * step * scale;
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%.1f\" stroke=\"#ddd\"/>\n", x, TOP - 4,
                bottom);
        snprintf(label, sizeof label, "%.6g", i * step);
        draw_text(out, x, bottom + 14, "text-anchor=\"middle\"", label);
    }
    if (bars->x_label != NULL)
        draw_text(out, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 34, "text-anchor=\"middle\"",
                  bars->x_label);
}

static void draw_legend(FILE *out, const cli_svg_bars *bars)
{
    double x = LEFT;
    for (size_t p = 0; p < bars->part_count; p++) {
        draw_box(out, bars, p, x, 30, 22);
        draw_text(out, x + 28, 43, "", bars->parts[p]);
        x += 44 + 6.8 * (double)strlen(bars->parts[p]);
    }
}

void cli_svg_write_bars(FILE *out, const cli_svg_bars *bars)
{
    double most = 0;
    for (size_t row = 0; row < bars->row_count; row++)
        most = fmax(most, sum_of(bars, row));
    most = most > 1e-300 && isfinite(most) ? most : 1;
    const double scale = (WIDTH - LEFT - RIGHT) / most;
    cli_svg_begin(out, WIDTH, TOP + BOTTOM + ROW * (unsigned)bars->row_count, bars->id, bars->title,
                  bars->about);
    draw_hatches(out, bars);
    if (bars->title != NULL)
        draw_text(out, WIDTH / 2.0, 20,
                  "text-anchor=\"middle\" font-size=\"15\" font-weight=\"bold\"", bars->title);
    draw_legend(out, bars);
    draw_ticks(out, bars, most, scale);
    for (size_t row = 0; row < bars->row_count; row++)
        draw_row(out, bars, row, scale);
    fputs("</svg>\n", out);
}
