/* SPDX-License-Identifier: Apache-2.0 */
/* By which of its data connections a frame travels. Where two hosts share one link they are alike,
 * and the shortest queue counts; lanes on links of their own are compared by time: what waits, in
 * our queue and in the kernel, over the rate that TCP has seen acknowledged there. */
#include <math.h>

#include "transport/tcp.h"
#include "wire/guard.h"

enum {
    RATE_BYTES = 512 << 10, /* a lane's rate is measured over so much and so long */
    RATE_US = 10000,
    RATE_OLD_US = 30000000, /* without use: then it is measured anew */
    PROBE_BYTES = 256 << 10
};

/* What is before a frame that this connection gets now, in bytes. */
static uint64_t backlog(const shoali_tcp_peer *p, const shoali_conn *conn)
{
    uint64_t bytes = conn->tx.box.queued_bytes;
    return p->links < 2 || conn->state != SHOALI_CONN_OPEN ? bytes
                                                           : bytes + shoali_tcp_unacked(conn->fd);
}

/* What the lane has carried lately; the counters count while there is something to carry. */
static void measure_lane(shoali_tcp_peer *p, shoali_conn *conn, uint64_t before, uint64_t now_us)
{
    uint64_t acked = 0, busy_us = 0;
    shoali_lane_rate *r = &conn->rate;
    shoali_tcp_count(conn->fd, &acked, &busy_us);
    if (before == 0 && now_us - r->used_us >= RATE_OLD_US)
        r->bytes_us = 0;
    if (acked - r->acked_bytes < RATE_BYTES || busy_us - r->busy_us < RATE_US)
        return;
    r->bytes_us = (double)(acked - r->acked_bytes) / (double)(busy_us - r->busy_us);
    r->acked_bytes = acked;
    r->busy_us = busy_us;
    p->best_rate = r->bytes_us > p->best_rate ? r->bytes_us : p->best_rate;
}

/* When a frame of so many bytes would be through; on one link nobody asks in which unit. A lane of
 * unknown rate counts as fast as the fastest, but waits for an answer before it gets much. */
static double time_through(shoali_tcp *tcp, shoali_tcp_peer *p, shoali_conn *conn, uint64_t before,
                           uint32_t len_bytes)
{
    double bytes = (double)before + len_bytes;
    if (p->links < 2 || conn->state != SHOALI_CONN_OPEN)
        return bytes;
    measure_lane(p, conn, before, shoali_tcp_now(tcp));
    if (conn->rate.bytes_us > 0)
        return bytes / conn->rate.bytes_us;
    if (before >= PROBE_BYTES)
        return HUGE_VAL;
    return bytes / (p->best_rate > 0 ? p->best_rate : 1);
}

static bool has_lane(const shoali_tcp_peer *p, uint8_t tos, uint32_t lane)
{
    for (const shoali_conn *conn = p->conns; conn != NULL; conn = conn->next)
        if (conn->dialled && !conn->control && conn->tos == tos && conn->lane == lane)
            return true;
    return false;
}

/* The first lane that is not there yet; one for each link, then a second one for each. NULL: all
 * are there, or there is no memory. */
static shoali_conn *add_lane(shoali_tcp *tcp, shoali_tcp_peer *p, uint32_t peer, uint8_t tos)
{
    uint32_t links = p->links > 0 ? p->links : 1;
    uint32_t lane = 0, lanes = links * (uint32_t)tcp->params.lanes;
    while (lane < lanes &&
           (has_lane(p, tos, lane) || (lane > 0 && (p->links_off >> lane % links & 1) != 0)))
        lane++;
    shoali_conn *conn = lane < lanes ? shoali_conn_create(tcp, peer, false, true) : NULL;
    if (conn == NULL)
        return NULL;
    conn->tos = tos;
    conn->tx.box.guarded = tos == SHOALI_TOS_FLOATS;
    conn->lane = (uint16_t)lane;
    conn->dial_ip = p->tunnelled ? p->address.ip_count : lane % links;
    conn->spare = lane > 0;
    conn->give_up_us = shoali_tcp_now(tcp) + (uint64_t)tcp->args.deadline_us;
    shoali_conn_set_timer(conn, 0);
    return conn;
}

shoali_conn *shoali_tcp_pick_lane(shoali_tcp *tcp, uint32_t peer, uint8_t tos, uint32_t len_bytes)
{
    shoali_tcp_peer *p = &tcp->peers[peer];
    shoali_conn *best = NULL;
    double least = 0;
    uint64_t before_best = 0;
    for (shoali_conn *conn = p->conns; conn != NULL; conn = conn->next) {
        if (!conn->dialled || conn->control || conn->tos != tos ||
            (conn->spare && conn->state != SHOALI_CONN_OPEN))
            continue;
        uint64_t before = backlog(p, conn);
        double wait = time_through(tcp, p, conn, before, len_bytes);
        if (best != NULL && wait >= least)
            continue;
        best = conn;
        least = wait;
        before_best = before;
    }
    if (best == NULL || before_best > 0) {
        shoali_conn *fresh = add_lane(tcp, p, peer, tos);
        best = best != NULL ? best : fresh;
    }
    if (best != NULL && p->links > 1)
        best->rate.used_us = shoali_tcp_now(tcp);
    return best;
}
