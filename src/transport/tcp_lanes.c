/* SPDX-License-Identifier: Apache-2.0 */
/* By which of its data connections a frame travels. Where two hosts share one link they are alike,
 * and the shortest queue counts; lanes on links of their own are compared by time: what waits, in
 * our queue and in the kernel, over the rate that TCP has seen acknowledged there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/tcp.h"

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

static bool is_off(const shoali_tcp_peer *p, uint32_t link)
{
    return (p->links_off >> link & 1) != 0;
}

/* Lane 0 tries all addresses, those of broken links last. */
static uint32_t first_link(const shoali_tcp_peer *p)
{
    uint32_t link = 0;
    while (link < p->links && is_off(p, link))
        link++;
    return link < p->links ? link : 0;
}

/* The first lane that is not there yet; one for each link (and no more unless there is a `crowd`),
 * then a second one for each. NULL: all are there, or there is no memory. */
static shoali_conn *add_lane(shoali_tcp *tcp, shoali_tcp_peer *p, uint32_t peer, uint8_t tos,
                             bool crowd)
{
    uint32_t links = p->links > 0 ? p->links : 1;
    uint32_t lane = 0, lanes = crowd ? links * (uint32_t)tcp->params.lanes : links;
    while (lane < lanes && (has_lane(p, tos, lane) || (lane > 0 && is_off(p, lane % links))))
        lane++;
    shoali_conn *conn = lane < lanes ? shoali_conn_create(tcp, peer, false, true) : NULL;
    if (conn == NULL)
        return NULL;
    shoali_conn_mark(conn, tos);
    conn->lane = (uint16_t)lane;
    conn->dial_ip = p->tunnelled ? p->address.ip_count : lane > 0 ? lane % links : first_link(p);
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
    if (best == NULL || before_best > 0 || p->links > 1) {
        shoali_conn *fresh = add_lane(tcp, p, peer, tos, best == NULL || before_best > 0);
        best = best != NULL ? best : fresh;
    }
    if (best != NULL && p->links > 1)
        best->rate.used_us = shoali_tcp_now(tcp);
    return best;
}

/* ---------------------------------------------------------------- links that break */

/* "10.78.0.1 - 10.78.0.2" */
static void name_link(const shoali_ip *here, const shoali_ip *there, char *out, size_t bytes)
{
    char from[SHOALI_IP_TEXT_BYTES], to[SHOALI_IP_TEXT_BYTES];
    shoali_ip_format(here, from);
    shoali_ip_format(there, to);
    snprintf(out, bytes, "%.40s - %.40s", from, to);
}

/* The kernel at its other end does: it acknowledges data, or the probes of an idle connection. Who
 * has been silent for more than half of the deadline is not spoken to any more (member/life.h). */
static bool answers(const shoali_tcp *tcp, const shoali_conn *conn)
{
    return conn->state == SHOALI_CONN_OPEN &&
           shoali_tcp_silent_us(conn->fd) < (uint64_t)tcp->args.deadline_us / 4 * 3;
}

static void say_answering(const shoali_tcp *tcp, uint32_t peer, const shoali_ip *but, char *out,
                          size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (const shoali_conn *c = tcp->peers[peer].conns; c != NULL; c = c->next) {
        char link[96];
        if (shoali_ip_equal(&c->there, but) || !answers(tcp, c))
            continue;
        name_link(&c->here, &c->there, link, sizeof link);
        if (strstr(out, link) == NULL && used + strlen(link) + 3 < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used > 0 ? ", " : "", link);
    }
    if (used > 0 && used + sizeof " answers" < bytes)
        snprintf(out + used, bytes - used, " answers");
}

void shoali_lanes_text(const shoali_tcp *tcp, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES])
{
    const shoali_tcp_peer *p = &tcp->peers[peer];
    char link[96], others[SHOALI_LINKS_TEXT_BYTES];
    out[0] = '\0';
    if (p->control == NULL || p->tunnelled)
        return;
    if (answers(tcp, p->control)) {
        snprintf(out, SHOALI_LINKS_TEXT_BYTES, "its host answers, its process does not");
        return;
    }
    if (p->links < 2)
        return;
    name_link(&p->control->here, &p->control->there, link, sizeof link);
    say_answering(tcp, peer, &p->control->there, others, sizeof others);
    snprintf(out, SHOALI_LINKS_TEXT_BYTES, "%s is silent%s%.64s", link,
             others[0] != '\0' ? ", " : "", others);
}

static void turn_off(shoali_tcp_peer *p, const shoali_ip *there)
{
    for (uint32_t i = 0; i < p->links; i++)
        if (shoali_ip_equal(&p->address.ips[i], there))
            p->links_off |= UINT32_C(1) << i;
}

static void tell(shoali_tcp *tcp, uint32_t peer, bool lost, const char *text)
{
    if (tcp->events.link_down != NULL)
        tcp->events.link_down(tcp->events.ctx, peer, lost, text);
}

bool shoali_lane_is_one_of_several(const shoali_conn *conn)
{
    const shoali_tcp_peer *p = &conn->tcp->peers[conn->peer];
    return !conn->control && p->state == SHOALI_PEER_UP && p->links > 1 && !p->tunnelled &&
           p->control != NULL && p->control->state == SHOALI_CONN_OPEN;
}

void shoali_lane_lost(shoali_conn *conn, shoal_status status, const char *what)
{
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    shoali_tcp_peer *p = &tcp->peers[peer];
    char link[96], others[SHOALI_LINKS_TEXT_BYTES];
    name_link(&conn->here, &conn->there, link, sizeof link);
    say_answering(tcp, peer, &conn->there, others, sizeof others);
    snprintf(p->reason_text, sizeof p->reason_text, "link %s broke (%.60s)%s%.80s", link, what,
             others[0] != '\0' ? ", " : "", others);
    turn_off(p, &conn->there);
    shoali_conn_kill(conn, status);
    if (p->state != SHOALI_PEER_UP)
        return;
    if (status == SHOAL_ETIMEDOUT)
        tell(tcp, peer, true, p->reason_text);
    else
        shoali_peer_set_timer(tcp, p, SHOALI_TCP_GRACE_US);
}

void shoali_lanes_judge(shoali_tcp *tcp, uint32_t peer)
{
    const shoali_tcp_peer *p = &tcp->peers[peer];
    if (p->control == NULL)
        return;
    if (tcp->now_us - p->control->heard_us < (uint64_t)tcp->args.deadline_us / 2)
        tell(tcp, peer, true, p->reason_text);
    else /* it has given this rank up, and its control connection cannot say so */
        shoali_peer_fail(tcp, peer, SHOAL_ETIMEDOUT, p->reason_text);
}

void shoali_lane_give_up(shoali_conn *conn, shoal_status status, const char *what)
{
    shoali_tcp *tcp = conn->tcp;
    uint32_t peer = (uint32_t)conn->peer;
    char ip[SHOALI_IP_TEXT_BYTES], text[SHOALI_TCP_TEXT_BYTES];
    shoali_tcp_peer *p = &tcp->peers[peer];
    shoali_ip_format(&p->address.ips[conn->dial_ip], ip);
    p->links_off |= UINT32_C(1) << conn->dial_ip;
    snprintf(text, sizeof text, "the link by %.40s is not used: %.160s", ip, what);
    shoali_conn_kill(conn, status);
    tell(tcp, peer, false, text);
}
