/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_page.h"

#include <math.h>
#include <string.h>

#include "cli.h"

enum { LABEL_MOST = 128 };

void metrics_begin(metrics_page *page, const metrics_family *f)
{
    const bool counter = strcmp(f->type, "counter") == 0, info = strcmp(f->type, "info") == 0;
    char family[sizeof page->sample];
    snprintf(page->sample, sizeof page->sample, "%s%s%s", page->prefix, f->name,
             counter ? "_total"
             : info  ? "_info"
                     : "");
    snprintf(family, sizeof family, "%s%s", page->prefix, f->name);
    const char *name = page->open_metrics ? family : page->sample; /* the older one has no infos */
    fprintf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, f->help, name,
            info && !page->open_metrics ? "gauge" : f->type);
    if (page->open_metrics && f->unit[0] != '\0')
        fprintf(page->out, "# UNIT %s %s\n", name, f->unit);
}

/* Backslash, quote and line break are escaped; what else is no text becomes '?'. */
static void label_value(FILE *out, const char *text)
{
    char shown[LABEL_MOST + 1];
    snprintf(shown, sizeof shown, "%s", text);
    cli_make_printable(shown);
    for (const char *at = shown; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', out);
        fputc(*at, out);
    }
}

static void number(FILE *out, double value)
{
    if (isnan(value))
        fputs(" NaN\n", out);
    else if (isinf(value))
        fputs(value > 0 ? " +Inf\n" : " -Inf\n", out);
    else
        fprintf(out, " %.17g\n", value);
}

void metrics_sample(const metrics_page *page, const metrics_label *labels, size_t count,
                    double value)
{
    fputs(page->sample, page->out);
    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        label_value(page->out, labels[i].value);
        fputc('"', page->out);
    }
    if (count > 0)
        fputc('}', page->out);
    number(page->out, value);
}

void metrics_one(metrics_page *page, const metrics_family *family, double value)
{
    metrics_begin(page, family);
    metrics_sample(page, NULL, 0, value);
}

void metrics_end(const metrics_page *page)
{
    if (page->open_metrics)
        fputs("# EOF\n", page->out);
}
