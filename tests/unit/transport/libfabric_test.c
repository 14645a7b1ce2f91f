/* SPDX-License-Identifier: Apache-2.0 */
/* What is special about libfabric: whom it reaches, what must be equal, what a member may not send.
 * The suites of every transport run over the row as well. */
#include "transport/libfabric.h"

#include "support/net.h"
#include "wire/bytes.h"

static bool is_missing(void)
{
    return !net_is_here("libfabric");
}

static const char *refusal(const char *spec, bool lab, void (*change)(shoali_address *),
                           shoal_status status)
{
    net n = {0};
    char address[SHOALI_ADDRESS_BYTES];
    shoali_address other;
    shoali_transport_args args = net_args(0, 2);
    args.lab = lab;
    assert_ok(net_open_node(&n, 0, spec, &args));
    assert_ok(shoali_address_parse(n.nodes[0].address, &other));
    change(&other);
    shoali_address_format(&other, address);
    assert_status(n.nodes[0].row->add_peer(n.nodes[0].state, 1, address), status);
    net_close(&n);
    return status == SHOAL_OK ? "" : shoal_last_error()->text;
}

static void elsewhere(shoali_address *a)
{
    a->boot[3] ^= 1;
    snprintf(a->host, sizeof a->host, "far");
}

static void with_tcp_alone(shoali_address *a)
{
    a->fabric[0] = '\0';
}

static void with_another_provider(shoali_address *a)
{
    snprintf(a->fabric, sizeof a->fabric, "verbs,0a0b");
}

static void with_an_odd_name(shoali_address *a)
{
    snprintf(a->fabric, sizeof a->fabric, "tcp,0a0");
}

static void what_cannot_be_reached_is_refused_by_a_sentence(void **state)
{
    (void)state;
    if (is_missing())
        skip();
    assert_non_null(strstr(refusal("libfabric", false, elsewhere, SHOAL_EAUTH), "(far)"));
    assert_non_null(strstr(shoal_last_error()->advice, "provider=tcp,plain"));
    (void)refusal("libfabric:plain", false, elsewhere, SHOAL_OK);
    (void)refusal("libfabric", true, elsewhere, SHOAL_OK);
    assert_non_null(strstr(refusal("libfabric", false, with_tcp_alone, SHOAL_EINVAL), "rank 1"));
    assert_non_null(
        strstr(refusal("libfabric", false, with_another_provider, SHOAL_EINVAL), "'verbs'"));
    assert_non_null(strstr(refusal("libfabric", false, with_an_odd_name, SHOAL_EINVAL), "0a0"));
}

static void one_host_is_all_that_a_provider_without_a_descriptor_reaches(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args args = net_args(0, 2);
    if (is_missing())
        skip();
    assert_ok(net_open_node(&n, 0, "libfabric:provider=shm", &args));
    bool bell = ((shoali_lf *)n.nodes[0].state)->bell >= 0;
    net_close(&n);
    if (!bell)
        skip(); /* a later libfabric's */
    assert_non_null(strstr(refusal("libfabric:provider=shm,plain", false, elsewhere, SHOAL_ENOTSUP),
                           "one host"));
}

static void both_sides_must_cut_alike(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args first = net_args(0, 2), second = net_args(1, 2);
    if (is_missing())
        skip();
    assert_status(net_open_node(&n, 0, "libfabric:window=6", &first), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->text, "power of two"));
    assert_ok(net_open_node(&n, 0, "libfabric", &first));
    assert_ok(net_open_node(&n, 1, "libfabric:window=4", &second));
    net_add_all(&n);
    NET_UNTIL(&n, n.nodes[0].downs[1] + n.nodes[1].downs[0] == 2);
    uint32_t told = n.nodes[0].why[1] == SHOAL_EINVAL ? 0 : 1;
    assert_int_equal(n.nodes[told].why[1 - told], SHOAL_EINVAL);
    assert_non_null(strstr(n.nodes[told].text[1 - told], "window=4"));
    net_close(&n);
}

/* As a member that has gone mad, or whoever has learnt its tag. */
static void send_fragment(net *n, uint32_t number, uint32_t len, const char *payload)
{
    static uint8_t bytes[64];
    static shoali_lf_slot slot;
    shoali_lf *mad = n->nodes[1].state;
    shoali_lf_link *link = mad->peers[0].link;
    shoali_put_u32(bytes, 1);
    shoali_put_u32(bytes + 4, number);
    shoali_put_u32(bytes + 8, len);
    shoali_put_u32(bytes + 12, 0);
    memcpy(bytes + SHOALI_LF_HEAD_BYTES, payload, strlen(payload));
    slot = (shoali_lf_slot){
        .link = link, .bytes = bytes, .len_bytes = SHOALI_LF_HEAD_BYTES + strlen(payload)};
    assert_ok(shoali_lf_slot_post(&slot));
}

static void a_fragment_that_cannot_be_ends_the_peer(void **state)
{
    (void)state;
    static const struct {
        uint32_t number, len;
        const char *payload, *words;
    } wrong[] = {{0, 5, "abcd", "not its next"},
                 {32, 4, "abcd", "not its next"},
                 {0, 0, "", "not its next"},
                 {0, 32, "this is no header of any frame!!", "header"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0] && !is_missing(); i++) {
        net n;
        net_open(&n, 2, "libfabric");
        send_fragment(&n, wrong[i].number, wrong[i].len, wrong[i].payload);
        NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
        assert_true(n.nodes[0].why[1] == SHOAL_ECORRUPT || n.nodes[0].why[1] == SHOAL_EVERSION);
        assert_non_null(strstr(n.nodes[0].text[1], "rank 1"));
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        net_close(&n);
    }
}

/* The provider fails where the control connection says nothing of a death. */
static void what_the_provider_cannot_deliver_ends_the_peer_after_a_grace(void **state)
{
    (void)state;
    net n;
    if (is_missing())
        skip();
    net_open(&n, 2, "libfabric");
    shoali_lf *lf = n.nodes[0].state;
    shoali_lf_slot *slot = &lf->peers[1].link->slots[0];
    slot->under_way = true;
    lf->peers[1].link->under_way++;
    lf->now_us = net_now_us(&n);
    shoali_lf_slot_done(slot, &(shoali_ofi_done){.op = &slot->op, .failed = true});
    net_turn(&n, 0);
    assert_int_equal(n.nodes[0].downs[1], 0);
    n.skew_us += 400000;
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1 && n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[0].why[1], SHOAL_EPEER);
    assert_non_null(strstr(n.nodes[0].text[1], "could not deliver"));
    net_close(&n);
}

/* The control connection stands, and nothing comes by libfabric. */
static void a_meeting_that_does_not_end_is_given_up(void **state)
{
    (void)state;
    net n = {0};
    shoali_transport_args first = net_args(0, 2), second = net_args(1, 2);
    if (is_missing())
        skip();
    assert_ok(net_open_node(&n, 0, "libfabric", &first));
    assert_ok(net_open_node(&n, 1, "libfabric", &second));
    char address[SHOALI_ADDRESS_BYTES];
    shoali_address other;
    assert_ok(shoali_address_parse(n.nodes[1].address, &other));
    memcpy(other.fabric, ((shoali_lf *)n.nodes[0].state)->address.fabric, sizeof other.fabric);
    shoali_address_format(&other, address); /* its messages reach itself */
    assert_ok(n.nodes[0].row->add_peer(n.nodes[0].state, 1, address));
    assert_ok(n.nodes[1].row->add_peer(n.nodes[1].state, 0, n.nodes[0].address));
    NET_UNTIL(&n, ((shoali_lf *)n.nodes[1].state)->peers[0].link != NULL);
    n.skew_us += 11000000;
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_true(n.nodes[1].why[0] == SHOAL_ETIMEDOUT || n.nodes[1].why[0] == SHOAL_EPEER);
    net_close(&n);
}

static void a_dropped_peer_may_come_back(void **state)
{
    (void)state;
    static const char *const specs[] = {"libfabric", "libfabric:provider=shm"};
    for (size_t i = 0; i < 2 && !is_missing(); i++) {
        net n;
        static const uint8_t body[100000];
        net_open(&n, 2, specs[i]);
        assert_ok(net_send(&n, 0, 1, 1, body, sizeof body));
        n.nodes[0].row->drop_peer(n.nodes[0].state, 1, true);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        n.nodes[1].row->drop_peer(n.nodes[1].state, 0, true);
        net_add_all(&n);
        NET_UNTIL(&n, n.nodes[0].ups[1] == 2 && n.nodes[1].ups[0] == 2);
        size_t before = n.nodes[1].complete;
        assert_ok(net_send(&n, 0, 1, 2, body, sizeof body));
        NET_UNTIL(&n, n.nodes[1].complete == before + 1);
        net_close(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_cannot_be_reached_is_refused_by_a_sentence),
        CHECK_TEST(one_host_is_all_that_a_provider_without_a_descriptor_reaches),
        CHECK_TEST(both_sides_must_cut_alike),
        CHECK_TEST(a_fragment_that_cannot_be_ends_the_peer),
        CHECK_TEST(what_the_provider_cannot_deliver_ends_the_peer_after_a_grace),
        CHECK_TEST(a_meeting_that_does_not_end_is_given_up),
        CHECK_TEST(a_dropped_peer_may_come_back),
    };
    return CHECK_RUN(tests);
}
