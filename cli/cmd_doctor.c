/* SPDX-License-Identifier: Apache-2.0 */
/* shoal doctor: looks at hosts and network before a job. Starts its own ranks unless a launcher
 * did. Rank 0 prints for all; a rank that cannot reach it prints for itself. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "launch.h"
#include "shoal/doctor.h"
#include "table.h"

typedef struct doctor_args {
    launch_desc launch;
    lab_desc lab;
    shoal_comm_desc comm;
    bool json;
} doctor_args;

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0,
     "Ranks to start (1: look at this host alone; with --hosts one on each, or its slots; ignored "
     "under a launcher)",
     0},
    {"lab", 'l', "SPEC", 0, "Emulate a network: rate=1gbit,... (see shoal run --help)", 0},
    {"interface", 'i', "NAME", 0, "What the job would use (SHOAL_INTERFACE, or chosen)", 0},
    {"wait", 'w', "SECONDS", 0, "For ranks that do not come (20)", 0},
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    doctor_args *args = state->input;
    int64_t number = 0;
    switch (key) {
    case 'n':
        if (!cli_parse_int(text, 1, 256, &number))
            cli_refuse(state, "--ranks %s: wanted a whole number from 1 to 256", text);
        args->launch.ranks = (uint32_t)number;
        return 0;
    case 'w':
        if (!cli_parse_int(text, 1, 3600, &number))
            cli_refuse(state, "--wait %s: wanted whole seconds from 1 to 3600", text);
        args->comm.join_timeout_us = number * 1000000;
        return 0;
    case 'l':
        args->launch.lab = &args->lab;
        args->launch.bad = args->launch.bad || !lab_parse("doctor", text, &args->lab);
        return 0;
    case 'i':
        args->comm.interface = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->launch;
        return 0;
    case ARGP_KEY_ARG:
        cli_refuse(state, "unexpected argument '%s'", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ as JSON */

static json_t *host_of(uint32_t rank, const shoal_doctor_host *h)
{
    json_t *one = json_object();
    answer_set_count(one, "rank", rank);
    answer_set_bool(one, "here", h->here);
    answer_set_text(one, "host", h->host);
    answer_set_text(one, "interface", h->interface);
    answer_set_text(one, "address", h->address);
    answer_set_count(one, "mtu", h->mtu);
    answer_set_count(one, "port_mbit", h->port_mbit);
    answer_set_count(one, "cores", h->cores);
    answer_set_bool(one, "kernel_tls", h->kernel_tls);
    answer_set_count(one, "send_buffer_bytes", h->send_buffer_bytes);
    answer_set_count(one, "receive_buffer_bytes", h->receive_buffer_bytes);
    answer_set_number(one, "clock_s", h->clock_s);
    answer_set_number(one, "cpu_share", h->cpu_share);
    answer_set_number(one, "speed", h->speed);
    answer_set_number(one, "sends_bytes_s", h->sends_bytes_s);
    answer_set_number(one, "receives_bytes_s", h->receives_bytes_s);
    return one;
}

static json_t *hosts_of(const shoal_doctor *doctor, uint32_t ranks)
{
    shoal_doctor_host h;
    json_t *all = json_array();
    for (uint32_t i = 0; i < ranks && shoal_doctor_host_of(doctor, i, &h) == SHOAL_OK; i++)
        json_array_append_new(all, host_of(i, &h));
    return all;
}

static json_t *pairs_of(const shoal_doctor *doctor, uint32_t ranks)
{
    shoal_doctor_pair p;
    json_t *all = json_array();
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++) {
            if (from == to || shoal_doctor_pair_of(doctor, from, to, &p) != SHOAL_OK)
                continue;
            json_t *one = json_object();
            answer_set_count(one, "from", from);
            answer_set_count(one, "to", to);
            answer_set_bool(one, "reached", p.reached);
            answer_set_number(one, "bytes_per_s", p.bytes_per_s);
            answer_set_number(one, "rtt_s", p.rtt_s);
            answer_set_count(one, "hole_bytes", p.hole_bytes);
            json_array_append_new(all, one);
        }
    return all;
}

static json_t *findings_of(const shoal_doctor *doctor)
{
    shoal_finding f;
    json_t *all = json_array();
    for (uint32_t i = 0; i < shoal_doctor_count(doctor); i++) {
        if (shoal_doctor_finding(doctor, i, &f) != SHOAL_OK)
            break;
        json_t *one = json_object();
        answer_set_text(one, "kind", f.kind);
        answer_set_number(one, "rank", f.rank);
        answer_set_number(one, "peer", f.peer);
        answer_set_text(one, "host", f.host);
        answer_set_text(one, "text", f.text);
        answer_set_text(one, "advice", f.advice);
        json_array_append_new(all, one);
    }
    return all;
}

/* Of the host that prints. */
static json_t *providers_of_this_host(void)
{
    shoal_provider p = {.size = sizeof p};
    json_t *all = json_array();
    for (size_t i = 0; shoal_provider_at(i, &p); i++) {
        json_t *one = json_object();
        answer_set_text(one, "name", p.name);
        answer_set_text(one, "domain", p.domain);
        json_array_append_new(all, one);
    }
    return all;
}

static int print_json(const shoal_doctor *doctor, uint32_t rank, uint32_t ranks, bool met)
{
    json_t *answer = json_object();
    answer_set_count(answer, "rank", rank);
    answer_set_count(answer, "ranks", ranks);
    answer_set_bool(answer, "met", met);
    answer_set_bool(answer, "ok", shoal_doctor_count(doctor) == 0);
    answer_set(answer, "findings", findings_of(doctor));
    answer_set(answer, "hosts", hosts_of(doctor, ranks));
    answer_set(answer, "pairs", pairs_of(doctor, ranks));
    answer_set(answer, "libfabric", providers_of_this_host());
    return answer_print("doctor", answer);
}

/* ------------------------------------------------------------------ as text */

static void add_known(table *t, bool known, const char *format, double value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    table_add(t, "%s", known ? text : "-");
}

static void add_host(table *t, uint32_t rank, const shoal_doctor_host *h)
{
    table_row(t);
    table_add(t, "%u", rank);
    if (!h->here) {
        table_add(t, "did not come");
        return;
    }
    const bool sent = h->sends_bytes_s > 0 || h->receives_bytes_s > 0;
    table_add(t, "%s", h->host);
    table_add(t, "%s", h->interface);
    table_add(t, "%s", h->address);
    table_add(t, "%u", h->mtu);
    add_known(t, sent, "%.4g", h->sends_bytes_s * 8e-6);
    add_known(t, sent, "%.4g", h->receives_bytes_s * 8e-6);
    add_known(t, isfinite(h->clock_s), "%.3f", h->clock_s);
    table_add(t, "%.0f", 100 * h->cpu_share);
    table_add(t, "%.2f", h->speed);
}

static void print_hosts(const shoal_doctor *doctor, uint32_t ranks)
{
    static const table_column columns[] = {{"rank", TABLE_RIGHT},
                                           {"host", TABLE_CUT},
                                           {"device", TABLE_CUT},
                                           {"address", TABLE_CUT},
                                           {"MTU", TABLE_RIGHT},
                                           {"sends Mb", TABLE_RIGHT},
                                           {"receive Mb", TABLE_RIGHT},
                                           {"clock s", TABLE_RIGHT | TABLE_SPARE},
                                           {"CPU%", TABLE_RIGHT | TABLE_SPARE},
                                           {"speed", TABLE_RIGHT | TABLE_SPARE}};
    shoal_doctor_host h;
    table *t = table_new(0, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < ranks && shoal_doctor_host_of(doctor, i, &h) == SHOAL_OK; i++)
        add_host(t, i, &h);
    table_print(t, stdout);
}

static void print_rates(const shoal_doctor *doctor, uint32_t ranks)
{
    enum { SHOWN = 12 };
    shoal_doctor_pair p;
    char names[SHOWN][12];
    table_column columns[SHOWN + 1] = {{"from", TABLE_RIGHT}};
    if (ranks < 2 || ranks > SHOWN)
        return;
    for (uint32_t to = 0; to < ranks; to++) {
        snprintf(names[to], sizeof names[to], "to %u", to);
        columns[to + 1] = (table_column){names[to], TABLE_RIGHT | TABLE_SPARE};
    }
    table *t = table_new(0, columns, ranks + 1);
    for (uint32_t from = 0; from < ranks; from++) {
        table_row(t);
        table_add(t, "%u", from);
        for (uint32_t to = 0; to < ranks; to++)
            if (from != to && shoal_doctor_pair_of(doctor, from, to, &p) == SHOAL_OK &&
                p.bytes_per_s > 0)
                table_add(t, "%.4g/%.0f", p.bytes_per_s * 8e-6, p.rtt_s * 1e6);
            else
                table_add(t, "-");
    }
    puts("\nMbit/s from (row) to (column), and round trips in us");
    table_print(t, stdout);
}

static void print_providers(void)
{
    shoal_provider p = {.size = sizeof p};
    size_t count = 0;
    for (; shoal_provider_at(count, &p); count++)
        printf("%s%s (%s)", count == 0 ? "libfabric on this host: " : ", ", p.name, p.domain);
    if (count > 0)
        printf("\n");
    else
        printf("libfabric on this host: none (%s)\n", shoal_last_error()->text);
}

static void print_text(const shoal_doctor *doctor, uint32_t rank, uint32_t ranks, bool met)
{
    shoal_finding f;
    uint32_t count = shoal_doctor_count(doctor);
    if (met) {
        print_hosts(doctor, ranks);
        print_rates(doctor, ranks);
        printf("\n");
    }
    for (uint32_t i = 0; i < count && shoal_doctor_finding(doctor, i, &f) == SHOAL_OK; i++)
        printf("%-9s %s\n          -> %s\n", f.kind, f.text, f.advice);
    if (count == 0)
        printf("Nothing found: %u rank%s may start.\n", ranks, ranks == 1 ? "" : "s");
    else
        printf("%u finding%s%s\n", count, count == 1 ? "" : "s", met ? "" : ", seen by this rank");
    print_providers();
    (void)rank;
}

/* ------------------------------------------------------------------ one rank */

static int rank_main(const doctor_args *args)
{
    shoal_doctor *doctor = NULL;
    shoal_comm_desc desc = args->comm;
    uint32_t rank, ranks;
    bool met;
    if (!cli_under_launcher()) {
        desc.rank = 0;
        desc.world_size = 1;
    }
    if (shoal_doctor_run(&desc, &doctor) != SHOAL_OK)
        return cli_report("doctor");
    shoal_doctor_place(doctor, &rank, &ranks, &met);
    int code = shoal_doctor_count(doctor) == 0 ? CLI_OK : CLI_FAILED;
    if (rank == 0 || !met) {
        if (args->json && print_json(doctor, rank, ranks, met) != CLI_OK)
            code = CLI_FAILED;
        else if (!args->json)
            print_text(doctor, rank, ranks, met);
        fflush(stdout);
    }
    shoal_doctor_destroy(doctor);
    return code;
}

static int run_args(void *input, char **command)
{
    doctor_args *args = input;
    if (!launch_options_fit(&args->launch) || !launch_leaves_it(&args->launch))
        return CLI_USAGE;
    args->launch.argv = command;
    args->launch.itself = true;
    if (args->launch.ranks == 0 && !cli_under_launcher())
        args->launch.ranks = launch_usual_ranks(&args->launch);
    if (args->launch.ranks == 0 && !cli_under_launcher())
        return CLI_USAGE;
    if (cli_under_launcher() ||
        (args->launch.ranks == 1 && args->launch.lab == NULL && args->launch.hosts == NULL))
        return rank_main(args);
    return launch_run(&args->launch);
}

int cli_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {{&launch_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "",
        "Look at hosts and network before a job starts there.\v"
        "Example: shoal doctor --hosts a,b,c,d\n"
        "         shoal run -n 4 --lab rate=1gbit,link=2:100mbit -- shoal doctor --json\n\n"
        "Each finding comes with a sentence of advice; docs/doctor.md lists the kinds. The exit "
        "code is 0 if nothing was found, 1 if something was.",
        children,
        NULL,
        NULL};
    doctor_args args = {.launch = {.verb = "doctor", .grace_s = 30, .quiet = true},
                        .comm = SHOAL_COMM_DESC_INIT};
    int code = cli_parse_and_run("doctor", &argp, argc, argv, &args, run_args);
    launch_forget_options(&args.launch);
    return code;
}
