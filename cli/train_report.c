/* SPDX-License-Identifier: Apache-2.0 */
#include "train_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "stragglers.h"
#include "table.h"

static void add_codec(table *t, const shoal_train_candidate *c)
{
    table_row(t);
    table_add(t, "%s", c->chosen ? "*" : "");
    table_add(t, "%s", c->codec);
    table_add(t, "%s", c->lossless ? "lossless" : "lossy");
    if (!isfinite(c->step_ms)) {
        table_note(t, "not measured: a gradient was not finite");
        return;
    }
    table_add(t, "%.2f", c->exchange_ms);
    table_add(t, "%.2f", c->code_ms);
    table_add(t, "%.0f", c->sent_bytes);
    table_add(t, "%.2f", c->step_ms);
    table_add(t, "%.3g%s", c->error, c->barred ? " (too much)" : "");
}

void train_codec_table(const shoal_train *train)
{
    static const table_column columns[] = {{"*", TABLE_PLAIN},
                                           {"codec", TABLE_CUT},
                                           {"kind", TABLE_PLAIN},
                                           {"exchange ms", TABLE_RIGHT},
                                           {"coding ms", TABLE_RIGHT | TABLE_SPARE},
                                           {"bytes a step", TABLE_RIGHT | TABLE_SPARE},
                                           {"predicted step ms", TABLE_RIGHT},
                                           {"squared error", TABLE_PLAIN}};
    shoal_train_candidate c = {.size = sizeof c};
    shoal_train_codec_check check = {.size = sizeof check};
    if (!shoal_train_choice(train, 0, &c))
        return;
    const bool bound = shoal_train_codec_bound(train, &check);
    table *t = table_new(0, columns, sizeof columns / sizeof *columns - !bound);
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++)
        add_codec(t, &c);
    table_print(t, stdout);
    printf("codec auto: %s%s\n", shoal_train_codec(train),
           strcmp(shoal_train_codec(train), "identity") == 0 ? " (off: float32 as it is)" : "");
    fflush(stdout);
}

static json_t *candidates(const shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    json_t *all = json_array();
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        json_t *one = json_object();
        answer_set_text(one, "codec", c.codec);
        answer_set_bool(one, "lossless", c.lossless);
        if (isfinite(c.step_ms)) {
            answer_set_number(one, "exchange_ms", c.exchange_ms);
            answer_set_number(one, "code_ms", c.code_ms);
            answer_set_number(one, "sent_bytes", c.sent_bytes);
            answer_set_number(one, "step_ms", c.step_ms);
        }
        if (isfinite(c.error))
            answer_set_number(one, "error", c.error);
        answer_set_bool(one, "barred", c.barred);
        json_array_append_new(all, one);
    }
    return all;
}

/* How auto:error= was held. */
static json_t *codec_check(const shoal_train *train, const shoal_train_codec_check *check)
{
    shoal_train_codec_fall fall = {.size = sizeof fall};
    json_t *all = json_object(), *falls = json_array();
    answer_set_number(all, "most", check->most);
    answer_set_count(all, "every", check->every);
    answer_set_count(all, "checks", check->checks);
    if (isfinite(check->last))
        answer_set_number(all, "last", check->last);
    for (uint32_t i = 0; shoal_train_codec_fell(train, i, &fall); i++) {
        json_t *one = json_object();
        answer_set_count(one, "step", fall.step);
        answer_set_text(one, "from", fall.from);
        answer_set_text(one, "to", fall.to);
        if (isfinite(fall.error))
            answer_set_number(one, "error", fall.error);
        json_array_append_new(falls, one);
    }
    answer_set(all, "falls", falls);
    return all;
}

static json_t *losses(const shoal_train *train)
{
    shoal_train_loss loss = {.size = sizeof loss};
    json_t *all = json_array();
    for (uint32_t i = 0; shoal_train_loss_of(train, i, &loss); i++) {
        json_t *one = json_object();
        answer_set_count(one, "rank", loss.rank);
        answer_set_text(one, "host", loss.host);
        answer_set_count(one, "epoch", loss.epoch);
        answer_set_number(one, "after_s", loss.after_s);
        answer_set_count(one, "step", loss.step);
        answer_set_text(one, "why", loss.why);
        json_array_append_new(all, one);
    }
    return all;
}

static void set_times(json_t *answer, const shoal_train_summary *s)
{
    answer_set_number(answer, "seconds", s->seconds);
    answer_set_number(answer, "epoch_s", s->epoch_s);
    answer_set_number(answer, "step_ms", s->step_ms);
    answer_set_number(answer, "slowest_step_ms", s->slowest_step_ms);
    answer_set_number(answer, "compute_ms", s->compute_ms);
    answer_set_number(answer, "wait_ms", s->wait_ms);
    answer_set_number(answer, "comm_ms", s->comm_ms);
    answer_set_number(answer, "encode_ms", s->encode_ms);
    answer_set_number(answer, "decode_ms", s->decode_ms);
    answer_set_number(answer, "update_ms", s->update_ms);
}

/* Without those of the run that it goes on from, of which no time is told. */
static uint64_t steps_here(const shoal_train *train)
{
    shoal_train_totals totals = {.size = sizeof totals};
    shoal_train_count(train, &totals);
    return totals.steps;
}

/* "20 steps", or "2 of 122 steps". */
static void print_steps(uint64_t here, uint64_t all)
{
    if (here < all)
        printf("%llu of ", (unsigned long long)here);
    printf("%llu steps", (unsigned long long)all);
}

static void set_run(json_t *answer, const shoal_train_desc *d, const shoal_train *train,
                    const shoal_train_summary *s)
{
    shoal_train_candidate c = {.size = sizeof c};
    shoal_train_codec_check check = {.size = sizeof check};
    answer_set_text(answer, "model", shoal_train_model(train));
    answer_set_count(answer, "workers", s->workers);
    answer_set_text(answer, "sync", d->sync);
    answer_set_text(answer, "collective", d->collective);
    answer_set_text(answer, "codec", d->codec);
    answer_set_count(answer, "batch", d->batch);
    answer_set_count(answer, "seed", d->seed);
    answer_set_count(answer, "steps", s->steps);
    answer_set_count(answer, "steps_here", steps_here(train));
    answer_set_count(answer, "skipped", s->skipped);
    answer_set_count(answer, "params", s->params);
    answer_set_text(answer, "codec_used", shoal_train_codec(train));
    if (shoal_train_choice(train, 0, &c))
        answer_set(answer, "candidates", candidates(train));
    if (shoal_train_codec_bound(train, &check))
        answer_set(answer, "codec_check", codec_check(train, &check));
}

int train_report_json(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                      const shoal_train_summary *s)
{
    json_t *answer = json_object();
    set_run(answer, d, train, s);
    answer_set_number(answer, "test_accuracy", s->test_accuracy);
    answer_set_number(answer, "worker_accuracy_min", s->worker_accuracy_min);
    answer_set_number(answer, "worker_accuracy_max", s->worker_accuracy_max);
    answer_set_number(answer, "symbol_error_rate", s->symbol_error_rate);
    answer_set_number(answer, "bits_per_byte", s->bits_per_byte);
    answer_set_number(answer, "test_loss", s->test_loss);
    answer_set_number(answer, "train_loss", s->train_loss);
    set_times(answer, s);
    answer_set_number(answer, "payload_bytes_per_step", s->payload_bytes);
    answer_set_number(answer, "raw_bytes_per_step", s->raw_bytes);
    if (d->plan != NULL) {
        answer_set_number(answer, "sent_elements_per_step", s->raw_bytes / 4);
        answer_set_count(answer, "planned_elements_per_step", planned);
    }
    answer_set_number(answer, "trace_error_us", s->trace_error_us);
    answer_set(answer, "lost", losses(train));
    answer_set_number(answer, "ratio", s->payload_bytes > 0 ? s->raw_bytes / s->payload_bytes : 1);
    answer_set(answer, "ranks", stragglers_of(train, s->ranks));
    return answer_print("train", answer);
}

static void print_codec_check(const shoal_train *train)
{
    shoal_train_codec_check check = {.size = sizeof check};
    shoal_train_codec_fall fall = {.size = sizeof fall};
    if (!shoal_train_codec_bound(train, &check))
        return;
    if (check.checks > 0)
        printf("  codec's error     %8.3g       at the last of %llu checks; bound %g\n", check.last,
               (unsigned long long)check.checks, check.most);
    for (uint32_t i = 0; shoal_train_codec_fell(train, i, &fall); i++)
        printf("  fell back         from %s to %s behind step %llu: error %.3g\n", fall.from,
               fall.to, (unsigned long long)fall.step, fall.error);
}

static bool has_checkpoint(const shoal_train *train)
{
    shoal_train_totals totals = {.size = sizeof totals};
    shoal_train_count(train, &totals);
    return totals.checkpoint_step > 0;
}

void train_report_table(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                        const shoal_train_summary *s)
{
    printf("\n%s, %llu parameters, %u worker%s x batch %u, %s, %s, %s\n", shoal_train_model(train),
           (unsigned long long)s->params, s->workers, s->workers == 1 ? "" : "s", d->batch, d->sync,
           d->collective, shoal_train_codec(train));
    if (isfinite(s->test_accuracy))
        printf("  test accuracy     %8.2f %%     test loss %.4f\n", s->test_accuracy, s->test_loss);
    if (isfinite(s->train_loss))
        printf("  train loss        %8.4f       of the last epoch\n", s->train_loss);
    if (isfinite(s->symbol_error_rate))
        printf("  symbol errors     %8.2f %%     accuracy is of frames\n", s->symbol_error_rate);
    if (isfinite(s->bits_per_byte))
        printf("  bits per byte     %8.4f       of the test texts; accuracy is of tokens\n",
               s->bits_per_byte);
    if (isfinite(s->worker_accuracy_min))
        printf("  of each replica   %8.2f %%     to %.2f %%, before their average\n",
               s->worker_accuracy_min, s->worker_accuracy_max);
    printf("  seconds per epoch %8.2f       ", s->epoch_s);
    print_steps(steps_here(train), s->steps);
    printf(" in %.2f s%s\n", s->seconds, s->skipped > 0 ? ", some skipped: see metrics" : "");
    printf("  per step, ms      %8.2f       compute %.2f, then waiting %.2f, update %.2f; slowest "
           "rank %.2f\n",
           s->step_ms, s->compute_ms, s->wait_ms, s->update_ms, s->slowest_step_ms);
    print_codec_check(train);
    if (s->workers > 1 && !d->no_exchange)
        printf(
            "  exchange, ms      %8.2f       of which encode %.2f, decode %.2f\n"
            "  bytes per step    %8.0f k     of all ranks; %.2f times fewer than dense float32\n",
            s->comm_ms, s->encode_ms, s->decode_ms, s->payload_bytes / 1e3,
            s->payload_bytes > 0 ? s->raw_bytes / s->payload_bytes : 1.0);
    if (d->plan != NULL)
        printf("  elements per step %8.0f       the plan said %llu\n", s->raw_bytes / 4,
               (unsigned long long)planned);
    if (d->out != NULL && !has_checkpoint(train))
        printf("  metrics are in %s; no checkpoint found room there\n", d->out);
    else if (d->out != NULL)
        printf("  metrics and checkpoints are in %s; go on with --resume %s%s\n", d->out, d->out,
               d->simulate > 0 ? " --workers N, real ones" : "");
    if (d->trace != NULL && isfinite(s->trace_error_us))
        printf("  the trace is in %s; its ranks' clocks agree within %.0f us\n", d->trace,
               s->trace_error_us);
    shoal_train_loss loss = {.size = sizeof loss};
    for (uint32_t i = 0; shoal_train_loss_of(train, i, &loss); i++)
        printf("  lost              rank %u (%s) after %.1f s, at step %llu: %s\n", loss.rank,
               loss.host, loss.after_s, (unsigned long long)loss.step, loss.why);
    stragglers_table(train, s->ranks, steps_here(train));
}
