/* SPDX-License-Identifier: Apache-2.0 */
#include "support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"

enum { PACE_MS = 5, LATER = 64, COME_US = 60 * 1000 * 1000 };

struct strangers {
    uint16_t port;
    uint32_t count, made;
    int *fds; /* [count + LATER]; the last ones are a ring */
    atomic_bool quit;
    pthread_t thread;
};

/* Makes one; false: nobody listens. */
static bool come(strangers *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(s->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return false;
    }
    const uint32_t index = s->made < s->count ? s->made : s->count + s->made % LATER;
    int *place = &s->fds[index];
    s->made++;
    if (*place >= 0)
        close(*place);
    *place = fd;
    return true;
}

static void *keep_coming(void *arg)
{
    strangers *s = arg;
    while (!atomic_load(&s->quit)) {
        (void)poll(NULL, 0, PACE_MS);
        (void)come(s);
    }
    return NULL;
}

static void allow_descriptors(uint32_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < count + 1024) {
        limit.rlim_cur = limit.rlim_max < count + 1024 ? limit.rlim_max : count + 1024;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
}

strangers *strangers_start(uint16_t port, uint32_t count)
{
    strangers *s = calloc(1, sizeof *s);
    const uint64_t until_us = shoali_now_us() + COME_US;
    assert_non_null(s);
    allow_descriptors(count);
    s->fds = malloc((count + LATER) * sizeof *s->fds);
    assert_non_null(s->fds);
    for (uint32_t i = 0; i < count + LATER; i++)
        s->fds[i] = -1;
    s->port = port;
    s->count = count;
    while (s->made < count) {
        assert_true(shoali_now_us() < until_us);
        if (!come(s))
            (void)poll(NULL, 0, 1);
    }
    assert_int_equal(pthread_create(&s->thread, NULL, keep_coming, s), 0);
    return s;
}

void strangers_stop(strangers *s)
{
    atomic_store(&s->quit, true);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    for (uint32_t i = 0; i < s->count + LATER; i++)
        if (s->fds[i] >= 0)
            close(s->fds[i]);
    free(s->fds);
    free(s);
}
