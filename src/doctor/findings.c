/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict: every rank against the others, as "slow" and "wrong" mean little alone. Pure. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "doctor/doctor.h"

static const double SLOW_PORT = 0.6, SLOW_PATH = 0.5;  /* of the median; of what both ends can do */
static const double LONG_TRIP = 4, LONG_TRIP_S = 2e-3; /* times the median, and this much more */
static const double CLOCK_S = 1, BUSY_SHARE = 0.75, SLOW_CORE = 0.6;
enum { LEAST_BUFFER_BYTES = 256 * 1024 };

shoal_status shoali_findings_add(shoal_doctor *doctor, const char *kind, uint32_t rank,
                                 int32_t peer, const char *advice, const char *format, ...)
{
    if (doctor->count == doctor->capacity) {
        uint32_t more = doctor->capacity * 2 + 8;
        shoal_finding *grown = shoali_realloc(doctor->findings, doctor->capacity * sizeof *grown,
                                              more * sizeof *grown);
        if (grown == NULL)
            return SHOAL_ENOMEM;
        doctor->findings = grown;
        doctor->capacity = more;
    }
    shoal_finding *f = &doctor->findings[doctor->count++];
    *f = (shoal_finding){.size = sizeof *f, .rank = (int32_t)rank, .peer = peer};
    snprintf(f->kind, sizeof f->kind, "%s", kind);
    snprintf(f->host, sizeof f->host, "%s", doctor->facts[rank].host);
    snprintf(f->advice, sizeof f->advice, "%s", advice);
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    return SHOAL_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of those that are above 0; the lower one of two; 0 without any. values is sorted. */
static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_size);
    uint32_t first = 0;
    while (first < count && !(values[first] > 0))
        first++;
    return first < count ? values[first + (count - first - 1) / 2] : 0;
}

static const shoal_doctor_pair *pair_of(const shoal_doctor *d, uint32_t from, uint32_t to)
{
    return &d->pair[(size_t)from * d->ranks + to];
}

static double mbit(double bytes_per_s)
{
    return bytes_per_s * 8e-6;
}

/* ---------------------------------------------------------------- who is there, who is reached */

static shoal_status judge_missing(shoal_doctor *d, uint32_t rank)
{
    if (d->host[rank].here)
        return SHOAL_OK;
    return shoali_findings_add(
        d, "missing", rank, -1,
        "See what that rank printed: whether it runs, finds the rendezvous, and holds the token.",
        "rank %u of %u did not come to %.100s", rank, d->ranks, d->place);
}

static const char *in_words(uint8_t way)
{
    return way == SHOALI_WAY_REFUSED  ? "refused"
           : way == SHOALI_WAY_SILENT ? "no answer within 2 s"
                                      : "no route";
}

static shoal_status judge_nobody(shoal_doctor *d, uint32_t rank, uint8_t way)
{
    const shoali_facts *f = &d->facts[rank];
    bool wrong = f->route[0] != '\0' && strcmp(f->route, f->ip) != 0;
    if (wrong)
        return shoali_findings_add(
            d, "interface", rank, -1,
            "Name the interface that leads to the others in SHOAL_INTERFACE, or none at all.",
            "nobody reaches rank %u at %s (%s): %s; its way to rank 0 starts at %s", rank, f->ip,
            f->interface, in_words(way), f->route);
    return shoali_findings_add(
        d, "port", rank, -1,
        "Let the other hosts' connections through its firewall: ranks listen on ports that the "
        "kernel chooses (net.ipv4.ip_local_port_range).",
        "nobody reaches rank %u at %s (%s): %s", rank, f->ip, f->interface, in_words(way));
}

/* How many tried to reach it, and whether all of them failed; *last_out: how. */
static bool nobody(const shoal_doctor *d, uint32_t to, uint8_t *last_out)
{
    uint32_t tried = 0, failed = 0;
    for (uint32_t from = 0; from < d->ranks; from++) {
        uint8_t way = d->way[(size_t)from * d->ranks + to];
        tried += way != SHOALI_WAY_UNTRIED;
        failed += way > SHOALI_WAY_OPEN;
        *last_out = way > SHOALI_WAY_OPEN ? way : *last_out;
    }
    return failed > 0 && failed == tried;
}

/* Whom nobody reaches reaches nobody either, where answers are swallowed, too: that is one finding,
 * about the one that fewest get to. */
static shoal_status judge_ways(shoal_doctor *d, uint32_t to)
{
    uint8_t last = SHOALI_WAY_UNTRIED, ignored = SHOALI_WAY_UNTRIED;
    if (d->ranks > 2 && nobody(d, to, &last))
        return judge_nobody(d, to, last);
    for (uint32_t from = 0; from < d->ranks; from++) {
        uint8_t way = d->way[(size_t)from * d->ranks + to];
        if (way > SHOALI_WAY_OPEN && d->ranks == 2)
            SHOALI_TRY(judge_nobody(d, to, way));
        else if (way > SHOALI_WAY_OPEN && !nobody(d, from, &ignored))
            SHOALI_TRY(shoali_findings_add(
                d, "port", to, (int32_t)from,
                "Others reach it: look at the firewalls and routes of these two hosts.",
                "rank %u does not reach rank %u at %s: %s", from, to, d->facts[to].ip,
                in_words(way)));
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- large packets */

static bool hole(const shoal_doctor *d, const bool *covered, uint32_t i, uint32_t j)
{
    return !covered[i] && !covered[j] &&
           (pair_of(d, i, j)->hole_bytes != 0 || pair_of(d, j, i)->hole_bytes != 0);
}

static uint32_t holes(const shoal_doctor *d, const bool *covered, uint32_t i, uint32_t *bytes_out,
                      uint32_t *peer_out)
{
    uint32_t count = 0;
    *bytes_out = UINT32_MAX;
    for (uint32_t j = 0; j < d->ranks; j++) {
        if (j == i || !hole(d, covered, i, j))
            continue;
        uint32_t in = pair_of(d, j, i)->hole_bytes, out = pair_of(d, i, j)->hole_bytes;
        uint32_t less = in != 0 && (out == 0 || in < out) ? in : out;
        *bytes_out = less < *bytes_out ? less : *bytes_out;
        *peer_out = j;
        count++;
    }
    return count;
}

/* The rank with most holes explains them all; then the rest. */
static shoal_status judge_holes(shoal_doctor *d)
{
    bool covered[SHOALI_DOCTOR_MAX_RANKS] = {false};
    for (;;) {
        uint32_t worst = 0, most = 0, bytes = 0, peer = 0, with = 0;
        for (uint32_t i = 0; i < d->ranks; i++) {
            uint32_t largest, count = holes(d, covered, i, &largest, &peer);
            if (count >= most && count > 0) {
                worst = i;
                most = count;
                bytes = largest;
                with = peer;
            }
        }
        if (most == 0)
            return SHOAL_OK;
        char range[64] = "";
        if (bytes > 1)
            snprintf(range, sizeof range, "; the largest that arrives has %u", bytes);
        char who[48];
        snprintf(who, sizeof who, most > 1 ? "all others" : "rank %u", with);
        SHOALI_TRY(shoali_findings_add(
            d, "mtu", worst, most > 1 ? -1 : (int32_t)with,
            "Give the interface the MTU of the whole path (ip link set dev ... mtu ...), or let "
            "ICMP \"fragmentation needed\" through.",
            "packets of %u bytes between rank %u and %s vanish, small ones arrive%s",
            d->facts[worst].mtu, worst, who, range));
        covered[worst] = true;
    }
}

/* ---------------------------------------------------------------- rates and trips */

static double median_rate(const shoal_doctor *d, bool sends)
{
    double values[SHOALI_DOCTOR_MAX_RANKS];
    for (uint32_t i = 0; i < d->ranks; i++)
        values[i] = sends ? d->host[i].sends_bytes_s : d->host[i].receives_bytes_s;
    return median(values, d->ranks);
}

static void best_rates(shoal_doctor *d)
{
    for (uint32_t i = 0; i < d->ranks; i++)
        for (uint32_t j = 0; j < d->ranks; j++) {
            double out = pair_of(d, i, j)->bytes_per_s, in = pair_of(d, j, i)->bytes_per_s;
            d->host[i].sends_bytes_s = fmax(d->host[i].sends_bytes_s, out);
            d->host[i].receives_bytes_s = fmax(d->host[i].receives_bytes_s, in);
        }
}

static bool on_loopback(const shoal_doctor *d, uint32_t rank)
{
    shoali_ip ip;
    return shoali_ip_parse(d->facts[rank].ip, &ip) && shoali_ip_is_loopback(&ip);
}

/* A port that is slow whoever is at the other end. Loopback has no port. */
static shoal_status judge_port(shoal_doctor *d, uint32_t rank, double sends, double receives,
                               bool *slow_out)
{
    const shoal_doctor_host *h = &d->host[rank];
    *slow_out = (h->sends_bytes_s > 0 && h->sends_bytes_s < SLOW_PORT * sends) ||
                (h->receives_bytes_s > 0 && h->receives_bytes_s < SLOW_PORT * receives);
    if (!*slow_out || on_loopback(d, rank))
        return SHOAL_OK;
    return shoali_findings_add(
        d, "rate", rank, -1,
        "Look at its cable, switch port and negotiated speed (ethtool); every synchronous step "
        "will wait for it. Shard weights or a relaxed --sync help until then.",
        "rank %u (%s) sends at most %.3g Mbit/s and receives %.3g; the median rank %.3g and %.3g",
        rank, d->facts[rank].interface, mbit(h->sends_bytes_s), mbit(h->receives_bytes_s),
        mbit(sends), mbit(receives));
}

static shoal_status judge_rates(shoal_doctor *d)
{
    bool slow[SHOALI_DOCTOR_MAX_RANKS];
    double sends = median_rate(d, true), receives = median_rate(d, false);
    for (uint32_t i = 0; i < d->ranks; i++)
        SHOALI_TRY(judge_port(d, i, sends, receives, &slow[i]));
    for (uint32_t i = 0; i < d->ranks; i++)
        for (uint32_t j = 0; j < d->ranks; j++) {
            double rate = pair_of(d, i, j)->bytes_per_s;
            double able = fmin(d->host[i].sends_bytes_s, d->host[j].receives_bytes_s);
            if (i != j && rate > 0 && rate < SLOW_PATH * able && !slow[i] && !slow[j] &&
                !on_loopback(d, i))
                SHOALI_TRY(shoali_findings_add(
                    d, "rate", i, (int32_t)j,
                    "Both ends do better with others: look at the path between these two.",
                    "rank %u sends rank %u only %.3g Mbit/s; both ends can do %.3g", i, j,
                    mbit(rate), mbit(able)));
        }
    return SHOAL_OK;
}

static double median_trip(const shoal_doctor *d)
{
    uint32_t count = 0;
    size_t most = (size_t)d->ranks * d->ranks;
    double *values = shoali_alloc_array(most, sizeof *values);
    if (values == NULL)
        return 0;
    for (size_t i = 0; i < most; i++)
        if (d->pair[i].rtt_s > 0)
            values[count++] = d->pair[i].rtt_s;
    double middle = median(values, count);
    shoali_free(values);
    return middle;
}

static shoal_status judge_trips(shoal_doctor *d)
{
    double middle = median_trip(d);
    for (uint32_t i = 0; i < d->ranks; i++)
        for (uint32_t j = i + 1; j < d->ranks; j++) {
            double trip = pair_of(d, i, j)->rtt_s;
            if (trip > LONG_TRIP * middle && trip > middle + LONG_TRIP_S)
                SHOALI_TRY(shoali_findings_add(
                    d, "latency", i, (int32_t)j,
                    "Look at what stands between these two; fewer, larger operations suffer less.",
                    "a round trip between ranks %u and %u takes %.3g ms; the median is %.3g ms", i,
                    j, trip * 1e3, middle * 1e3));
        }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- hosts */

static shoal_status judge_buffers(shoal_doctor *d, uint32_t rank, double trip)
{
    const shoal_doctor_host *h = &d->host[rank];
    double flight = 2 * fmax(h->sends_bytes_s, h->receives_bytes_s) * trip;
    double need = on_loopback(d, rank) ? LEAST_BUFFER_BYTES : fmax(LEAST_BUFFER_BYTES, flight);
    uint64_t sends = h->send_buffer_bytes, receives = h->receive_buffer_bytes;
    if ((sends == 0 || (double)sends >= need) && (receives == 0 || (double)receives >= need))
        return SHOAL_OK;
    return shoali_findings_add(
        d, "buffers", rank, -1,
        "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304' net.ipv4.tcp_rmem='4096 131072 "
        "6291456' (the kernel's defaults).",
        "rank %u: socket buffers may grow to %llu (send) and %llu (receive) bytes; this network "
        "wants %.0f",
        rank, (unsigned long long)sends, (unsigned long long)receives, need);
}

static double median_clock(const shoal_doctor *d)
{
    double values[SHOALI_DOCTOR_MAX_RANKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->ranks; i++)
        if (isfinite(d->host[i].clock_s))
            values[count++] = d->host[i].clock_s;
    qsort(values, count, sizeof *values, by_size);
    double middle = count > 0 ? values[(count - 1) / 2] : 0;
    return count == 2 ? 0 : middle; /* of two, rank 0 is taken to be right */
}

/* What else runs on a host concerns all its ranks: the one that gets least stands for them. */
static bool least_of_host(const shoal_doctor *d, uint32_t rank)
{
    for (uint32_t i = 0; i < d->ranks; i++)
        if (i != rank && d->host[i].cpu_share > 0 &&
            strcmp(d->facts[i].host, d->facts[rank].host) == 0 &&
            (d->host[i].cpu_share < d->host[rank].cpu_share ||
             (d->host[i].cpu_share <= d->host[rank].cpu_share && i < rank)))
            return false;
    return true;
}

static shoal_status judge_host(shoal_doctor *d, uint32_t rank, double clock_s)
{
    const shoal_doctor_host *h = &d->host[rank];
    double off = h->clock_s - clock_s;
    if (isfinite(off) && fabs(off) >= CLOCK_S)
        SHOALI_TRY(shoali_findings_add(
            d, "clock", rank, -1,
            "Start a time service there (chrony, systemd-timesyncd): logs cannot be compared, and "
            "certificates may fail.",
            "rank %u's clock is %.3g s %s the others'", rank, fabs(off),
            off > 0 ? "ahead of" : "behind"));
    if (h->cpu_share > 0 && h->cpu_share < BUSY_SHARE && least_of_host(d, rank))
        SHOALI_TRY(shoali_findings_add(
            d, "load", rank, -1,
            "Stop what else computes there (see top), or start fewer ranks on this host.",
            "rank %u gets %.0f %% of a core: others compute on this host", rank,
            100 * h->cpu_share));
    if (h->speed > 0 && h->speed < SLOW_CORE)
        SHOALI_TRY(shoali_findings_add(
            d, "speed", rank, -1,
            "Look at the frequency governor, the temperature and the power limit of that host.",
            "rank %u's core runs at %.0f %% of the median core's speed", rank, 100 * h->speed));
    return SHOAL_OK;
}

static void relative_speed(shoal_doctor *d)
{
    double values[SHOALI_DOCTOR_MAX_RANKS];
    for (uint32_t i = 0; i < d->ranks; i++)
        values[i] = d->speed[i];
    double middle = median(values, d->ranks);
    for (uint32_t i = 0; i < d->ranks; i++)
        d->host[i].speed = middle > 0 ? d->speed[i] / middle : 0;
}

static int by_rank(const void *a, const void *b)
{
    const shoal_finding *x = a, *y = b;
    if (x->rank != y->rank)
        return (x->rank > y->rank) - (x->rank < y->rank);
    return strcmp(x->kind, y->kind);
}

shoal_status shoali_findings_make(shoal_doctor *doctor)
{
    best_rates(doctor);
    relative_speed(doctor);
    double clock_s = median_clock(doctor), trip = median_trip(doctor);
    for (uint32_t rank = 0; rank < doctor->ranks; rank++) {
        SHOALI_TRY(judge_missing(doctor, rank));
        SHOALI_TRY(judge_ways(doctor, rank));
        if (!doctor->host[rank].here)
            continue;
        SHOALI_TRY(judge_buffers(doctor, rank, trip));
        SHOALI_TRY(judge_host(doctor, rank, clock_s));
    }
    SHOALI_TRY(judge_holes(doctor));
    SHOALI_TRY(judge_rates(doctor));
    SHOALI_TRY(judge_trips(doctor));
    if (doctor->count > 0)
        qsort(doctor->findings, doctor->count, sizeof *doctor->findings, by_rank);
    return SHOAL_OK;
}
