/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_live.h"

#include <math.h>
#include <stdio.h>

#include "cli.h"
#include "progress_show.h"
#include "said.h"
#include "terminal.h"

enum { LOOK_MS = 100 };

/* ------------------------------------------------------------------ the page */

/* The lowest worker that is there, and how many are. */
static uint32_t find_reporter(const sim_live *live, uint32_t *there_out)
{
    uint32_t first = 0, there = 0;
    for (uint32_t w = live->workers; w-- > 0;) {
        shoal_sim_endpoint_results e = {.size = sizeof e};
        if (shoal_sim_endpoint_get(live->sim, w, &e) != SHOAL_OK || e.end > SHOAL_SIM_DONE)
            continue;
        first = w;
        there++;
    }
    *there_out = there;
    return first;
}

static double newest_loss(const shoal_sim *sim)
{
    uint32_t count;
    const shoal_sim_point *points = shoal_sim_curve(sim, &count);
    return count > 0 ? points[count - 1].loss : (double)NAN;
}

static void note(const sim_live *live, const shoal_sim_progress *p)
{
    const bool by_time = live->about.max_steps == 0;
    shoal_sim_results all = {.size = sizeof all};
    shoal_sim_endpoint_results e = {.size = sizeof e};
    shoal_train_totals now = {.size = sizeof now};
    const uint32_t rank = find_reporter(live, &now.workers);
    if (shoal_sim_results_get(live->sim, &all) != SHOAL_OK ||
        shoal_sim_endpoint_get(live->sim, rank, &e) != SHOAL_OK)
        return;
    now.steps = e.iterations;
    now.skipped = all.skipped;
    now.compute_s = (double)e.compute_ns * 1e-9;
    now.wait_s = (double)e.idle_ns * 1e-9;
    now.step_s = now.compute_s + now.wait_s;
    now.sent_bytes = (double)e.sent_bytes;
    now.received_bytes = (double)e.received_bytes;
    now.membership = all.epochs;
    now.lost = live->workers - now.workers;
    shoal_train_progress progress = {.size = sizeof progress,
                                     .step = e.iterations,
                                     .epochs = live->about.epochs,
                                     .loss = newest_loss(live->sim)};
    progress.steps = by_time ? 0 : (uint64_t)(p->total / live->workers);
    progress.epoch = (uint32_t)(live->about.epochs * fmin(p->done / fmax(p->total, 1), 1));
    train_metrics_simulated(live->metrics, rank, &now, &progress);
}

bool sim_live_fit(sim_live *live)
{
    live->options.verb = "sim";
    return train_metrics_fit(&live->options);
}

static const char * or (const char *text, const char *fallback)
{
    return text != NULL && text[0] != '\0' ? text : fallback;
}

bool sim_live_begin(sim_live *live, const shoal_train_desc *job, shoal_sim *sim)
{
    live->sim = sim;
    live->workers = 0;
    while (shoal_sim_waits(sim, live->workers) != NULL)
        live->workers++;
    live->about = *job;
    live->about.sync = or (job->sync, "all_reduce");
    live->about.collective = or (job->collective, "ring");
    live->about.codec = or (job->codec, "identity");
    live->about.model = or (job->model, "");
    live->metrics = train_metrics_create(&live->options, &live->about);
    if (live->options.address == NULL)
        return true;
    if (live->metrics == NULL)
        return cli_fail("sim", "no memory for metrics") == CLI_OK;
    if (!train_metrics_serve(live->metrics, 0))
        return false;
    said(SAID_INFO, "sim", "metrics are at port %u", train_metrics_port(live->metrics));
    return true;
}

void sim_live_end(sim_live *live)
{
    train_metrics_destroy(live->metrics);
    live->metrics = NULL;
}

/* ------------------------------------------------------------------ the line */

static void show(void *ctx, const shoal_sim_progress *p)
{
    char text[48];
    sim_live *live = ctx;
    snprintf(text, sizeof text, "at %.6g virtual s", p->virtual_s);
    progress_at(p->done, p->total, text);
    if (live == NULL || live->metrics == NULL)
        return;
    const int64_t now_ms = terminal_now_ms();
    if (live->looked_ms != 0 && now_ms - live->looked_ms < LOOK_MS)
        return;
    live->looked_ms = now_ms;
    note(live, p);
}

/* Iterations are those of all workers together. */
static shoal_status run(shoal_sim *sim, sim_live *live, bool by_time)
{
    shoal_status status = shoal_sim_watch(sim, show, live);
    progress_begin("sim", by_time ? "virtual s" : "iterations", false, NULL);
    if (status == SHOAL_OK)
        status = shoal_sim_run(sim);
    progress_end();
    return status;
}

shoal_status sim_live_run(sim_live *live, bool by_time)
{
    const shoal_status status = shoal_sim_serve(live->sim, NULL);
    live->about.max_steps = !by_time;
    return status == SHOAL_OK ? run(live->sim, live, by_time) : status;
}

shoal_status sim_live_run_aside(shoal_sim *sim)
{
    return run(sim, NULL, false);
}
