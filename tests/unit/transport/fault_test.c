/* SPDX-License-Identifier: Apache-2.0 */
/* The plan does what it says, and every cookie and body comes back whatever it does. */
#include "support/net.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/fault.h"

enum { FRAMES = 400, BODY = 600 };

static uint8_t body[BODY];

static void send_all(net *n, uint32_t from, uint32_t to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        shoal_data head = {77, i, i, BODY, 0, false};
        assert_ok(n->nodes[from].row->send(n->nodes[from].state, to, 0, &head, body, i));
    }
}

/* Frames of node that came before an older one. */
static size_t overtakings(const net_node *node)
{
    size_t count = 0;
    for (size_t i = 1; i < node->body_count; i++)
        count += node->bodies[i].head.match < node->bodies[i - 1].head.match;
    return count;
}

static bool came(const net_node *node, uint32_t match)
{
    for (size_t i = 0; i < node->body_count; i++)
        if (node->bodies[i].head.match == match)
            return true;
    return false;
}

static void drop_loses_a_seeded_share(void **state)
{
    (void)state;
    bool first[FRAMES];
    for (int round = 0; round < 3; round++) {
        net n;
        net_open(&n, 2,
                 round < 2 ? "fault:drop=0.2,rank=0,seed=7" : "fault:drop=0.2,rank=0,seed=8");
        send_all(&n, 0, 1, FRAMES);
        send_all(&n, 1, 0, FRAMES);
        NET_UNTIL(&n, n.nodes[0].sent_ok == FRAMES && n.nodes[0].complete == FRAMES);
        net_close_node(&n, 0);
        NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
        size_t lost = FRAMES - n.nodes[1].complete, same = 0;
        assert_true(lost > FRAMES / 10 && lost < FRAMES / 3);
        for (uint32_t i = 0; i < FRAMES; i++) {
            same += round > 0 && came(&n.nodes[1], i) == first[i];
            if (round == 0)
                first[i] = came(&n.nodes[1], i);
        }
        if (round == 1)
            assert_int_equal(same, FRAMES); /* the same seed, the same losses */
        if (round == 2)
            assert_int_not_equal(same, FRAMES);
        net_close(&n);
    }
}

static void dup_sends_twice_and_tells_once(void **state)
{
    (void)state;
    net n;
    net_open(&n, 2, "fault:dup=0.5,rank=0");
    send_all(&n, 0, 1, FRAMES);
    NET_UNTIL(&n, n.nodes[0].sent_ok == FRAMES);
    net_close_node(&n, 0);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[0].cookie_sum, FRAMES * (FRAMES - 1) / 2);
    assert_true(n.nodes[1].complete > FRAMES + FRAMES / 3 &&
                n.nodes[1].complete < 2 * FRAMES - FRAMES / 3);
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_true(came(&n.nodes[1], i));
    net_close(&n);
}

static void reorder_and_delay_lose_nothing(void **state)
{
    (void)state;
    static const char *const specs[] = {"fault:reorder=0.3", "fault:delay_us=5000"};
    static const size_t least[] = {FRAMES / 10, 1};
    for (size_t s = 0; s < 2; s++) {
        net n;
        net_open(&n, 2, specs[s]);
        send_all(&n, 0, 1, FRAMES);
        NET_UNTIL(&n, n.nodes[1].complete == FRAMES && n.nodes[0].sent_ok == FRAMES);
        assert_int_equal(n.nodes[0].cookie_sum, FRAMES * (FRAMES - 1) / 2);
        assert_true(overtakings(&n.nodes[1]) >= least[s]);
        net_close(&n);
    }
}

static void corrupt_is_caught(void **state)
{
    (void)state;
    net n;
    net_open(&n, 2, "fault:corrupt=0.05,rank=0");
    send_all(&n, 0, 1, FRAMES);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    assert_int_equal(n.nodes[1].why[0], SHOAL_ECORRUPT);
    assert_non_null(strstr(n.nodes[1].text[0], "rank 0"));
    assert_int_equal(n.nodes[1].body_count, n.nodes[1].complete + n.nodes[1].unplaced);
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, FRAMES);
    assert_int_equal(n.nodes[0].cookie_sum, FRAMES * (FRAMES - 1) / 2);
    net_close(&n);
}

static void cut_is_silence_until_dropped(void **state)
{
    (void)state;
    net n;
    net_open(&n, 3, "fault:cut=100,rank=0,peer=1");
    send_all(&n, 0, 2, FRAMES);
    send_all(&n, 0, 1, FRAMES);
    send_all(&n, 1, 0, FRAMES);
    assert_ok(n.nodes[0].row->control(n.nodes[0].state, 1, 30, "x", 1));
    assert_ok(n.nodes[1].row->control(n.nodes[1].state, 0, 30, "x", 1));
    NET_UNTIL(&n, n.nodes[2].complete == FRAMES && n.nodes[1].complete == 100 &&
                      n.nodes[1].sent_ok == FRAMES);
    for (int i = 0; i < 5; i++)
        net_turn(&n, 2000);
    assert_int_equal(n.nodes[0].controls + n.nodes[1].controls, 0);
    assert_int_equal(n.nodes[0].complete, 0);
    assert_int_equal(n.nodes[0].sent_ok, FRAMES + 100);
    assert_int_equal(n.nodes[0].downs[1] + n.nodes[1].downs[0], 0);
    n.nodes[1].row->drop_peer(n.nodes[1].state, 0, false);
    for (int i = 0; i < 5; i++)
        net_turn(&n, 2000);
    assert_int_equal(n.nodes[0].downs[1], 0);
    n.nodes[0].row->drop_peer(n.nodes[0].state, 1, true);
    assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, 2 * FRAMES);
    net_close(&n);
}

static void closing_gives_back_what_is_held(void **state)
{
    (void)state;
    net n;
    net_open(&n, 2, "fault:delay_us=1000000000,rank=0");
    send_all(&n, 0, 1, 50);
    net_turn(&n, 0);
    net_close_node(&n, 0);
    assert_int_equal(n.nodes[0].sent_ok + n.nodes[0].sent_failed, 50);
    assert_int_equal(n.nodes[0].cookie_sum, 50 * 49 / 2);
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    net_close(&n);
}

static void kill_kills(void **state)
{
    (void)state;
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        net n;
        net_open(&n, 2, "fault:kill=10");
        send_all(&n, 0, 1, 9);
        send_all(&n, 0, 1, 9); /* does not come back */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGKILL);
}

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    net n = {0};
    shoali_fault_params params;
    shoali_transport_args args = net_args(0, 2);
    assert_status(net_open_node(&n, 0, "fault:over=fault", &args), SHOAL_EINVAL);
    assert_error_has("itself");
    assert_status(net_open_node(&n, 0, "fault:over=carrier-pigeon", &args), SHOAL_EINVAL);
    assert_error_has("tcp");
    assert_status(
        shoali_spec_parse("transport", "fault:drop=2", &shoali_transport_fault.schema, &params),
        SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(drop_loses_a_seeded_share),
        CHECK_TEST(dup_sends_twice_and_tells_once),
        CHECK_TEST(reorder_and_delay_lose_nothing),
        CHECK_TEST(corrupt_is_caught),
        CHECK_TEST(cut_is_silence_until_dropped),
        CHECK_TEST(closing_gives_back_what_is_held),
        CHECK_TEST(kill_kills),
        CHECK_TEST(wrong_plans_are_refused),
    };
    return CHECK_RUN(tests);
}
