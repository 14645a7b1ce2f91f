/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of links that change while the job runs: lines of a file, which the lab follows, too. What
 * is under way goes on at the new rate. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/read_file.h"
#include "driver/sim_parts.h"

enum { LINE_BYTES = 256, LINES_MAX = 1 << 20 };

static shoal_status take_line(shoal_sim *sim, char *line, uint32_t number)
{
    const char *path = sim->asked.network.trace;
    shoali_sim_rate rate;
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, " \t\r\n")] == '\0')
        return SHOAL_OK;
    if (shoali_sim_read_rate_line(line, &rate) != SHOAL_OK ||
        2 * rate.host >= sim->world.pair_links)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s:%u: expected SECONDS HOST UP [DOWN], such as 12.5 0 10mbit 50mbit, "
                           "with a host below %u",
                           path, number, sim->world.pair_links / 2);
    if (sim->rate.count > 0 && sim->rate.lines[sim->rate.count - 1].at_ns > rate.at_ns)
        return shoali_fail(SHOAL_ECORRUPT, "%s:%u: time goes backwards", path, number);
    if (sim->rate.count == sim->rate.room) {
        uint32_t room = sim->rate.room > 0 ? 2 * sim->rate.room : 64;
        shoali_sim_rate *grown = NULL;
        if (room <= LINES_MAX)
            grown = shoali_realloc(sim->rate.lines, sim->rate.room * sizeof *grown,
                                   room * sizeof *grown);
        if (grown == NULL)
            return shoali_fail(SHOAL_ENOMEM, "%s: more than %d lines", path, LINES_MAX);
        sim->rate.lines = grown;
        sim->rate.room = room;
    }
    sim->rate.lines[sim->rate.count++] = rate;
    return SHOAL_OK;
}

shoal_status shoali_sim_rates_read(shoal_sim *sim)
{
    char line[LINE_BYTES];
    shoal_status status = SHOAL_OK;
    FILE *file;
    if (sim->asked.network.trace[0] == '\0')
        return SHOAL_OK;
    sim->rate.now = shoali_alloc_array(sim->world.pair_links, sizeof *sim->rate.now);
    if (sim->rate.now == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_open_file(sim->asked.network.trace, &file));
    for (uint32_t number = 1; status == SHOAL_OK && fgets(line, sizeof line, file) != NULL;
         number++)
        status = take_line(sim, line, number);
    fclose(file);
    return status;
}

void shoali_sim_rates_plan(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->rate.count; i++)
        shoali_sim_at(sim, sim->rate.lines[i].at_ns, SHOALI_SIM_RATE, 0, i, 0);
}

void shoali_sim_rates_change(shoal_sim *sim, uint32_t line)
{
    const shoali_sim_rate *rate = &sim->rate.lines[line];
    sim->rate.now[2 * rate->host] = rate->up_bits;
    sim->rate.now[2 * rate->host + 1] = rate->down_bits;
    for (uint32_t link = 2 * rate->host; link <= 2 * rate->host + 1; link++)
        shoali_links_rate(sim->net, sim->now_ns, link, shoali_sim_link_rate(sim, link));
    shoali_sim_volumes_fini(sim); /* what a server waits for depends on rates */
}
