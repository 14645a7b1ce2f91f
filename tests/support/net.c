/* SPDX-License-Identifier: Apache-2.0 */
#include "support/net.h"

#include <poll.h>

#include "base/clock.h"
#include "transport/ofi.h"

enum { DEADLINE_US = 60000000, JOIN_US = 10000000, DEFAULT_DEADLINE_US = 2000000 };

uint64_t net_now_us(const net *n)
{
    return shoali_now_us() + n->skew_us;
}

static uint64_t now_us(void *ctx)
{
    const net_node *node = ctx;
    return net_now_us(node->net);
}

/* ---------------------------------------------------------------- events */

static uint8_t *place(void *ctx, uint32_t peer, const shoal_data *head)
{
    net_node *node = ctx;
    if (node->on_place != NULL)
        node->on_place(node, peer);
    if (head->slot == NET_UNWANTED_SLOT) {
        node->refused++;
        return NULL;
    }
    if (node->body_count == node->body_capacity) {
        node->body_capacity = node->body_capacity > 0 ? 2 * node->body_capacity : 64;
        node->bodies = realloc(node->bodies, node->body_capacity * sizeof *node->bodies);
        assert_non_null(node->bodies);
    }
    net_body *body = &node->bodies[node->body_count++];
    *body = (net_body){peer, *head, malloc(head->len_bytes > 0 ? head->len_bytes : 1), NET_PENDING};
    assert_non_null(body->bytes);
    return body->bytes;
}

static net_body *find(net_node *node, uint32_t peer, const shoal_data *head, const uint8_t *bytes)
{
    for (size_t i = 0; i < node->body_count; i++)
        if (node->bodies[i].bytes == bytes) {
            net_body *body = &node->bodies[i];
            assert_int_equal(body->from, peer);
            assert_memory_equal(&body->head.slot, &head->slot, 4 * sizeof(uint32_t));
            assert_int_equal(body->head.flags, head->flags);
            assert_int_equal(body->state, NET_PENDING);
            return body;
        }
    fail_msg("a body that was never placed");
    return NULL;
}

static void frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                   size_t count)
{
    net_node *node = ctx;
    for (size_t i = 0; i < count; i++) {
        find(node, peer, &heads[i], bodies[i])->state = NET_COMPLETE;
        node->complete++;
    }
}

static void unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    net_node *node = ctx;
    find(node, peer, head, body)->state = NET_UNPLACED;
    node->unplaced++;
}

static void sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    net_node *node = ctx;
    (void)peer;
    node->cookie_sum += cookie;
    if (status == SHOAL_OK)
        node->sent_ok++;
    else
        node->sent_failed++;
}

static void control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes, size_t len_bytes)
{
    net_node *node = ctx;
    node->controls++;
    node->last_kind = kind;
    node->last_control_bytes = len_bytes;
    if (len_bytes > 0)
        memcpy(node->last_control, bytes, len_bytes);
    if (node->on_control != NULL)
        node->on_control(node, peer);
}

static void peer_up(void *ctx, uint32_t peer)
{
    net_node *node = ctx;
    node->ups[peer]++;
}

static void link_down(void *ctx, uint32_t peer, bool lost, const char *text)
{
    net_node *node = ctx;
    (void)lost;
    node->link_downs[peer]++;
    snprintf(node->text[peer], sizeof node->text[peer], "%s", text);
}

static void peer_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    net_node *node = ctx;
    node->downs[peer]++;
    node->why[peer] = why;
    snprintf(node->text[peer], sizeof node->text[peer], "%s", text);
}

/* ---------------------------------------------------------------- open, join, close */

shoali_transport_args net_args(uint32_t me, uint32_t size)
{
    static const uint8_t token[16] = "a test's secret";
    return (shoali_transport_args){.me = me,
                                   .size = size,
                                   .incarnation = 1000 + me,
                                   .job = "test",
                                   .token = token,
                                   .token_bytes = sizeof token,
                                   .interface = "127.0.0.1",
                                   .deadline_us = DEFAULT_DEADLINE_US,
                                   .join_us = JOIN_US};
}

shoal_status net_open_node(net *n, uint32_t me, const char *spec, const shoali_transport_args *args)
{
    net_node *node = &n->nodes[me];
    shoali_transport_args with_params = *args;
    const shoali_transport_row *row = shoali_transport_find(spec);
    assert_non_null(row);
    assert_true(row->schema.params_size <= sizeof node->params);
    *node = (net_node){.row = row, .me = me, .net = n};
    with_params.now_us = now_us;
    with_params.now_ctx = node;
    assert_ok(shoali_spec_parse("transport", spec, &row->schema, node->params.bytes));
    with_params.params = node->params.bytes;
    shoali_transport_events events = {.ctx = node,
                                      .place = place,
                                      .frames = frames,
                                      .unplace = unplace,
                                      .sent = sent,
                                      .control = control,
                                      .peer_up = peer_up,
                                      .peer_down = peer_down,
                                      .link_down = link_down};
    node->state = calloc(1, row->state_size);
    assert_non_null(node->state);
    shoal_status status = row->open(node->state, &with_params, &events);
    if (status != SHOAL_OK) {
        free(node->state);
        node->state = NULL;
        return status;
    }
    row->address(node->state, node->address);
    if (n->count <= me)
        n->count = me + 1;
    return SHOAL_OK;
}

void net_add_all(net *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        for (uint32_t j = 0; j < n->count; j++)
            if (i != j && n->nodes[i].state != NULL && n->nodes[j].state != NULL)
                assert_ok(n->nodes[i].row->add_peer(n->nodes[i].state, j, n->nodes[j].address));
}

bool net_is_here(const char *spec)
{
    if (strncmp(spec, "libfabric", 9) != 0 || shoali_ofi_load() != NULL)
        return true;
    print_message("%s left out: %s\n", spec, shoal_last_error()->text);
    return false;
}

static bool all_up(const net *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        for (uint32_t j = 0; j < n->count; j++)
            if (i != j && n->nodes[i].ups[j] == 0)
                return false;
    return true;
}

void net_open(net *n, uint32_t count, const char *spec)
{
    *n = (net){0};
    for (uint32_t i = 0; i < count; i++) {
        shoali_transport_args args = net_args(i, count);
        assert_ok(net_open_node(n, i, spec, &args));
    }
    net_add_all(n);
    net_until(n, all_up);
}

void net_close_node(net *n, uint32_t me)
{
    net_node *node = &n->nodes[me];
    if (node->state != NULL)
        node->row->close(node->state);
    free(node->state);
    node->state = NULL;
    for (size_t i = 0; i < node->body_count; i++)
        assert_int_not_equal(node->bodies[i].state, NET_PENDING);
}

void net_close(net *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        net_close_node(n, i);
        for (size_t b = 0; b < n->nodes[i].body_count; b++)
            free(n->nodes[i].bodies[b].bytes);
        free(n->nodes[i].bodies);
        n->nodes[i].bodies = NULL;
        n->nodes[i].body_count = 0;
    }
}

/* ---------------------------------------------------------------- turning */

void net_turn(net *n, int64_t wait_us)
{
    struct pollfd fds[NET_NODES];
    nfds_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        net_node *node = &n->nodes[i];
        if (node->state == NULL)
            continue;
        fds[count++] = (struct pollfd){.fd = node->row->fd(node->state), .events = POLLIN};
        uint64_t wake_us = node->row->next_wake_us(node->state), at_us = net_now_us(n);
        if (wake_us <= at_us)
            wait_us = 0;
        else if (wake_us - at_us < (uint64_t)wait_us)
            wait_us = (int64_t)(wake_us - at_us);
    }
    poll(fds, count, (int)((wait_us + 999) / 1000));
    for (uint32_t i = 0; i < n->count; i++)
        if (n->nodes[i].state != NULL)
            n->nodes[i].row->progress(n->nodes[i].state, net_now_us(n));
}

uint64_t net_deadline(void)
{
    return shoali_now_us() + DEADLINE_US;
}

void net_check_deadline(uint64_t end_us, const char *what, const char *file, int line)
{
    if (shoali_now_us() < end_us)
        return;
    print_error("a minute passed without: %s\n", what);
    _fail(file, line);
}

void net_until(net *n, bool (*done)(const net *n))
{
    NET_UNTIL(n, done(n));
}

/* ---------------------------------------------------------------- bodies */

static uint8_t byte_at(size_t i, uint32_t match)
{
    return (uint8_t)(i * 7 + (i >> 8) * 13 + match * 31 + 5);
}

void net_fill(uint8_t *bytes, size_t len_bytes, uint32_t match)
{
    for (size_t i = 0; i < len_bytes; i++)
        bytes[i] = byte_at(i, match);
}

bool net_is_filled(const uint8_t *bytes, size_t len_bytes, uint32_t match)
{
    for (size_t i = 0; i < len_bytes; i++)
        if (bytes[i] != byte_at(i, match))
            return false;
    return true;
}

shoal_status net_send(net *n, uint32_t from, uint32_t to, uint32_t match, const uint8_t *body,
                      uint32_t len_bytes)
{
    shoal_data head = {
        .slot = 77, .match = match, .chunk = match ^ 0x5a5a, .len_bytes = len_bytes, .flags = 1};
    net_node *node = &n->nodes[from];
    return node->row->send(node->state, to, 0, &head, body, match);
}

void net_check_bodies(const net_node *node)
{
    for (size_t i = 0; i < node->body_count; i++) {
        const net_body *body = &node->bodies[i];
        if (body->state != NET_COMPLETE)
            continue;
        assert_int_equal(body->head.slot, 77);
        assert_int_equal(body->head.chunk, body->head.match ^ 0x5a5a);
        assert_int_equal(body->head.flags, 1);
        assert_true(net_is_filled(body->bytes, body->head.len_bytes, body->head.match));
        for (size_t j = i + 1; j < node->body_count; j++)
            assert_true(node->bodies[j].from != body->from ||
                        node->bodies[j].head.match != body->head.match);
    }
}
