/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_spec.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/spec.h"

enum { STREAM_JITTER = 0x6a74, STREAM_RANDOM = 0x7264 };

typedef struct compute_params {
    double ms, backward, jitter, update_ms, batch, gflops;
    char slow[SHOALI_KEY_TEXT_BYTES], random[SHOALI_KEY_TEXT_BYTES], trace[SHOALI_KEY_TEXT_BYTES];
} compute_params;
/* What "fixed" has, then what both have, then what "model" has. */
static const shoali_key compute_keys[] = {
    {"ms", SHOALI_KEY_FLOAT, offsetof(compute_params, ms), 0, 1e9, NULL, "100",
     "forward and backward pass of one iteration, milliseconds"},
    {"backward", SHOALI_KEY_FLOAT, offsetof(compute_params, backward), 0, 1, NULL, "0.667",
     "part of it in which gradients become ready, in proportion to their elements"},
    {"jitter", SHOALI_KEY_FLOAT, offsetof(compute_params, jitter), 0, 0.99, NULL, "0",
     "every iteration takes 1 +- jitter times as long, uniform"},
    {"update_ms", SHOALI_KEY_FLOAT, offsetof(compute_params, update_ms), 0, 1e9, NULL, "0",
     "optimiser step, milliseconds"},
    {"slow", SHOALI_KEY_TEXT, offsetof(compute_params, slow), 0, 0, NULL, "",
     "slow workers: 2:5x/3:1.5x"},
    {"random", SHOALI_KEY_TEXT, offsetof(compute_params, random), 0, 0, NULL, "",
     "any iteration of any worker: 6x:0.1; without a probability one in N, of N workers"},
    {"trace", SHOALI_KEY_TEXT, offsetof(compute_params, trace), 0, 0, NULL, "",
     "file of lines SECONDS WORKER FACTOR: from then on that worker takes so much longer"},
    {"batch", SHOALI_KEY_FLOAT, offsetof(compute_params, batch), 1, 1e6, NULL, "32",
     "samples per worker and iteration"},
    {"gflops", SHOALI_KEY_FLOAT, offsetof(compute_params, gflops), 0, 1e9, NULL, "0",
     "1e9 operations per second that a worker reaches; 0: as the cluster's accelerators say"},
};
enum { FIXED_KEYS = 7, MODEL_FROM = 2, MODEL_KEYS = 7 };

typedef struct network_params {
    char rate[SHOALI_KEY_TEXT_BYTES], down[SHOALI_KEY_TEXT_BYTES], slow[SHOALI_KEY_TEXT_BYTES];
    char trace[SHOALI_KEY_TEXT_BYTES];
    double latency_us, jitter_us, loss;
    int64_t hosts;
} network_params;
static const shoali_key network_keys[] = {
    {"rate", SHOALI_KEY_TEXT, offsetof(network_params, rate), 0, 0, NULL, "1gbit",
     "of each host's link, both ways: 250mbit, 1gbit, 56kbit"},
    {"down", SHOALI_KEY_TEXT, offsetof(network_params, down), 0, 0, NULL, "",
     "towards the host, if it differs"},
    {"latency_us", SHOALI_KEY_FLOAT, offsetof(network_params, latency_us), 0, 1e9, NULL, "50",
     "one way, microseconds"},
    {"jitter_us", SHOALI_KEY_FLOAT, offsetof(network_params, jitter_us), 0, 1e9, NULL, "0",
     "messages take up to so much longer, each by itself, in order between two endpoints"},
    {"loss", SHOALI_KEY_FLOAT, offsetof(network_params, loss), 0, 0.5, NULL, "0",
     "of packets: data is sent so much more often, a message comes a timeout later"},
    {"hosts", SHOALI_KEY_INT, offsetof(network_params, hosts), 0, 1 << 20, NULL, "0",
     "endpoints share so many hosts in equal parts; 0: each has its own"},
    {"slow", SHOALI_KEY_TEXT, offsetof(network_params, slow), 0, 0, NULL, "",
     "hosts with slow links: 3:10x"},
    {"trace", SHOALI_KEY_TEXT, offsetof(network_params, trace), 0, 0, NULL, "",
     "file of lines SECONDS HOST UP [DOWN]: from then on that host's link has these rates"},
};

typedef struct fault_params {
    char die[SHOALI_KEY_TEXT_BYTES], stop[SHOALI_KEY_TEXT_BYTES];
    char leave[SHOALI_KEY_TEXT_BYTES], rejoin[SHOALI_KEY_TEXT_BYTES];
    char nan[SHOALI_KEY_TEXT_BYTES], cut[SHOALI_KEY_TEXT_BYTES], lie[SHOALI_KEY_TEXT_BYTES];
    double detect_ms;
    bool reform;
} fault_params;
static const shoali_key fault_keys[] = {
    {"die", SHOALI_KEY_TEXT, offsetof(fault_params, die), 0, 0, NULL, "",
     "endpoint@seconds: its connections close"},
    {"stop", SHOALI_KEY_TEXT, offsetof(fault_params, stop), 0, 0, NULL, "",
     "endpoint@seconds: it freezes with its connections open"},
    {"leave", SHOALI_KEY_TEXT, offsetof(fault_params, leave), 0, 0, NULL, "",
     "endpoint@seconds: it says goodbye"},
    {"rejoin", SHOALI_KEY_TEXT, offsetof(fault_params, rejoin), 0, 0, NULL, "",
     "worker@seconds: if it is gone it comes back, with a live worker's state"},
    {"nan", SHOALI_KEY_TEXT, offsetof(fault_params, nan), 0, 0, NULL, "",
     "worker@iteration: its gradient has a NaN (with real numbers only)"},
    {"lie", SHOALI_KEY_TEXT, offsetof(fault_params, lie), 0, 0, NULL, "",
     "worker:noise|flip|scale: what it sends of its gradients or updates is noise of five times "
     "their length, minus them, or a hundred times them (with real numbers only)"},
    {"cut", SHOALI_KEY_TEXT, offsetof(fault_params, cut), 0, 0, NULL, "",
     "host@seconds-seconds: nobody else reaches it then"},
    {"detect_ms", SHOALI_KEY_FLOAT, offsetof(fault_params, detect_ms), 0, 1e9, NULL, "2500",
     "lease: silence until a frozen endpoint is given up, milliseconds"},
    {"reform", SHOALI_KEY_FLAG, offsetof(fault_params, reform), 0, 0, NULL, "off",
     "all_reduce goes on without the lost, as with --on-loss reform"},
};

static shoal_status parse(const char *what, const char *name, const char *spec,
                          const shoali_key *keys, size_t count, size_t params_size, void *params)
{
    const shoali_schema schema = {keys, count, params_size};
    if (spec == NULL || spec[0] == '\0')
        spec = name;
    size_t len = shoali_spec_name_len(spec);
    if (len != strlen(name) || memcmp(spec, name, len) != 0)
        return shoali_spec_unknown(what, spec, &name, 1);
    return shoali_spec_parse(what, spec, &schema, params);
}

/* A decimal number, whatever the program's locale. */
static double read_number(const char *text, char **end)
{
    return strtod_l(text, end, newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* a constant of glibc */
}

/* "2:5x/3:1.5x" or "1@2.5/3@4"; mark is the character between index and number. */
static shoal_status read_list(const char *what, const char *text, char mark, double min,
                              shoali_sim_list *out)
{
    *out = (shoali_sim_list){0};
    for (const char *at = text; *at != '\0';) {
        char *end;
        unsigned long index = strtoul(at, &end, 10);
        bool digits = *at >= '0' && *at <= '9';
        if (!digits || *end != mark || index >= UINT32_MAX)
            return shoali_fail(SHOAL_EINVAL, "%s=%s: expected INDEX%cNUMBER with '/' between them",
                               what, text, mark);
        const char *number = end + 1;
        double value = read_number(number, &end);
        if (mark == ':' && *end == 'x')
            end++;
        if (end == number || (*end != '/' && *end != '\0') || !(value >= min) || value > 1e12)
            return shoali_fail(SHOAL_EINVAL, "%s=%s: a number is no number or below %g", what, text,
                               min);
        if (out->count == SHOALI_SIM_PAIRS)
            return shoali_fail(SHOAL_EINVAL, "%s=%s: more than %d entries", what, text,
                               SHOALI_SIM_PAIRS);
        out->items[out->count++] = (shoali_sim_pair){(uint32_t)index, value};
        at = *end == '/' ? end + 1 : end;
    }
    return SHOAL_OK;
}

/* "250mbit" in bits per second. */
static shoal_status read_rate(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double bits;
    } units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    char *end;
    double value = read_number(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && value > 0 &&
            value * units[i].bits <= 1e15) {
            *out = value * units[i].bits;
            return SHOAL_OK;
        }
    return shoali_fail(SHOAL_EINVAL, "rate=%s: expected a number with bit, kbit, mbit or gbit",
                       text);
}

shoal_status shoali_sim_read_rate_line(const char *line, shoali_sim_rate *out)
{
    char up[32], down[32];
    char *end, *rest;
    int used = 0;
    const double seconds = read_number(line, &end);
    const unsigned long host = strtoul(end, &rest, 10);
    const int words = sscanf(rest, " %31s%n %31s%n", up, &used, down, &used);
    if (end == line || rest == end || words < 1 ||
        rest[used + (int)strspn(rest + used, " \t\r\n")] || !(seconds >= 0 && seconds < 1e9) ||
        host >= UINT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "expected SECONDS HOST UP [DOWN]");
    out->at_ns = (uint64_t)(seconds * 1e9);
    out->host = (uint32_t)host;
    SHOALI_TRY(read_rate(up, &out->up_bits));
    return read_rate(words > 1 ? down : up, &out->down_bits);
}

shoal_status shoali_sim_read_random(const char *text, shoali_sim_compute *out)
{
    char *end;
    out->random_factor = 1;
    out->random_probability = 0;
    if (text[0] == '\0')
        return SHOAL_OK;
    out->random_factor = read_number(text, &end);
    out->random_probability = -1;
    bool good = end != text && out->random_factor > 0 && out->random_factor < 1e6;
    end += *end == 'x';
    if (good && *end == ':') {
        const char *number = end + 1;
        out->random_probability = read_number(number, &end);
        good = end != number && *end == '\0' && out->random_probability >= 0 &&
               out->random_probability <= 1;
    } else if (good) {
        good = *end == '\0';
    }
    if (!good)
        return shoali_fail(SHOAL_EINVAL, "random=%s: expected FACTORx or FACTORx:PROBABILITY",
                           text);
    return SHOAL_OK;
}

shoal_status shoali_sim_read_compute(const char *spec, shoali_sim_compute *out)
{
    compute_params p = {.ms = 0, .backward = 0};
    *out = (shoali_sim_compute){0};
    out->from_model = spec != NULL && shoali_spec_name_len(spec) == 5 &&
                      strncmp(spec, "model", 5) == 0;
    if (out->from_model)
        SHOALI_TRY(
            parse("compute", "model", spec, compute_keys + MODEL_FROM, MODEL_KEYS, sizeof p, &p));
    else
        SHOALI_TRY(parse("compute", "fixed", spec, compute_keys, FIXED_KEYS, sizeof p, &p));
    out->ms = p.ms;
    out->backward = p.backward;
    out->batch = p.batch;
    out->gflops = p.gflops;
    out->jitter = p.jitter;
    out->update_ms = p.update_ms;
    memcpy(out->trace, p.trace, sizeof out->trace);
    SHOALI_TRY(shoali_sim_read_random(p.random, out));
    return read_list("slow", p.slow, ':', 1e-6, &out->slow);
}

shoal_status shoali_sim_read_network(const char *spec, shoali_sim_network *out)
{
    network_params p;
    SHOALI_TRY(parse("network", "links", spec, network_keys,
                     sizeof network_keys / sizeof *network_keys, sizeof p, &p));
    out->latency_us = p.latency_us;
    out->jitter_us = p.jitter_us;
    out->loss = p.loss;
    out->hosts = (uint32_t)p.hosts;
    memcpy(out->trace, p.trace, sizeof out->trace);
    SHOALI_TRY(read_rate(p.rate, &out->up_bits));
    SHOALI_TRY(read_rate(p.down[0] != '\0' ? p.down : p.rate, &out->down_bits));
    return read_list("slow", p.slow, ':', 1e-6, &out->slow);
}

/* "2@1-1.5/0@3-4": a host, from, until. */
static shoal_status read_cuts(const char *text, shoali_sim_faults *out)
{
    out->cut_count = 0;
    for (const char *at = text; *at != '\0';) {
        char *end;
        bool digits = *at >= '0' && *at <= '9';
        unsigned long host = strtoul(at, &end, 10);
        bool good = digits && *end == '@' && host < UINT32_MAX && out->cut_count < SHOALI_SIM_PAIRS;
        shoali_sim_cut cut = {.host = (uint32_t)host};
        cut.from_s = good ? read_number(end + 1, &end) : 0;
        good = good && *end == '-';
        cut.until_s = good ? read_number(end + 1, &end) : 0;
        if (!good || (*end != '/' && *end != '\0') || !(cut.from_s >= 0) ||
            !(cut.until_s > cut.from_s) || cut.until_s > 1e12)
            return shoali_fail(SHOAL_EINVAL,
                               "cut=%s: expected HOST@FROM-UNTIL with '/' between them, %d at most",
                               text, SHOALI_SIM_PAIRS);
        out->cuts[out->cut_count++] = cut;
        at = *end == '/' ? end + 1 : end;
    }
    return SHOAL_OK;
}

/* "3:noise/5:flip" */
static shoal_status read_lies(const char *text, shoali_sim_list *out)
{
    static const char *const kinds[] = {
        [SHOALI_SIM_NOISE] = "noise", [SHOALI_SIM_FLIP] = "flip", [SHOALI_SIM_SCALE] = "scale"};
    *out = (shoali_sim_list){0};
    for (const char *at = text; *at != '\0';) {
        char *end;
        const bool digits = *at >= '0' && *at <= '9';
        const unsigned long worker = strtoul(at, &end, 10);
        const char *kind = *end == ':' ? end + 1 : "";
        const size_t length = strcspn(kind, "/");
        double found = 0;
        for (int k = SHOALI_SIM_NOISE; k <= SHOALI_SIM_SCALE; k++)
            if (strlen(kinds[k]) == length && strncmp(kinds[k], kind, length) == 0)
                found = k;
        if (!digits || worker >= UINT32_MAX || found == 0 || out->count == SHOALI_SIM_PAIRS)
            return shoali_fail(SHOAL_EINVAL,
                               "lie=%s: expected WORKER:noise, flip or scale with '/' between "
                               "them, %d at most",
                               text, SHOALI_SIM_PAIRS);
        out->items[out->count++] = (shoali_sim_pair){(uint32_t)worker, found};
        at = kind + length + (kind[length] == '/');
    }
    return SHOAL_OK;
}

shoal_status shoali_sim_read_faults(const char *spec, shoali_sim_faults *out)
{
    fault_params p;
    SHOALI_TRY(parse("faults", "plan", spec, fault_keys, sizeof fault_keys / sizeof *fault_keys,
                     sizeof p, &p));
    out->detect_ms = p.detect_ms;
    SHOALI_TRY(read_list("die", p.die, '@', 0, &out->die));
    SHOALI_TRY(read_list("stop", p.stop, '@', 0, &out->stop));
    SHOALI_TRY(read_list("leave", p.leave, '@', 0, &out->leave));
    out->reform = p.reform;
    SHOALI_TRY(read_list("rejoin", p.rejoin, '@', 0, &out->rejoin));
    SHOALI_TRY(read_list("nan", p.nan, '@', 0, &out->nan));
    SHOALI_TRY(read_lies(p.lie, &out->lie));
    return read_cuts(p.cut, out);
}

double shoali_sim_lookup(const shoali_sim_list *list, uint32_t index, double fallback)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].index == index)
            return list->items[i].value;
    return fallback;
}

double shoali_sim_compute_factor(const shoali_sim_compute *compute, uint32_t worker,
                                 uint32_t workers, uint64_t iteration, uint64_t seed)
{
    double factor = shoali_sim_lookup(&compute->slow, worker, 1);
    double probability = compute->random_probability;
    if (compute->jitter > 0) {
        double draw = shoali_rng_double(seed, shoali_mix(STREAM_JITTER, worker), iteration);
        factor *= 1 + compute->jitter * (2 * draw - 1);
    }
    if (probability < 0)
        probability = 1.0 / workers;
    if (probability > 0 &&
        shoali_rng_double(seed, shoali_mix(STREAM_RANDOM, worker), iteration) < probability)
        factor *= compute->random_factor;
    return factor;
}
