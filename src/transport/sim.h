/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated links in virtual time, for the real engine with real bytes on tens of endpoints in one
 * process. A fabric joins endpoints by a switch that never blocks: each has an uplink and a
 * downlink with a rate, and any two are a latency apart. Links are shared in segments, turn by turn
 * among the peers; a window per pair keeps a slow receiver from filling the switch. Deterministic:
 * events run in order of (time, insertion), chance comes from the seed.
 *
 * The row is not in the table, because no spec string can name a fabric: pass it in args.fabric.
 * Who drives it:
 *
 *     for (;;) {
 *         while (shoali_fabric_next_ready(fabric, &endpoint))
 *             shoali_transport_sim.progress(states[endpoint], now_us);
 *         if (!shoali_fabric_advance(fabric))
 *             break;
 *     } */
#ifndef SHOALI_TRANSPORT_SIM_H
#define SHOALI_TRANSPORT_SIM_H

#include "transport/transport.h"

typedef struct shoali_fabric shoali_fabric;

typedef struct shoali_fabric_desc {
    uint32_t endpoints;
    uint64_t rate_bps;   /* bits per second, of every uplink and downlink */
    uint64_t latency_ns; /* one way, between any two */
    uint64_t jitter_ns;  /* at most so much more, by chance, per segment; a pair keeps its order */
    uint64_t window_bytes; /* under way per pair; 0: 1 MiB */
    uint64_t seed;
} shoali_fabric_desc;

/** NULL: no memory, or a desc without endpoints or rate (EINVAL); last error set. */
shoali_fabric *shoali_fabric_create(const shoali_fabric_desc *desc);
/** Every transport has to be closed before. NULL is allowed. */
void shoali_fabric_destroy(shoali_fabric *sim);

/** From now on, of one endpoint; bits per second, not 0. */
void shoali_fabric_set_rate(shoali_fabric *sim, uint32_t endpoint, uint64_t up_bps,
                            uint64_t down_bps);

uint64_t shoali_fabric_now_ns(const shoali_fabric *sim);
/** For transport args: now_us(fabric). */
uint64_t shoali_fabric_now_us(void *sim);

/** An endpoint that something has happened to: call its progress. False: none. */
bool shoali_fabric_next_ready(shoali_fabric *sim, uint32_t *endpoint_out);
/** Let the next event happen; time is its time then. False: there is none. */
bool shoali_fabric_advance(shoali_fabric *sim);
/** Have fn(ctx) called at time_ns (not before now), from inside advance. */
SHOAL_MUST_USE shoal_status shoali_fabric_at(shoali_fabric *sim, uint64_t time_ns,
                                             void (*fn)(void *ctx), void *ctx);

/** The process of endpoint dies: its peers learn it (EPEER) a latency later, it hears nothing
 * more. */
void shoali_fabric_kill(shoali_fabric *sim, uint32_t endpoint);
/** The cable of endpoint is cut: nothing passes, and both sides notice (ETIMEDOUT) after their
 *  deadline_us. */
void shoali_fabric_cut(shoali_fabric *sim, uint32_t endpoint);

/** Events so far: equal in equal runs. */
uint64_t shoali_fabric_events(const shoali_fabric *sim);

extern const shoali_transport_row shoali_transport_sim;

#endif
