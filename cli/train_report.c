/* SPDX-License-Identifier: Apache-2.0 */
#include "train_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stragglers.h"

void train_codec_table(const shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    if (!shoal_train_choice(train, 0, &c))
        return;
    printf("  %-28s %-8s %12s %10s %14s %18s\n", "codec", "", "exchange ms", "coding ms",
           "bytes a step", "predicted step ms");
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        printf("%c %-28s %-8s ", c.chosen ? '*' : ' ', c.codec, c.lossless ? "lossless" : "lossy");
        if (isfinite(c.step_ms))
            printf("%12.2f %10.2f %14.0f %18.2f\n", c.exchange_ms, c.code_ms, c.sent_bytes,
                   c.step_ms);
        else
            printf("%12s\n", "not measured: a gradient was not finite");
    }
    printf("codec auto: %s%s\n", shoal_train_codec(train),
           strcmp(shoal_train_codec(train), "identity") == 0 ? " (off: float32 as it is)" : "");
    fflush(stdout);
}

static void codec_json(const shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    printf("\"codec_used\": \"%s\", ", shoal_train_codec(train));
    if (!shoal_train_choice(train, 0, &c))
        return;
    printf("\"candidates\": [");
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        printf("%s{\"codec\": \"%s\", \"lossless\": %s", i > 0 ? ", " : "", c.codec,
               c.lossless ? "true" : "false");
        if (isfinite(c.step_ms))
            printf(", \"exchange_ms\": %.6g, \"code_ms\": %.6g, \"sent_bytes\": %.0f, "
                   "\"step_ms\": %.6g",
                   c.exchange_ms, c.code_ms, c.sent_bytes, c.step_ms);
        printf("}");
    }
    printf("], ");
}

static void print_number(const char *key, double value, const char *end)
{
    if (isfinite(value))
        printf("\"%s\": %.10g%s", key, value, end);
    else
        printf("\"%s\": null%s", key, end);
}

static void print_losses(const shoal_train *train)
{
    shoal_train_loss loss = {.size = sizeof loss};
    json_t *all = json_array();
    for (uint32_t i = 0; shoal_train_loss_of(train, i, &loss); i++)
        json_array_append_new(all, json_pack("{s:i, s:s, s:I, s:f, s:I, s:s}", "rank",
                                             (int)loss.rank, "host", loss.host, "epoch",
                                             (json_int_t)loss.epoch, "after_s", loss.after_s,
                                             "step", (json_int_t)loss.step, "why", loss.why));
    char *text = json_dumps(all, 0);
    printf("\"lost\": %s, ", text != NULL ? text : "[]");
    free(text);
    json_decref(all);
}

void train_report_json(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                       const shoal_train_summary *s)
{
    printf("{\"model\": \"%s\", \"workers\": %u, \"sync\": \"%s\", \"collective\": \"%s\", "
           "\"codec\": \"%s\", "
           "\"batch\": %u, \"seed\": %llu, \"steps\": %llu, \"skipped\": %llu, \"params\": %llu, ",
           d->model, s->workers, d->sync, d->collective, d->codec, d->batch,
           (unsigned long long)d->seed, (unsigned long long)s->steps,
           (unsigned long long)s->skipped, (unsigned long long)s->params);
    codec_json(train);
    print_number("test_accuracy", s->test_accuracy, ", ");
    print_number("worker_accuracy_min", s->worker_accuracy_min, ", ");
    print_number("worker_accuracy_max", s->worker_accuracy_max, ", ");
    print_number("symbol_error_rate", s->symbol_error_rate, ", ");
    print_number("test_loss", s->test_loss, ", ");
    print_number("train_loss", s->train_loss, ", ");
    print_number("seconds", s->seconds, ", ");
    print_number("epoch_s", s->epoch_s, ", ");
    print_number("step_ms", s->step_ms, ", ");
    print_number("slowest_step_ms", s->slowest_step_ms, ", ");
    print_number("compute_ms", s->compute_ms, ", ");
    print_number("wait_ms", s->wait_ms, ", ");
    print_number("comm_ms", s->comm_ms, ", ");
    print_number("encode_ms", s->encode_ms, ", ");
    print_number("decode_ms", s->decode_ms, ", ");
    print_number("update_ms", s->update_ms, ", ");
    print_number("payload_bytes_per_step", s->payload_bytes, ", ");
    print_number("raw_bytes_per_step", s->raw_bytes, ", ");
    if (d->plan != NULL) {
        print_number("sent_elements_per_step", s->raw_bytes / 4, ", ");
        print_number("planned_elements_per_step", (double)planned, ", ");
    }
    print_losses(train);
    print_number("ratio", s->payload_bytes > 0 ? s->raw_bytes / s->payload_bytes : 1, ", ");
    stragglers_json(train, s->ranks);
}

void train_report_table(const shoal_train_desc *d, uint64_t planned, const shoal_train *train,
                        const shoal_train_summary *s)
{
    printf("\n%s, %llu parameters, %u worker%s x batch %u, %s, %s, %s\n", d->model,
           (unsigned long long)s->params, s->workers, s->workers == 1 ? "" : "s", d->batch, d->sync,
           d->collective, shoal_train_codec(train));
    if (isfinite(s->test_accuracy))
        printf("  test accuracy     %8.2f %%     test loss %.4f\n", s->test_accuracy, s->test_loss);
    if (isfinite(s->train_loss))
        printf("  train loss        %8.4f       of the last epoch\n", s->train_loss);
    if (isfinite(s->symbol_error_rate))
        printf("  symbol errors     %8.2f %%     accuracy is of frames\n", s->symbol_error_rate);
    if (isfinite(s->worker_accuracy_min))
        printf("  of each replica   %8.2f %%     to %.2f %%, before their average\n",
               s->worker_accuracy_min, s->worker_accuracy_max);
    printf("  seconds per epoch %8.2f       %llu steps in %.2f s%s\n", s->epoch_s,
           (unsigned long long)s->steps, s->seconds,
           s->skipped > 0 ? ", some skipped: see metrics" : "");
    printf("  per step, ms      %8.2f       compute %.2f, then waiting %.2f, update %.2f; slowest "
           "rank %.2f\n",
           s->step_ms, s->compute_ms, s->wait_ms, s->update_ms, s->slowest_step_ms);
    if (s->workers > 1 && !d->no_exchange)
        printf("  exchange, ms      %8.2f       of which encode %.2f, decode %.2f\n"
               "  bytes per step    %8.0f k     of all ranks; %.2f times fewer than float32\n",
               s->comm_ms, s->encode_ms, s->decode_ms, s->payload_bytes / 1e3,
               s->payload_bytes > 0 ? s->raw_bytes / s->payload_bytes : 1.0);
    if (d->plan != NULL)
        printf("  elements per step %8.0f       the plan said %llu\n", s->raw_bytes / 4,
               (unsigned long long)planned);
    if (d->out != NULL)
        printf("  metrics and checkpoints are in %s; go on with --resume %s\n", d->out, d->out);
    shoal_train_loss loss = {.size = sizeof loss};
    for (uint32_t i = 0; shoal_train_loss_of(train, i, &loss); i++)
        printf("  lost              rank %u (%s) after %.1f s, at step %llu: %s\n", loss.rank,
               loss.host, loss.after_s, (unsigned long long)loss.step, loss.why);
    stragglers_table(train, s->ranks);
}
