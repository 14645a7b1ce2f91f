/* SPDX-License-Identifier: Apache-2.0 */
/* shoal run: start N ranks of any command, here, in a lab, or over ssh. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "arguments.h"
#include "cli.h"
#include "hosts.h"
#include "launch.h"
#include "launch_print.h"

typedef struct run_args {
    launch_desc launch;
    lab_desc lab;
    bool slurm, k8s, hold, requeue, grace;
    const char *kind; /* with k8s */
} run_args;

enum {
    KEY_SLURM = 256,
    KEY_K8S,
    KEY_ON_LOSS,
    KEY_SPARES,
    KEY_IN_SWITCH,
    KEY_HOLD,
    KEY_KIND,
    KEY_REQUEUE
};

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "How many ranks to start (1; with --hosts one on each, or its slots)",
     0},
    {"lab", 'l', "SPEC", 0,
     "Emulate a network on this machine: each rank in a namespace of its own behind a shaped link",
     0},
    {"aggregators", 'a', "A", 0,
     "Start A daemons that sum for collectives with `dedicated` (shoal aggregator); in the lab "
     "each "
     "on a host of its own",
     0},
    {"colocate", 1000, NULL, 0, "In the lab: the aggregators on the hosts of the ranks", 0},
    {"in-switch", KEY_IN_SWITCH, "auto|on|off", 0,
     "In the lab: the aggregators on its switch, whose kernel sums for switchml:dedicated if it "
     "can "
     "(auto), must (on) or does not (off)",
     0},
    {"tag-output", 't', NULL, 0, "Put [rank] before each line of output", 0},
    {"grace", 'g', "SECONDS", 0, "How long the others may go on after one rank failed (10)", 0},
    {"on-loss", KEY_ON_LOSS, "stop|reform", 0,
     "When a rank is lost: end the others after the grace (stop), or let them go on, which the "
     "program has to be made for (shoal.elastic; docs/failures.md)",
     0},
    {"spares", KEY_SPARES, "N", 0,
     "With --on-loss reform: more ranks, which wait for the place of a lost one (0)", 0},
    {"print-slurm", KEY_SLURM, NULL, 0, "Start nothing: print a script for sbatch", 0},
    {"print-k8s", KEY_K8S, NULL, 0, "Start nothing: print a job for kubectl", 0},
    {"kind", KEY_KIND, "job|jobset|trainjob", 0,
     "With --print-k8s: an indexed Job (job), a JobSet, or Kubeflow's TrainJob", 0},
    {"requeue", KEY_REQUEUE, NULL, 0,
     "With --print-slurm or --print-k8s: start the job again when its command has ended with 85, "
     "as "
     "`shoal train --on-term checkpoint` does when it is asked to end",
     0},
    {"hold-ports", KEY_HOLD, "PORT", OPTION_HIDDEN, "For a launcher elsewhere: see hosts.h", 0},
    {0}};

static error_t parse_members(int key, char *text, struct argp_state *state)
{
    run_args *args = state->input;
    int64_t number = 0;
    switch (key) {
    case KEY_ON_LOSS:
        args->launch.survives = strcmp(text, "reform") == 0;
        if (!args->launch.survives && strcmp(text, "stop") != 0)
            cli_refuse(state, "--on-loss %s: wanted stop or reform", text);
        return 0;
    case KEY_SPARES:
        if (!cli_parse_int(text, 0, 64, &number))
            cli_refuse(state, "--spares %s: wanted a whole number from 0 to 64", text);
        args->launch.spares = (uint32_t)number;
        return 0;
    case KEY_KIND:
        args->kind = strcasecmp(text, "job") == 0        ? "job"
                     : strcasecmp(text, "jobset") == 0   ? "jobset"
                     : strcasecmp(text, "trainjob") == 0 ? "trainjob"
                                                         : NULL;
        if (args->kind == NULL)
            cli_refuse(state, "--kind %s: wanted job, jobset or trainjob", text);
        return 0;
    case KEY_REQUEUE:
        args->requeue = true;
        return 0;
    case KEY_HOLD:
        if (!cli_parse_int(text, 0, 65534, &number))
            cli_refuse(state, "--hold-ports %s: wanted 0 to 65534", text);
        args->launch.port = (uint16_t)number;
        args->hold = true;
        return 0;
    case KEY_IN_SWITCH:
        args->launch.in_switch = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    run_args *args = state->input;
    int64_t number = 0;
    switch (key) {
    case 'n':
        if (!cli_parse_int(text, 1, 4096, &number))
            cli_refuse(state, "--ranks %s: wanted a whole number from 1 to 4096", text);
        args->launch.ranks = (uint32_t)number;
        return 0;
    case 'a':
        if (!cli_parse_int(text, 0, 1024, &number))
            cli_refuse(state, "--aggregators %s: wanted a whole number from 0 to 1024", text);
        args->launch.aggregators = (uint32_t)number;
        return 0;
    case 1000:
        args->launch.colocated = true;
        return 0;
    case 'g':
        if (!cli_parse_real(text, 0, 3600, &args->launch.grace_s))
            cli_refuse(state, "--grace %s: wanted seconds from 0 to 3600", text);
        args->grace = true;
        return 0;
    case 'l':
        args->launch.lab = &args->lab;
        args->launch.bad = args->launch.bad || !lab_parse("run", text, &args->lab);
        return 0;
    case 't':
        args->launch.tag_output = true;
        return 0;
    case KEY_SLURM:
        args->slurm = true;
        return 0;
    case KEY_K8S:
        args->k8s = true;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->launch;
        return 0;
    case ARGP_KEY_ARG:
        args->launch.argv = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (!args->hold)
            cli_refuse(state, "no command; put it after --");
        return 0;
    default:
        return parse_members(key, text, state);
    }
}

static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    static const char examples[] =
        "\nKeys of --lab:\n%s\nExamples:\n"
        "  shoal run -n 4 --lab rate=250mbit -- shoal bench allreduce --size 16M\n"
        "  shoal run -n 8 --hosts a,b -- python3 train.py\n"
        "  shoal run -n 4 --on-loss reform --spares 1 -- python3 elastic.py\n"
        "  shoal run -n 64 --print-slurm -- python3 train.py > job.sh\n"
        "  shoal run -n 8 --print-k8s --kind jobset -- python3 train.py > job.yaml\n"
        "  shoal run -n 4 -a 4 --lab rate=100mbit -- shoal bench allreduce --size 16M --density "
        "0.01 --collective omnireduce:dedicated\n\n"
        "The exit code is 0 only if every rank's is (with --on-loss reform: one's that had a "
        "place in the job); 5 if a rank was killed; 1 if a host cannot take part, 6 if it is only "
        "silent; "
        "77 "
        "if there can be no lab here.";
    size_t bytes = sizeof examples + strlen(lab_help);
    char *full = malloc(bytes);
    if (full != NULL)
        snprintf(full, bytes, examples, lab_help);
    return full;
}

/* A script or objects for whoever starts the ranks. */
static int print(const run_args *args)
{
    const launch_desc *launch = &args->launch;
    const print_desc desc = {.launch = launch,
                             .requeue = args->requeue,
                             .kind = args->kind != NULL ? args->kind : "job"};
    if ((args->slurm && args->k8s) || launch->lab != NULL || launch->hosts != NULL)
        return cli_usage("run", "--print-slurm, --print-k8s, --lab and --hosts exclude each "
                                "other");
    if (args->kind != NULL && !args->k8s)
        return cli_usage("run", "--kind goes with --print-k8s");
    if (args->grace)
        return cli_usage("run",
                         "--grace is for ranks that are started here: the script ends them at "
                         "once when one has failed, Kubernetes when its pods fail; leave it "
                         "out with --print-slurm and --print-k8s");
    if (launch->aggregators > 0)
        return cli_usage("run", "--aggregators starts them on this machine; for a scheduler start "
                                "`shoal aggregator` as a job of its own, and name them in "
                                "SHOAL_AGGREGATORS");
    if (args->k8s && launch->tag_output)
        return cli_usage("run", "--tag-output is for --print-slurm and ranks that are started "
                                "here; `kubectl logs --prefix` names the pod of each line");
    if (args->k8s)
        return print_k8s(&desc);
    print_slurm(&desc);
    return CLI_OK;
}

static int start(run_args *args)
{
    if (!launch_options_fit(&args->launch))
        return CLI_USAGE;
    if (args->launch.spares > 0 && !args->launch.survives)
        return cli_usage("run", "--spares goes with --on-loss reform");
    if (args->launch.ranks == 0)
        args->launch.ranks = launch_usual_ranks(&args->launch);
    if (args->launch.ranks == 0)
        return CLI_USAGE;
    args->launch.ranks += args->launch.spares;
    if ((args->launch.colocated || args->launch.in_switch != NULL) &&
        (args->launch.lab == NULL || args->launch.aggregators == 0))
        return cli_usage("run", "--%s goes with --lab and --aggregators",
                         args->launch.colocated ? "colocate" : "in-switch");
    if (args->launch.colocated && args->launch.in_switch != NULL)
        return cli_usage("run", "--colocate and --in-switch exclude each other");
    if (args->launch.aggregators > 0 && args->launch.hosts != NULL)
        return cli_usage("run",
                         "--aggregators starts them on this machine; on other hosts run `shoal "
                         "aggregator`, and name them in SHOAL_AGGREGATORS");
    if (args->slurm || args->k8s)
        return print(args);
    if (args->kind != NULL || args->requeue)
        return cli_usage("run", "--%s goes with %s--print-k8s",
                         args->kind != NULL ? "kind" : "requeue",
                         args->kind != NULL ? "" : "--print-slurm or ");
    return launch_run(&args->launch);
}

int cli_run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&launch_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options,
                                     parse,
                                     "-- COMMAND [ARG...]",
                                     "Start the ranks of a job and watch over them.\v",
                                     children,
                                     help_filter,
                                     NULL};
    run_args args = {.launch = {.verb = "run", .grace_s = 10}};
    if (cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &args) != 0)
        return CLI_USAGE;
    int code = args.hold ? hosts_hold_ports(args.launch.port) : start(&args);
    launch_forget_options(&args.launch);
    return code;
}
