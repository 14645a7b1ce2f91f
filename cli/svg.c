/* SPDX-License-Identifier: Apache-2.0 */
#include "svg.h"

#include <float.h>
#include <math.h>

/* Okabe and Ito's colours, told apart by nearly all eyes. */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
enum { COLOURS = sizeof palette / sizeof palette[0], LEFT = 76, RIGHT = 18, TOP = 34, BOTTOM = 52 };
enum { TICKS_MAX = 64, LEGEND_STEP = 18 };

/* One axis: data from low to high over pixels from begin to end. */
typedef struct axis {
    bool log;
    double low, high; /* of the value, or of its decimal logarithm */
    double begin, end;
    double tick[TICKS_MAX];
    size_t tick_count;
} axis;

/* U+FFFE and U+FFFF, which are no characters. */
static bool is_no_character(const char *text)
{
    return (unsigned char)text[0] == 0xEF && (unsigned char)text[1] == 0xBF &&
           (unsigned char)text[2] >= 0xBE;
}

static void put_character(FILE *out, char c)
{
    switch (c) {
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '&':
        fputs("&amp;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    case '\'':
        fputs("&#39;", out);
        break;
    default:
        fputc((unsigned char)c < ' ' && c != '\n' && c != '\t' ? '?' : c, out);
    }
}

void cli_svg_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        put_character(out, is_no_character(text) ? '?' : *text);
        text += is_no_character(text) ? 2 : 0;
    }
}

static double on_scale(const axis *a, double value)
{
    return a->log ? (value > 0 ? log10(value) : NAN) : value;
}

static double pixel(const axis *a, double value)
{
    return a->begin + (on_scale(a, value) - a->low) / (a->high - a->low) * (a->end - a->begin);
}

static void take_range(const cli_svg_line *line, const double *values, axis *x, axis *y)
{
    for (size_t i = 0; values != NULL && i < line->count; i++) {
        double px = on_scale(x, line->x[i]), py = on_scale(y, values[i]);
        if (!isfinite(px) || !isfinite(py))
            continue;
        x->low = fmin(x->low, px);
        x->high = fmax(x->high, px);
        y->low = fmin(y->low, py);
        y->high = fmax(y->high, py);
    }
}

/* Range of all points that can be drawn. */
static void find_range(const cli_svg_plot *plot, axis *x, axis *y)
{
    x->low = y->low = DBL_MAX;
    x->high = y->high = -DBL_MAX;
    for (size_t l = 0; l < plot->line_count; l++) {
        take_range(&plot->lines[l], plot->lines[l].y, x, y);
        take_range(&plot->lines[l], plot->lines[l].low, x, y);
        take_range(&plot->lines[l], plot->lines[l].high, x, y);
    }
}

/* An empty or one-point range gets some room. */
static void widen(axis *a)
{
    if (a->low > a->high)
        a->low = 0, a->high = 1;
    double room = fmax(fabs(a->low), fabs(a->high)) * 1e-9;
    if (a->high - a->low > room && a->high > a->low)
        return;
    double half = a->log ? 0.5 : fmax(fabs(a->low) * 0.05, 0.5);
    a->low -= half;
    a->high += half;
}

/* The step 1, 2 or 5 times a power of ten that gives about `wanted` intervals. */
static double round_step(double span, double wanted)
{
    double power = pow(10, floor(log10(span / wanted))), rest = span / wanted / power;
    return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

static void add_tick(axis *a, double value)
{
    if (a->tick_count < TICKS_MAX)
        a->tick[a->tick_count++] = value;
}

static void linear_ticks(axis *a, double wanted)
{
    double step = round_step(a->high - a->low, wanted);
    a->low = floor(a->low / step + 1e-9) * step;
    a->high = ceil(a->high / step - 1e-9) * step;
    long count = lround((a->high - a->low) / step);
    for (long i = 0; i <= count; i++)
        add_tick(a, fabs(a->low + (double)i * step) < step * 1e-6 ? 0 : a->low + (double)i * step);
}

/* Whole powers of ten; within two of them 2 and 5 as well. */
static void log_ticks(axis *a, double wanted)
{
    static const double steps[] = {1, 2, 5};
    double span = a->high - a->low;
    long first = (long)floor(a->low), last = (long)ceil(a->high);
    long stride = span < 2 ? 1 : lround(fmax(1, ceil(span / wanted)));
    for (long power = first; power <= last + stride - 1; power += stride) {
        for (size_t i = 0; i < (span < 2 ? 3 : 1); i++) {
            double at = (double)power + log10(steps[i]);
            if (span >= 2 || (at >= a->low - 0.31 && at <= a->high + 0.4))
                add_tick(a, pow(10, at));
        }
    }
    if (a->tick_count > 1) {
        a->low = fmin(a->low, log10(a->tick[0]));
        a->high = fmax(a->high, log10(a->tick[a->tick_count - 1]));
    }
}

static void finish_axis(axis *a, double wanted)
{
    widen(a);
    if (a->log)
        log_ticks(a, wanted);
    else
        linear_ticks(a, wanted);
}

static void draw_text(FILE *out, double x, double y, const char *more, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    cli_svg_text(out, text);
    fputs("</text>\n", out);
}

static void draw_axes(FILE *out, const axis *x, const axis *y)
{
    char label[32];
    for (size_t i = 0; i < x->tick_count; i++) {
        double at = pixel(x, x->tick[i]);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/>\n", at, y->begin,
                y->end);
        snprintf(label, sizeof label, "%.6g", x->tick[i]);
        draw_text(out, at, y->begin + 16, "text-anchor=\"middle\"", label);
    }
    for (size_t i = 0; i < y->tick_count; i++) {
        double at = pixel(y, y->tick[i]);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", x->begin, at,
                x->end);
        snprintf(label, sizeof label, "%.6g", y->tick[i]);
        draw_text(out, x->begin - 6, at + 4, "text-anchor=\"end\"", label);
    }
    fprintf(out,
            "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\" stroke=\"#333\" fill=\"none\"/>\n",
            x->begin, y->end, y->begin, x->end);
}

static const char *colour_of(const cli_svg_line *line, size_t place)
{
    return palette[(line->colour > 0 ? line->colour - 1 : place) % COLOURS];
}

/* As an attribute; lines that lie over each other are told apart without colours. */
static const char *dashes_of(const cli_svg_plot *plot, size_t place)
{
    static const char *const dashes[] = {"",
                                         " stroke-dasharray=\"8 3\"",
                                         " stroke-dasharray=\"2 3\"",
                                         " stroke-dasharray=\"9 3 2 3\"",
                                         " stroke-dasharray=\"14 5\"",
                                         " stroke-dasharray=\"5 2 1 2 1 2\"",
                                         " stroke-dasharray=\"1 5\""};
    if (plot->lines[place].dashed)
        return " stroke-dasharray=\"6 4\"";
    return plot->dashes ? dashes[place % (sizeof dashes / sizeof dashes[0])] : "";
}

/* Between two values at each point, in one piece where all are known. */
static void draw_band(FILE *out, const cli_svg_line *line, const char *colour, const axis *x,
                      const axis *y)
{
    for (size_t i = 0, end; line->low != NULL && line->high != NULL && i < line->count; i = end) {
        for (end = i; end < line->count && isfinite(pixel(x, line->x[end])) &&
                      isfinite(pixel(y, line->low[end])) && isfinite(pixel(y, line->high[end]));)
            end++;
        if (end - i >= 2) {
            fprintf(out, "<path fill=\"%s\" fill-opacity=\"0.22\" d=\"", colour);
            for (size_t k = i; k < end; k++)
                fprintf(out, "%c%.1f %.1f", k == i ? 'M' : 'L', pixel(x, line->x[k]),
                        pixel(y, line->high[k]));
            for (size_t k = end; k-- > i;)
                fprintf(out, "L%.1f %.1f", pixel(x, line->x[k]), pixel(y, line->low[k]));
            fputs("Z\"/>\n", out);
        }
        end += end == i;
    }
}

static void draw_path(FILE *out, const cli_svg_line *line, const axis *x, const axis *y)
{
    bool drawing = false;
    for (size_t i = 0; i < line->count; i++) {
        double px = pixel(x, line->x[i]), py = pixel(y, line->y[i]);
        bool known = isfinite(px) && isfinite(py);
        if (known && drawing && line->stairs)
            fprintf(out, "H%.1fV%.1f", px, py);
        else if (known)
            fprintf(out, "%c%.1f %.1f", drawing ? 'L' : 'M', px, py);
        drawing = known;
    }
}

static void draw_line(FILE *out, const cli_svg_plot *plot, size_t place, const axis *x,
                      const axis *y)
{
    const cli_svg_line *line = &plot->lines[place];
    const char *colour = colour_of(line, place);
    draw_band(out, line, colour, x, y);
    if (!line->no_line) {
        fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s d=\"", colour,
                dashes_of(plot, place));
        draw_path(out, line, x, y);
        fputs("\"/>\n", out);
    }
    for (size_t i = 0; (line->dots || line->no_line) && i < line->count; i++) {
        double px = pixel(x, line->x[i]), py = pixel(y, line->y[i]);
        if (isfinite(px) && isfinite(py))
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px, py, colour);
    }
}

/* Top right, above the lines' picture, with a white ground. */
static void draw_legend(FILE *out, const cli_svg_plot *plot, const axis *x, const axis *y)
{
    double at = y->end + 14, widest = 0;
    size_t named = 0;
    for (size_t l = 0; l < plot->line_count; l++) {
        const char *name = plot->lines[l].name;
        size_t len = 0;
        while (name != NULL && name[len] != '\0')
            len++;
        widest = fmax(widest, 6.6 * (double)len);
        named += name != NULL;
    }
    if (named == 0)
        return;
    double left = x->end - widest - 40;
    fprintf(
        out,
        "<rect class=\"ground\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%zu\" fill=\"#fff\" "
        "fill-opacity=\"0.85\"/>\n",
        left - 4, y->end + 1, widest + 42, named * LEGEND_STEP + 4);
    for (size_t l = 0; l < plot->line_count; l++) {
        const cli_svg_line *line = &plot->lines[l];
        if (line->name == NULL)
            continue;
        fprintf(out, "<path d=\"M%.1f %.1fh22\" stroke=\"%s\" stroke-width=\"3\"%s/>\n", left,
                at - 4, colour_of(line, l), dashes_of(plot, l));
        draw_text(out, left + 28, at, "text-anchor=\"start\"", line->name);
        at += LEGEND_STEP;
    }
}

static void draw_names(FILE *out, const cli_svg_plot *plot, const axis *x, const axis *y)
{
    char turned[96];
    double middle = (y->begin + y->end) / 2, centre = (x->begin + x->end) / 2;
    if (plot->title != NULL)
        draw_text(out, centre, 20, "text-anchor=\"middle\" font-size=\"15\" font-weight=\"bold\"",
                  plot->title);
    if (plot->x_label != NULL)
        draw_text(out, centre, y->begin + 40, "text-anchor=\"middle\"", plot->x_label);
    snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 18 %.1f)\"",
             middle);
    if (plot->y_label != NULL)
        draw_text(out, 18, middle, turned, plot->y_label);
}

void cli_svg_begin(FILE *out, unsigned width, unsigned height, const char *id, const char *title,
                   const char *about)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
            "viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"12\"",
            width, height, width, height);
    if (id != NULL) {
        fprintf(out,
                " role=\"img\" aria-labelledby=\"%s-title %s-about\">\n<title id=\"%s-title\">", id,
                id, id);
        cli_svg_text(out, title != NULL ? title : "");
        fprintf(out, "</title>\n<desc id=\"%s-about\">", id);
        cli_svg_text(out, about != NULL ? about : "");
        fputs("</desc", out);
    }
    fputs(">\n<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", out);
}

void cli_svg_write(FILE *out, const cli_svg_plot *plot)
{
    unsigned width = plot->width > 0 ? plot->width : 720;
    unsigned height = plot->height > 0 ? plot->height : 440;
    axis x = {.log = plot->log_x, .begin = LEFT, .end = (double)width - RIGHT};
    axis y = {.log = plot->log_y, .begin = (double)height - BOTTOM, .end = TOP};
    find_range(plot, &x, &y);
    if (plot->zero_y && !plot->log_y && y.low > 0 && y.low < DBL_MAX)
        y.low = 0;
    finish_axis(&x, 8);
    finish_axis(&y, 6);
    cli_svg_begin(out, width, height, plot->id, plot->title, plot->about);
    draw_axes(out, &x, &y);
    for (size_t l = 0; l < plot->line_count; l++)
        draw_line(out, plot, l, &x, &y);
    draw_legend(out, plot, &x, &y);
    draw_names(out, plot, &x, &y);
    fputs("</svg>\n", out);
}
