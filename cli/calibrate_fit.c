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

enum { COLUMNS = 32, ROWS = 1000, LINE = 2048, HOLD_FROM = 8 };

typedef struct table {
    char *names[COLUMNS];
    size_t columns, rows;
    char header[LINE], line[LINE];
    char *texts[ROWS]; /* what the descriptions point into */
    shoal_predict_desc row[ROWS];
    double seconds[ROWS];
    bool held[ROWS];
} table;

/* Cut a line at its commas, in place. */
static size_t split(char *line, char **cells)
{
    size_t count = 0;
    static char none[] = "";
    line[strcspn(line, "\r\n")] = '\0';
    for (size_t i = 0; i < COLUMNS; i++)
        cells[i] = none;
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

static int read_cells(table *t, const fit_args *args, size_t number, char **cells)
{
    shoal_predict_desc *desc = &t->row[t->rows];
    char *end = NULL;
    for (size_t i = 0; i < t->columns; i++) {
        if (strcmp(t->names[i], "seconds") == 0)
            t->seconds[t->rows] = strtod(cells[i], &end);
        else if (strcmp(t->names[i], "cluster") == 0)
            return bad(args->csv, 1, "a column cluster: one is fitted, that of --cluster");
        else if (cells[i][0] != '\0' && !predict_set(desc, t->names[i], cells[i]))
            return bad(args->csv, number, t->names[i]);
    }
    if (end == NULL || *end != '\0')
        return bad(args->csv, number, "column seconds is missing or no number");
    if (desc->model == NULL && desc->plan == NULL)
        return bad(args->csv, number, "column model is missing");
    return CLI_OK;
}

/* Also whether it can be predicted: here its line is known. */
static int read_row(table *t, const fit_args *args, size_t number)
{
    char *cells[COLUMNS];
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    if (t->rows == ROWS)
        return bad(args->csv, number, "more than 1000 rows");
    char *text = t->texts[t->rows] = strdup(t->line);
    t->row[t->rows] = (shoal_predict_desc)SHOAL_PREDICT_DESC_INIT;
    t->row[t->rows].cluster = args->cluster;
    if (text == NULL)
        return bad(args->csv, number, "out of memory");
    if (split(text, cells) != t->columns)
        return bad(args->csv, number, "not as many cells as the first line");
    int code = read_cells(t, args, number, cells);
    if (code != CLI_OK)
        return code;
    shoal_status status = shoal_predict(&t->row[t->rows++], &p);
    if (status == SHOAL_OK)
        return CLI_OK;
    if (status != SHOAL_EINVAL && status != SHOAL_ENOTSUP)
        return cli_report("calibrate");
    return bad(args->csv, number, shoal_last_error()->text);
}

static int read_table(table *t, FILE *file, const fit_args *args)
{
    if (fgets(t->header, LINE, file) == NULL)
        return bad(args->csv, 1, "empty");
    t->columns = split(t->header, t->names);
    for (size_t number = 2; fgets(t->line, LINE, file) != NULL; number++) {
        if (t->line[strspn(t->line, " \r\n")] == '\0' || t->line[0] == '#')
            continue;
        int code = read_row(t, args, number);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* ------------------------------------------------------------------ what was found */

static const struct {
    const char *key, *what, *where;
} factors[] = {
    {"matrix", "matrix products", "\"flops\""},
    {"memory", "memory and vectors", "\"memory_rate\" and \"vector_flops\""},
    {"inside", "links inside hosts", "the rates of the inner dimensions, or \"inside\""},
    {"network", "links between hosts", "the rates of the last dimension, or \"nic\""},
};
enum { FACTORS = sizeof factors / sizeof *factors };

static const double *values_of(const shoal_fit *fit, double *out)
{
    const shoal_fit_factors *f = &fit->factors;
    const double values[FACTORS] = {f->matrix, f->memory, f->inside, f->network};
    memcpy(out, values, sizeof values);
    return out;
}

static void print_text(const fit_args *args, const shoal_fit *fit)
{
    double value[FACTORS];
    (void)values_of(fit, value);
    printf("%s: fitted to %u rows; mean error %.2f %%, worst %.2f %%\n", args->out, fit->fitted,
           100 * fit->mean_error, 100 * fit->worst_error);
    if (fit->held > 0)
        printf("held out (--seed %llu): %u rows; mean error %.2f %%, worst %.2f %%\n",
               (unsigned long long)args->seed, fit->held, 100 * fit->held_mean_error,
               100 * fit->held_worst_error);
    else
        printf("no row was held out: on rows that were not fitted the error is larger "
               "(--hold SHARE)\n");
    for (int i = 0; i < FACTORS; i++) {
        printf("  %-20s times x %.4f", factors[i].what, value[i]);
        if (fit->at_bound[i])
            printf(": the rows ask for more than the data sheet has; held at its rate, look at %s "
                   "in %s\n",
                   factors[i].where, args->cluster);
        else
            printf("%s\n", fit->not_seen[i]
                               ? ": no row, or one of many alone, depends on it; left as it was"
                               : "");
    }
}

static int print_json(const table *t, const fit_args *args, const shoal_fit *fit)
{
    double value[FACTORS];
    json_t *answer = json_object(), *bound = json_array(), *unseen = json_array();
    json_t *held = json_array();
    (void)values_of(fit, value);
    answer_set_count(answer, "rows", t->rows);
    answer_set_count(answer, "fitted", fit->fitted);
    for (int i = 0; i < FACTORS; i++) {
        answer_set_number(answer, factors[i].key, value[i]);
        if (fit->at_bound[i])
            json_array_append_new(bound, json_string(factors[i].key));
        if (fit->not_seen[i])
            json_array_append_new(unseen, json_string(factors[i].key));
    }
    answer_set(answer, "at_bound", bound);
    answer_set(answer, "not_seen", unseen);
    answer_set_number(answer, "mean_error", fit->mean_error);
    answer_set_number(answer, "worst_error", fit->worst_error);
    for (size_t i = 0; i < t->rows; i++)
        if (t->held[i])
            json_array_append_new(held, json_integer((json_int_t)i));
    answer_set(answer, "held", held);
    answer_set_count(answer, "seed", args->seed);
    answer_set_number(answer, "held_mean_error", fit->held > 0 ? fit->held_mean_error : NAN);
    answer_set_number(answer, "held_worst_error", fit->held > 0 ? fit->held_worst_error : NAN);
    answer_set_text(answer, "out", args->out);
    return answer_print("calibrate", answer);
}

/* Of rows of which none tells the others' causes apart: that of the fitted ones, two deviations of
 * which are the interval. */
static shoal_status spread_of(const shoal_fit_desc *desc, const shoal_fit *fit, double *out)
{
    const shoal_status status = shoal_calibrate_spread(desc, out);
    if (status == SHOAL_OK && isnan(*out))
        *out = fit->rms_error;
    return status;
}

static int finish(table *t, const fit_args *args)
{
    shoal_fit_desc desc = SHOAL_FIT_DESC_INIT;
    shoal_fit fit = SHOAL_FIT_INIT;
    desc.cluster = args->cluster;
    desc.rows = t->row;
    desc.seconds = t->seconds;
    desc.count = t->rows;
    desc.seed = args->seed;
    desc.hold = args->hold >= 0 ? args->hold : t->rows >= HOLD_FROM ? 0.25 : 0;
    if (shoal_calibrate_fit(&desc, &fit, t->held) != SHOAL_OK)
        return cli_report("calibrate");
    double spread = 0;
    if (spread_of(&desc, &fit, &spread) != SHOAL_OK)
        return cli_report("calibrate");
    if (shoal_calibrate_apply(args->cluster, &fit.factors, fmin(1, spread), args->out) != SHOAL_OK)
        return cli_report("calibrate");
    if (args->json)
        return print_json(t, args, &fit);
    print_text(args, &fit);
    return CLI_OK;
}

int calibrate_fit(const fit_args *args)
{
    if (args->cluster == NULL)
        return cli_usage("calibrate", "which cluster shall be fitted? --cluster FILE");
    FILE *file = cli_open(args->csv);
    table *t = calloc(1, sizeof *t);
    int code = CLI_FAILED;
    if (file == NULL || t == NULL)
        (void)cli_fail("calibrate", "cannot open --fit %s: %s", args->csv, strerror(errno));
    else
        code = read_table(t, file, args);
    if (code == CLI_OK)
        code = finish(t, args);
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; t != NULL && i < ROWS; i++)
        free(t->texts[i]);
    free(t);
    return code;
}
