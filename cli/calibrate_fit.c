/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate_fit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "cli.h"
#include "predict_args.h"

enum { COLUMNS = 32, ROWS = 1000, LINE = 2048 };

typedef struct table {
    char *names[COLUMNS];
    size_t columns, rows;
    char header[LINE], line[LINE];
    shoal_causes causes[ROWS];
    double seconds[ROWS];
} table;

/* Cut a line at its commas, in place. */
static size_t split(char *line, char **cells)
{
    size_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; count < COLUMNS; at++) {
        cells[count++] = at;
        at += strcspn(at, ",");
        if (*at == '\0')
            break;
        *at = '\0';
    }
    return count;
}

static int bad(const char *csv, size_t line, const char *what)
{
    (void)cli_fail("calibrate", "%s:%zu: %s", csv, line, what);
    return CLI_FAILED;
}

static int read_row(table *t, const char *csv, const char *cluster)
{
    char *cells[COLUMNS], *end = NULL;
    shoal_predict_desc desc = SHOAL_PREDICT_DESC_INIT;
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    size_t number = t->rows + 2;
    desc.cluster = cluster;
    if (t->rows == ROWS)
        return bad(csv, number, "more than 1000 rows");
    if (split(t->line, cells) != t->columns)
        return bad(csv, number, "not as many cells as the first line");
    for (size_t i = 0; i < t->columns; i++) {
        if (strcmp(t->names[i], "seconds") == 0)
            t->seconds[t->rows] = strtod(cells[i], &end);
        else if (cells[i][0] != '\0' && !predict_set(&desc, t->names[i], cells[i]))
            return bad(csv, number, t->names[i]);
    }
    if (end == NULL || *end != '\0')
        return bad(csv, number, "column seconds is missing or no number");
    if (desc.model == NULL)
        return bad(csv, number, "column model is missing");
    if (shoal_predict(&desc, &p) != SHOAL_OK)
        return cli_report("calibrate");
    t->causes[t->rows++] = p.causes;
    return CLI_OK;
}

static int read_table(table *t, FILE *file, const char *csv, const char *cluster)
{
    if (fgets(t->header, LINE, file) == NULL)
        return bad(csv, 1, "empty");
    t->columns = split(t->header, t->names);
    while (fgets(t->line, LINE, file) != NULL) {
        if (t->line[strspn(t->line, " \r\n")] == '\0' || t->line[0] == '#')
            continue;
        int code = read_row(t, csv, cluster);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int finish(const table *t, const char *cluster, const char *out, bool json)
{
    shoal_causes f;
    double mean = 0, worst = 0, square = 0;
    if (shoal_calibrate_fit(t->causes, t->seconds, t->rows, &f) != SHOAL_OK)
        return cli_report("calibrate");
    for (size_t i = 0; i < t->rows; i++) {
        const shoal_causes *c = &t->causes[i];
        double got = f.matrix * c->matrix + f.memory * (c->vector + c->memory) +
                     f.network * c->network + c->fixed;
        double error = fabs(got / t->seconds[i] - 1);
        mean += error / (double)t->rows;
        square += error * error / (double)t->rows;
        worst = fmax(worst, error);
    }
    if (shoal_calibrate_apply(cluster, &f, fmin(1, sqrt(square)), out) != SHOAL_OK)
        return cli_report("calibrate");
    if (!json) {
        printf("%zu rows: times x %.4f (matrix products), x %.4f (memory, vectors), x %.4f "
               "(network); left: mean error %.4f, worst %.4f; %s\n",
               t->rows, f.matrix, f.memory, f.network, mean, worst, out);
        return CLI_OK;
    }
    json_t *answer = json_object();
    answer_set_count(answer, "rows", t->rows);
    answer_set_number(answer, "matrix", f.matrix);
    answer_set_number(answer, "memory", f.memory);
    answer_set_number(answer, "network", f.network);
    answer_set_number(answer, "mean_error", mean);
    answer_set_number(answer, "worst_error", worst);
    answer_set_text(answer, "out", out);
    return answer_print("calibrate", answer);
}

int calibrate_fit(const char *csv, const char *cluster, const char *out, bool json)
{
    if (cluster == NULL)
        return cli_usage("calibrate", "which cluster shall be fitted? --cluster FILE");
    FILE *file = cli_open(csv);
    table *t = calloc(1, sizeof *t);
    int code = CLI_FAILED;
    if (file == NULL || t == NULL)
        (void)cli_fail("calibrate", "cannot open --fit %s: %s", csv, strerror(errno));
    else
        code = read_table(t, file, csv, cluster);
    if (code == CLI_OK)
        code = finish(t, cluster, out, json);
    if (file != NULL)
        fclose(file);
    free(t);
    return code;
}
