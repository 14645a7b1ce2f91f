/* SPDX-License-Identifier: Apache-2.0 */
#include "progress_show.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "said.h"

enum { TICK_MS = 100, COLUMNS_USUAL = 80 };

/* One per process, as there is one standard error. */
static struct {
    bool running, ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    progress_bar p;
    struct sigaction before;
    char said[640]; /* for the signal's handler, which may not format */
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ --quiet */

enum { KEY_QUIET = 0x7100 };
static bool quiet_asked;

static error_t parse_quiet(int key, char *text, struct argp_state *state)
{
    (void)text, (void)state;
    if (key != KEY_QUIET)
        return ARGP_ERR_UNKNOWN;
    quiet_asked = true;
    return 0;
}

static const struct argp_option quiet_options[] = {
    {"quiet", KEY_QUIET, NULL, 0, "Do not say how far it is", -1}, {0}};
static const struct argp quiet_argp = {quiet_options, parse_quiet, NULL, NULL, NULL, NULL, NULL};
const struct argp_child progress_children[] = {{&quiet_argp, 0, NULL, 0}, {0}};

/* ------------------------------------------------------------------ drawing */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static unsigned columns(void)
{
    struct winsize size = {0};
    const char *text = getenv("COLUMNS");
    int64_t number;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return text != NULL && cli_parse_int(text, 1, 10000, &number) ? (unsigned)number
                                                                  : COLUMNS_USUAL;
}

/* Of a whole line at once, so that those of other processes do not come between. */
static void say(const char *text, size_t bytes)
{
    if (bytes > 0 && write(STDERR_FILENO, text, bytes) < 0)
        return; /* nobody listens */
}

/* A line off a terminal is one as of a log; a bar is none. */
static void tell(char *text, size_t bytes)
{
    if (shown.p.terminal || bytes == 0 || !said_as_json()) {
        say(text, bytes);
        return;
    }
    text[bytes - 1] = '\0';
    said_line(SAID_INFO, text, NULL);
}

static void *draw(void *unused)
{
    char text[PROGRESS_BYTES];
    pthread_mutex_lock(&shown.lock);
    while (!shown.ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (shown.p.terminal ? TICK_MS : 5 * TICK_MS) * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&shown.wake, &shown.lock, &until);
        if (!shown.ending)
            tell(text, progress_tick(&shown.p, now_ms(), columns(), text));
    }
    pthread_mutex_unlock(&shown.lock);
    return unused;
}

/* Says what it means, and lets the signal end the process as it would have. */
static void on_interrupt(int number)
{
    say(shown.said, strlen(shown.said));
    (void)sigaction(number, &shown.before, NULL);
    (void)raise(number);
}

/* Whoever ignores Ctrl-C (nohup, a job in the background) goes on doing so. */
static void watch_interrupts(const char *verb, bool terminal, const char *interrupted)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    const char *erase = terminal ? "\r\033[K" : "";
    char text[256], line[sizeof shown.said - 8];
    snprintf(text, sizeof text, "shoal %s: interrupted: %s", verb,
             interrupted != NULL ? interrupted : "");
    said_later(SAID_WARN, text, line, sizeof line);
    if (interrupted != NULL)
        snprintf(shown.said, sizeof shown.said, "%s%s", erase, line);
    else
        snprintf(shown.said, sizeof shown.said, "%s", erase);
    (void)sigaction(SIGINT, NULL, &shown.before);
    if (shown.before.sa_handler == SIG_DFL)
        (void)sigaction(SIGINT, &action, NULL);
}

void progress_begin(const char *verb, const char *unit, bool quiet, const char *interrupted)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    const bool terminal = cli_interactive();
    if (shown.running || quiet || quiet_asked)
        return;
    progress_init(&shown.p, verb, unit, terminal, now_ms());
    shown.ending = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shown.wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watch_interrupts(verb, terminal, interrupted);
    sigfillset(&all); /* signals are the command's own */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    shown.running = pthread_create(&shown.thread, NULL, draw, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void progress_at(double done, double total, const char *note)
{
    if (!shown.running)
        return;
    pthread_mutex_lock(&shown.lock);
    progress_set(&shown.p, done, total, note);
    pthread_mutex_unlock(&shown.lock);
}

void progress_aside(void)
{
    char text[PROGRESS_BYTES];
    if (!shown.running)
        return;
    pthread_mutex_lock(&shown.lock);
    say(text, progress_hide(&shown.p, text));
    pthread_mutex_unlock(&shown.lock);
}

void progress_end(void)
{
    if (!shown.running)
        return;
    progress_aside();
    pthread_mutex_lock(&shown.lock);
    shown.ending = true;
    pthread_cond_signal(&shown.wake);
    pthread_mutex_unlock(&shown.lock);
    pthread_join(shown.thread, NULL);
    pthread_cond_destroy(&shown.wake);
    (void)sigaction(SIGINT, &shown.before, NULL);
    shown.running = false;
}
