/* SPDX-License-Identifier: Apache-2.0 */
/* Who was slow in a simulated run: the judges of real runs (watch/slow.h), over the last steps of
 * all workers. What a connection could carry stands in for what was measured. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/sim_parts.h"
#include "folder/events.h"
#include "virtual/sim_keep.h"
#include "watch/slow.h"

typedef struct tables {
    float *step_us, *compute_us; /* [windows], [windows][workers] */
    double *sends, *receives;    /* [workers] */
    shoali_slow *slow;
} tables;

static bool make_tables(uint32_t workers, uint32_t windows, tables *t)
{
    t->step_us = shoali_alloc_array((size_t)windows * (workers + (size_t)1), sizeof *t->step_us);
    t->sends = shoali_alloc_array(2 * (size_t)workers, sizeof *t->sends);
    t->slow = shoali_alloc_array(workers, sizeof *t->slow);
    t->compute_us = t->step_us != NULL ? t->step_us + windows : NULL;
    t->receives = t->sends != NULL ? t->sends + workers : NULL;
    return t->step_us != NULL && t->sends != NULL && t->slow != NULL;
}

static void free_tables(tables *t)
{
    shoali_free(t->step_us);
    shoali_free(t->sends);
    shoali_free(t->slow);
}

static void fill_steps(const shoali_sim_keep *keep, uint64_t first, uint32_t windows,
                       const tables *t)
{
    const uint32_t workers = keep->sim->workers;
    for (uint32_t s = 0; s < windows; s++) {
        double sum = 0;
        uint32_t there = 0;
        for (uint32_t w = 0; w < workers; w++) {
            const uint64_t step = first + s;
            const shoali_sim_recent
                *r = &keep->recent[(size_t)w * SHOALI_SIM_RECENT + step % SHOALI_SIM_RECENT];
            if (r->step != step)
                continue;
            t->compute_us[(size_t)s * workers + w] = r->compute_us;
            sum += (double)r->step_us;
            there++;
        }
        t->step_us[s] = there > 0 ? (float)(sum / there) : 0;
    }
}

/* Bytes per second of each one's best connection to another host. */
static void fill_links(const shoal_sim *sim, const tables *t)
{
    uint32_t links[2];
    for (uint32_t i = 0; i < sim->workers; i++)
        for (uint32_t j = 0; j < sim->workers; j++) {
            if (i == j || !shoali_sim_links(sim, i, j, links))
                continue;
            const double rate = 1e9 * fmin(shoali_sim_link_rate(sim, links[0]),
                                           shoali_sim_link_rate(sim, links[1]));
            t->sends[i] = fmax(t->sends[i], rate);
            t->receives[j] = fmax(t->receives[j], rate);
        }
}

static void tell(shoali_sim_keep *keep, const tables *t, uint64_t first)
{
    for (uint32_t w = 0; w < keep->sim->workers; w++) {
        const shoali_sim_lines *lines = &keep->workers[w];
        const double steps = lines->steps > 0 ? (double)lines->steps : 1;
        const char *cause = shoali_slow_name(t->slow[w].cause);
        shoal_train_rank r = {.size = sizeof r,
                              .caused_ms = t->slow[w].caused_us * 1e-3,
                              .last_share = t->slow[w].last_share,
                              .since_step = first - 1 + t->slow[w].last_since,
                              .compute_ms = lines->compute_us / steps * 1e-3,
                              .wait_ms = lines->wait_us / steps * 1e-3,
                              .sends_bytes_s = t->sends[w],
                              .receives_bytes_s = t->receives[w],
                              .samples = keep->sim->asked.compute.batch};
        if (cause[0] == '\0')
            continue;
        snprintf(r.cause, sizeof r.cause, "%s", cause);
        snprintf(r.host, sizeof r.host, "host %u", keep->sim->world.hosts[w]);
        shoali_sim_event_add(keep, "slow", 0, shoali_events_verdict(w, &r));
    }
}

void shoali_sim_judge(shoali_sim_keep *keep)
{
    const uint32_t workers = keep->sim->workers;
    uint64_t newest = 0;
    tables t = {0};
    double wait_us = 0;
    for (uint32_t w = 0; w < workers; w++) {
        const shoali_sim_lines *lines = &keep->workers[w];
        wait_us += lines->steps > 0 ? lines->wait_us / (double)lines->steps / workers : 0;
        for (uint32_t i = 0; i < SHOALI_SIM_RECENT; i++) {
            const uint64_t step = keep->recent[(size_t)w * SHOALI_SIM_RECENT + i].step;
            newest = step > newest ? step : newest;
        }
    }
    const uint32_t windows = newest < SHOALI_SIM_RECENT ? (uint32_t)newest : SHOALI_SIM_RECENT;
    if (workers < 2 || windows == 0)
        return;
    if (make_tables(workers, windows, &t)) {
        const uint64_t first = newest - windows + 1;
        fill_steps(keep, first, windows, &t);
        fill_links(keep->sim, &t);
        shoali_slow_input input = {.ranks = workers,
                                   .windows = windows,
                                   .step_us = t.step_us,
                                   .compute_us = t.compute_us,
                                   .sends = t.sends,
                                   .receives = t.receives,
                                   .wait_us = wait_us};
        for (uint32_t s = 0; s < windows; s++)
            input.steps += t.step_us[s] > 0;
        shoali_slow_judge(&input, t.slow);
        tell(keep, &t, first);
    } else {
        shoali_sim_keep_note(keep, SHOAL_ENOMEM);
    }
    free_tables(&t);
}
