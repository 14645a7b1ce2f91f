/* SPDX-License-Identifier: Apache-2.0 */
#include "train_worker.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "progress_show.h"
#include "said.h"
#include "train_report.h"

static volatile sig_atomic_t asked; /* SIGTERM came */
static bool stopped;

static void on_term(int number)
{
    (void)number;
    asked = 1;
}

bool train_has_stopped(void)
{
    return stopped;
}

/* Once all know: nothing is to be waited for any more. */
static void say_stopped(const train_worker *args, const shoal_train_progress *progress)
{
    stopped = true;
    (void)signal(SIGTERM, SIG_DFL);
    progress_aside();
    if (progress->reports && !args->quiet)
        said(SAID_WARN, "train",
             "asked to end: step %llu of %llu is in %s; the same command goes on",
             (unsigned long long)progress->step, (unsigned long long)progress->steps,
             args->train->out);
}

static void show_progress(const train_worker *args, const shoal_train_progress *p)
{
    if (!p->reports || args->quiet)
        return;
    char note[120];
    int used = snprintf(note, sizeof note, "loss %.4f  epoch %u/%u", p->loss,
                        p->epoch + (p->epoch_ended ? 0 : 1), p->epochs);
    if (p->slow_rank >= 0)
        snprintf(note + used, sizeof note - (size_t)used, "  waits for rank %d: %s", p->slow_rank,
                 p->slow_cause);
    progress_begin("train", "steps", false, args->interrupted);
    progress_at((double)p->step, (double)p->steps, note);
    if (p->epoch_ended && !args->json) {
        progress_aside();
        printf("epoch %u/%u  step %llu  train loss %.4f", p->epoch, p->epochs,
               (unsigned long long)p->step, p->train_loss);
        if (isfinite(p->test_accuracy)) /* not every epoch ends with a test */
            printf("  test loss %.4f  accuracy %.2f %%", p->test_loss, p->test_accuracy);
        printf("  %.2f s", p->epoch_s);
        if (isfinite(p->symbol_error_rate))
            printf("  symbol errors %.2f %%", p->symbol_error_rate);
        if (isfinite(p->bits_per_byte))
            printf("  bits per byte %.4f", p->bits_per_byte);
        if (isfinite(p->admm_gap))
            printf("  gap %.4f", p->admm_gap);
        puts("");
        fflush(stdout);
    }
}

/* All steps that are left. */
static shoal_status run_steps(const train_worker *args, shoal_train *train, uint32_t rank,
                              bool *told)
{
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_candidate any = {.size = sizeof any};
    bool talks = rank == 0 && !args->json && !args->quiet;
    do {
        if (asked)
            shoal_train_ask_to_stop(train);
        shoal_status status = shoal_train_step(train, &progress);
        if (status != SHOAL_OK)
            return status;
        if (talks && !*told && shoal_train_choice(train, 0, &any)) {
            progress_aside();
            train_codec_table(train);
            *told = true;
        }
        train_metrics_step(args->metrics, rank, train, &progress);
        train_board_step(args->board, train, &progress);
        show_progress(args, &progress);
    } while (!progress.done && !progress.stopped);
    if (progress.stopped && !progress.done)
        say_stopped(args, &progress);
    return SHOAL_OK;
}

/* The lowest rank that is there tells the result, also where a file beside it could not be written.
 */
static shoal_status report(const train_worker *args, shoal_train *train, uint32_t rank)
{
    shoal_train_summary summary = {.size = sizeof summary};
    shoal_status status = shoal_train_summarise(train, &summary);
    progress_end();
    if (status == SHOAL_EIO && summary.ranks > 0) {
        *args->unwritten = true;
        (void)cli_report(args->name);
        status = SHOAL_OK;
    }
    if (status != SHOAL_OK || rank != summary.reporter)
        return status;
    if (args->json)
        return train_report_json(args->train, args->planned, train, &summary) == CLI_OK
                   ? SHOAL_OK
                   : SHOAL_ENOMEM;
    train_report_table(args->train, args->planned, train, &summary);
    return SHOAL_OK;
}

bool train_about_members(shoal_status status)
{
    return status == SHOAL_EPEER || status == SHOAL_EEPOCH || status == SHOAL_ETIMEDOUT ||
           status == SHOAL_ECANCELLED;
}

/* Others may be lost while the run goes over to new workers: so often it is tried again. */
static shoal_status reform(const train_worker *args, shoal_train *train, shoal_comm **comm,
                           shoal_view *view)
{
    enum { ATTEMPTS = 8 };
    shoal_status status = SHOAL_EPEER;
    progress_aside();
    if (!args->quiet)
        said(SAID_WARN, "train", "rank %u: %s; going on with who is there", view->rank,
             shoal_last_error()->text);
    for (int i = 0; i < ATTEMPTS && train_about_members(status); i++) {
        uint64_t before = view->epoch;
        status = shoal_train_reform(train, comm, 0);
        if (shoal_comm_view(*comm, view) != SHOAL_OK || view->epoch == before)
            break; /* no epoch to enter: that was waited for */
    }
    if (status == SHOAL_OK && !args->quiet)
        said(SAID_INFO, "train", "rank %u of %u goes on in epoch %llu of the members", view->rank,
             view->workers, (unsigned long long)view->epoch);
    return status;
}

shoal_status train_work(const train_worker *args, shoal_train *train, shoal_comm **comm,
                        shoal_view *view)
{
    bool told = false;
    if (args->train->may_stop)
        (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term, .sa_flags = SA_RESTART},
                        NULL);
    for (;;) {
        train_metrics_step(args->metrics, view->rank, train, NULL);
        shoal_status status = run_steps(args, train, view->rank, &told);
        if (status == SHOAL_OK && args->reports && !stopped)
            status = report(args, train, view->rank);
        if (!args->train->reform || !train_about_members(status))
            return status;
        status = reform(args, train, comm, view);
        if (status != SHOAL_OK)
            return status;
    }
}
