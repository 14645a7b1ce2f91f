/* SPDX-License-Identifier: Apache-2.0 */
#include "report_table.h"
#include "markup.h"

#include <inttypes.h>
#include <math.h>

const char *report_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double report_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

void report_table_begin(FILE *out, const char *caption)
{
    fputs("<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"", out);
    cli_markup(out, caption);
    fputs("\"><table>\n<caption>", out);
    cli_markup(out, caption);
    fputs("</caption>\n", out);
}

void report_table_end(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

void report_head(FILE *out, const char *text)
{
    fputs("<th scope=\"col\">", out);
    cli_markup(out, text);
    fputs("</th>", out);
}

static void put_value(FILE *out, const json_t *value, const report_column *column)
{
    char text[64];
    const double scale = column->scale > 0 ? column->scale : 1;
    if (json_is_string(value)) {
        cli_markup(out, json_string_value(value));
        return;
    }
    if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "yes" : "no", out);
        return;
    }
    if (json_is_integer(value) && column->format == NULL)
        snprintf(text, sizeof text, "%" PRId64, (int64_t)json_integer_value(value));
    else if (json_is_number(value))
        snprintf(text, sizeof text, column->format != NULL ? column->format : "%.6g",
                 json_number_value(value) * scale);
    else
        snprintf(text, sizeof text, "-");
    fputs(text, out);
}

void report_cell(FILE *out, const json_t *value, const report_column *column, bool heads_row)
{
    fputs(heads_row               ? "<th scope=\"row\">"
          : json_is_string(value) ? "<td class=\"text\">"
                                  : "<td>",
          out);
    put_value(out, value, column);
    fputs(heads_row ? "</th>" : "</td>", out);
}

void report_table(FILE *out, const char *caption, const report_column *columns, size_t count,
                  const json_t *list)
{
    size_t i;
    const json_t *row;
    const size_t rows = json_array_size(list);
    report_table_begin(out, caption);
    fputs("<thead><tr>", out);
    for (size_t c = 0; c < count; c++)
        report_head(out, columns[c].head);
    fputs("</tr></thead>\n<tbody>\n", out);
    json_array_foreach(list, i, row)
    {
        if (i == REPORT_ROWS_MOST)
            break;
        fputs("<tr>", out);
        for (size_t c = 0; c < count; c++)
            report_cell(out, json_object_get(row, columns[c].key), &columns[c], c == 0);
        fputs("</tr>\n", out);
    }
    report_table_end(out);
    if (rows > REPORT_ROWS_MOST)
        fprintf(out, "<p>%zu more rows are in what <code>shoal report --json</code> prints.</p>\n",
                rows - REPORT_ROWS_MOST);
}

void report_folded(FILE *out, const char *caption, const report_column *columns, size_t count,
                   const json_t *list)
{
    fputs("<details><summary>Table: ", out);
    cli_markup(out, caption);
    fputs("</summary>\n", out);
    report_table(out, caption, columns, count, list);
    fputs("</details>\n", out);
}
