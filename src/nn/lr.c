/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules: a linear warm-up times a shape over the whole run. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/spec.h"
#include "nn/optim.h"

enum { STEPS_MAX = 16 };

typedef struct lr_params {
    int64_t warmup;
    double floor, factor, power;
    char at[SHOALI_KEY_TEXT_BYTES];
} lr_params;

struct shoali_lr {
    const struct lr_row *row;
    lr_params params;
    double steps[STEPS_MAX]; /* fractions of the run, ascending */
    uint32_t step_count;
};

typedef struct lr_row {
    const char *name, *about;
    shoali_schema schema;
    double (*shape)(const shoali_lr *lr,
                    double progress); /* progress of the run after warm-up: [0, 1) */
} lr_row;

#define KEY_WARMUP                                                                \
    {                                                                             \
        "warmup", SHOALI_KEY_INT, offsetof(lr_params, warmup), 0, 1e9, NULL, "0", \
            "iterations of linear growth from 0"                                  \
    }

static double constant_shape(const shoali_lr *lr, double progress)
{
    (void)lr;
    (void)progress;
    return 1.0;
}

static double cosine_shape(const shoali_lr *lr, double progress)
{
    double floor = lr->params.floor;
    return floor + (1.0 - floor) * 0.5 * (1.0 + cos(M_PI * progress));
}

static double poly_shape(const shoali_lr *lr, double progress)
{
    double floor = lr->params.floor;
    return floor + (1.0 - floor) * pow(1.0 - progress, lr->params.power);
}

static double step_shape(const shoali_lr *lr, double progress)
{
    double factor = 1.0;
    for (uint32_t i = 0; i < lr->step_count; i++)
        if (progress >= lr->steps[i])
            factor *= lr->params.factor;
    return factor;
}

static const shoali_key constant_keys[] = {KEY_WARMUP};
#define KEY_FLOOR                                                               \
    {                                                                           \
        "floor", SHOALI_KEY_FLOAT, offsetof(lr_params, floor), 0, 1, NULL, "0", \
            "share of the base rate left at the end"                            \
    }
static const shoali_key cosine_keys[] = {KEY_WARMUP, KEY_FLOOR};
static const shoali_key poly_keys[] = {
    KEY_WARMUP,
    KEY_FLOOR,
    {"power", SHOALI_KEY_FLOAT, offsetof(lr_params, power), 0.01, 100, NULL, "1",
     "of what is left of the run; 1: a straight line"},
};
static const shoali_key step_keys[] = {
    KEY_WARMUP,
    {"at", SHOALI_KEY_TEXT, offsetof(lr_params, at), 0, 0, NULL, "0.5/0.75",
     "shares of the run, ascending"},
    {"factor", SHOALI_KEY_FLOAT, offsetof(lr_params, factor), 0, 1, NULL, "0.1",
     "multiplies the rate at each"},
};

static const lr_row rows[] = {
    {"constant", "the base rate", {constant_keys, 1, sizeof(lr_params)}, constant_shape},
    {"cosine",
     "half a cosine down to the floor (Loshchilov and Hutter, ICLR 2017)",
     {cosine_keys, 2, sizeof(lr_params)},
     cosine_shape},
    {"poly",
     "a power of what is left of the run, down to the floor (PyTorch's PolynomialLR)",
     {poly_keys, 3, sizeof(lr_params)},
     poly_shape},
    {"step",
     "times a factor after given shares of the run",
     {step_keys, 3, sizeof(lr_params)},
     step_shape},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

bool shoali_lr_listed(size_t i, shoali_listed *out)
{
    if (i < ROW_COUNT)
        *out = (shoali_listed){rows[i].name, rows[i].about, &rows[i].schema};
    return i < ROW_COUNT;
}

static shoal_status parse_steps(const char *spec, shoali_lr *lr)
{
    double last = 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C",
                                  (locale_t)0); /* glibc hands out a constant: nothing to free */
    for (const char *at = lr->params.at; *at != '\0'; at += *at == '/') {
        char *end;
        double share = strtod_l(at, &end, c_locale);
        if (end == at || (*end != '/' && *end != '\0') || !(share >= last && share <= 1) ||
            lr->step_count == STEPS_MAX)
            return shoali_fail(
                SHOAL_EINVAL,
                "schedule '%s': key 'at' must be at most %d ascending shares like 0.5/0.75", spec,
                STEPS_MAX);
        lr->steps[lr->step_count++] = last = share;
        at = end;
    }
    return SHOAL_OK;
}

static shoal_status find_row(const char *spec, const lr_row **row_out)
{
    const char *names[ROW_COUNT];
    size_t found;
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i].name;
    SHOALI_TRY(shoali_spec_find("schedule", spec, names, ROW_COUNT, &found));
    *row_out = &rows[found];
    return SHOAL_OK;
}

shoal_status shoali_lr_create(const char *spec, shoali_lr **lr_out)
{
    const lr_row *row;
    SHOALI_TRY(find_row(spec, &row));
    shoali_lr *lr = shoali_alloc(sizeof *lr);
    if (lr == NULL)
        return SHOAL_ENOMEM;
    lr->row = row;
    shoal_status status = shoali_spec_parse("schedule", spec, &row->schema, &lr->params);
    if (status == SHOAL_OK)
        status = parse_steps(spec, lr);
    if (status != SHOAL_OK)
        shoali_free(lr);
    else
        *lr_out = lr;
    return status;
}

void shoali_lr_destroy(shoali_lr *lr)
{
    shoali_free(lr);
}

double shoali_lr_at(const shoali_lr *lr, double base, uint64_t iteration, uint64_t total)
{
    uint64_t warmup = (uint64_t)lr->params.warmup;
    if (iteration < warmup)
        return base * (double)(iteration + 1) / (double)(warmup + 1);
    double left = total > warmup ? (double)(total - warmup) : 1.0;
    double progress = (double)(iteration - warmup) / left;
    return base * lr->row->shape(lr, progress < 1.0 ? progress : 1.0);
}
