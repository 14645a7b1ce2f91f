/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and pairs as they would have been measured, with one thing wrong at a time. */
#include "support/check.h"

#include <math.h>

#include "base/arena.h"
#include "doctor/doctor.h"

enum { RANKS = 4 };

typedef struct bench {
    shoal_doctor d;
    shoali_facts facts[RANKS];
    shoal_doctor_host host[RANKS];
    shoal_doctor_pair pair[RANKS * RANKS];
    uint8_t way[RANKS * RANKS];
    double speed[RANKS];
} bench;

static void healthy(bench *b)
{
    memset(b, 0, sizeof *b);
    b->d = (shoal_doctor){.ranks = RANKS,
                          .met = true,
                          .facts = b->facts,
                          .host = b->host,
                          .pair = b->pair,
                          .way = b->way,
                          .speed = b->speed};
    snprintf(b->d.place, sizeof b->d.place, "tcp://a:1");
    for (uint32_t i = 0; i < RANKS; i++) {
        snprintf(b->facts[i].host, sizeof b->facts[i].host, "host%u", i);
        snprintf(b->facts[i].ip, sizeof b->facts[i].ip, "10.0.0.%u", i + 1);
        snprintf(b->facts[i].route, sizeof b->facts[i].route, "10.0.0.%u", i + 1);
        b->facts[i].mtu = 1500;
        b->host[i] = (shoal_doctor_host){
            .here = true, .send_buffer_bytes = 4 << 20, .receive_buffer_bytes = 6 << 20};
        b->host[i].cpu_share = 0.99;
        b->speed[i] = 1e9 * (1 + 0.05 * i);
        for (uint32_t j = 0; j < RANKS; j++) {
            if (i == j)
                continue;
            b->way[i * RANKS + j] = SHOALI_WAY_OPEN;
            b->pair[i * RANKS + j] = (shoal_doctor_pair){
                .reached = true, .bytes_per_s = 117e6, .rtt_s = 200e-6};
        }
    }
}

static void expect(bench *b, uint32_t count, const char *kind, int32_t rank, int32_t peer)
{
    assert_ok(shoali_findings_make(&b->d));
    assert_int_equal(b->d.count, count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(b->d.findings[i].kind, kind) == 0 && b->d.findings[i].rank == rank &&
            b->d.findings[i].peer == peer) {
            assert_true(b->d.findings[i].text[0] != '\0' && b->d.findings[i].advice[0] != '\0');
            count = 0;
        }
    assert_true(b->d.count == 0 || count == 0);
    shoali_free(b->d.findings);
}

static void nothing_is_said_of_the_healthy(void **state)
{
    (void)state;
    bench b;
    healthy(&b);
    expect(&b, 0, "", 0, 0);
}

static void slow_ports_and_slow_paths_differ(void **state)
{
    (void)state;
    bench b;
    healthy(&b);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 2)
            b.pair[i * RANKS + 2].bytes_per_s = b.pair[2 * RANKS + i].bytes_per_s = 11.7e6;
    expect(&b, 1, "rate", 2, -1);
    healthy(&b);
    b.pair[1 * RANKS + 3].bytes_per_s = 11.7e6;
    expect(&b, 1, "rate", 1, 3);
    healthy(&b);
    b.pair[1 * RANKS + 3].rtt_s = 0.02;
    expect(&b, 1, "latency", 1, 3);
}

static void whom_nobody_reaches_is_named_alone(void **state)
{
    (void)state;
    bench b;
    healthy(&b);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 2)
            b.way[i * RANKS + 2] = b.way[2 * RANKS + i] = SHOALI_WAY_SILENT;
    expect(&b, 1, "port", 2, -1);
    healthy(&b);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 2)
            b.way[i * RANKS + 2] = SHOALI_WAY_NONE;
    strcpy(b.facts[2].ip, "192.168.1.2");
    expect(&b, 1, "interface", 2, -1);
    healthy(&b);
    b.way[0 * RANKS + 3] = SHOALI_WAY_REFUSED;
    expect(&b, 1, "port", 3, 0);
    healthy(&b);
    b.host[1].here = false;
    expect(&b, 1, "missing", 1, -1);
}

static void one_rank_explains_its_holes(void **state)
{
    (void)state;
    bench b;
    healthy(&b);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 1)
            b.pair[i * RANKS + 1].hole_bytes = 1400;
    expect(&b, 1, "mtu", 1, -1);
    healthy(&b);
    b.pair[0 * RANKS + 3].hole_bytes = 1;
    expect(&b, 1, "mtu", 3, 0);
}

static void hosts_are_compared(void **state)
{
    (void)state;
    bench b;
    healthy(&b);
    b.host[3].clock_s = -60;
    expect(&b, 1, "clock", 3, -1);
    healthy(&b);
    for (uint32_t i = 1; i < RANKS; i++)
        b.host[i].clock_s = 60; /* then it is rank 0's that is wrong */
    expect(&b, 1, "clock", 0, -1);
    healthy(&b);
    b.host[2].receive_buffer_bytes = 16384;
    expect(&b, 1, "buffers", 2, -1);
    healthy(&b);
    b.host[2].cpu_share = 0.5;
    expect(&b, 1, "load", 2, -1);
    healthy(&b);
    b.speed[0] = 0.3e9;
    expect(&b, 1, "speed", 0, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(nothing_is_said_of_the_healthy),
        CHECK_TEST(slow_ports_and_slow_paths_differ),
        CHECK_TEST(whom_nobody_reaches_is_named_alone),
        CHECK_TEST(one_rank_explains_its_holes),
        CHECK_TEST(hosts_are_compared),
    };
    return CHECK_RUN(tests);
}
