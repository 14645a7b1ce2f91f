/* SPDX-License-Identifier: Apache-2.0 */
/* Shortest time, least cost, and the public way to ask. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

enum { DIMS = SHOALI_CONVEX_DIMS, GROW_MAX = 60 };

static shoal_status run(shoali_search *search, const shoali_convex *problem, shoali_optimum *out)
{
    SHOALI_TRY(shoali_convex_solve(problem, search->scratch, out));
    search->solves++;
    search->steps += out->steps;
    return SHOAL_OK;
}

static shoali_convex problem_of(const shoali_search *search)
{
    shoali_convex problem = {.times = search->times,
                             .rows = search->rows,
                             .row_count = search->row_count,
                             .time_limit = INFINITY,
                             .start = search->start};
    memcpy(problem.upper, search->upper, sizeof problem.upper);
    return problem;
}

shoal_status shoali_search_time(shoali_search *search, shoali_optimum *out)
{
    shoali_convex problem = problem_of(search);
    problem.time_weight = 1;
    return run(search, &problem, out);
}

static shoal_status too_slow(const shoali_search *search, double best_ns)
{
    (void)shoali_fail(
        SHOAL_EINVAL,
        "no network meets '%.64s': the fastest that the other limits allow takes %.6g ns",
        search->limits->time_text, best_ns);
    shoali_error_advice("Computation alone takes %.6g ns.", search->times->constant);
    return SHOAL_EINVAL;
}

/* From the fastest network a part of the way back inside, while there is time. */
static bool back_inside(const shoali_search *search, const double *inside, const double *fastest,
                        double limit, double *b)
{
    double share = 1, best = shoali_times_at(search->times, fastest);
    for (uint32_t k = 0; k < 30; k++) {
        share /= 2;
        for (uint32_t d = 0; d < search->network->dims; d++)
            b[d] = fastest[d] + share * (inside[d] - fastest[d]);
        double time = shoali_times_at(search->times, b);
        if (time < limit && limit - time >= 0.25 * (limit - best))
            return true;
    }
    return false;
}

/* The fastest network of at most this much bandwidth; wide: where it was searched. false: there is
 * no room for so little. */
static shoal_status fastest_within(shoali_search *search, double total, shoali_search *wide,
                                   shoali_optimum *fast, bool *found_out)
{
    double price[SHOALI_LINEAR_ROWS];
    shoali_linear_row *row = &wide->rows[search->row_count];
    *wide = *search;
    *row = (shoali_linear_row){.bound = total};
    for (uint32_t d = 0; d < search->network->dims; d++)
        row->coef[d] = 1;
    wide->row_count++;
    *found_out = shoali_linear_inside(wide->rows, &wide->row_count, search->network->dims,
                                      search->weight, wide->start, price) == SHOALI_LINEAR_OPTIMAL;
    if (!*found_out)
        return SHOAL_OK;
    SHOALI_TRY(shoali_search_time(wide, fast));
    search->solves = wide->solves;
    search->steps = wide->steps;
    return SHOAL_OK;
}

/* A network within the rows that is faster than the limit; with ever more bandwidth, as far as the
 * rows allow it. */
static shoal_status find_fast(shoali_search *search, double limit, double *b)
{
    double total = 0, best = INFINITY;
    for (uint32_t d = 0; d < search->network->dims; d++)
        total += 2 * search->start[d];
    for (uint32_t k = 0; k < GROW_MAX; k++) {
        shoali_search wide;
        shoali_optimum fast;
        bool found;
        SHOALI_TRY(fastest_within(search, total, &wide, &fast, &found));
        if (found && fast.time < limit && back_inside(search, wide.start, fast.b, limit, b))
            return SHOAL_OK;
        /* more bandwidth does not help any more */
        if (found && fast.time > best * (1 - 1e-12))
            break;
        best = found ? fast.time : best;
        total *= 4;
    }
    return too_slow(search, best);
}

shoal_status shoali_search_cost(shoali_search *search, shoali_optimum *out)
{
    const shoal_network *net = search->network;
    double b[SHOALI_LINEAR_VARS];
    SHOALI_TRY(find_fast(search, search->limits->time_limit, b));
    shoali_convex problem = problem_of(search);
    problem.start = b;
    problem.time_limit = search->limits->time_limit;
    for (uint32_t d = 0; d < net->dims; d++)
        problem.price[d] = net->npus * net->unit_cost[d];
    return run(search, &problem, out);
}

/* ---------------------------------------------------------------- asking */

/* The most that the rows allow for one dimension (or, with sign -1, the least). */
static double extreme(const shoali_linear_row *rows, uint32_t count, uint32_t dims, uint32_t d,
                      double sign)
{
    shoali_linear_answer answer;
    double gain[SHOALI_LINEAR_VARS] = {0};
    gain[d] = sign;
    shoali_linear_solve(gain, dims, rows, count, &answer);
    return answer.end == SHOALI_LINEAR_OPTIMAL ? answer.x[d] : INFINITY;
}

static bool has_traffic(const shoali_times *times, uint32_t d)
{
    for (uint32_t r = 0; r < times->piece_count; r++) {
        if (times->pieces[r].dim == d && times->pieces[r].amount > 0)
            return true;
    }
    return false;
}

/* Dimensions are measured by their traffic: a start that is fair to all of them is near every
 * optimum, whatever the dimensions' sizes. */
static void weigh(shoali_search *search)
{
    double most = 0;
    for (uint32_t d = 0; d < search->network->dims; d++)
        most = fmax(most, search->network->traffic[d]);
    for (uint32_t d = 0; d < search->network->dims; d++)
        search->weight[d] = most > 0 ? fmax(search->network->traffic[d] / most, 1e-6) : 1;
}

/* Which limits force a dimension to nothing: those with a multiplier at its maximum. */
static shoal_status no_bandwidth(const shoali_search *search, uint32_t d)
{
    char list[400];
    double gain[SHOALI_LINEAR_VARS] = {0};
    shoali_linear_answer answer;
    gain[d] = 1;
    shoali_linear_solve(gain, search->network->dims, search->limits->rows, search->limits->count,
                        &answer);
    shoali_limits_name(search->limits, answer.price, list, sizeof list);
    (void)shoali_fail(SHOAL_EINVAL,
                      "no network meets %s: dimension %u is left without bandwidth, but %.4g bytes "
                      "must pass it in each step",
                      list, d, search->network->traffic[d]);
    shoali_error_advice("Loosen the limits; leave an unused dimension out of the network.");
    return SHOAL_EINVAL;
}

/* An inside point, and what ends each dimension. */
static shoal_status prepare(shoali_search *search, shoal_network_objective objective)
{
    const shoal_network *net = search->network;
    const shoali_limits *limits = search->limits;
    double price[SHOALI_LINEAR_ROWS];
    bool upper_needed = objective == SHOAL_NETWORK_PERF;
    weigh(search);
    memcpy(search->rows, limits->rows, sizeof search->rows);
    search->row_count = limits->count;
    if (shoali_linear_inside(search->rows, &search->row_count, net->dims, search->weight,
                             search->start, price) != SHOALI_LINEAR_OPTIMAL)
        return shoali_limits_contradict(limits, price);
    for (uint32_t d = 0; d < net->dims; d++) {
        search->upper[d] = extreme(limits->rows, limits->count, net->dims, d, 1);
        bool used = has_traffic(search->times, d);
        if (used && upper_needed && search->upper[d] == INFINITY)
            return shoali_fail(
                SHOAL_EINVAL,
                "nothing ends the bandwidth of dimension %u, so time has no minimum; "
                "add 'sum == ..', 'cost <= ..' or 'b%u <= ..'",
                d, d);
        if (!(search->upper[d] > 0))
            return no_bandwidth(search, d);
    }
    return SHOAL_OK;
}

/* How far each bandwidth may move while no term takes longer than in the answer. */
static void spread(const shoali_search *search, shoal_network_answer *answer)
{
    const shoali_times *times = search->times;
    uint32_t dims = search->network->dims, count = search->limits->count;
    shoali_linear_row rows[SHOALI_LINEAR_ROWS + SHOALI_CONVEX_DIMS];
    double least[DIMS] = {0};
    for (uint32_t j = 0; j < times->term_count; j++) {
        const shoali_piece *piece = times->pieces + times->terms[j].first;
        double longest = 0;
        for (uint32_t r = 0; r < times->terms[j].count; r++)
            longest = fmax(longest,
                           piece[r].add + (piece[r].amount > 0
                                               ? piece[r].amount / answer->bandwidth[piece[r].dim]
                                               : 0));
        for (uint32_t r = 0; r < times->terms[j].count; r++)
            least[piece[r].dim] = fmax(least[piece[r].dim],
                                       piece[r].amount / (longest - piece[r].add));
    }
    memcpy(rows, search->limits->rows, count * sizeof *rows);
    for (uint32_t d = 0; d < dims && count < SHOALI_LINEAR_ROWS; d++) {
        if (least[d] <= 0)
            continue;
        rows[count] = (shoali_linear_row){.bound = -least[d] * (1 - 1e-11)};
        rows[count++].coef[d] = -1;
    }
    for (uint32_t d = 0; d < dims; d++) {
        double low = extreme(rows, count, dims, d, -1), high = extreme(rows, count, dims, d, 1);
        bool moves = !(fabs(high - low) <= 1e-6 * fmax(high, 1e-300));
        bool sound = low <= answer->bandwidth[d] * (1 + 1e-6) &&
                     high >= answer->bandwidth[d] * (1 - 1e-6) && low != INFINITY;
        answer->low[d] = moves && sound ? low : answer->bandwidth[d];
        answer->high[d] = moves && sound ? high : answer->bandwidth[d];
    }
}

static double utilisation(const shoal_network *net, const double *bandwidth)
{
    double sent = 0, waited = 0, total = 0;
    for (uint32_t d = 0; d < net->dims; d++)
        total += bandwidth[d];
    for (uint32_t i = 0; i < net->job_count; i++) {
        for (uint32_t c = 0; c < shoal_network_collectives(net, i); c++) {
            shoal_network_collective one = {.size = sizeof one};
            double longest = 0;
            if (shoal_network_at(net, i, c, &one) != SHOAL_OK)
                break;
            for (uint32_t d = 0; d < net->dims; d++) {
                sent += net->jobs[i].weight * one.volume[d];
                longest = fmax(longest, one.volume[d] > 0 ? one.volume[d] / bandwidth[d] : 0);
            }
            waited += net->jobs[i].weight * longest;
        }
    }
    return waited > 0 ? sent / (waited * total) : 0;
}

/* LIBRA scales time * cost by 1e10; so do the published tables. */
#define PRODUCT_SCALE 1e-10

static void finish(const shoali_search *search, const shoal_network_question *question,
                   const shoali_optimum *best, shoal_network_answer *answer)
{
    const shoal_network *net = search->network;
    double scale = question->objective == SHOAL_NETWORK_PERF_PER_COST ? PRODUCT_SCALE : 1;
    double fixed = question->objective == SHOAL_NETWORK_COST ? net->fixed_cost : 0;
    double equal[DIMS], total = 0, pressure = 0;
    for (uint32_t d = 0; d < net->dims; d++) {
        answer->bandwidth[d] = answer->low[d] = answer->high[d] = best->b[d];
        total += best->b[d];
        pressure += best->pressure[d] > 0 ? best->pressure[d] / best->b[d] : 0;
    }
    for (uint32_t d = 0; d < net->dims; d++) {
        equal[d] = total / net->dims;
        answer->price[d] = pressure > 0 && best->pressure[d] > 0
                               ? best->pressure[d] / best->b[d] / pressure
                               : 0;
    }
    answer->time_ns = best->time;
    answer->cost = shoal_network_cost(net, best->b);
    answer->objective = best->value * scale + fixed;
    answer->bound = best->bound * scale + fixed;
    answer->gap = fmax(0, (answer->objective - answer->bound) / answer->objective);
    answer->equal_time_ns = shoali_times_at(search->times, equal);
    answer->equal_cost = shoal_network_cost(net, equal);
    answer->utilisation = utilisation(net, best->b);
    answer->solves = search->solves;
    answer->steps = search->steps;
    if (question->objective == SHOAL_NETWORK_PERF)
        spread(search, answer);
}

static shoal_status check_question(const shoal_network *net, const shoal_network_question *question)
{
    if (question->objective != SHOAL_NETWORK_PERF && !net->has_cost)
        return shoali_fail(SHOAL_EINVAL,
                           "this objective needs costs: LIBRA's cost file, or \"2,4,4,57.4\"");
    if (question->objective > SHOAL_NETWORK_COST)
        return shoali_fail(SHOAL_EINVAL, "objective %d does not exist", (int)question->objective);
    return SHOAL_OK;
}

static shoal_status search_for(shoali_search *search, shoal_network_objective objective,
                               shoali_optimum *best)
{
    if (objective == SHOAL_NETWORK_PERF_PER_COST)
        return shoali_search_product(search, best);
    if (objective == SHOAL_NETWORK_COST && search->limits->time_limit == INFINITY)
        return shoali_fail(SHOAL_EINVAL, "the least cost wants a limit such as 'time <= 2e8' (ns)");
    if (objective == SHOAL_NETWORK_COST)
        return shoali_search_cost(search, best);
    SHOALI_TRY(shoali_search_time(search, best));
    bool late = best->time > search->limits->time_limit;
    return late ? too_slow(search, best->time) : SHOAL_OK;
}

shoal_status shoal_network_solve(const shoal_network *network,
                                 const shoal_network_question *question,
                                 shoal_network_answer *answer_out)
{
    if (network == NULL || question == NULL || answer_out == NULL ||
        question->size < sizeof *question || answer_out->size < sizeof *answer_out)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_network_solve needs a network, a question and an answer, with "
                           "their sizes set");
    shoali_limits limits;
    shoali_optimum best;
    SHOALI_TRY(check_question(network, question));
    SHOALI_TRY(shoali_limits_parse(network, question, &limits));
    shoali_search search = {.network = network, .times = &network->times, .limits = &limits};
    SHOALI_TRY(prepare(&search, question->objective));
    search.scratch = shoali_arena_create(16384);
    if (search.scratch == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = search_for(&search, question->objective, &best);
    if (status == SHOAL_OK)
        finish(&search, question, &best, answer_out);
    shoali_arena_destroy(search.scratch);
    return status;
}
