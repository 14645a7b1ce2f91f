/* SPDX-License-Identifier: Apache-2.0 */
/* What the links of a run did: as its lab was told, as --link says, or as its lines say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lab.h"
#include "whatif.h"

/* Of a lab's links payload is 0.97 (claim simulation-vs-lab); of an interface's rate the frames and
 * headers of Ethernet, IP and TCP leave as much with 1500 bytes; what was measured is payload. */
#define LAB_SHARE 0.97
#define LINE_SHARE 0.95
#define LATENCY_S 50e-6
enum { BUSY_US_LEAST = 100000 }; /* docs/status.md */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool make_hosts(whatif_world *w, uint32_t hosts)
{
    w->hosts = hosts;
    w->host_workers = calloc(hosts, sizeof *w->host_workers);
    w->nic_bytes_s = calloc(hosts, sizeof *w->nic_bytes_s);
    return w->host_workers != NULL && w->nic_bytes_s != NULL;
}

static void deal_workers(whatif_world *w)
{
    for (uint32_t rank = 0; rank < w->workers; rank++)
        w->host_workers[(uint64_t)rank * w->hosts / w->workers]++;
}

/* ---------------------------------------------------------------- a lab */

/* Every host's link is as fast both ways. */
static bool one_rate(const lab_desc *lab)
{
    bool same = true;
    for (uint32_t host = 0; host < LAB_MAX_HOSTS; host++)
        same = same && lab_up_bits(lab, host) == lab_down_bits(lab, host);
    return same;
}

static int take_lab(const char *text, whatif_run *out)
{
    lab_desc lab;
    whatif_world *w = &out->world;
    if (!lab_parse("whatif", text, &lab))
        return CLI_USAGE;
    if (lab.cables != LAB_SWITCH)
        return cli_usage("whatif",
                         "the run's --lab %s has cables and no switch: such networks are "
                         "not simulated",
                         text);
    if (!one_rate(&lab) || lab.trace[0] != '\0' || lab.random[0] != '\0')
        return cli_usage(
            "whatif",
            "the run's --lab %s has links of two rates, trace or random: what-if knows links "
            "of one rate both ways that stays; `shoal sim` knows the others",
            text);
    const uint32_t hosts = lab.hosts > 0 && lab.hosts < w->workers ? lab.hosts : w->workers;
    out->lab = true;
    if (!make_hosts(w, hosts))
        return cli_fail("whatif", "there is no memory for %u hosts", hosts);
    deal_workers(w);
    w->payload_share = LAB_SHARE;
    w->loss = lab.loss_udp ? 0 : lab.loss;
    for (uint32_t h = 0; h < hosts; h++) {
        const uint32_t at = h < LAB_MAX_HOSTS ? h : 0;
        w->nic_bytes_s[h] = (double)lab_up_bits(&lab, at) / 8;
    }
    for (uint32_t rank = 0; rank < w->workers && rank < LAB_MAX_HOSTS; rank++)
        out->slowed = out->slowed || lab.slow[rank] > 1 || lab.throttle[rank] > 0;
    return CLI_OK;
}

/* ---------------------------------------------------------------- real hosts */

/* The host of a rank by what its peers' newest lines say; "": nobody does. */
static const char *host_of(const report_run *run, uint32_t rank)
{
    const char *host = "";
    size_t i;
    const json_t *line;
    json_array_foreach(run->links, i, line)
    {
        if (json_integer_value(json_object_get(line, "link")) == (json_int_t)rank)
            host = text_of(line, "host");
    }
    return host;
}

/* Ranks that follow each other on a host share its link; a host that comes again, or that nobody
 * names, is another one. */
static int take_hosts(const report_run *run, whatif_run *out)
{
    whatif_world *w = &out->world;
    uint32_t hosts = 0;
    const char *before = "";
    if (!make_hosts(w, w->workers))
        return cli_fail("whatif", "there is no memory for %u hosts", w->workers);
    for (uint32_t rank = 0; rank < w->workers; rank++) {
        const char *host = host_of(run, rank);
        if (rank == 0 || host[0] == '\0' || strcmp(host, before) != 0)
            hosts++;
        w->host_workers[hosts - 1]++;
        before = host;
    }
    w->hosts = hosts;
    out->one_host = hosts == 1;
    if (!out->one_host)
        return CLI_OK;
    w->hosts = w->workers; /* each sends the others through memory, at a rate of its own */
    for (uint32_t rank = 0; rank < w->workers; rank++)
        w->host_workers[rank] = 1;
    return CLI_OK;
}

/* The median of what connections between hosts carried while they had something to send; else of
 * what interfaces say. *share_out: payload of it. 0: no line tells. */
static double rate_of(const report_run *run, double *share_out)
{
    const size_t count = json_array_size(run->links);
    double *measured = calloc(2 * count + 1, sizeof *measured), *said = measured + count, rate = 0;
    size_t i;
    const json_t *line;
    if (measured == NULL)
        return 0;
    json_array_foreach(run->links, i, line)
    {
        const double busy_us = json_number_value(json_object_get(line, "busy_us"));
        said[i] = json_number_value(json_object_get(line, "line_bytes_s"));
        if (busy_us >= BUSY_US_LEAST)
            measured[i] = 1e6 * json_number_value(json_object_get(line, "acked_bytes")) / busy_us;
        if (said[i] > 0 && measured[i] > said[i])
            measured[i] = said[i];
    }
    rate = whatif_median(measured, count);
    *share_out = rate > 0 ? 1 : LINE_SHARE;
    rate = rate > 0 ? rate : whatif_median(said, count);
    free(measured);
    return rate;
}

static int set_rates(const report_run *run, uint64_t link_bits, whatif_run *out)
{
    whatif_world *w = &out->world;
    double share = w->payload_share > 0 ? w->payload_share : LINE_SHARE;
    const double told = link_bits > 0 ? (double)link_bits / 8 : rate_of(run, &share);
    bool missing = false;
    for (uint32_t h = 0; h < w->hosts; h++) {
        if (link_bits > 0 || w->nic_bytes_s[h] <= 0)
            w->nic_bytes_s[h] = told;
        missing = missing || w->nic_bytes_s[h] <= 0;
    }
    w->payload_share = out->lab && link_bits == 0 && told <= 0 ? w->payload_share : share;
    if (missing)
        return cli_usage("whatif", "no line of the run says what its links carry (they are written "
                                   "at the end of an epoch): say it, --link 10gbit");
    return CLI_OK;
}

int whatif_links(const report_run *run, uint64_t link_bits, whatif_run *out)
{
    const char *lab = whatif_option(run, "lab");
    whatif_world *w = &out->world;
    int code = lab != NULL ? take_lab(lab, out) : take_hosts(run, out);
    bool shaped = out->lab && link_bits == 0;
    for (uint32_t h = 0; h < w->hosts; h++)
        shaped = shaped && w->nic_bytes_s[h] > 0;
    if (code == CLI_OK && !shaped)
        code = set_rates(run, link_bits, out);
    w->latency_s = LATENCY_S;
    return code;
}
