/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "cli.h"
#include "shoal/watch.h"
#include "terminal.h"
#include "watch_http.h"
#include "watch_jobs.h"
#include "watch_pin.h"

enum {
    ASK_US = 1000000, /* who has not answered by then is silent */
    TELL_MS = 10000,  /* at least so often, that it is alive */
    PEM_MOST = 64 * 1024,
    TOKEN_BYTES = 16,
    SEND_BYTES = 256 * 1024, /* that the kernel keeps for one who reads slowly, about */
    DIGITS = 6
};

typedef struct page {
    const watch_page_options *options;
    const char *place;
    char pinned[WATCH_NAME_BYTES];
    char token[HTTP_TOKEN_MOST + 1];
    char host[256];
    char *certificate, *key;
    watch_jobs *jobs;
    watch_http *http;
    int listener;
} page;

/* ------------------------------------------------------------------ who may read */

/* 128 bits for this process alone: nobody has to think of one to keep this host's others out. */
static bool draw_token(char token[HTTP_TOKEN_MOST + 1])
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* A PEM file with that mark in it; to be freed. NULL: printed why. */
static char *read_pem(const char *option, const char *path, const char *mark, bool secret)
{
    struct stat about;
    FILE *file = cli_open(path);
    if (file == NULL) {
        (void)cli_fail("watch", "cannot read %s %s: %s", option, path, strerror(errno));
        return NULL;
    }
    const bool open_to_all = secret &&
                             (fstat(fileno(file), &about) != 0 || (about.st_mode & 077) != 0);
    char *text = malloc(PEM_MOST + 1);
    const size_t got = text != NULL ? fread(text, 1, PEM_MOST + 1, file) : 0;
    fclose(file);
    const char *why = text == NULL     ? "no memory for it"
                      : got > PEM_MOST ? "it is too long for a PEM file"
                                       : NULL;
    if (why == NULL) {
        text[got] = '\0';
        why = open_to_all                  ? "others may read it: chmod 600"
              : strstr(text, mark) == NULL ? "it is no PEM file of that kind"
                                           : NULL;
    }
    if (why == NULL)
        return text;
    (void)cli_fail("watch", "%s %s: %s", option, path, why);
    free(text);
    return NULL;
}

/* What does not go together is said before anything is opened. */
static const char *refusal(const watch_page_options *o, http_reach reach)
{
    if ((o->tls_cert == NULL) != (o->tls_key == NULL))
        return o->tls_cert != NULL ? "--tls-cert needs --tls-key" : "--tls-key needs --tls-cert";
    if (o->tls_cert != NULL && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return "--tls-cert: the libmicrohttpd of this host has no TLS";
    if (reach == HTTP_OPEN && o->token_file == NULL)
        return "others than this host could reach that address: give --token-file FILE (openssl "
               "rand -hex 32 > token; chmod 600 token), or an address of this host alone, as "
               "127.0.0.1:0";
    if (reach == HTTP_OPEN && o->tls_cert == NULL)
        return "others than this host could reach that address, and what is told would travel in "
               "clear: give --tls-cert FILE and --tls-key FILE, or an address of this host alone "
               "(ssh -L brings it to another one)";
    return NULL;
}

static bool check(page *p)
{
    const watch_page_options *o = p->options;
    const char *address = o->address != NULL ? o->address : "0";
    const http_reach reach = http_address_reach(address);
    const char *why = reach == HTTP_NOWHERE
                          ? "that is no address of the form [HOST:]PORT that resolves; a job is "
                            "named by --job"
                          : refusal(o, reach);
    if (why != NULL) {
        (void)cli_usage("watch", "--http %s: %s", address, why);
        return false;
    }
    http_address_host(address, p->host);
    if (o->token_file != NULL ? !http_read_token("watch", "--token-file", o->token_file, p->token)
                              : !draw_token(p->token))
        return false;
    if (o->tls_cert == NULL)
        return true;
    p->certificate = read_pem("--tls-cert", o->tls_cert, "-----BEGIN CERTIFICATE-----", false);
    p->key = p->certificate != NULL ? read_pem("--tls-key", o->tls_key, "PRIVATE KEY-----", true)
                                    : NULL;
    return p->key != NULL;
}

/* ------------------------------------------------------------------ asking and telling */

/* Want of memory shows less, this time. */
static shoal_status ask(page *p)
{
    shoal_watch *first = NULL;
    const shoal_status status = p->place != NULL ? shoal_watch_ask(p->place, ASK_US, &first)
                                                 : shoal_watch_all(ASK_US, &first);
    const int64_t now_ms = terminal_now_ms();
    if (status == SHOAL_OK || status == SHOAL_EINVAL)
        (void)watch_jobs_take(p->jobs, first, now_ms);
    else
        watch_jobs_silent(p->jobs, now_ms);
    if (status == SHOAL_OK && p->pinned[0] == '\0' && watch_pin(p->place, first, p->pinned))
        p->place = p->pinned;
    shoal_watch_close(first);
    return status;
}

/* What is not published for want of memory is, perhaps, the next time. */
static void tell(page *p)
{
    char clock[16] = "", host[256] = "";
    const time_t now = time(NULL);
    struct tm local;
    json_t *answer = watch_jobs_object(p->jobs, terminal_now_ms());
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    (void)gethostname(host, sizeof host - 1);
    answer_set_text(answer, "clock", clock);
    answer_set_text(answer, "host", host);
    answer_set(answer, "interval_s", answer_number(p->options->interval_s));
    answer_set(answer, "place", answer_text(p->place));
    char *text = json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(answer);
    if (text != NULL)
        (void)watch_http_publish(p->http, text);
    free(text);
}

/* Signals end the process as they always do: there is nothing to put in order. */
static void go_on(page *p)
{
    int64_t asked_ms = terminal_now_ms();
    for (;;) {
        const int64_t step_ms = (int64_t)(p->options->interval_s * 1000);
        const int64_t now_ms = terminal_now_ms();
        const int64_t until_ms = asked_ms + step_ms > now_ms ? asked_ms + step_ms : now_ms + 50;
        const int64_t left_ms = until_ms - now_ms < TELL_MS ? until_ms - now_ms : TELL_MS;
        const struct timespec left = {.tv_sec = left_ms / 1000,
                                      .tv_nsec = left_ms % 1000 * 1000000};
        nanosleep(&left, NULL);
        if (terminal_now_ms() >= until_ms) {
            asked_ms = until_ms;
            (void)ask(p);
        }
        tell(p);
    }
}

/* ------------------------------------------------------------------ beginning */

/* Behind '#' it is never sent, neither here nor to where a link leads. */
static void greet(const page *p)
{
    char url[600], host[256];
    snprintf(host, sizeof host, "%s", p->host);
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        (void)gethostname(host, sizeof host - 1);
    const bool bracket = strchr(host, ':') != NULL;
    const bool drawn = p->options->token_file == NULL;
    snprintf(url, sizeof url, "%s://%s%s%s:%u/%s%s", p->certificate != NULL ? "https" : "http",
             bracket ? "[" : "", host, bracket ? "]" : "", http_port(p->listener),
             drawn ? "#token=" : "", drawn ? p->token : "");
    if (p->options->json)
        (void)answer_print("watch", json_pack("{s:o, s:I}", "url", answer_text(url), "port",
                                              (json_int_t)http_port(p->listener)));
    else
        printf("%s\n", url);
    fflush(stdout);
    if (cli_interactive())
        fprintf(stderr, "shoal watch: open it in a browser%s; Ctrl-C ends it, the jobs go on\n",
                drawn ? " (who has all of it may watch)" : "");
}

static int run(page *p)
{
    const char *address = p->options->address != NULL ? p->options->address : "0";
    const watch_http_desc desc = {http_listen("watch", "--http", address), p->host, p->token,
                                  p->certificate, p->key};
    p->place = p->options->place;
    p->listener = desc.listener;
    if (p->listener < 0)
        return CLI_USAGE;
    const int bytes = SEND_BYTES;
    (void)fcntl(p->listener, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(p->listener, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)signal(SIGPIPE, SIG_IGN); /* TLS writes to who has gone */
    p->jobs = watch_jobs_new();
    if (p->jobs == NULL)
        return cli_fail("watch", "no memory for a page");
    if (ask(p) == SHOAL_EINVAL && p->place != NULL)
        return cli_report("watch");
    p->http = watch_http_start("watch", &desc);
    if (p->http == NULL)
        return p->certificate != NULL ? CLI_USAGE : CLI_FAILED;
    tell(p);
    greet(p);
    if (ferror(stdout) == 0)
        go_on(p);
    return CLI_FAILED; /* nobody was told where it is */
}

int watch_page(const watch_page_options *options)
{
    page p = {.options = options, .listener = -1};
    const int code = check(&p) ? run(&p) : CLI_USAGE;
    watch_jobs_free(p.jobs);
    free(p.certificate);
    free(p.key);
    if (p.listener >= 0)
        close(p.listener);
    return code;
}
