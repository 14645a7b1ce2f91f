/* SPDX-License-Identifier: Apache-2.0 */
/* shoal train: the main job. Starts its own workers unless a launcher did; each worker is this verb
 * again. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "launch.h"
#include "progress_show.h"
#include "said.h"
#include "shoal/partition.h"
#include "shoal/train.h"
#include "train_checks.h"
#include "train_options.h"
#include "train_report.h"
#include "train_worker.h"

/* ------------------------------------------------------------------ one worker */

/* A spare waits for as long as the job lasts. */
static void be_spare(train_args *args)
{
    const int64_t week_us = INT64_C(7) * 24 * 3600 * 1000000;
    args->comm.spare = args->comm.reform && getenv("SHOAL_SPARE") != NULL;
    if (args->comm.spare)
        args->comm.join_timeout_us = week_us;
}

/* What a run tells while it goes on, beside its folder. */
typedef struct audience {
    train_metrics *metrics;
    train_board *board;
    char interrupted[4200]; /* what Ctrl-C does; "": a launcher says it */
    const char *name;       /* of this process, in what it says */
    bool unwritten;         /* a file beside the result is not there, and that was told */
} audience;

/* The last file of a server is a file beside the result, which the workers tell. */
static shoal_status serve(audience *told, shoal_train *train)
{
    const shoal_status status = shoal_train_serve(train);
    if (status != SHOAL_EIO)
        return status;
    told->unwritten = true;
    (void)cli_report(told->name);
    return SHOAL_OK;
}

static shoal_status run_stage(train_args *args, audience *told, shoal_comm **comm, shoal_view *view,
                              uint32_t stage)
{
    const train_stages *stages = &args->stages;
    const train_worker work = {.train = &stages->desc[stage],
                               .planned = args->planned,
                               .json = args->json,
                               .quiet = args->quiet,
                               .interrupted = told->interrupted[0] != '\0' ? told->interrupted
                                                                           : NULL,
                               .metrics = told->metrics,
                               .board = told->board,
                               .name = told->name,
                               .unwritten = &told->unwritten,
                               .reports = stage + 1 == stages->count};
    shoal_train *train = NULL;
    shoal_status status = shoal_train_create(*comm, &stages->desc[stage], &train);
    /* A newcomer whose sponsor is lost: a member all the same, that has nothing yet. */
    for (int again = 0; again < 8 && view->epoch > 0 && train_about_members(status); again++) {
        status = shoal_comm_reform(comm, 0, 0, view);
        if (status != SHOAL_OK)
            break;
        status = shoal_train_create(*comm, &stages->desc[stage], &train);
    }
    if (status != SHOAL_OK)
        return status;
    if (stages->name[stage] != NULL && view->rank == 0 && !args->json && !args->quiet)
        printf("%s\n", stages->name[stage]);
    train_board_stage(told->board, stages->desc[stage].out);
    status = view->rank < view->workers ? train_work(&work, train, comm, view) : serve(told, train);
    progress_end();
    train_metrics_stage(told->metrics);
    shoal_train_destroy(train);
    return status;
}

/* Before anything is trained, so that a port or a folder in use is told at once. */
static bool begin_told(const train_args *args, const shoal_view *view, audience *told)
{
    const bool begins = view->rank == 0 && view->epoch == 0;
    told->metrics = train_metrics_create(&args->metrics, &args->train);
    if (!train_board_open("train", args->tensorboard, args->train.out, args->train.resume != NULL,
                          begins, &told->board))
        return false;
    if (told->metrics == NULL || view->rank != 0)
        return true;
    if (!train_metrics_serve(told->metrics, view->rank))
        return false;
    if (!args->quiet || strcmp(args->metrics.address, "0") == 0)
        said(SAID_INFO, "train", "metrics are at port %u", train_metrics_port(told->metrics));
    return true;
}

/* What becomes of the steps when Ctrl-C ends them. */
static void say_interrupted(const train_args *args, char *out, size_t bytes)
{
    if (args->train.out != NULL)
        snprintf(out, bytes,
                 "`shoal train --resume %s` goes on from the newest checkpoint, if there is one",
                 args->train.out);
    else
        snprintf(out, bytes, "without --out nothing is kept");
}

/* The exit code of who lacks a file beside its result. */
static int unwritten(void)
{
    return getenv("SHOAL_OWN_LAUNCHER") != NULL ? (int)LAUNCH_LACKS : (int)CLI_FAILED;
}

/* All trainings in a row. @return exit code */
static int run_stages(train_args *args, shoal_comm **comm, shoal_view *view, const char *name)
{
    audience told = {.name = name};
    shoal_status status = SHOAL_OK;
    if (!cli_under_launcher())
        say_interrupted(args, told.interrupted, sizeof told.interrupted);
    const bool begun = begin_told(args, view, &told);
    for (uint32_t i = 0; i < args->stages.count && status == SHOAL_OK && begun; i++)
        status = run_stage(args, &told, comm, view, i);
    int code = !begun                ? CLI_USAGE
               : status != SHOAL_OK  ? cli_report(name)
               : train_has_stopped() ? (int)LAUNCH_AGAIN
               : told.unwritten      ? unwritten()
                                     : CLI_OK;
    train_metrics_destroy(told.metrics);
    if (!train_board_close(told.board) && code == CLI_OK)
        code = CLI_FAILED;
    return code;
}

/* The launcher's number counts; another one on the command line is no slip to pass over. */
static bool as_many_as_asked(const train_args *args, const shoal_view *view)
{
    if (args->asked_workers == 0 || args->asked_workers == view->workers || view->epoch > 0 ||
        args->train.simulate > 0 || getenv("SHOAL_OWN_LAUNCHER") != NULL || !cli_under_launcher())
        return true;
    if (view->rank == 0)
        cli_usage("train",
                  "--workers %u, but the launcher has started %u: say it to the launcher, and "
                  "leave --workers out",
                  args->asked_workers, view->workers);
    return false;
}

static int worker_main(train_args *args)
{
    shoal_comm *comm = NULL;
    shoal_view view = {.size = sizeof view, .workers = 1};
    const char *slow = getenv("SHOAL_SLOW");
    char name[32] = "train";
    if (slow != NULL)
        args->train.slow = strtod(slow, NULL);
    args->train.slow_random = getenv("SHOAL_RANDOM");
    args->comm.seed = args->train.seed;
    args->train.options = train_kept_text(&args->kept);
    be_spare(args);
    shoal_status status = train_stages_make(&args->train, args->whole_model, args->admm,
                                            &args->stages);
    if (status == SHOAL_OK && args->train.simulate == 0)
        status = shoal_comm_create(&args->comm, &comm);
    if (args->comm.spare && status == SHOAL_ECANCELLED) {
        train_stages_free(&args->stages);
        return CLI_OK; /* it was not needed */
    }
    if (status == SHOAL_OK && comm != NULL)
        status = shoal_comm_view(comm, &view);
    if (status == SHOAL_OK && view.rank_count > 1)
        snprintf(name, sizeof name, "train: rank %u", view.rank);
    const int code = status != SHOAL_OK              ? cli_report(name)
                     : as_many_as_asked(args, &view) ? run_stages(args, &comm, &view, name)
                                                     : CLI_USAGE;
    train_stages_free(&args->stages);
    shoal_comm_destroy(comm);
    return code;
}

/* A plan brings what it was made for; the command line may repeat it, and is checked then. */
static bool take_plan(train_args *args)
{
    shoal_partition *plan = NULL;
    shoal_partition_info info = SHOAL_PARTITION_INFO_INIT;
    if (shoal_partition_open(args->train.plan, &plan) != SHOAL_OK ||
        shoal_partition_describe(plan, &info) != SHOAL_OK) {
        shoal_partition_destroy(plan);
        return false;
    }
    args->workers = args->workers != 0 ? args->workers : 1u << info.levels;
    args->train.batch = args->train.batch != 0 ? args->train.batch : info.batch >> info.levels;
    args->planned = info.executed_elements;
    if (args->train.model == NULL)
        args->train.model = args->plan_model = strdup(info.model);
    shoal_partition_destroy(plan);
    return args->train.model != NULL;
}

static bool admm_fits(const train_args *args)
{
    if (args->admm == NULL || (args->train.resume == NULL && args->train.plan == NULL))
        return true;
    cli_usage("train", "--admm excludes --resume and --plan; --start OUT/dense with "
                       "--admm dense=0 begins with weights already trained");
    return false;
}

/* The command is the same before and after a run was asked to end: it goes on by itself, with the
 * weights that it has by now instead of those that it began with. */
static void go_on_by_itself(train_args *args)
{
    shoal_run_look *look = NULL;
    shoal_run_summary summary = {.size = sizeof summary};
    if (!args->train.may_stop || args->train.out == NULL || args->train.resume != NULL ||
        shoal_run_look_at(args->train.out, true, &look) != SHOAL_OK)
        return;
    if (shoal_run_look_summary(look, &summary) == SHOAL_OK && summary.resumes_from > 0 &&
        strcmp(summary.state, "finished") != 0)
        args->train.resume = args->train.out;
    shoal_run_look_close(look);
}

static bool may_stop(const train_args *args)
{
    uint32_t servers = 0;
    bool survives = false;
    if (!args->train.may_stop)
        return true;
    if (shoal_sync_survives(args->train.sync, &survives) != SHOAL_OK ||
        shoal_sync_servers(args->train.sync, &servers) != SHOAL_OK)
        return false;
    if (!survives && servers == 0)
        return true;
    cli_usage("train",
              "--on-term checkpoint goes with --sync all_reduce, whose workers are in step");
    return false;
}

/* --precision is a key of the model, which a run or a plan that is gone on from has already. */
static int take_precision(train_args *args)
{
    const char **model = &args->train.model;
    if (args->precision == NULL)
        return CLI_OK;
    if (*model == NULL || args->train.plan != NULL)
        return cli_usage("train", "--precision goes with --model; %s goes on with its own",
                         *model == NULL ? "the run" : "the plan");
    const char *own = strstr(*model, "precision="); /* a key of the model's */
    if (own != NULL && own > *model && (own[-1] == ':' || own[-1] == ',')) {
        const char *value = own + strlen("precision=");
        const size_t length = strcspn(value, ",");
        if (length == strlen(args->precision) && strncmp(value, args->precision, length) == 0)
            return CLI_OK;
        return cli_usage("train", "--precision %s, but --model says %.*s: leave one of the two out",
                         args->precision, (int)strcspn(own, ","), own);
    }
    args->rounded_model = train_round(*model, args->precision);
    if (args->rounded_model == NULL)
        return cli_usage("train", "--precision %s: it is float32 or bf16", args->precision);
    *model = args->rounded_model;
    return CLI_OK;
}

/* Which model, and where to; of a run that goes on, all that is not given. */
static int settle(train_args *args)
{
    const char **model = &args->train.model;
    if (!train_given_fit(args) || !launch_leaves_it(&args->launch))
        return CLI_USAGE;
    args->asked_workers = args->workers;
    const bool simulates = args->train.simulate > 0;
    go_on_by_itself(args);
    train_kept_launch(&args->kept, &args->launch);
    const int restored = train_kept_restore(&args->kept, args->train.resume, train_take_named,
                                            args);
    if (restored != CLI_OK || !launch_options_fit(&args->launch))
        return restored != CLI_OK ? restored : CLI_USAGE;
    if (args->train.simulate > 0 && !simulates)
        return cli_usage("train",
                         "%s is of simulated workers, whose state is in no checkpoint: go on from "
                         "its weights with --workers N, real ones",
                         args->train.resume);
    if (args->train.plan != NULL && !take_plan(args))
        return cli_report("train");
    if (*model == NULL && args->kept.run == NULL) /* else it is the run's */
        *model = "lenet";
    args->whole_model = *model;
    if (!admm_fits(args) || !may_stop(args))
        return CLI_USAGE;
    args->launch.keeps = args->train.may_stop;
    if (args->circulant != NULL && *model == NULL)
        return cli_usage("train", "--circulant goes with --model; without both, the run goes on "
                                  "with its own");
    if (args->circulant != NULL)
        *model = args->circulant_model = train_circulate(*model, args->circulant);
    if (args->circulant != NULL && *model == NULL)
        return cli_usage("train", "--circulant %s: it is k=8, or k=8,conv=4, or k=8,kx=4",
                         args->circulant);
    return take_precision(args);
}

static int run_args(void *input, char **command)
{
    train_args *args = input;
    uint32_t servers = 0;
    const int settled = settle(args);
    if (settled != CLI_OK)
        return settled;
    args->train.batch = args->train.batch != 0 ? args->train.batch : 64;
    if (args->workers == 0)
        args->workers = cli_under_launcher() ? 1 : launch_usual_ranks(&args->launch);
    if (args->workers == 0)
        return CLI_USAGE;
    if (args->train.data == NULL && args->kept.run == NULL)
        return cli_usage("train",
                         args->train.resume == NULL
                             ? "which data? --data DIR; `shoal data digits --out DIR` makes some"
                             : "which data? --data DIR: the folder to --resume tells of no run");
    if ((!cli_under_launcher() && !train_goes_together(&args->train, args->admm, args->workers)) ||
        shoal_sync_servers(args->train.sync, &servers) != SHOAL_OK)
        return cli_report("train");
    if (!train_may_write_to(args->train.out, args->train.resume))
        return CLI_USAGE;
    if (args->dry_run)
        return train_dry_run(&args->train, train_kept_option(&args->kept, "model"), args->workers,
                             servers);
    if (cli_under_launcher()) {
        args->comm.servers = (int32_t)servers;
        return worker_main(args);
    }
    if (args->launch.hosts == NULL && !train_may_trace_to(args->train.trace))
        return CLI_FAILED;
    if (args->workers == 1 && servers == 0 && args->launch.lab == NULL &&
        args->launch.hosts == NULL) {
        args->comm.rank = 0;
        args->comm.world_size = 1;
        return worker_main(args);
    }
    if (shoal_sync_survives(args->train.sync, &args->launch.survives) != SHOAL_OK)
        return cli_report("train");
    args->launch.survives = args->launch.survives || args->train.reform;
    if (args->launch.spares > 0 && !args->train.reform)
        return cli_usage("train", "--spares goes with --on-loss reform");
    args->launch.servers = servers;
    args->launch.ranks = args->workers + servers + args->launch.spares;
    args->launch.argv = command;
    args->launch.itself = true;
    args->launch.tacit = args->quiet;
    if (args->launch.hosts == NULL && !train_metrics_reserve(&args->metrics))
        return CLI_USAGE;
    const int code = launch_run(&args->launch);
    if (code == 128 + SIGINT && !args->quiet) {
        char text[4200];
        say_interrupted(args, text, sizeof text);
        (void)cli_fail("train", "interrupted: %s", text);
    }
    return code;
}

int cli_train(int argc, char **argv)
{
    static const struct argp_child children[] = {{&launch_argp, 0, "On which hosts:", 2}, {0}};
    static const struct argp argp = {
        train_options,
        train_parse,
        "",
        "Train a network across workers.\v"
        "Example: shoal train --model lenet --data digits --workers 4 --lab rate=250mbit\n"
        "             --codec inceptionn:bound=2^-10 --batch 64 --epochs 3 --out runs/x\n\n"
        "Workers are started here unless torchrun's, Open MPI's, PMIx's or Slurm's variables are "
        "set.",
        children,
        NULL,
        NULL};
    train_args args = {.launch = {.verb = "train", .grace_s = 10},
                       .train = SHOAL_TRAIN_DESC_INIT,
                       .comm = SHOAL_COMM_DESC_INIT};
    args.train.sync = "all_reduce";
    args.train.collective = "ring";
    args.train.codec = "identity";
    args.train.seed = 1;
    args.train.lr = 0.02;
    args.train.epochs = 1;
    args.train.keep_events = true;
    int code = cli_parse_and_run("train", &argp, argc, argv, &args, run_args);
    free(args.plan_model);
    free(args.circulant_model);
    free(args.rounded_model);
    launch_forget_options(&args.launch);
    train_kept_free(&args.kept);
    return code;
}
