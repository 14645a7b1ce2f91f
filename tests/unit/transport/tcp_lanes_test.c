/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes over several links: on loopback, where a second address is invented that leads to the same
 * endpoint, or to nobody. */
#include "support/net.h"

#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp.h"

enum { FRAMES = 60, BODY = 200000 };

static shoali_tcp_peer *peer_of(net *n)
{
    return &((shoali_tcp *)n->nodes[0].state)->peers[1];
}

static uint32_t count_lanes(net *n)
{
    uint32_t count = 0;
    for (const shoali_conn *c = peer_of(n)->conns; c != NULL; c = c->next)
        count += !c->control && c->dialled && c->state == SHOALI_CONN_OPEN;
    return count;
}

/* Those that node 0 dialled are open at node 1, too. */
static uint32_t count_taken(net *n)
{
    uint32_t count = 0;
    for (const shoali_conn *c = ((shoali_tcp *)n->nodes[1].state)->peers[0].conns; c != NULL;
         c = c->next)
        count += !c->control && !c->dialled && c->state == SHOALI_CONN_OPEN;
    return count;
}

/* Node 1 has a second link, whose address is this one. */
static void invent_link(net *n, const shoali_ip *ip)
{
    shoali_tcp_peer *p = peer_of(n);
    assert_int_equal(p->links, 1);
    p->links = 2;
    p->address.ips[1] = *ip;
    p->address.ip_count = 2;
}

static void send_all(net *n, const uint8_t *body)
{
    for (uint32_t i = 0; i < FRAMES; i++) {
        shoal_data head = {77, i, 0, BODY, 0, false};
        assert_ok(n->nodes[0].row->send(n->nodes[0].state, 1, 0, &head, body, i));
        net_turn(n, 0);
    }
    NET_UNTIL(n, n->nodes[1].complete == FRAMES);
    for (size_t i = 0; i < n->nodes[1].body_count; i++)
        assert_memory_equal(n->nodes[1].bodies[i].bytes, body, BODY);
}

static void each_link_gets_a_lane(void **state)
{
    (void)state;
    net n;
    uint8_t *body = malloc(BODY);
    net_fill(body, BODY, 7);
    net_open(&n, 2, "tcp:shm=off");
    invent_link(&n, &peer_of(&n)->address.ips[0]);
    send_all(&n, body);
    NET_UNTIL(&n, count_lanes(&n) == 2);
    for (const shoali_conn *c = peer_of(&n)->conns; c != NULL; c = c->next)
        assert_true(c->control || c->spare == (c->lane > 0));
    net_close(&n);
    free(body);
}

static void a_link_that_leads_nowhere_is_left_out(void **state)
{
    (void)state;
    net n;
    shoali_ip nobody = {0};
    socklen_t bytes = sizeof nobody;
    uint8_t *body = malloc(BODY);
    int unused = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(shoali_ip_parse("127.0.0.1", &nobody));
    assert_int_equal(bind(unused, &nobody.any, shoali_ip_bytes(&nobody)), 0);
    assert_int_equal(getsockname(unused, &nobody.any, &bytes), 0);
    net_fill(body, BODY, 8);
    net_open(&n, 2, "tcp:shm=off");
    invent_link(&n, &nobody);
    send_all(&n, body);
    assert_int_equal(count_lanes(&n), 1);
    assert_int_equal(peer_of(&n)->links_off, 2);
    assert_int_equal(n.nodes[0].downs[1] + n.nodes[1].downs[0], 0);
    net_close(&n);
    close(unused);
    free(body);
}

/* The other side sees its end of it break as well, and neither takes the other for dead. */
static void a_link_that_breaks_takes_nobody_along(void **state)
{
    (void)state;
    net n;
    uint8_t *body = malloc(BODY);
    net_fill(body, BODY, 9);
    net_open(&n, 2, "tcp:shm=off");
    invent_link(&n, &peer_of(&n)->address.ips[0]);
    ((shoali_tcp *)n.nodes[1].state)->peers[0].links = 2;
    send_all(&n, body);
    /* all may have gone by the first lane; one that is not open yet would be given up in silence */
    NET_UNTIL(&n, count_lanes(&n) == 2 && count_taken(&n) == 2);
    for (const shoali_conn *c = peer_of(&n)->conns; c != NULL; c = c->next)
        if (c->spare)
            assert_int_equal(shutdown(c->fd, SHUT_RDWR), 0);
    NET_UNTIL(&n, n.nodes[0].link_downs[1] == 1 && n.nodes[1].link_downs[0] == 1);
    assert_int_equal(n.nodes[0].downs[1] + n.nodes[1].downs[0], 0);
    assert_non_null(strstr(n.nodes[0].text[1], "link 127.0.0.1 - 127.0.0.1 broke"));
    assert_int_equal(count_lanes(&n), 1);
    n.nodes[1].complete = 0;
    send_all(&n, body);
    net_close(&n);
    free(body);
}

/* Its kernel acknowledges: if nothing more is heard, it is the process that is stopped. */
static void a_silent_process_is_told_from_a_silent_host(void **state)
{
    (void)state;
    net n;
    char text[SHOALI_LINKS_TEXT_BYTES];
    net_open(&n, 2, "tcp:shm=off");
    n.nodes[0].row->links(n.nodes[0].state, 1, text);
    assert_string_equal(text, "its host answers, its process does not");
    ((shoali_tcp *)n.nodes[0].state)->args.deadline_us = 0; /* no silence is short enough */
    n.nodes[0].row->links(n.nodes[0].state, 1, text);
    assert_string_equal(text, "");
    peer_of(&n)->links = 2;
    n.nodes[0].row->links(n.nodes[0].state, 1, text);
    assert_string_equal(text, "127.0.0.1 - 127.0.0.1 is silent");
    net_close(&n);
}

/* As soon as the control connection ends, too, it is the peer that has ended. */
static void a_process_that_ends_is_no_broken_link(void **state)
{
    (void)state;
    net n;
    uint8_t *body = malloc(BODY);
    net_fill(body, BODY, 10);
    net_open(&n, 2, "tcp:shm=off");
    invent_link(&n, &peer_of(&n)->address.ips[0]);
    send_all(&n, body);
    for (int control = 0; control < 2; control++)
        for (const shoali_conn *c = ((shoali_tcp *)n.nodes[1].state)->peers[0].conns; c != NULL;
             c = c->next)
            if (c->control == (control == 1))
                assert_int_equal(shutdown(c->fd, SHUT_RDWR), 0);
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].why[1], SHOAL_EPEER);
    assert_int_equal(n.nodes[0].link_downs[1], 0);
    net_close(&n);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(each_link_gets_a_lane),
        CHECK_TEST(a_link_that_leads_nowhere_is_left_out),
        CHECK_TEST(a_link_that_breaks_takes_nobody_along),
        CHECK_TEST(a_process_that_ends_is_no_broken_link),
        CHECK_TEST(a_silent_process_is_told_from_a_silent_host),
    };
    return CHECK_RUN(tests);
}
