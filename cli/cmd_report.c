/* SPDX-License-Identifier: Apache-2.0 */
/* shoal report: what run folders hold, as one page that needs nothing else. */
#include <errno.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "report.h"
#include "whole_file.h"

typedef struct report_args {
    char **folders; /* of argv */
    int count;
    const char *out;
    bool json;
} report_args;

static const struct argp_option options[] = {
    {"out", 'o', "FILE", 0, "Write the page there (default: report.html); - is the output", 0},
    {"json", 'j', NULL, 0, "Print the same facts as JSON, and write no page", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    report_args *args = state->input;
    switch (key) {
    case 'o':
        args->out = text;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        args->folders = state->argv + state->next;
        args->count = state->argc - state->next;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int write_page(const char *path, json_t *runs)
{
    const bool to_output = strcmp(path, "-") == 0;
    whole_file file;
    if (to_output) {
        report_page(stdout, runs);
        return CLI_OK; /* whether it got out is looked at by all verbs' caller */
    }
    bool good = whole_file_begin(&file, path);
    if (good)
        report_page(file.out, runs);
    if (!good || !whole_file_end(&file, true))
        return cli_fail("report", "cannot write %s: %s", path, strerror(errno));
    printf("%s: %zu run%s\n", path, json_array_size(runs), json_array_size(runs) == 1 ? "" : "s");
    return CLI_OK;
}

static int add(json_t *runs, const char *folder)
{
    static report_run run;
    if (folder[0] == '\0')
        return cli_usage("report", "the name of a folder is empty");
    const int code = report_read("report", folder, &run);
    if (code == CLI_OK)
        json_array_append_new(runs, report_facts(&run));
    report_free(&run);
    return code;
}

/* Folders that cannot be read are told of, and the others are shown. */
static int run(const report_args *args)
{
    int code = CLI_OK;
    json_t *runs = json_array();
    progress_begin("report", "runs", false, "no page was written");
    for (int i = 0; i < args->count; i++) {
        progress_at(i, args->count, args->folders[i]);
        const int added = add(runs, args->folders[i]);
        code = code == CLI_OK ? added : code;
    }
    progress_end();
    if (json_array_size(runs) > 0) {
        const int told = args->json
                             ? answer_print("report", json_pack("{s:O}", "runs", runs))
                             : write_page(args->out != NULL ? args->out : "report.html", runs);
        code = code == CLI_OK ? told : code;
    }
    json_decref(runs);
    return code;
}

int cli_report_page(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "DIR [DIR...]",
        "Show run folders as one HTML file, which needs no network and no scripts: what ran, loss "
        "and accuracy, where the time of a step went, who waited for whom, links, bytes, members, "
        "warnings, who was slow, and what would help; several runs beside each other.\v"
        "Example: shoal report runs/x --out x.html\n"
        "         shoal report runs/ring runs/eden --out both.html\n"
        "         shoal report runs/x --json\n\n"
        "A run may be going on, stopped or damaged; the page says so, and what its folder does not "
        "hold. Nothing is changed. The exit code is 0, 1 if a folder or the page cannot be read or "
        "written. docs/report.md describes the page.",
        progress_children,
        NULL,
        NULL};
    report_args args = {0};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.count == 0)
        return cli_usage("report", "which folder? Name the folder of a run");
    if (args.count > REPORT_RUNS_MOST)
        return cli_usage("report", "at most %d runs are compared, not %d", REPORT_RUNS_MOST,
                         args.count);
    if (args.json && args.out != NULL)
        return cli_usage("report", "--json writes no page: leave --out away, or --json");
    return run(&args);
}
