/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster in the words of --lab: what each host's link carries, what gets lost, who is slow. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "model/cluster_ways.h"
#include "shoal/cluster.h"

enum { HOSTS_MAX = 64 };
#define LATENCY_MAX 200e-6 /* what a lab's own links may well have */
#define LOSS_MAX 0.5

typedef struct words {
    char *text;
    size_t size, used;
} words;

SHOAL_PRINTF(2, 3) static void say(words *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int count = vsnprintf(w->text + w->used, w->size - w->used, format, list);
    va_end(list);
    w->used = count < 0 || (size_t)count >= w->size - w->used ? w->size - 1
                                                              : w->used + (size_t)count;
}

#define REFUSE(...) return shoali_fail(SHOAL_EINVAL, "no lab is such a network: " __VA_ARGS__)

/* One switch that joins hosts of which each has one link, and nothing that comes and goes. */
static shoal_status is_flat(const shoali_cluster *c)
{
    if (c->host_count > HOSTS_MAX)
        REFUSE("%u hosts, and a lab has at most %d", c->host_count, HOSTS_MAX);
    if (c->dimension_count > 1 && c->hosts[0].workers == 1)
        REFUSE("%u \"dimensions\" between workers that stand alone; a lab's hosts have one link",
               c->dimension_count);
    if (c->link_count > 0)
        REFUSE("\"links\" between two hosts each; a lab's hosts have one link for all others");
    if (c->partition_count > 0)
        REFUSE("\"partitions\" that come and go");
    return SHOAL_OK;
}

/* Ranks are dealt to hosts in equal, consecutive parts. */
static shoal_status check_hosts(const shoali_cluster *c)
{
    for (uint32_t i = 0; i < c->host_count; i++) {
        const shoali_host *host = &c->hosts[i];
        if (host->workers != c->hosts[0].workers)
            REFUSE("hosts of unequal size (hosts[0] has %u workers, hosts[%u] has %u)",
                   c->hosts[0].workers, i, host->workers);
        if (host->accelerator != c->hosts[0].accelerator)
            REFUSE("unequal accelerators; say how much slower a host is by \"slowdown\"");
        if (host->latency_s > LATENCY_MAX)
            REFUSE("hosts[%u] is %.0f us away; links of a lab take what this machine does, and "
                   "at most %.0f are let pass for it",
                   i, host->latency_s * 1e6, LATENCY_MAX * 1e6);
        if (host->loss != c->hosts[0].loss)
            REFUSE("hosts[0] loses %g of its packets and hosts[%u] %g; a lab's switch loses "
                   "alike for all",
                   c->hosts[0].loss, i, host->loss);
        if (isinf(host->up_bytes_per_s) != isinf(host->down_bytes_per_s))
            REFUSE("hosts[%u] has a rate for one way only", i);
        if (fmin(host->up_bytes_per_s, host->down_bytes_per_s) < 125)
            REFUSE("hosts[%u] has less than 1 kbit/s", i);
    }
    return SHOAL_OK;
}

static void say_rate(words *w, const shoali_host *host, const char *both, const char *up,
                     const char *down)
{
    if (isinf(host->up_bytes_per_s))
        return;
    if (host->up_bytes_per_s == host->down_bytes_per_s)
        say(w, "%s%.6gmbit", both, host->up_bytes_per_s * 8e-6);
    else
        say(w, "%s%.6gmbit%s%.6gmbit", up, host->up_bytes_per_s * 8e-6, down,
            host->down_bytes_per_s * 8e-6);
}

static shoal_status say_links(const shoali_cluster *c, words *w)
{
    const shoali_host *first = &c->hosts[0];
    const double loss = shoali_cluster_link(c, 0, c->host_count > 1).loss;
    say(w, "hosts=%u", c->host_count);
    say_rate(w, first, ",rate=", ",up=", ",down=");
    for (uint32_t i = 1; i < c->host_count; i++) {
        const shoali_host *host = &c->hosts[i];
        char link[24];
        snprintf(link, sizeof link, ",link=%u:", i);
        if (isinf(host->up_bytes_per_s) && !isinf(first->up_bytes_per_s))
            REFUSE("hosts[0] has a rate and hosts[%u] none", i);
        if (host->up_bytes_per_s != first->up_bytes_per_s ||
            host->down_bytes_per_s != first->down_bytes_per_s)
            say_rate(w, host, link, link, "/");
    }
    if (loss > LOSS_MAX)
        REFUSE("%.3g %% of the packets get lost between two hosts, and a lab loses at most 50 %%",
               loss * 100);
    if (loss > 0)
        say(w, ",loss=%.6g%%", loss * 100);
    return SHOAL_OK;
}

static shoal_status say_slow(const shoali_cluster *c, words *w)
{
    bool random = false;
    for (uint32_t i = 0; i < c->straggler_count; i++) {
        const shoali_straggler *s = &c->stragglers[i];
        if (s->from_s > 0 || !isinf(s->until_s))
            REFUSE("stragglers[%u] is slow for a while; in a lab one is slow for ever", i);
        if (s->probability > 0 && (random || s->worker != UINT32_MAX))
            REFUSE("stragglers[%u] draws for itself; in a lab all workers draw alike", i);
        random = random || s->probability > 0;
        if (s->probability > 0 && (s->slowdown < 1 || s->slowdown > 1000))
            REFUSE("stragglers[%u] is %g times slower; 1 to 1000 may be", i, s->slowdown);
        if (s->probability > 0)
            say(w, ",random=%gx:%g", s->slowdown, s->probability);
    }
    for (uint32_t worker = 0; worker < c->workers; worker++) {
        const double slow = shoali_cluster_slowdown(c, worker, 0);
        if (slow < 1 || slow > 1000)
            REFUSE("worker %u is %g times slower; 1 to 1000 may be", worker, slow);
        if (slow > 1 && worker >= HOSTS_MAX)
            REFUSE("worker %u is slow; in a lab one of the first %d may be", worker, HOSTS_MAX);
        if (slow > 1)
            say(w, ",slow=%u:%gx", worker, slow);
    }
    return SHOAL_OK;
}

static shoal_status say_all(const shoali_cluster *c, words *w)
{
    SHOALI_TRY(is_flat(c));
    SHOALI_TRY(check_hosts(c));
    SHOALI_TRY(say_links(c, w));
    SHOALI_TRY(say_slow(c, w));
    return w->used + 1 < w->size ? SHOAL_OK
                                 : shoali_fail(SHOAL_EINVAL,
                                               "a lab's text has %zu characters, and "
                                               "this cluster needs more",
                                               w->size - 1);
}

shoal_status shoal_cluster_lab(const char *path, uint32_t *workers_out, char *text_out, size_t size)
{
    shoali_cluster *cluster;
    if (path == NULL || workers_out == NULL || text_out == NULL || size == 0)
        return shoali_fail(SHOAL_EINVAL, "shoal_cluster_lab: path, workers_out, text_out and size "
                                         "are needed");
    words w = {.text = text_out, .size = size};
    SHOALI_TRY(shoali_cluster_load(path, &cluster));
    *workers_out = cluster->workers;
    const shoal_status status = say_all(cluster, &w);
    shoali_cluster_close(cluster);
    return status;
}
