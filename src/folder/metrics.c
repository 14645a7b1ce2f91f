/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/metrics.jsonl (rank 0) and OUT/metrics.N.jsonl: one JSON object per step, one per epoch (rank
 * 0). A resumed run cuts its file back to the checkpoint's step and appends. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plain_file.h"
#include "folder/run_file.h"
#include "folder/written.h"
#include "worker/admm.h"
#include "worker/codec_choice.h"

static shoal_status open_file(const char *path, bool append, int *file_out)
{
    FILE *file = NULL;
    SHOALI_TRY(shoali_plain_file(path, append, &file));
    const int fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
    fclose(file);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write %s", path);
    *file_out = fd + 1;
    return SHOAL_OK;
}

shoal_status shoali_metrics_open(shoal_train *train)
{
    char path[4096];
    if (train->desc.out == NULL || train->server)
        return SHOAL_OK;
    bool late = train->members.epoch > 0; /* ranks have other names by now */
    int used = late ? snprintf(path, sizeof path, "%s/metrics.%llu.%u.jsonl", train->desc.out,
                               (unsigned long long)train->members.epoch, train->rank)
               : train->rank == 0 ? snprintf(path, sizeof path, "%s/metrics.jsonl", train->desc.out)
                                  : snprintf(path, sizeof path, "%s/metrics.%u.jsonl",
                                             train->desc.out, train->rank);
    if ((size_t)used >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", train->desc.out);
    train->folder.marks.common = train->rank == 0 && !late;
    if (train->folder.marks.common)
        SHOALI_TRY(shoali_run_file_write(train));
    train->folder.marks.path = shoali_arena_strdup(train->arena, path);
    if (train->folder.marks.path == NULL)
        return SHOAL_ENOMEM;
    if (shoali_folder_goes_on(train))
        SHOALI_TRY(shoali_metrics_cut(path, train->step, &train->folder.marks.at));
    SHOALI_TRY(open_file(path, train->desc.resume != NULL, &train->folder.marks.file));
    train->folder.metrics = open_memstream(&train->folder.marks.text, &train->folder.marks.bytes);
    return train->folder.metrics != NULL ? SHOAL_OK
                                         : shoali_fail(SHOAL_ENOMEM, "no memory for metrics");
}

/* Always whole lines: another worker may add to the file of one that it has lost, and that wakes
 * up. */
shoal_status shoali_metrics_put_out(shoal_train *train)
{
    shoali_metrics_marks *m = &train->folder.marks;
    if (fflush(train->folder.metrics) != 0)
        return shoali_fail(SHOAL_ENOMEM, "no memory for metrics");
    if (m->bytes > 0 && !shoali_append_whole(m->file - 1, m->text, m->bytes))
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write metrics below %s", train->desc.out);
    rewind(train->folder.metrics);
    if (m->behind)
        shoali_log(INFO, "metrics below %s are written again", train->desc.out);
    m->behind = false;
    return SHOAL_OK;
}

/* Lines that find no room wait for it, up to a point. */
static shoal_status wait_for_room(shoal_train *train)
{
    enum { WAITING_MOST = 1 << 26 };
    shoali_metrics_marks *m = &train->folder.marks;
    if (!m->behind)
        shoali_log(WARN, "%s; the training goes on, and its lines wait", shoal_last_error()->text);
    m->behind = true;
    if (m->bytes < WAITING_MOST)
        return SHOAL_OK;
    shoali_log(WARN, "metrics of steps up to %llu are lost", (unsigned long long)train->step);
    rewind(train->folder.metrics);
    m->lost = true;
    return SHOAL_OK;
}

/* Lines come out once a second, for who watches; asked to, at once. */
static shoal_status written(shoal_train *train, bool flush)
{
    enum { FLUSH_US = 1000 * 1000, BYTES = 1 << 15 };
    const uint64_t now_us = shoali_now_us();
    if (!flush && now_us - train->folder.marks.flushed_us < FLUSH_US &&
        (train->folder.marks.behind || ftello(train->folder.metrics) < BYTES))
        return SHOAL_OK;
    train->folder.marks.flushed_us = now_us;
    const shoal_status status = shoali_metrics_put_out(train);
    return status == SHOAL_EIO ? wait_for_room(train) : status;
}

shoal_status shoali_metrics_finish(shoal_train *train)
{
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    SHOALI_TRY(shoali_metrics_put_out(train));
    return train->folder.marks.lost
               ? shoali_fail(SHOAL_EIO, "%s lacks lines: there was no room for them for long",
                             train->folder.marks.path)
               : SHOAL_OK;
}

void shoali_metrics_close(shoal_train *train)
{
    if (train->folder.metrics == NULL)
        return;
    const shoal_status status = shoali_metrics_put_out(train);
    if (status != SHOAL_OK && !train->folder.marks.behind)
        shoali_log(WARN, "%s", shoal_last_error()->text);
    fclose(train->folder.metrics);
    free(train->folder.marks.text);
    close(train->folder.marks.file - 1);
    train->folder.metrics = NULL;
}

static void number(FILE *out, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, ", \"%s\": %.17g", key, value);
    else
        fprintf(out, ", \"%s\": null", key);
}

void shoali_metrics_put_step(FILE *out, uint64_t step, uint64_t at_us,
                             const shoali_step_times *times)
{
    fprintf(out, "{\"step\": %llu, \"samples\": %u", (unsigned long long)step, times->samples);
    fprintf(out, ", \"at_us\": %llu, \"first\": %llu, \"step_first\": %llu, \"step_samples\": %u",
            (unsigned long long)at_us, (unsigned long long)times->first,
            (unsigned long long)times->step_first, times->total);
    if (!times->untold)
        number(out, "loss", times->loss);
    number(out, "lr", times->lr);
    fprintf(
        out,
        ", \"step_us\": %.0f, \"compute_us\": %.0f, \"data_us\": %.0f, \"forward_us\": %.0f, "
        "\"backward_us\": %.0f, \"update_us\": %.0f, \"wait_us\": %llu, "
        "\"comm_us\": %llu, "
        "\"encode_us\": %llu, \"decode_us\": %llu, \"sent_bytes\": %llu, \"received_bytes\": %llu, "
        "\"sent_elems\": %llu, \"dense_bytes\": %llu, \"skipped\": %s}\n",
        times->step_us, times->compute_us, times->data_us, times->forward_us, times->backward_us,
        times->update_us, (unsigned long long)times->sync.wait_us,
        (unsigned long long)times->sync.comm_us, (unsigned long long)times->sync.encode_ns / 1000,
        (unsigned long long)times->sync.decode_ns / 1000,
        (unsigned long long)times->sync.sent_payload_bytes,
        (unsigned long long)times->sync.received_payload_bytes,
        (unsigned long long)times->sync.sent_elems, (unsigned long long)times->sync.dense_elems * 4,
        times->skipped ? "true" : "false");
}

shoal_status shoali_metrics_step(shoal_train *train, const shoali_step_times *times)
{
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    shoali_metrics_put_step(train->folder.metrics, train->step, shoali_now_us(), times);
    return written(train, train->desc.reform);
}

shoal_status shoali_metrics_replica(shoal_train *train, uint64_t hash)
{
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    fprintf(train->folder.metrics, "{\"replica\": %llu, \"hash\": \"%016llx\"}\n",
            (unsigned long long)train->step, (unsigned long long)hash);
    return written(train, train->desc.reform);
}

shoal_status shoali_metrics_reform(shoal_train *train, uint64_t took_us)
{
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    fprintf(train->folder.metrics,
            "{\"reform\": %llu, \"step\": %llu, \"rank\": %u, \"workers\": %u, \"took_us\": %llu, "
            "\"state_bytes\": %llu, \"state_us\": %llu}\n",
            (unsigned long long)train->members.epoch, (unsigned long long)train->step, train->rank,
            train->workers, (unsigned long long)took_us, (unsigned long long)train->state.bytes,
            (unsigned long long)train->state.us);
    return written(train, true);
}

shoal_status shoali_metrics_choice(shoal_train *train, double probe_us)
{
    FILE *out = train->folder.metrics;
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
        number(out, "error", c.error);
        number(out, "exchange_ms", c.exchange_ms);
        number(out, "code_ms", c.code_ms);
        number(out, "sent_bytes", c.sent_bytes);
        number(out, "step_ms", c.step_ms);
        fputs("}", out);
    }
    fputs("]}\n", out);
    return written(train, true);
}

shoal_status shoali_metrics_codec_check(shoal_train *train, bool broken)
{
    FILE *out = train->folder.metrics;
    shoal_train_codec_check check = {.size = sizeof check};
    shoal_train_codec_fall fall = {.size = sizeof fall}, next = {.size = sizeof next};
    if (out == NULL || !shoal_train_codec_bound(train, &check))
        return SHOAL_OK;
    for (uint32_t i = 0; broken && shoal_train_codec_fell(train, i, &next); i++)
        fall = next;
    fprintf(out, "{\"codec_check\": \"%s\", \"at_step\": %llu",
            broken ? fall.from : shoal_train_codec(train), (unsigned long long)train->step + 1);
    number(out, "error", check.last);
    number(out, "most", check.most);
    if (broken)
        fprintf(out, ", \"codec\": \"%s\", \"from_step\": %llu", fall.to,
                (unsigned long long)fall.step + 1);
    fputs("}\n", out);
    return written(train, broken);
}

/* What this rank's connections have carried so far. `at_step`, as a `step` is a step's line. */
static shoal_status add_link(shoal_train *train, uint32_t peer)
{
    char text[1024];
    shoal_peer_stats stats = {.size = sizeof stats};
    SHOALI_TRY(shoal_comm_peer_stats(train->comm, peer, &stats));
    if (stats.sent_wire_bytes == 0 && stats.received_wire_bytes == 0)
        return SHOAL_OK;
    json_t *line = json_pack("{s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "link", (int)peer,
                             "at_step", (json_int_t)train->step, "host", stats.host, "transport",
                             stats.transport, "sent_bytes", (json_int_t)stats.sent_wire_bytes,
                             "received_bytes", (json_int_t)stats.received_wire_bytes, "acked_bytes",
                             (json_int_t)stats.acked_bytes, "busy_us", (json_int_t)stats.busy_us,
                             "line_bytes_s", (json_int_t)stats.line_bytes_s);
    const size_t length = line != NULL ? json_dumpb(line, text, sizeof text, JSON_COMPACT) : 0;
    json_decref(line);
    if (length > 0 && length <= sizeof text) /* else the host's name is no text */
        fprintf(train->folder.metrics, "%.*s\n", (int)length, text);
    return SHOAL_OK;
}

static shoal_status add_links(shoal_train *train)
{
    for (uint32_t i = 0; train->comm != NULL && i < train->workers; i++)
        if (i != train->rank)
            SHOALI_TRY(add_link(train, i));
    return SHOAL_OK;
}

/* A killed process leaves half a line, which would spoil the one behind it. */
static void drop_torn_line(const char *path)
{
    enum { LINE_MOST = 1 << 14 };
    char last[LINE_MOST];
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = end > LINE_MOST ? end - LINE_MOST : 0;
    ssize_t got = fd >= 0 ? pread(fd, last, (size_t)(end - from), from) : -1;
    const char *whole = got > 0 ? memrchr(last, '\n', (size_t)got) : NULL;
    off_t keep = whole != NULL ? from + (whole - last) + 1 : from;
    if (got < 0 || (keep < end && ftruncate(fd, keep) != 0))
        shoali_log(WARN, "%s may hold half a line: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* Rank 0's file has what concerns all; once it is lost, the lowest that is there adds to it,
 * whatever its rank is called by then. */
static FILE *common_file(const shoal_train *train)
{
    char path[4096];
    if (train->folder.marks.common)
        return train->folder.metrics;
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", train->desc.out) >= (int)sizeof path)
        return NULL;
    FILE *file = NULL;
    drop_torn_line(path);
    return shoali_plain_file(path, true, &file) == SHOAL_OK ? file : NULL;
}

shoal_status shoali_metrics_epoch(shoal_train *train, uint32_t epoch)
{
    if (train->folder.metrics == NULL)
        return SHOAL_OK;
    FILE *out = train->members.place == 0 ? common_file(train) : NULL;
    if (out != NULL) {
        fprintf(out, "{\"epoch\": %u, \"step\": %llu", epoch, (unsigned long long)train->step);
        number(out, "train_loss", train->epoch.train_loss);
        number(out, "test_loss", train->epoch.test_loss);
        number(out, "test_accuracy", train->epoch.test_accuracy);
        if (train->data.set->sequences)
            number(out, "symbol_error_rate", train->epoch.symbol_error_rate);
        if (train->data.set->token_bytes != NULL)
            number(out, "bits_per_byte", train->epoch.bits_per_byte);
        if (train->admm != NULL)
            number(out, "admm_gap", shoali_admm_gap(train));
        number(out, "epoch_s", train->epoch.last_s);
        fputs("}\n", out);
    }
    if (out != NULL && out != train->folder.metrics && fclose(out) != 0)
        shoali_log(WARN, "epoch %u is not in metrics.jsonl below %s: %s", epoch, train->desc.out,
                   strerror(errno));
    SHOALI_TRY(add_links(train));
    return written(train, true);
}
