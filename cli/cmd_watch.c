/* SPDX-License-Identifier: Apache-2.0 */
/* shoal watch: a running job as a page on the terminal, or a line each interval elsewhere; with
 * --http as a page for a browser. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arguments.h"
#include "cli.h"
#include "screen.h"
#include "shoal/watch.h"
#include "status_show.h"
#include "terminal.h"
#include "watch_frame.h"
#include "watch_history.h"
#include "watch_page.h"
#include "watch_pin.h"

enum {
    ASK_US = 1000000, /* who has not answered by then is silent */
    GONE_MS = 2000,   /* ranks that meet anew are nowhere for a moment */
    LINE_BYTES = 2048
};

typedef struct view {
    const char *place; /* NULL: whatever runs here */
    double interval_s;
    bool ascii;
    screen *page;       /* NULL: lines */
    shoal_watch *watch; /* the last answer; several jobs if no place was named */
    watch_history history;
    watch_place at;
    int64_t answered_ms, gone_ms;  /* gone_ms: no socket since; 0: there is one */
    char pinned[WATCH_NAME_BYTES]; /* the name behind a number, which changes when jobs end */
} view;

typedef struct watch_args {
    view view;
    watch_page_options page;
    bool http;
    const char *word; /* behind no option */
} watch_args;

enum { KEY_HTTP = 0x100, KEY_TOKEN_FILE, KEY_TLS_CERT, KEY_TLS_KEY };

static const struct argp_option options[] = {
    {"job", 'J', "JOB", 0, "This one: its name, or its number in the list", 0},
    {"interval", 'i', "SECONDS", 0, "Ask so often, 0.1 to 3600 (1)", 0},
    {"ascii", 'a', NULL, 0, "No characters beyond ASCII", 0},
    {"http", KEY_HTTP, "HOST:PORT", OPTION_ARG_OPTIONAL,
     "Serve a page for a browser, at a free port of this host alone or at [HOST:]PORT; its address "
     "is printed",
     0},
    {"json", 'j', NULL, 0, "Print the page's address as JSON", 0},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0,
     "Who brings the token in it may see the page (one is drawn, and is in the address)", 0},
    {"tls-cert", KEY_TLS_CERT, "FILE", 0, "Serve the page by TLS with this certificate (PEM)", 0},
    {"tls-key", KEY_TLS_KEY, "FILE", 0, "The certificate's key (PEM)", 0},
    {0}};

static error_t parse_page(int key, char *text, watch_args *args)
{
    switch (key) {
    case KEY_HTTP:
        args->http = true;
        args->page.address = text;
        return 0;
    case 'j':
        args->page.json = true;
        return 0;
    case KEY_TOKEN_FILE:
        args->page.token_file = text;
        return 0;
    case KEY_TLS_CERT:
        args->page.tls_cert = text;
        return 0;
    case KEY_TLS_KEY:
        args->page.tls_key = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What nobody would notice otherwise. */
static void check(struct argp_state *state, watch_args *args)
{
    view *v = &args->view;
    const char *page = args->page.json                 ? "json"
                       : args->page.token_file != NULL ? "token-file"
                       : args->page.tls_cert != NULL   ? "tls-cert"
                       : args->page.tls_key != NULL    ? "tls-key"
                                                       : NULL;
    if (!args->http && page != NULL)
        cli_refuse(state, "--%s is the page's: it needs --http", page);
    if (args->http && v->ascii)
        cli_refuse(state, "--ascii is the terminal's, and --http shows a page in a browser");
    const char **taken = !args->http ? &v->place : &args->page.address;
    if (args->word != NULL && *taken != NULL)
        cli_refuse(state, "one %s at a time, not '%s' and '%s'", args->http ? "address" : "job",
                   *taken, args->word);
    if (args->word != NULL)
        *taken = args->word;
    args->page.place = v->place;
    args->page.interval_s = v->interval_s;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    watch_args *args = state->input;
    view *v = &args->view;
    switch (key) {
    case 'i':
        if (!cli_parse_real(text, 0.1, 3600, &v->interval_s))
            cli_refuse(state, "--interval %s: wanted seconds, from 0.1 to 3600", text);
        return 0;
    case 'a':
        v->ascii = true;
        return 0;
    case 'J':
        v->place = text;
        return 0;
    case ARGP_KEY_ARG:
        if (args->word != NULL)
            cli_refuse(state, "one job at a time, not '%s' and '%s'", args->word, text);
        args->word = text;
        return 0;
    case ARGP_KEY_END:
        check(state, args);
        return 0;
    default:
        return parse_page(key, text, args);
    }
}

/* ------------------------------------------------------------------ asking */

/* The third of the list is the second when the first has ended. */
static void pin(view *v)
{
    if (v->pinned[0] == '\0' && watch_pin(v->place, v->watch, v->pinned))
        v->place = v->pinned;
}

static bool is_one(const view *v)
{
    return shoal_watch_next(v->watch) == NULL && shoal_watch_ranks(v->watch) > 0;
}

/* Of a list, the only job that was watched and that does not answer any more: as if it had been
 * named. */
static shoal_status ask_place(const view *v, shoal_watch **answer_out)
{
    if (v->place != NULL)
        return shoal_watch_ask(v->place, ASK_US, answer_out);
    const shoal_status status = shoal_watch_all(ASK_US, answer_out);
    if (status != SHOAL_OK || v->watch == NULL || !is_one(v) ||
        shoal_watch_ranks(*answer_out) > 0 || shoal_watch_next(*answer_out) != NULL)
        return status;
    shoal_watch_close(*answer_out);
    return SHOAL_ETIMEDOUT;
}

/* SHOAL_OK: v->watch is new; others: it is what it was. */
static shoal_status ask(view *v)
{
    shoal_watch *answer;
    const shoal_status status = ask_place(v, &answer);
    const int64_t now_ms = terminal_now_ms();
    if (status != SHOAL_OK) {
        v->gone_ms = status != SHOAL_EINVAL ? 0 : v->gone_ms != 0 ? v->gone_ms : now_ms;
        return status;
    }
    shoal_watch_close(v->watch);
    v->watch = answer;
    v->answered_ms = now_ms;
    v->gone_ms = 0;
    pin(v);
    return is_one(v) && !watch_history_add(&v->history, answer, now_ms) ? SHOAL_ENOMEM : SHOAL_OK;
}

static int code_of(const view *v)
{
    int code = CLI_OK;
    for (const shoal_watch *w = v->watch; w != NULL; w = shoal_watch_next(w))
        code = status_code(w) > code ? status_code(w) : code;
    return code;
}

/* ------------------------------------------------------------------ lines */

static void stamp(void)
{
    const time_t now = time(NULL);
    struct tm local;
    char clock[32] = "";
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S ", &local);
    fputs(clock, stdout);
}

static void say(const view *v, shoal_status status)
{
    char text[LINE_BYTES];
    for (const shoal_watch *w = v->watch; w != NULL && status == SHOAL_OK;
         w = shoal_watch_next(w)) {
        watch_frame_line(w, is_one(v) ? &v->history : NULL, text, sizeof text);
        stamp();
        puts(text);
    }
    if (status != SHOAL_OK && v->gone_ms == 0) {
        stamp();
        printf("no rank answers, for %.0f s\n",
               (double)(terminal_now_ms() - v->answered_ms) * 1e-3);
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------ the page */

static void draw(view *v)
{
    unsigned columns, rows;
    const char *text;
    const double since_s = (double)(terminal_now_ms() - v->answered_ms) * 1e-3;
    v->at.silent_s = since_s > v->interval_s + 1.5 ? since_s : 0;
    terminal_size(&columns, &rows);
    screen_resize(v->page, columns, rows);
    if (is_one(v))
        watch_frame_job(v->page, v->watch, &v->history, &v->at);
    else
        watch_frame_list(v->page, v->watch, v->at.silent_s);
    const size_t bytes = screen_draw(v->page, &text);
    terminal_write(text, bytes);
}

/* The page moves over the ranks; its end is watch_frame_job's. */
static void move(view *v, terminal_event event)
{
    const uint32_t page = v->at.shown > 1 ? v->at.shown - 1 : 1;
    const uint32_t by = event == TERMINAL_UP || event == TERMINAL_DOWN ? 1 : page;
    if (event == TERMINAL_UP || event == TERMINAL_PAGE_UP)
        v->at.first -= v->at.first < by ? v->at.first : by;
    else if (event == TERMINAL_DOWN || event == TERMINAL_PAGE_DOWN)
        v->at.first += by;
    else if (event == TERMINAL_TOP)
        v->at.first = 0;
    else if (event == TERMINAL_BOTTOM)
        v->at.first = UINT32_MAX / 2;
    else
        screen_forget(v->page);
}

/* False: q, or a signal. */
static bool pause_until(view *v, int64_t until_ms)
{
    for (;;) {
        const terminal_event event = terminal_wait(until_ms);
        if (event == TERMINAL_TIME || event == TERMINAL_QUIT)
            return event == TERMINAL_TIME;
        move(v, event);
        draw(v);
    }
}

/* ------------------------------------------------------------------ going on */

/* Whether it goes on; false: it is over, or somebody wants no more. */
static bool wait_a_while(view *v, int64_t until_ms)
{
    if (v->page != NULL)
        return pause_until(v, until_ms);
    const int64_t left_ms = until_ms > terminal_now_ms() ? until_ms - terminal_now_ms() : 0;
    const struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    nanosleep(&left, NULL);
    return ferror(stdout) == 0;
}

static bool is_over(const view *v)
{
    return v->gone_ms != 0 && terminal_now_ms() - v->gone_ms >= GONE_MS;
}

/* @return whether it is the job that has ended */
static bool go_on(view *v)
{
    int64_t next_ms = v->answered_ms;
    while (!is_over(v)) {
        const int64_t step_ms = (int64_t)(v->interval_s * 1000), now_ms = terminal_now_ms();
        next_ms = next_ms + step_ms > now_ms ? next_ms + step_ms : now_ms + step_ms / 2;
        if (v->gone_ms != 0 && next_ms > v->gone_ms + GONE_MS)
            next_ms = v->gone_ms + GONE_MS;
        if (!wait_a_while(v, next_ms))
            return false;
        const shoal_status status = ask(v);
        if (v->page != NULL)
            draw(v);
        else
            say(v, status);
    }
    return true;
}

/* The last page is gone with the terminal's; what it said of the ranks stays. */
static void tell_end(const view *v)
{
    char text[LINE_BYTES];
    for (const shoal_watch *w = v->watch; w != NULL; w = shoal_watch_next(w)) {
        watch_frame_line(w, NULL, text, sizeof text);
        printf("over: %s\n", text);
    }
}

static int show(view *v)
{
    if (terminal_usable()) {
        v->page = screen_new(terminal_has_colours(), !v->ascii && terminal_has_unicode());
        if (v->page == NULL)
            return cli_fail("watch", "no memory for a page");
        terminal_enter();
        draw(v);
    } else {
        say(v, SHOAL_OK);
    }
    const bool over = go_on(v);
    if (v->page != NULL)
        terminal_leave();
    if (over)
        tell_end(v);
    return code_of(v);
}

static int show_view(view *v)
{
    if (ask(v) != SHOAL_OK)
        return cli_report("watch");
    const int code = show(v);
    shoal_watch_close(v->watch);
    watch_history_free(&v->history);
    screen_free(v->page);
    return code;
}

int cli_watch(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "[JOB|SOCKET]\n--http [HOST:PORT]",
        "Watch a job that runs on this host: its ranks, who is slow and why, who is gone, how many "
        "operations end per second.\v"
        "Example: shoal watch\n"
        "         shoal watch --job resnet --interval 0.5\n"
        "         shoal watch --job 2 | tee resnet.log\n"
        "         shoal watch --http\n"
        "         shoal watch --job resnet --http 127.0.0.1:8080\n\n"
        "Without JOB the only job of this user, or the list of all. On a terminal it is a page "
        "that follows the terminal's size, from 60 columns on: q or Ctrl-C ends it, arrows, PgUp "
        "and PgDn move it over the ranks, and the terminal is left as it was. Where the output is "
        "no terminal, a line each interval. It ends with the job. The exit code is that of `shoal "
        "status` for the last answer: 0 if all ranks were there, 5 if one was missing, "
        "unresponsive or dead; 2 if there is no such job. NO_COLOR is honoured.\n\n"
        "With --http it shows the same in a browser, live, for all jobs of this user or for --job, "
        "until Ctrl-C; who has the printed address may watch. Where others than this host could "
        "reach the address, it needs --token-file, --tls-cert and --tls-key. docs/status.md "
        "explains the columns, and the page.",
        NULL,
        NULL,
        NULL};
    watch_args args = {.view = {.interval_s = 1}};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    return args.http ? watch_page(&args.page) : show_view(&args.view);
}
