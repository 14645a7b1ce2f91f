/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs that start ranks understand: where else they run, and what they find there. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cli.h"
#include "launch.h"

enum { KEY_PATH = 1000 };

static const struct argp_option options[] = {
    {"hosts", 'H', "A,B:4", CLI_LONG,
     "Start the ranks on these hosts by ssh (or by the program in SHOAL_RSH): one on each, or its "
     "slots",
     0},
    {"path", KEY_PATH, "DIR", 0,
     "With --hosts: shoal lies in this folder there, and programs are looked for in it first "
     "(shoal: where it lies here, or in the PATH there)",
     0},
    {"export", 'x', "NAME[=VALUE]", CLI_REPEATS | CLI_LONG,
     "With --hosts: this variable for the ranks, as it is here or with a value; may be repeated",
     0},
    {"port", 'p', "PORT", 0,
     "MASTER_PORT; rank 0's store takes the next one (free ones; in a lab and on other hosts "
     "29400)",
     0},
    {0}};

static bool export(launch_desc *desc, const char *text)
{
    if (desc->forward_count == REMOTE_MAX_FORWARD) {
        cli_usage(desc->verb, "-x: at most %d variables", REMOTE_MAX_FORWARD);
        return false;
    }
    return remote_forward(desc->verb, text, &desc->forward[desc->forward_count++]);
}

int launch_take(launch_desc *desc, int key, const char *text)
{
    int64_t port = 0;
    switch (key) {
    case 'H':
        desc->hosts = text;
        return 1;
    case KEY_PATH:
        desc->path = text;
        return text[0] != '\0' && strpbrk(text, ":\n") == NULL;
    case 'x':
        desc->bad = desc->bad || !export(desc, text);
        return 1;
    case 'p':
        if (!cli_parse_int(text, 1, 65534, &port))
            return 0;
        desc->port = (uint16_t)port;
        return 1;
    default:
        return -1;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    const int taken = launch_take(state->input, key, text);
    if (taken == 0 && key == 'p')
        cli_refuse(state, "--port %s: wanted 1 to 65534", text);
    else if (taken == 0)
        cli_refuse(state, "--path %s: one folder, without a colon", text);
    return taken >= 0 ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp launch_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

bool launch_options_fit(launch_desc *desc)
{
    if (desc->bad)
        return false;
    if (desc->hosts == NULL && (desc->forward_count > 0 || desc->path != NULL)) {
        cli_usage(desc->verb, "%s goes with --hosts: here ranks have this environment anyway",
                  desc->path != NULL ? "--path" : "-x");
        return false;
    }
    if (desc->lab != NULL && desc->hosts != NULL) {
        cli_usage(desc->verb, "--lab and --hosts exclude each other");
        return false;
    }
    return true;
}

bool launch_leaves_it(const launch_desc *desc)
{
    const char *said = desc->hosts != NULL                          ? "hosts"
                       : desc->path != NULL                         ? "path"
                       : desc->forward_count > 0                    ? "export"
                       : desc->port != 0                            ? "port"
                       : desc->lab != NULL                          ? "lab"
                       : desc->spares > 0                           ? "spares"
                       : desc->aggregators > 0                      ? "aggregators"
                       : desc->colocated || desc->in_switch != NULL ? "colocate"
                                                                    : NULL;
    if (said == NULL || !cli_under_launcher() || getenv("SHOAL_OWN_LAUNCHER") != NULL)
        return true;
    cli_usage(desc->verb,
              "--%s would start nothing: a launcher has started these ranks already; give it to "
              "`shoal run` before the --, or say it in that launcher's own way",
              said);
    return false;
}

uint32_t launch_usual_ranks(const launch_desc *desc)
{
    if (desc->hosts != NULL)
        return remote_ranks(desc->verb, desc->hosts);
    return desc->lab != NULL && desc->lab->workers > 0 ? desc->lab->workers : 1;
}

void launch_forget_options(launch_desc *desc)
{
    for (uint32_t i = 0; i < desc->forward_count; i++)
        free(desc->forward[i]);
    desc->forward_count = 0;
}
