/* SPDX-License-Identifier: Apache-2.0 */
/* shoal aggregator: the daemon that sums for sparse collectives, in the foreground. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator_metrics.h"
#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "http_door.h"
#include "metrics_http.h"
#include "shoal/aggregator.h"

enum { KEY_JSON = 1000, KEY_PORTS, KEY_KERNEL };
enum { LOOK_US = 100 * 1000 };

typedef struct daemon_args {
    shoal_aggregator_desc desc;
    const char *metrics, *token_file;
    bool once, quiet, json;
} daemon_args;

static const struct argp_option options[] = {
    {"listen", 'l', "HOST:PORT", 0, "Where jobs call (127.0.0.1:29600); port 0: a free one", 0},
    {"interface", 'i', "NAME", 0, "Interface or address of the jobs' connections (chosen)", 0},
    {"token-file", 't', "FILE", 0,
     "The secret that jobs must hold (SHOAL_TOKEN_FILE, SHOAL_TOKEN_FD), a file of mode 0600; "
     "needed "
     "off loopback",
     0},
    {"memory", 'm', "BYTES", 0, "What the operations of one job may hold together (1g)", 0},
    {"jobs", 'j', "N", 0, "Jobs at once (64)", 0},
    {"metrics", 'p', "HOST:PORT", 0, "Serve Prometheus metrics there, at /metrics (nowhere)", 0},
    {"ports", KEY_PORTS, "NAME,NAME", 0,
     "Where this machine is the switch between the workers, its interfaces to them: a program in "
     "the kernel sums for switchml:dedicated there (none)",
     0},
    {"kernel", KEY_KERNEL, "auto|on|off", 0,
     "Where the kernel cannot: sum here, and warn (auto); end (on). off: do not try", 0},
    {"once", 'o', NULL, 0, "End when the first job has ended", 0},
    {"quiet", 'q', NULL, 0, "Say nothing at the start and the end", 0},
    {"json", KEY_JSON, NULL, 0, "Say it as JSON objects", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    daemon_args *args = state->input;
    int64_t number;
    switch (key) {
    case 'l':
        args->desc.listen = text;
        return 0;
    case 'i':
        args->desc.interface = text;
        return 0;
    case 't':
        args->token_file = text;
        return 0;
    case 'm':
        if (!cli_parse_bytes(text, &args->desc.memory_limit_bytes) ||
            args->desc.memory_limit_bytes == 0)
            cli_refuse(state, "--memory %s: wanted bytes, such as 512M", text);
        return 0;
    case 'j':
        if (!cli_parse_int(text, 1, 4096, &number))
            cli_refuse(state, "--jobs %s: wanted a whole number from 1 to 4096", text);
        args->desc.jobs_max = (uint32_t)number;
        return 0;
    case 'p':
        args->metrics = text;
        return 0;
    case 'o':
        args->once = true;
        return 0;
    case 'q':
        args->quiet = true;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case KEY_PORTS:
        args->desc.ports = text;
        return 0;
    case KEY_KERNEL:
        args->desc.kernel = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number)
{
    (void)number;
    asked_to_end = 1;
}

static void greet(const daemon_args *args, unsigned port, unsigned metrics_port)
{
    if (args->quiet)
        return;
    if (args->json)
        (void)answer_print("aggregator",
                           json_pack("{s:s, s:I, s:I}", "event", "listens", "port",
                                     (json_int_t)port, "metrics_port", (json_int_t)metrics_port));
    else if (metrics_port > 0)
        printf("shoal aggregator: listens at port %u, metrics at port %u\n", port, metrics_port);
    else
        printf("shoal aggregator: listens at port %u\n", port);
    fflush(stdout);
}

static void part(const daemon_args *args, shoal_aggregator *aggregator)
{
    shoal_aggregator_stats s;
    (void)shoal_aggregator_report(aggregator, &s, NULL, 0);
    if (args->quiet)
        return;
    if (!args->json) {
        printf("shoal aggregator: ends after %llu jobs (%llu callers refused), %llu operations "
               "(%llu failed), %llu given to the kernel, %llu B in, %llu B out\n",
               (unsigned long long)(s.jobs_ended + s.jobs_open), (unsigned long long)s.jobs_refused,
               (unsigned long long)s.operations, (unsigned long long)s.failures,
               (unsigned long long)s.kernel_operations, (unsigned long long)s.received_bytes,
               (unsigned long long)s.sent_bytes);
        return;
    }
    json_t *answer = json_object();
    answer_set_text(answer, "event", "ends");
    answer_set_count(answer, "jobs", s.jobs_ended + s.jobs_open);
    answer_set_count(answer, "refused", s.jobs_refused);
    answer_set_count(answer, "operations", s.operations);
    answer_set_count(answer, "failed", s.failures);
    answer_set_count(answer, "in_kernel", s.kernel_operations);
    answer_set_count(answer, "received_bytes", s.received_bytes);
    answer_set_count(answer, "sent_bytes", s.sent_bytes);
    (void)answer_print("aggregator", answer);
}

static int run_daemon(const daemon_args *args)
{
    struct sigaction action = {.sa_handler = on_signal};
    shoal_aggregator *aggregator = NULL;
    metrics_http *metrics = NULL;
    if (args->token_file != NULL)
        setenv("SHOAL_TOKEN_FILE", args->token_file, 1);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (shoal_aggregator_create(&args->desc, &aggregator) != SHOAL_OK)
        return cli_report("aggregator");
    const int listener = args->metrics != NULL
                             ? http_listen("aggregator", "--metrics", args->metrics)
                             : -1;
    if (listener >= 0)
        metrics = metrics_http_start("aggregator", listener, NULL, aggregator_metrics_fill,
                                     aggregator);
    int code = args->metrics != NULL && metrics == NULL ? CLI_USAGE : CLI_OK;
    if (code == CLI_OK)
        greet(args, shoal_aggregator_port(aggregator), metrics != NULL ? http_port(listener) : 0);
    bool over = code != CLI_OK;
    while (!over && !asked_to_end)
        over = shoal_aggregator_wait(aggregator, args->once ? 1 : UINT64_MAX, LOOK_US) == SHOAL_OK;
    if (code == CLI_OK)
        part(args, aggregator);
    metrics_http_end(metrics);
    if (listener >= 0)
        close(listener);
    shoal_aggregator_destroy(aggregator);
    return code;
}

int cli_aggregator(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Sum for the jobs of others: collectives with `dedicated` send only what is not zero, to "
        "these daemons. Ends on SIGTERM and SIGINT.\v"
        "Example, on two hosts:\n"
        "  a$ shoal aggregator --listen 10.0.0.1:29600 --token-file secret --metrics :9464\n"
        "  b$ export SHOAL_AGGREGATORS=10.0.0.1:29600 SHOAL_TOKEN_FILE=secret\n"
        "  b$ shoal run -n 4 -- shoal bench allreduce --collective omnireduce:dedicated --density "
        "0.01\n\n"
        "On a Linux switch between the workers, whose kernel then sums (docs/in-network.md):\n"
        "  shoal aggregator --listen 10.0.0.1:29600 --token-file secret --ports eth1,eth2\n\n"
        "`shoal run --aggregators A` starts A of them for one job; innet/shoal-aggregator.service "
        "is for systemd.",
        NULL,
        NULL,
        NULL};
    daemon_args args = {.desc = SHOAL_AGGREGATOR_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    return run_daemon(&args);
}
