/* SPDX-License-Identifier: Apache-2.0 */
/* A cable is pulled: nothing comes through any more, and nobody says so. In a network namespace of
 * its own, where loopback can be taken down. */
#include "support/net.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { CANNOT = 77, CUT_DEADLINE_US = 1000000 };

static bool set_loopback(bool up)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP : 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return done;
}

static void open_with_deadline(net *n)
{
    *n = (net){0};
    for (uint32_t i = 0; i < 2; i++) {
        shoali_transport_args args = net_args(i, 2);
        args.deadline_us = CUT_DEADLINE_US;
        assert_ok(net_open_node(n, i, "tcp", &args));
    }
    net_add_all(n);
    NET_UNTIL(n, n->nodes[0].ups[1] == 1 && n->nodes[1].ups[0] == 1);
}

/* Node 0 has something to say when the link goes (its data stay unacknowledged), node 1 has not
 * (keepalive finds out). */
static void both_sides_notice_a_cut_link(void **state)
{
    (void)state;
    net n;
    open_with_deadline(&n);
    assert_true(set_loopback(false));
    uint64_t start_us = shoali_now_us();
    assert_ok(n.nodes[0].row->control(n.nodes[0].state, 1, 20, "anybody there?", 14));
    NET_UNTIL(&n, n.nodes[0].downs[1] == 1);
    uint64_t speaker_us = shoali_now_us() - start_us;
    NET_UNTIL(&n, n.nodes[1].downs[0] == 1);
    uint64_t listener_us = shoali_now_us() - start_us;
    assert_int_equal(n.nodes[0].why[1], SHOAL_ETIMEDOUT);
    assert_int_equal(n.nodes[1].why[0], SHOAL_ETIMEDOUT);
    assert_non_null(strstr(n.nodes[0].text[1], "rank 1"));
    assert_in_range(speaker_us, CUT_DEADLINE_US / 2, 20 * CUT_DEADLINE_US);
    assert_in_range(listener_us, CUT_DEADLINE_US / 2, 20 * CUT_DEADLINE_US);
    net_close(&n);
}

/* The namespaces belong to a child: the test itself stays where it is. */
int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(both_sides_notice_a_cut_link)};
    int how;
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !set_loopback(true)) {
            printf("no user and network namespaces here\n");
            return CANNOT;
        }
        return CHECK_RUN(tests);
    }
    if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how))
        return 1;
    return WEXITSTATUS(how);
}
