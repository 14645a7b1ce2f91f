/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of one operation over datagrams that get lost, repeated, late and overtaken, drawn from a
 * seed, in virtual time. Control messages arrive, in order. What a comm does for such flows, and no
 * more. */
#ifndef SHOALI_TESTS_SUPPORT_LOSSNET_H
#define SHOALI_TESTS_SUPPORT_LOSSNET_H

#include "collective/flow.h"

typedef struct lossnet lossnet;

typedef struct lossnet_faults {
    double loss, duplicate; /* probabilities, of each packet */
    double late;            /* of those that stay behind for late_us more: they are overtaken */
    uint64_t delay_us, jitter_us, late_us;
    uint64_t rate_bits; /* of every member's link, each way, of datagrams alone; 0: no limit. Losses
                           are between the two, as in the lab's switch */
    uint64_t tick_us;   /* timers fire after whole ones, as threads sleep; 0: when they are due */
} lossnet_faults;

typedef struct lossnet_result {
    bool started, done, dead;
    shoal_status status;
    char why[256];
    bool origin_known;
    shoali_not_finite origin;
    shoali_flow_stats stats;
    uint64_t done_us;
} lossnet_result;

lossnet *lossnet_create(uint32_t size, const lossnet_faults *faults, uint64_t seed);
void lossnet_destroy(lossnet *net);
/** Start member args->me, a little after the others. A failure is its result. */
shoal_status lossnet_start(lossnet *net, const shoali_flow_row *row, const shoali_flow_args *args,
                           uint32_t datagram_bytes);
/** Let time pass until all living members are done, or until_us. True: they are. */
bool lossnet_run(lossnet *net, uint64_t until_us);
/** member vanishes; nobody is told. */
void lossnet_kill(lossnet *net, uint32_t member);
/** member does not run for so long: what comes waits for it, and is taken before its timers. */
void lossnet_stall(lossnet *net, uint32_t member, uint64_t from_us, uint64_t for_us);
/** What a member says it waits for; returns whom it blames, UINT32_MAX: nobody. */
uint32_t lossnet_describe(const lossnet *net, uint32_t index, char *text, size_t text_bytes);
/** What a comm does at the deadline: the member that the one waits for, and why in words; then the
 *  flow fails with ETIMEDOUT. NONE: it names nobody. */
uint32_t lossnet_time_out(lossnet *net, uint32_t member, char *text, size_t text_bytes);
/** A datagram from anybody, now. True: the flow says that it is its own. */
bool lossnet_inject(lossnet *net, uint32_t from, uint32_t to, const void *bytes, size_t len_bytes);
const lossnet_result *lossnet_result_of(const lossnet *net, uint32_t member);
void *lossnet_state(const lossnet *net, uint32_t member);
uint64_t lossnet_packets(const lossnet *net);
uint64_t lossnet_now_us(const lossnet *net);

#endif
