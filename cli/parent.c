/* SPDX-License-Identifier: Apache-2.0 */
#include "parent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"

enum { KILL_AFTER_MS = 10000, STACK_BYTES = 256 << 10 };

static const char variable[] = "SHOAL_PARENT";

/* Not PR_SET_PDEATHSIG, which counts the end of a thread that has started us as its process's; and
 * a process that waits to be reaped has ended, which kill(pid, 0) does not see. */
static void *watch(void *arg)
{
    struct pollfd parent = {.fd = (int)(intptr_t)arg, .events = POLLIN};
    int ready = 0;
    while ((ready = poll(&parent, 1, -1)) < 0 && errno == EINTR)
        ;
    if (ready <= 0)
        return NULL;
    fprintf(stderr, "shoal: the process of %s has ended, so this command ends\n", variable);
    kill(getpid(), SIGTERM);
    poll(NULL, 0, KILL_AFTER_MS);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Signals are the command's own, and its forks must not wait for this thread's locks: it has none
 * as long as the process of fd lives. */
static bool begin(int fd)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    errno = pthread_create(&thread, &attributes, watch, (void *)(intptr_t)fd);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return errno == 0;
}

int parent_heed(void)
{
    const char *text = getenv(variable);
    int64_t number = 0;
    if (text == NULL || text[0] == '\0')
        return CLI_OK;
    if (!cli_parse_int(text, 1, INT32_MAX, &number)) {
        fprintf(stderr, "shoal: %s is the number of a process, whose end is this command's end\n",
                variable);
        return CLI_USAGE;
    }
    unsetenv(variable);
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)number, 0);
    if (fd >= 0 && begin(fd))
        return CLI_OK;
    const char *why = errno == ESRCH ? "it has ended" : strerror(errno);
    fprintf(stderr, "shoal: cannot watch process %lld (%s): %s\n", (long long)number, variable,
            why);
    if (fd >= 0)
        close(fd);
    return CLI_FAILED;
}
