/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as people write them: "2 b0 + b1 <= 300", "b0 >= b1", "sum == 1000", "cost <= 1e7",
 * "time <= 2e8". Both sides are sums; they become one linear row, left minus right. */
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

#undef shoali_limits_contradict

/* coef . b + constant + time_factor * time */
typedef struct side {
    double coef[SHOALI_CONVEX_DIMS], constant, time_factor;
} side;

typedef struct reader {
    const shoal_network *network;
    const char *text, *at;
} reader;

static void skip_space(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static shoal_status refuse(const reader *r, const char *what)
{
    (void)shoali_fail(SHOAL_EINVAL, "limit '%.64s': %s at '%.16s'", r->text, what, r->at);
    shoali_error_advice(
        "Limits are like \"sum == 500\", \"b0 >= b1\", \"b2 + b3 == 200\", \"cost <= "
        "1e7\", \"time <= 2e8\".");
    return SHOAL_EINVAL;
}

static bool read_number(reader *r, double *out)
{
    char *end = NULL;
    if (!isdigit((unsigned char)*r->at) && *r->at != '.')
        return false;
    double value = strtod_l(r->at, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    if (end == r->at || !(value < 1e18))
        return false;
    r->at = end;
    *out = value;
    return true;
}

static bool take(reader *r, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(r->at, word, len) != 0 || isalnum((unsigned char)r->at[len]))
        return false;
    r->at += len;
    return true;
}

/* A name times factor, added to the side. */
static shoal_status read_name(reader *r, double factor, side *out)
{
    char name[16];
    for (uint32_t d = 0; d < r->network->dims; d++) {
        snprintf(name, sizeof name, "b%u", d);
        if (take(r, name)) {
            out->coef[d] += factor;
            return SHOAL_OK;
        }
    }
    bool cost = take(r, "cost");
    if (cost && !r->network->has_cost)
        return refuse(r, "no costs were given");
    if (take(r, "time")) {
        out->time_factor += factor;
        return SHOAL_OK;
    }
    if (!cost && !take(r, "sum"))
        return refuse(r, "expected a number, b0, b1 .., sum, cost or time");
    for (uint32_t d = 0; d < r->network->dims; d++)
        out->coef[d] += factor * (cost ? r->network->npus * r->network->unit_cost[d] : 1);
    out->constant += cost ? factor * r->network->fixed_cost : 0;
    return SHOAL_OK;
}

static shoal_status read_side(reader *r, side *out)
{
    double sign = 1, number;
    *out = (side){.constant = 0};
    for (bool first = true;; first = false) {
        skip_space(r);
        if (*r->at == '+' || *r->at == '-') {
            sign = *r->at++ == '-' ? -1 : 1;
            skip_space(r);
        } else if (!first) {
            return SHOAL_OK;
        }
        bool numbered = read_number(r, &number);
        double factor = sign * (numbered ? number : 1);
        skip_space(r);
        if (numbered && *r->at == '*') {
            r->at++;
            skip_space(r);
        }
        if (numbered && !isalpha((unsigned char)*r->at))
            out->constant += factor;
        else
            SHOALI_TRY(read_name(r, factor, out));
        sign = 1;
    }
}

/* '<', '>' or '='; 0: none of them. */
static char read_relation(reader *r)
{
    char found = *r->at;
    if (found != '<' && found != '>' && found != '=')
        return 0;
    r->at += r->at[1] == '=' ? 2 : 1;
    return found;
}

static shoal_status take_time(const reader *r, const side *row, char relation, shoali_limits *out)
{
    double limit = -row->constant / row->time_factor;
    bool upper = relation != '=' && (relation == '<') == (row->time_factor > 0);
    for (uint32_t d = 0; d < r->network->dims; d++)
        upper = upper && row->coef[d] == 0;
    if (!upper || !(limit > 0))
        return refuse(r, "time can only be limited from above, by a number");
    if (limit < out->time_limit) {
        out->time_limit = limit;
        out->time_text = r->text;
    }
    return SHOAL_OK;
}

static shoal_status read_limit(reader *r, shoali_limits *out)
{
    side left, right;
    SHOALI_TRY(read_side(r, &left));
    char relation = read_relation(r);
    if (relation == 0)
        return refuse(r, "expected <=, >= or ==");
    SHOALI_TRY(read_side(r, &right));
    if (*r->at != '\0')
        return refuse(r, "something is left over");
    double flip = relation == '>' ? -1 : 1;
    shoali_linear_row row = {.equal = relation == '='};
    bool empty = true;
    for (uint32_t d = 0; d < r->network->dims; d++) {
        left.coef[d] -= right.coef[d];
        row.coef[d] = flip * left.coef[d];
        empty = empty && row.coef[d] == 0;
    }
    left.constant -= right.constant;
    left.time_factor -= right.time_factor;
    row.bound = -flip * left.constant;
    if (left.time_factor != 0)
        return take_time(r, &left, relation, out);
    if (empty)
        return refuse(r, "limits nothing");
    out->text[out->count] = r->text;
    out->rows[out->count++] = row;
    return SHOAL_OK;
}

shoal_status shoali_limits_parse(const shoal_network *network,
                                 const shoal_network_question *question, shoali_limits *out)
{
    *out = (shoali_limits){.time_limit = INFINITY};
    /* room for what the solver adds: a budget, and the distance of shoali_linear_inside */
    if (question->limit_count > SHOALI_LINEAR_ROWS - 4)
        return shoali_fail(SHOAL_EINVAL, "%u limits; at most %d", question->limit_count,
                           SHOALI_LINEAR_ROWS - 4);
    for (uint32_t i = 0; i < question->limit_count; i++) {
        reader r = {network, question->limits[i], question->limits[i]};
        SHOALI_TRY(read_limit(&r, out));
    }
    return SHOAL_OK;
}

void shoali_limits_name(const shoali_limits *limits, const double *price, char *list, size_t size)
{
    double largest = 0;
    list[0] = '\0';
    for (uint32_t r = 0; r < limits->count; r++)
        largest = fmax(largest, fabs(price[r]));
    for (uint32_t r = 0; r < limits->count; r++) {
        size_t used = strlen(list);
        if (fabs(price[r]) > 1e-9 * largest)
            snprintf(list + used, size - used, "%s'%.64s'", used > 0 ? " and " : "",
                     limits->text[r]);
    }
}

shoal_status shoali_limits_contradict(const shoali_limits *limits, const double *price)
{
    char list[400];
    shoali_limits_name(limits, price, list, sizeof list);
    (void)shoali_fail(SHOAL_EINVAL, "no network meets %s%s", list,
                      strstr(list, " and ") != NULL ? " at once" : "");
    shoali_error_advice("Loosen or drop one of them; bandwidths are never negative.");
    return SHOAL_EINVAL;
}
