/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/metrics.jsonl (rank 0) and OUT/metrics.N.jsonl: one JSON object per step, one per epoch (rank
 * 0). A resumed run cuts its file back to the checkpoint's step and appends. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "train/admm.h"
#include "train/trainer.h"

/* As mkdir -p. */
static shoal_status make_folders(const char *path)
{
    char part[4096];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST && errno != EISDIR)
            return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", part);
    }
    return SHOAL_OK;
}

shoal_status shoali_metrics_open(shoal_train *train)
{
    char path[4096];
    if (train->desc.out == NULL || train->server)
        return SHOAL_OK;
    SHOALI_TRY(make_folders(train->desc.out));
    bool late = train->membership > 0; /* ranks have other names by now */
    int used = late ? snprintf(path, sizeof path, "%s/metrics.%llu.%u.jsonl", train->desc.out,
                               (unsigned long long)train->membership, train->rank)
               : train->rank == 0 ? snprintf(path, sizeof path, "%s/metrics.jsonl", train->desc.out)
                                  : snprintf(path, sizeof path, "%s/metrics.%u.jsonl",
                                             train->desc.out, train->rank);
    if ((size_t)used >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", train->desc.out);
    SHOALI_TRY(shoali_folder_hold(train));
    if (train->desc.resume != NULL)
        SHOALI_TRY(shoali_folder_trim(path, train->step));
    train->metrics = fopen(path, train->desc.resume != NULL ? "ae" : "we");
    if (train->metrics == NULL)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    return SHOAL_OK;
}

static shoal_status written(const shoal_train *train, bool flush)
{
    if (ferror(train->metrics) || (flush && fflush(train->metrics) != 0))
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write metrics below %s", train->desc.out);
    return SHOAL_OK;
}

static void number(FILE *out, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, ", \"%s\": %.17g", key, value);
    else
        fprintf(out, ", \"%s\": null", key);
}

shoal_status shoali_metrics_step(shoal_train *train, const shoali_step_times *times)
{
    if (train->metrics == NULL)
        return SHOAL_OK;
    fprintf(train->metrics, "{\"step\": %llu, \"samples\": %u", (unsigned long long)train->step,
            times->samples);
    fprintf(train->metrics,
            ", \"at_us\": %llu, \"first\": %llu, \"step_first\": %llu, \"step_samples\": %u",
            (unsigned long long)shoali_now_us(), (unsigned long long)times->first,
            (unsigned long long)times->step_first, times->total);
    number(train->metrics, "loss", times->loss);
    number(train->metrics, "lr", times->lr);
    fprintf(
        train->metrics,
        ", \"step_us\": %.0f, \"compute_us\": %.0f, \"update_us\": %.0f, \"wait_us\": %llu, "
        "\"comm_us\": %llu, "
        "\"encode_us\": %llu, \"decode_us\": %llu, \"sent_bytes\": %llu, \"received_bytes\": %llu, "
        "\"sent_elems\": %llu, \"skipped\": %s}\n",
        times->step_us, times->compute_us, times->update_us,
        (unsigned long long)times->sync.wait_us, (unsigned long long)times->sync.comm_us,
        (unsigned long long)times->sync.encode_ns / 1000,
        (unsigned long long)times->sync.decode_ns / 1000,
        (unsigned long long)times->sync.sent_payload_bytes,
        (unsigned long long)times->sync.received_payload_bytes,
        (unsigned long long)times->sync.sent_elems, times->skipped ? "true" : "false");
    return written(train, train->desc.reform);
}

shoal_status shoali_metrics_replica(shoal_train *train, uint64_t hash)
{
    if (train->metrics == NULL)
        return SHOAL_OK;
    fprintf(train->metrics, "{\"replica\": %llu, \"hash\": \"%016llx\"}\n",
            (unsigned long long)train->step, (unsigned long long)hash);
    return written(train, train->desc.reform);
}

shoal_status shoali_metrics_reform(shoal_train *train, uint64_t took_us)
{
    if (train->metrics == NULL)
        return SHOAL_OK;
    fprintf(train->metrics,
            "{\"reform\": %llu, \"step\": %llu, \"rank\": %u, \"workers\": %u, \"took_us\": %llu, "
            "\"state_bytes\": %llu, \"state_us\": %llu}\n",
            (unsigned long long)train->membership, (unsigned long long)train->step, train->rank,
            train->workers, (unsigned long long)took_us, (unsigned long long)train->state_bytes,
            (unsigned long long)train->state_us);
    return written(train, true);
}

shoal_status shoali_metrics_choice(shoal_train *train, double probe_us)
{
    FILE *out = train->metrics;
    shoal_train_candidate c = {.size = sizeof c};
    if (out == NULL)
        return SHOAL_OK;
    fprintf(out, "{\"codec\": \"%s\", \"from_step\": %llu", shoal_train_codec(train),
            (unsigned long long)train->step + 1);
    number(out, "probe_us", probe_us);
    fputs(", \"candidates\": [", out);
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        fprintf(out, "%s{\"codec\": \"%s\", \"lossless\": %s", i > 0 ? ", " : "", c.codec,
                c.lossless ? "true" : "false");
        number(out, "exchange_ms", c.exchange_ms);
        number(out, "code_ms", c.code_ms);
        number(out, "sent_bytes", c.sent_bytes);
        number(out, "step_ms", c.step_ms);
        fputs("}", out);
    }
    fputs("]}\n", out);
    return written(train, true);
}

/* Rank 0's file has what concerns all; once it is lost, the lowest that is there adds to it. */
static FILE *common_file(const shoal_train *train)
{
    char path[4096];
    if (train->rank == 0 || train->membership > 0)
        return train->rank == 0 ? train->metrics : NULL;
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", train->desc.out) >= (int)sizeof path)
        return NULL;
    return fopen(path, "ae");
}

shoal_status shoali_metrics_epoch(shoal_train *train, uint32_t epoch)
{
    if (train->metrics == NULL)
        return SHOAL_OK;
    FILE *out = train->place == 0 ? common_file(train) : NULL;
    if (out != NULL) {
        fprintf(out, "{\"epoch\": %u, \"step\": %llu", epoch, (unsigned long long)train->step);
        number(out, "train_loss", train->train_loss);
        number(out, "test_loss", train->test_loss);
        number(out, "test_accuracy", train->test_accuracy);
        if (train->dataset->sequences)
            number(out, "symbol_error_rate", train->symbol_error_rate);
        if (train->admm != NULL)
            number(out, "admm_gap", shoali_admm_gap(train));
        number(out, "epoch_s", train->last_epoch_s);
        fputs("}\n", out);
    }
    if (out != NULL && out != train->metrics && fclose(out) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write metrics below %s", train->desc.out);
    return written(train, true);
}
