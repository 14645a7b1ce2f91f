/* SPDX-License-Identifier: Apache-2.0 */
/* The same question on clusters that differ a little: more hosts, faster links, faster machines. */
#include <math.h>

#include "base/error.h"
#include "plan/predict.h"

static shoal_status ask(const shoal_predict_desc *desc, shoali_scale scale, shoal_prediction *out)
{
    shoali_question q;
    SHOALI_TRY(shoali_question_open(desc, &scale, &q));
    shoal_status status = shoali_question_answer(&q, out);
    shoali_question_close(&q);
    return status;
}

/* One more host's workers, if the tensor and pipeline groups can use them: workers are rounded up
 * to the next number that they divide, hosts to what holds it. */
static shoal_status one_more(const shoal_predict_desc *desc, const shoal_prediction *now,
                             double *out)
{
    shoali_question q;
    const shoali_scale none = SHOALI_SCALE_NONE;
    shoal_predict_desc d = *desc;
    shoali_scale scale = none;
    shoal_prediction p;
    *out = (double)NAN;
    if (desc->plan != NULL) /* made for so many workers */
        return SHOAL_OK;
    SHOALI_TRY(shoali_question_open(desc, &none, &q));
    const shoali_cluster *c = q.cluster;
    uint32_t per_host = c->hosts[c->host_count - 1].workers;
    uint32_t group = now->tensor * now->pipeline * now->context, step = per_host;
    if (c->dimension_count > 0)
        step = c->workers / c->dimensions[c->dimension_count - 1].size;
    while (step % group != 0 && step < c->workers * group)
        step += c->dimension_count > 0 ? c->workers / c->dimensions[c->dimension_count - 1].size
                                       : per_host;
    d.workers = now->workers + step;
    uint32_t missing = d.workers > c->workers ? d.workers - c->workers : 0;
    uint32_t unit = c->dimension_count > 0 ? c->workers / c->dimensions[c->dimension_count - 1].size
                                           : per_host;
    scale.more_hosts = (missing + unit - 1) / unit;
    shoali_question_close(&q);
    SHOALI_TRY(ask(&d, scale, &p));
    *out = p.samples_per_s / now->samples_per_s;
    return SHOAL_OK;
}

/* d ln(time) / d ln(speed) by one per cent; efficiency tables have steps, so both sides. */
static shoal_status elasticity(const shoal_predict_desc *desc, shoali_scale up, shoali_scale down,
                               double *out)
{
    shoal_prediction high, low;
    SHOALI_TRY(ask(desc, up, &high));
    SHOALI_TRY(ask(desc, down, &low));
    *out = log(high.iteration_s / low.iteration_s) / (2 * log(1.01));
    return SHOAL_OK;
}

static double utilisation(const shoal_prediction *p)
{
    return (p->forward_s + p->backward_s + p->recompute_s) / p->iteration_s;
}

static shoal_status utilisation_at(const shoal_predict_desc *desc, double link, double *out)
{
    shoali_scale scale = SHOALI_SCALE_NONE;
    shoal_prediction p;
    scale.link = link;
    SHOALI_TRY(ask(desc, scale, &p));
    *out = utilisation(&p);
    return SHOAL_OK;
}

/* Bisection over six orders of magnitude each way. */
static shoal_status link_for(const shoal_predict_desc *desc, double target, double *out)
{
    double low = 1e-6, high = 1e6, at;
    SHOALI_TRY(utilisation_at(desc, high, &at));
    if (at < target) {
        *out = INFINITY;
        return SHOAL_OK;
    }
    SHOALI_TRY(utilisation_at(desc, low, &at));
    if (at >= target) {
        *out = 0;
        return SHOAL_OK;
    }
    for (int i = 0; i < 40; i++) {
        double middle = sqrt(low * high);
        SHOALI_TRY(utilisation_at(desc, middle, &at));
        *(at >= target ? &high : &low) = middle;
    }
    *out = high;
    return SHOAL_OK;
}

static shoal_status elasticities(const shoal_predict_desc *desc, shoal_sensitivity *out)
{
    const double up = 1.01, down = 1 / 1.01;
    const shoali_scale link[] = {{1, 1, up, 1, 0}, {1, 1, down, 1, 0}};
    const shoali_scale compute[] = {{up, 1, 1, 1, 0}, {down, 1, 1, 1, 0}};
    const shoali_scale memory[] = {{1, up, 1, 1, 0}, {1, down, 1, 1, 0}};
    const shoali_scale latency[] = {{1, 1, 1, down, 0}, {1, 1, 1, up, 0}};
    SHOALI_TRY(elasticity(desc, link[0], link[1], &out->elasticity_link));
    SHOALI_TRY(elasticity(desc, compute[0], compute[1], &out->elasticity_compute));
    SHOALI_TRY(elasticity(desc, memory[0], memory[1], &out->elasticity_memory));
    return elasticity(desc, latency[0], latency[1], &out->elasticity_latency);
}

shoal_status shoal_predict_sensitivity(const shoal_predict_desc *desc,
                                       shoal_sensitivity *sensitivity_out)
{
    static const double targets[] = {0.50, 0.75, 0.90, 0.95};
    const shoali_scale none = SHOALI_SCALE_NONE;
    shoali_scale twice = SHOALI_SCALE_NONE;
    shoal_sensitivity out = SHOAL_SENSITIVITY_INIT;
    shoal_prediction now, faster;
    if (sensitivity_out == NULL || sensitivity_out->size != sizeof *sensitivity_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_predict_sensitivity needs an answer of this "
                                         "version's size");
    SHOALI_TRY(ask(desc, none, &now));
    SHOALI_TRY(one_more(desc, &now, &out.one_more));
    twice.link = 2;
    SHOALI_TRY(ask(desc, twice, &faster));
    out.faster_link = faster.samples_per_s / now.samples_per_s;
    twice = (shoali_scale){2, 2, 1, 1, 0};
    SHOALI_TRY(ask(desc, twice, &faster));
    out.faster_compute = faster.samples_per_s / now.samples_per_s;
    SHOALI_TRY(elasticities(desc, &out));
    for (int i = 0; i < 4; i++)
        SHOALI_TRY(link_for(desc, targets[i], &out.link_for[i]));
    *sensitivity_out = out;
    return SHOAL_OK;
}
