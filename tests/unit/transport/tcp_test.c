/* SPDX-License-Identifier: Apache-2.0 */
/* What is special about tcp; what all transports promise is in
 * tests/conformance/transport_test.c. */
#include "support/net.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "transport/tcp.h"

static shoali_tcp *tcp_of(net *n, uint32_t node)
{
    return n->nodes[node].state;
}

static void collect(void *ctx, shoali_log_level level, const char *line)
{
    (void)level;
    strncat(ctx, line, 4095 - strlen(ctx));
}

static uint32_t count_data_conns(net *n, uint32_t node, uint32_t peer, bool dialled)
{
    uint32_t count = 0;
    for (const shoali_conn *c = tcp_of(n, node)->peers[peer].conns; c != NULL; c = c->next)
        count += !c->control && c->dialled == dialled && c->state == SHOALI_CONN_OPEN;
    return count;
}

/* ---------------------------------------------------------------- connections */

static void data_connections_are_made_on_demand_and_per_lane(void **state)
{
    (void)state;
    enum { FRAMES = 30, BODY = 100000 };
    net n;
    uint8_t *body = malloc(BODY);
    net_open(&n, 2, "tcp:lanes=3");
    assert_int_equal(count_data_conns(&n, 0, 1, true) + count_data_conns(&n, 1, 0, true), 0);
    net_fill(body, BODY, 0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        shoal_data head = {77, i, 0, BODY, 0, false};
        assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0, &head, body, i));
    }
    NET_UNTIL(&n, n.nodes[1].complete == FRAMES);
    assert_int_equal(count_data_conns(&n, 0, 1, true), 3);
    assert_int_equal(count_data_conns(&n, 1, 0, false), 3);
    assert_int_equal(count_data_conns(&n, 1, 0, true), 0); /* one direction each */
    net_close(&n);
    free(body);
}

static void each_tos_has_its_own_marked_connection(void **state)
{
    (void)state;
    static const uint8_t marks[] = {0, 0x28, 0x10, 0x28};
    net n;
    net_open(&n, 2, "tcp");
    for (uint32_t i = 0; i < 4; i++) {
        shoal_data head = {77, i, 0, 4, 0, false};
        assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, marks[i], &head, "body", i));
        NET_UNTIL(&n, n.nodes[1].complete == i + 1);
    }
    assert_int_equal(count_data_conns(&n, 0, 1, true), 3);
    for (const shoali_conn *c = tcp_of(&n, 0)->peers[1].conns; c != NULL; c = c->next) {
        int tos = -1;
        socklen_t bytes = sizeof tos;
        assert_int_equal(getsockopt(c->fd, IPPROTO_IP, IP_TOS, &tos, &bytes), 0);
        assert_int_equal(tos, c->tos);
    }
    net_close(&n);
}

/* On a marked connection the accepting side, too, says goodbye with guarded words: whoever leaves
 * first, the other hears a goodbye and no broken frame. */
static void either_end_of_a_marked_connection_may_leave_first(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        net n;
        net_open(&n, 2, "tcp");
        shoal_data head = {77, 1, 0, 4, 0, false};
        assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0x28, &head, "body", 1));
        NET_UNTIL(&n, n.nodes[1].complete == 1);
        net_close_node(&n, first);
        NET_UNTIL(&n, n.nodes[1 - first].downs[first] == 1);
        assert_int_equal(n.nodes[1 - first].why[first], SHOAL_OK);
        assert_non_null(strstr(n.nodes[1 - first].text[first], "said goodbye"));
        net_close(&n);
    }
}

static void ipv6_works_as_well(void **state)
{
    (void)state;
    net n = {0};
    int tos = -1;
    socklen_t bytes = sizeof tos;
    for (uint32_t i = 0; i < 2; i++) {
        shoali_transport_args args = net_args(i, 2);
        args.interface = "::1";
        if (net_open_node(&n, i, "tcp", &args) != SHOAL_OK) {
            net_close(&n);
            skip(); /* this host has no IPv6 */
        }
    }
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1 && n.nodes[1].ups[0] == 1);
    shoal_data head = {77, 1, 0, 4, 0, false};
    assert_ok(n.nodes[0].row->send(n.nodes[0].state, 1, 0x28, &head, "body", 1));
    NET_UNTIL(&n, n.nodes[1].complete == 1);
    const shoali_conn *data = tcp_of(&n, 0)->peers[1].conns;
    assert_false(data->control);
    assert_int_equal(getsockopt(data->fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, &bytes), 0);
    assert_int_equal(tos, 0x28);
    net_close(&n);
}

static void sockets_carry_the_deadline(void **state)
{
    (void)state;
    net n;
    net_open(&n, 2, "tcp");
    for (uint32_t i = 0; i < 2; i++) {
        int fd = tcp_of(&n, i)->peers[1 - i].control->fd, value = 0;
        socklen_t bytes = sizeof value;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes), 0);
        assert_int_equal(value, 2000);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes), 0);
        assert_int_equal(value, 1);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
        assert_int_equal(value, 1);
    }
    net_close(&n);
}

/* The higher endpoint may call long before the lower one knows of it. */
static void an_early_caller_waits(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args first = net_args(0, 2), second = net_args(1, 2);
    assert_ok(net_open_node(&n, 0, "tcp", &first));
    assert_ok(net_open_node(&n, 1, "tcp", &second));
    assert_ok(n.nodes[1].row->add_peer(n.nodes[1].state, 0, n.nodes[0].address));
    NET_UNTIL(&n, n.nodes[1].ups[0] == 1);
    assert_ok(n.nodes[1].row->control(n.nodes[1].state, 0, 21, "early", 5));
    assert_ok(net_send(&n, 1, 0, 1, (const uint8_t *)"", 0));
    for (int i = 0; i < 5; i++)
        net_turn(&n, 1000);
    assert_int_equal(n.nodes[0].ups[1] + n.nodes[0].controls + n.nodes[0].body_count, 0);
    assert_ok(n.nodes[0].row->add_peer(n.nodes[0].state, 1, n.nodes[1].address));
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1 && n.nodes[0].controls == 1 && n.nodes[0].complete == 1);
    net_close(&n);
}

static void a_dropped_peer_may_come_back(void **state)
{
    (void)state;
    net n;
    shoali_transport_args again = net_args(1, 2);
    net_open(&n, 2, "tcp");
    net_close_node(&n, 1);
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    n.nodes[0].row->drop_peer(n.nodes[0].state, 1, false);
    again.incarnation = 5;
    assert_ok(net_open_node(&n, 1, "tcp", &again));
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 2 && n.nodes[1].ups[0] == 1);
    assert_ok(net_send(&n, 0, 1, 1, (const uint8_t *)"", 0));
    NET_UNTIL(&n, n.nodes[1].complete == 1);
    net_close(&n);
}

/* ---------------------------------------------------------------- who may not come in */

/* Node 1 with other args meets node 0; node 1 learns `why` at once, node 0 when its patience ends,
 * with the reason. */
static void expect_refusal(const shoali_transport_args *args, shoal_status why,
                           const char *caller_says, const char *listener_says)
{
    net n = {0};
    char log[4096] = "";
    shoali_transport_args first = net_args(0, 2);
    shoali_log_set_sink(collect, log);
    assert_ok(net_open_node(&n, 0, "tcp", &first));
    assert_ok(net_open_node(&n, 1, "tcp", args));
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[1].why[0], why);
    assert_non_null(strstr(n.nodes[1].text[0], caller_says));
    NET_UNTIL(&n, shoali_tcp_refused(n.nodes[0].state) > 0);
    assert_non_null(strstr(log, listener_says));
    assert_int_equal(n.nodes[0].downs[1], 0); /* nobody is taken down by whoever uses its name */
    n.skew_us += 11000000;
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].why[1], why);
    assert_non_null(strstr(n.nodes[0].text[1], listener_says));
    shoali_log_set_sink(NULL, NULL);
    net_close(&n);
}

static void another_token_is_refused_at_both_ends(void **state)
{
    (void)state;
    shoali_transport_args args = net_args(1, 2);
    args.token = (const uint8_t *)"not this one";
    args.token_bytes = 12;
    expect_refusal(&args, SHOAL_EAUTH, "does not hold the token", "wrong token");
    args.token_bytes = 0;
    expect_refusal(&args, SHOAL_EAUTH, "does not hold the token", "wrong token");
}

static void another_job_is_refused_at_both_ends(void **state)
{
    (void)state;
    shoali_transport_args args = net_args(1, 2);
    args.job = "another";
    expect_refusal(&args, SHOAL_EAUTH, "belongs to another job", "job 'another'");
}

static void no_token_will_do_on_one_host(void **state)
{
    (void)state;
    net n = {0};
    for (uint32_t i = 0; i < 2; i++) {
        shoali_transport_args args = net_args(i, 2);
        args.token_bytes = 0;
        assert_ok(net_open_node(&n, i, "tcp", &args));
    }
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1 && n.nodes[1].ups[0] == 1);
    net_close(&n);
}

static void no_token_will_not_do_between_hosts(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    args.token_bytes = 0;
    assert_ok(net_open_node(&n, 0, "tcp", &args));
    assert_status(
        n.nodes[0].row->add_peer(n.nodes[0].state, 1,
                                 "host=other port=4000 ip=10.1.2.3 boot=someone-else netns=1"),
        SHOAL_EAUTH);
    assert_error_has("no job token");
    assert_error_has("other");
    net_close(&n);
}

/* ---------------------------------------------------------------- strangers */

static int call(const net *n, uint32_t node)
{
    shoali_address address;
    assert_ok(shoali_address_parse(n->nodes[node].address, &address));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, &address.ips[0].any, shoali_ip_bytes(&address.ips[0])), 0);
    return fd;
}

static void garbage_is_turned_away_and_others_do_not_notice(void **state)
{
    (void)state;
    enum { STRANGERS = 40 };
    net n;
    char log[4096] = "";
    shoali_rng rng = {check_seed(), 4, 0};
    shoali_log_set_sink(collect, log);
    net_open(&n, 2, "tcp");
    for (int i = 0; i < STRANGERS; i++) {
        uint8_t bytes[300];
        int fd = call(&n, 0);
        shoali_hello hello = {.endpoint = 1, .job = "test"};
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] = (uint8_t)shoali_rng_next(&rng);
        if (i % 3 == 0)
            shoali_hello_encode(&hello, bytes); /* a good hello, then garbage */
        if (i % 3 == 1)
            memcpy(bytes, "GET / HTTP/1.1\r\n", 16);
        assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        net_turn(&n, 0);
        close(fd);
    }
    NET_UNTIL(&n, shoali_tcp_refused(n.nodes[0].state) == STRANGERS);
    assert_int_equal(tcp_of(&n, 0)->stranger_count, 0);
    assert_ok(net_send(&n, 0, 1, 1, (const uint8_t *)"", 0));
    NET_UNTIL(&n, n.nodes[1].complete == 1);
    assert_int_equal(n.nodes[0].downs[1] + n.nodes[1].downs[0], 0);
    shoali_log_set_sink(NULL, NULL);
    assert_non_null(strstr(log, "does not speak Shoal's protocol"));
    net_close(&n);
}

static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static void silent_strangers_are_bounded_in_number_and_time(void **state)
{
    (void)state;
    enum { STRANGERS = 90 };
    net n = {0};
    int fds[STRANGERS];
    char log[4096] = "";
    shoali_log_set_sink(collect, log);
    shoali_transport_args args = net_args(0, 2), caller = net_args(1, 2);
    assert_ok(net_open_node(&n, 0, "tcp", &args));
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = call(&n, 0);
        assert_int_equal(send(fds[i], "SH", 2, MSG_NOSIGNAL), 2); /* a slow one */
        net_turn(&n, 0);
    }
    uint32_t limit = tcp_of(&n, 0)->max_strangers;
    assert_true(limit < STRANGERS);
    NET_UNTIL(&n, shoali_tcp_refused(n.nodes[0].state) == STRANGERS - limit);
    assert_true(is_closed(fds[0])); /* the oldest made room */
    assert_false(is_closed(fds[STRANGERS - 1]));
    assert_ok(net_open_node(&n, 1, "tcp", &caller)); /* a member gets in all the same */
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1 && n.nodes[1].ups[0] == 1);
    n.skew_us += 6000000;
    NET_UNTIL(&n, tcp_of(&n, 0)->stranger_count == 0);
    assert_true(is_closed(fds[STRANGERS - 1]));
    assert_int_equal(n.nodes[0].downs[1], 0);
    shoali_log_set_sink(NULL, NULL);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    net_close(&n);
}

static void another_version_is_told_so(void **state)
{
    (void)state;
    net n;
    char log[4096] = "", text[SHOALI_REFUSAL_TEXT_BYTES];
    uint8_t bytes[SHOALI_HELLO_BYTES];
    shoali_hello hello = {.endpoint = 1, .job = "test"};
    shoali_hello_type type;
    size_t whole;
    shoali_log_set_sink(collect, log);
    net_open(&n, 2, "tcp");
    int fd = call(&n, 0);
    shoali_hello_encode(&hello, bytes);
    bytes[4] = SHOALI_HELLO_VERSION + 1;
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    NET_UNTIL(&n, shoali_tcp_refused(n.nodes[0].state) == 1);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), SHOALI_REFUSAL_BYTES);
    assert_ok(shoali_prefix_decode(bytes, &type, &whole));
    assert_int_equal(type, SHOALI_TYPE_REFUSAL);
    assert_int_equal(shoali_refusal_decode(bytes, text), SHOAL_EVERSION);
    assert_non_null(strstr(text, "same version"));
    shoali_log_set_sink(NULL, NULL);
    assert_non_null(strstr(log, "speaks protocol version 2"));
    close(fd);
    net_close(&n);
}

static void without_descriptors_listening_pauses(void **state)
{
    (void)state;
    net n;
    char log[4096] = "";
    struct rlimit before, low;
    shoali_log_set_sink(collect, log);
    net_open(&n, 2, "tcp");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)fd + 1; /* if nothing below is free, accept() has no descriptor */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(connect(fd, &tcp_of(&n, 0)->address.ips[0].any, sizeof(struct sockaddr_in)),
                     0);
    NET_UNTIL(&n, tcp_of(&n, 0)->listen_again_us != 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    struct pollfd quiet = {.fd = n.nodes[0].row->fd(n.nodes[0].state), .events = POLLIN};
    assert_int_equal(poll(&quiet, 1, 0), 0); /* no busy loop meanwhile */
    n.skew_us += 200000;
    NET_UNTIL(&n, tcp_of(&n, 0)->stranger_count == 1);
    shoali_log_set_sink(NULL, NULL);
    assert_non_null(strstr(log, "listening again"));
    close(fd);
    net_close(&n);
}

/* ---------------------------------------------------------------- a member that speaks nonsense */

/* Join as endpoint 1 by hand; returns the control connection. */
static int join_by_hand(net *n, const shoali_transport_args *args, shoali_purpose purpose)
{
    shoali_handshake h;
    shoali_hello hello = {
        .purpose = (uint8_t)purpose, .endpoint = 1, .target = 0, .incarnation = 7, .job = "test"};
    int fd = call(n, 0);
    shoali_handshake_start(&h, true, &hello, args->token, args->token_bytes);
    while (!h.done || h.out_len > 0) {
        uint8_t bytes[SHOALI_HELLO_BYTES];
        if (h.out_len > 0)
            assert_int_equal(send(fd, h.out, h.out_len, MSG_NOSIGNAL), h.out_len);
        h.out_len = 0;
        if (h.done)
            break;
        net_turn(n, 0);
        ssize_t got = recv(fd, bytes, shoali_handshake_want(&h), MSG_DONTWAIT);
        if (got > 0) {
            shoal_status status = shoali_handshake_feed(&h, bytes, (size_t)got);
            assert_true(status == SHOAL_OK || status == SHOAL_PENDING);
        }
    }
    return fd;
}

static void put_frame(int fd, shoali_frame frame, bool damage)
{
    uint8_t bytes[SHOALI_FRAME_BYTES];
    shoali_frame_encode(&frame, bytes);
    if (damage)
        bytes[9] ^= 1;
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

static void expect_down_after(shoali_purpose purpose, shoali_frame frame, bool damage,
                              shoal_status why, const char *says)
{
    net n = {0};
    int data = -1;
    shoali_transport_args args = net_args(0, 2);
    assert_ok(net_open_node(&n, 0, "tcp", &args));
    assert_ok(n.nodes[0].row->add_peer(n.nodes[0].state, 1, n.nodes[0].address));
    int fd = join_by_hand(&n, &args, SHOALI_PURPOSE_CONTROL);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1);
    if (purpose == SHOALI_PURPOSE_DATA)
        data = join_by_hand(&n, &args, purpose);
    put_frame(data >= 0 ? data : fd, frame, damage);
    if (frame.head.len_bytes > 0)
        assert_int_equal(send(data >= 0 ? data : fd, "abcd", 4, MSG_NOSIGNAL), 4);
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].why[1], why);
    assert_non_null(strstr(n.nodes[0].text[1], says));
    assert_int_equal(n.nodes[0].body_count, n.nodes[0].complete + n.nodes[0].unplaced);
    close(fd);
    if (data >= 0)
        close(data);
    net_close(&n);
}

static void nonsense_from_a_member_takes_it_down(void **state)
{
    (void)state;
    shoali_frame data = {.kind = SHOALI_MESSAGE_data, .head = {.len_bytes = 4}};
    shoali_frame message = {.kind = 20, .head = {.len_bytes = 4}};
    expect_down_after(SHOALI_PURPOSE_CONTROL, message, true, SHOAL_ECORRUPT, "checksum");
    expect_down_after(SHOALI_PURPOSE_DATA, data, true, SHOAL_ECORRUPT, "checksum");
    expect_down_after(SHOALI_PURPOSE_CONTROL, data, false, SHOAL_ECORRUPT, "data frame");
    expect_down_after(SHOALI_PURPOSE_DATA, message, false, SHOAL_ECORRUPT, "control frame");
    data.summed = message.summed = true;
    data.body_crc = message.body_crc = 1;
    expect_down_after(SHOALI_PURPOSE_DATA, data, false, SHOAL_ECORRUPT, "damaged");
    expect_down_after(SHOALI_PURPOSE_CONTROL, message, false, SHOAL_ECORRUPT, "damaged");
}

/* A connection that ends in the middle of a body is a death, even after a goodbye on the control
 * connection. */
static void a_torn_body_is_a_death(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    shoali_frame frame = {.kind = SHOALI_MESSAGE_data, .head = {.slot = 77, .len_bytes = 1000}};
    assert_ok(net_open_node(&n, 0, "tcp", &args));
    assert_ok(n.nodes[0].row->add_peer(n.nodes[0].state, 1, n.nodes[0].address));
    int fd = join_by_hand(&n, &args, SHOALI_PURPOSE_CONTROL);
    NET_UNTIL(&n, n.nodes[0].ups[1] == 1);
    int data = join_by_hand(&n, &args, SHOALI_PURPOSE_DATA);
    put_frame(data, frame, false);
    NET_UNTIL(&n, n.nodes[0].body_count == 1);
    put_frame(fd, (shoali_frame){.kind = SHOALI_MESSAGE_goodbye}, false);
    for (int i = 0; i < 3; i++)
        net_turn(&n, 1000);
    assert_int_equal(n.nodes[0].downs[1], 0); /* waits for the rest of the body */
    close(data);
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].why[1], SHOAL_EPEER);
    assert_int_equal(n.nodes[0].unplaced, 1);
    close(fd);
    net_close(&n);
}

/* ---------------------------------------------------------------- nobody there */

static void a_peer_that_never_comes_is_reported_with_the_reason(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(1, 3);
    assert_ok(net_open_node(&n, 1, "tcp", &args));
    n.count = 2;
    int unused = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, not listening: refuses */
    shoali_ip at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at.v4;
    assert_int_equal(bind(unused, &at.any, bytes), 0);
    assert_int_equal(getsockname(unused, &at.any, &bytes), 0);
    char address[SHOALI_ADDRESS_BYTES];
    snprintf(address, sizeof address, "host=away port=%u ip=127.0.0.1 boot=b netns=1",
             shoali_ip_port(&at));
    assert_ok(n.nodes[1].row->add_peer(n.nodes[1].state, 0, address));
    assert_ok(n.nodes[1].row->add_peer(n.nodes[1].state, 2, address));
    for (int i = 0; i < 30; i++)
        net_turn(&n, 1000);
    assert_int_equal(n.nodes[1].downs[0] + n.nodes[1].downs[2], 0);
    n.skew_us += 11000000;
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1 && n.nodes[1].downs[2] == 1);
    assert_int_equal(n.nodes[1].why[0], SHOAL_ETIMEDOUT);
    assert_non_null(strstr(n.nodes[1].text[0], "refused"));
    assert_non_null(strstr(n.nodes[1].text[0], "away"));
    assert_int_equal(n.nodes[1].why[2], SHOAL_ETIMEDOUT);
    assert_non_null(strstr(n.nodes[1].text[2], "did not connect within 10.0 s"));
    close(unused);
    net_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(data_connections_are_made_on_demand_and_per_lane),
        CHECK_TEST(each_tos_has_its_own_marked_connection),
        CHECK_TEST(either_end_of_a_marked_connection_may_leave_first),
        CHECK_TEST(ipv6_works_as_well),
        CHECK_TEST(sockets_carry_the_deadline),
        CHECK_TEST(an_early_caller_waits),
        CHECK_TEST(a_dropped_peer_may_come_back),
        CHECK_TEST(another_token_is_refused_at_both_ends),
        CHECK_TEST(another_job_is_refused_at_both_ends),
        CHECK_TEST(no_token_will_do_on_one_host),
        CHECK_TEST(no_token_will_not_do_between_hosts),
        CHECK_TEST(garbage_is_turned_away_and_others_do_not_notice),
        CHECK_TEST(silent_strangers_are_bounded_in_number_and_time),
        CHECK_TEST(another_version_is_told_so),
        CHECK_TEST(without_descriptors_listening_pauses),
        CHECK_TEST(nonsense_from_a_member_takes_it_down),
        CHECK_TEST(a_torn_body_is_a_death),
        CHECK_TEST(a_peer_that_never_comes_is_reported_with_the_reason),
    };
    return CHECK_RUN(tests);
}
