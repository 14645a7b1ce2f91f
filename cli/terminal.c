/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS_USUAL = 80, ROWS_USUAL = 24, WRITE_MS = 200, LOOK_MS = 500 };

/* xterm's, and of all that call themselves so: another page (the cursor is kept), no cursor. */
static const char TAKE[] = "\033[?1049h\033[?25l\033[H\033[2J";
static const char GIVE[] = "\033[m\033[?25h\033[?1049l";

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDING = sizeof ending / sizeof ending[0] };

static struct {
    bool taken, raw, keys; /* keys: they come from stdin, which was made raw for them */
    struct termios before;
    sigset_t mask; /* as it was: while waiting */
    char text[64]; /* keys that came at once and wait */
    size_t typed;
    unsigned columns, rows; /* when it was last asked */
} mine;
static volatile sig_atomic_t ended_by, resized, stopped;

/* ------------------------------------------------------------------ what it is */

bool terminal_usable(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool terminal_has_colours(void)
{
    const char *no = getenv("NO_COLOR");
    return no == NULL || no[0] == '\0';
}

bool terminal_has_unicode(void)
{
    const char *term = getenv("TERM"), *value = getenv("LC_ALL");
    if (value == NULL || value[0] == '\0')
        value = getenv("LC_CTYPE");
    if (value == NULL || value[0] == '\0')
        value = getenv("LANG");
    return value != NULL && (strcasestr(value, "UTF-8") != NULL || strcasestr(value, "utf8")) &&
           (term == NULL || strcmp(term, "linux") != 0); /* its font has three of the blocks */
}

void terminal_size(unsigned *columns_out, unsigned *rows_out)
{
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns_out = size.ws_col > 0 ? size.ws_col : COLUMNS_USUAL;
    *rows_out = size.ws_row > 0 ? size.ws_row : ROWS_USUAL;
    mine.columns = *columns_out;
    mine.rows = *rows_out;
}

/* Linux sends SIGWINCH before the new size can be read: it is looked at once more now and then. */
static bool has_another_size(void)
{
    const unsigned columns = mine.columns, rows = mine.rows;
    unsigned columns_now, rows_now;
    terminal_size(&columns_now, &rows_now);
    return columns_now != columns || rows_now != rows;
}

int64_t terminal_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ taking it */

static void on_signal(int number)
{
    if (number == SIGWINCH || number == SIGCONT)
        resized = 1;
    else if (number == SIGTSTP)
        stopped = 1;
    else
        ended_by = number;
}

/* Output that somebody has stopped (Ctrl-S) may not keep the process: it is waited for a moment. */
void terminal_write(const char *text, size_t bytes)
{
    while (bytes > 0) {
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        sigset_t waiting;
        (void)poll(&out, 1, WRITE_MS);
        if ((out.revents & POLLOUT) == 0) {
            if ((out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
                return;
            sigpending(&waiting);
            for (int i = 0; i < ENDING; i++)
                if (sigismember(&waiting, ending[i]) == 1)
                    return;
            continue;
        }
        const ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return;
        text += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
}

static void take(void)
{
    mine.raw = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &mine.before) == 0;
    mine.keys = mine.raw;
    if (mine.raw) {
        struct termios raw = mine.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    mine.taken = true;
    terminal_write(TAKE, sizeof TAKE - 1);
}

static void give(void)
{
    if (!mine.taken)
        return;
    mine.taken = false;
    (void)tcflow(STDOUT_FILENO, TCOON);
    terminal_write(GIVE, sizeof GIVE - 1);
    if (mine.raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &mine.before);
}

/* Who ignores a signal (nohup) goes on doing so. */
static void heed(int number, const struct sigaction *action, sigset_t *blocked)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
        return;
    (void)sigaction(number, action, NULL);
    sigaddset(blocked, number);
}

void terminal_enter(void)
{
    static const int others[] = {SIGWINCH, SIGCONT, SIGTSTP};
    const struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < ENDING; i++)
        heed(ending[i], &action, &blocked);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        heed(others[i], &action, &blocked);
    (void)sigprocmask(SIG_BLOCK, &blocked, &mine.mask);
    (void)atexit(give);
    take();
}

/* Let a signal do what it does to a process that does not heed it. */
static void obey(int number)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL}, action = {.sa_handler = on_signal};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)sigaction(number, &usual, NULL);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL); /* here */
    (void)sigprocmask(SIG_BLOCK, &one, NULL);
    (void)sigaction(number, &action, NULL);
}

void terminal_leave(void)
{
    give();
    if (ended_by != 0)
        obey(ended_by);
    (void)sigprocmask(SIG_SETMASK, &mine.mask, NULL);
}

/* ------------------------------------------------------------------ waiting */

static terminal_event key_of(const char *text, size_t bytes)
{
    static const struct {
        const char *text;
        terminal_event event;
    } keys[] = {{"q", TERMINAL_QUIT},
                {"Q", TERMINAL_QUIT},
                {"\004", TERMINAL_QUIT},
                {"\003", TERMINAL_QUIT},
                {"k", TERMINAL_UP},
                {"\033[A", TERMINAL_UP},
                {"\033OA", TERMINAL_UP},
                {"j", TERMINAL_DOWN},
                {"\033[B", TERMINAL_DOWN},
                {"\033OB", TERMINAL_DOWN},
                {"\033[5~", TERMINAL_PAGE_UP},
                {"\033[6~", TERMINAL_PAGE_DOWN},
                {" ", TERMINAL_PAGE_DOWN},
                {"g", TERMINAL_TOP},
                {"\033[H", TERMINAL_TOP},
                {"\033OH", TERMINAL_TOP},
                {"\033[1~", TERMINAL_TOP},
                {"G", TERMINAL_BOTTOM},
                {"\033[F", TERMINAL_BOTTOM},
                {"\033OF", TERMINAL_BOTTOM},
                {"\033[4~", TERMINAL_BOTTOM},
                {"\014", TERMINAL_RESIZED}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i].text) == bytes && memcmp(keys[i].text, text, bytes) == 0)
            return keys[i].event;
    return TERMINAL_TIME;
}

/* How many bytes the first key of what was typed has: a letter, or an escape up to its letter. */
static size_t key_bytes(const char *text, size_t bytes)
{
    size_t used = 1;
    if (text[0] != '\033' || bytes < 2 || (text[1] != '[' && text[1] != 'O'))
        return used;
    used = 2;
    while (used < bytes && (text[used] < '@' || text[used] > '~'))
        used++;
    return used < bytes ? used + 1 : used;
}

/* The next key that means something; TERMINAL_TIME: there is none. */
static terminal_event next_key(void)
{
    terminal_event event = TERMINAL_TIME;
    while (mine.typed > 0 && event == TERMINAL_TIME) {
        const size_t used = key_bytes(mine.text, mine.typed);
        event = key_of(mine.text, used);
        mine.typed -= used;
        memmove(mine.text, mine.text + used, mine.typed);
    }
    return event;
}

static terminal_event read_key(void)
{
    const ssize_t got = read(STDIN_FILENO, mine.text, sizeof mine.text);
    if (got <= 0)
        mine.keys = got < 0 && errno == EINTR;
    mine.typed = got > 0 ? (size_t)got : 0;
    return next_key();
}

/* Ctrl-Z: the shell gets its page back, and this one is taken anew afterwards. */
static void stop(void)
{
    stopped = 0;
    give();
    obey(SIGTSTP);
    take();
    resized = 1;
}

terminal_event terminal_wait(int64_t until_ms)
{
    const terminal_event typed = next_key();
    if (typed != TERMINAL_TIME)
        return typed;
    for (;;) {
        int64_t left_ms = until_ms > terminal_now_ms() ? until_ms - terminal_now_ms() : 0;
        left_ms = left_ms < LOOK_MS ? left_ms : LOOK_MS;
        const struct timespec left = {.tv_sec = left_ms / 1000,
                                      .tv_nsec = left_ms % 1000 * 1000000};
        struct pollfd in = {.fd = mine.keys ? STDIN_FILENO : -1, .events = POLLIN};
        const int ready = ppoll(&in, 1, &left, &mine.mask);
        if (stopped)
            stop();
        if (ended_by != 0)
            return TERMINAL_QUIT;
        if (resized || has_another_size()) {
            resized = 0;
            return TERMINAL_RESIZED;
        }
        const terminal_event event = ready > 0 ? read_key() : TERMINAL_TIME;
        if (event != TERMINAL_TIME || terminal_now_ms() >= until_ms)
            return event;
    }
}
