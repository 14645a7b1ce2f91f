/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "shoal/codec.h"
#include "worker/codec_choice_parts.h"
#include "worker/together.h"

enum {
    MOST = SHOALI_CHOICE_MOST,
    ROUNDS = 5,
    ALONE_FROM = 1,
    MEASURE_AT = 2,
    SAMPLE = SHOALI_CHOICE_SAMPLE
};
static const double CLOSE = 1.5;         /* worth measuring in full: so near to the best */
static const double SPEND = 0.004;       /* of the run's steps, on repetitions */
static const float NOT_MEASURED = 1e30f; /* finite, so that a maximum over ranks keeps it */

typedef shoali_choice_bucket bucket;

/* ---------------------------------------------------------------- candidates */

/* which: codecs with none of these traits are left out; 0: none is. */
static shoal_status add(shoal_train *train, const char *spec, uint32_t which)
{
    shoali_codec_choice *choice = train->choice;
    shoal_codec *codec;
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    const char *kept = shoali_arena_strdup(choice->arena, shoal_codec_spec(codec));
    const uint32_t traits = shoal_codec_traits(codec);
    bool lossless = (traits & SHOAL_CODEC_LOSSLESS) != 0, known = false;
    shoal_codec_close(codec);
    if (kept == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < choice->count; i++)
        known = known || strcmp(choice->candidates[i].spec, kept) == 0;
    if (known || (which != 0 && (traits & which) == 0))
        return SHOAL_OK;
    if (choice->count == MOST)
        return shoali_fail(SHOAL_EINVAL, "codec auto: more than %d candidates", MOST);
    choice->candidates[choice->count++] = (shoali_candidate){.spec = kept,
                                                             .lossless = lossless,
                                                             .error = lossless ? 0 : (double)NAN,
                                                             .exchange_s = INFINITY,
                                                             .step_s = INFINITY};
    return SHOAL_OK;
}

/* Every lossless row that the collective carries, "off" first. */
static shoal_status add_lossless(shoal_train *train)
{
    const char *name;
    SHOALI_TRY(shoal_codec_carried("identity", train->desc.collective));
    SHOALI_TRY(add(train, "identity", 0));
    for (size_t i = 0; (name = shoal_codec_row_name(i)) != NULL; i++)
        if (shoal_codec_carried(name, train->desc.collective) == SHOAL_OK)
            SHOALI_TRY(add(train, name, SHOAL_CODEC_LOSSLESS));
    return SHOAL_OK;
}

/* Under a bound all others are allowed, unless some are named: it says what they may lose. */
static shoal_status add_every(shoal_train *train)
{
    static const char *const finer[] = {"eden:bits=2", "eden:bits=3", "eden:bits=4"};
    const size_t more = sizeof finer / sizeof *finer;
    const char *name;
    for (size_t i = 0; (name = shoal_codec_row_name(i)) != NULL; i++) {
        shoal_codec *codec;
        SHOALI_TRY(shoal_codec_open(name, &codec));
        const bool transform = (shoal_codec_traits(codec) & SHOAL_CODEC_TRANSFORM) != 0;
        shoal_codec_close(codec);
        if (!transform && shoal_codec_carried(name, train->desc.collective) == SHOAL_OK)
            SHOALI_TRY(add(train, name, 0));
    }
    for (size_t i = 0; i < more; i++)
        if (shoal_codec_carried(finer[i], train->desc.collective) == SHOAL_OK)
            SHOALI_TRY(add(train, finer[i], 0));
    return SHOAL_OK;
}

static shoal_status add_lossy(shoal_train *train, const shoali_auto_spec *asked)
{
    char spec[SHOALI_AUTO_ITEM_BYTES];
    for (const char *at = asked->allow; at != NULL;) {
        SHOALI_TRY(shoali_auto_spec_next(asked, &at, spec));
        SHOALI_TRY(shoal_codec_carried(spec, train->desc.collective));
        SHOALI_TRY(add(train, spec, 0));
    }
    return asked->allow == NULL && asked->error > 0 ? add_every(train) : SHOAL_OK;
}

static shoal_status allocate(shoal_train *train)
{
    shoali_codec_choice *choice = train->choice;
    const size_t tensors = train->tensor_count;
    choice->table = shoali_arena_array(choice->arena, tensors, sizeof *choice->table);
    choice->buckets = shoali_arena_array(choice->arena, tensors, sizeof *choice->buckets);
    choice->ready_s = shoali_arena_array(choice->arena, tensors, sizeof *choice->ready_s);
    choice->share = shoali_arena_array(choice->arena, tensors, sizeof *choice->share);
    choice->ops = shoali_arena_array(choice->arena, tensors, sizeof *choice->ops);
    choice->scratch = shoali_arena_array(choice->arena, tensors, sizeof *choice->scratch);
    bool ok = choice->table != NULL && choice->buckets != NULL && choice->ready_s != NULL &&
              choice->share != NULL && choice->ops != NULL && choice->scratch != NULL;
    return ok ? SHOAL_OK : shoali_fail(SHOAL_ENOMEM, "no memory to choose a codec");
}

shoal_status shoali_choice_create(shoal_train *train)
{
    shoali_auto_spec asked;
    if (!shoali_auto_spec_named(train->desc.codec))
        return SHOAL_OK;
    SHOALI_TRY(shoali_auto_spec_parse(train->desc.codec, &asked));
    train->choice = shoali_alloc(sizeof *train->choice);
    if (train->choice == NULL)
        return SHOAL_ENOMEM;
    train->choice->arena = shoali_arena_create(1 << 12);
    if (train->choice->arena == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(add_lossless(train));
    SHOALI_TRY(add_lossy(train, &asked));
    train->choice->compute_us = INFINITY;
    /* alone there is nothing to exchange, and nothing to measure */
    train->choice->made = train->comm == NULL || train->workers == 1 || train->desc.no_exchange;
    SHOALI_TRY(shoali_bound_create(train, &asked));
    return allocate(train);
}

void shoali_choice_destroy(shoal_train *train)
{
    if (train->choice == NULL)
        return;
    shoali_bound_destroy(&train->choice->bound);
    shoali_arena_destroy(train->choice->arena);
    shoali_free(train->choice->copy);
    shoali_free(train->choice);
    train->choice = NULL;
}

const char *shoal_train_codec(const shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    return choice != NULL ? choice->candidates[choice->chosen].spec : train->desc.codec;
}

const char *shoali_choice_made(const shoal_train *train)
{
    return train->choice != NULL && train->choice->made ? shoal_train_codec(train) : NULL;
}

bool shoal_train_choice(const shoal_train *train, uint32_t i, shoal_train_candidate *candidate_out)
{
    const shoali_codec_choice *choice = train->choice;
    if (choice == NULL || !choice->measured || i >= choice->count ||
        candidate_out->size != sizeof *candidate_out)
        return false;
    const shoali_candidate *c = &choice->candidates[i];
    *candidate_out = (shoal_train_candidate){.size = sizeof *candidate_out,
                                             .codec = c->spec,
                                             .lossless = c->lossless,
                                             .chosen = i == choice->chosen,
                                             .barred = c->barred,
                                             .error = c->error,
                                             .exchange_ms = 1e3 * c->exchange_s,
                                             .code_ms = 1e3 * c->code_s,
                                             .sent_bytes = c->sent_bytes,
                                             .step_ms = 1e3 * c->step_s};
    return true;
}

/* ---------------------------------------------------------------- measuring */

static double processor_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* A number below 2^24 that processes of one machine share, in containers and labs, too; 0: unknown.
 */
static float machine_number(void)
{
    char id[64] = "";
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, id, sizeof id) : -1;
    if (file >= 0)
        close(file);
    return length > 0 ? (float)(1 + (shoali_hash(id, (size_t)length, 0) & 0x7fffff)) : 0;
}

/* Processors per worker of this machine. */
static shoal_status count_cores(shoal_train *train, double *cores_out)
{
    cpu_set_t set;
    float *numbers = shoali_alloc_array(train->workers, sizeof *numbers);
    if (numbers == NULL)
        return SHOAL_ENOMEM;
    numbers[train->rank] = machine_number();
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    shoal_status status = shoali_train_reduce(train, numbers, train->workers, SHOAL_MAX,
                                              "codec auto: machines");
    uint32_t here = 0;
    for (uint32_t i = 0; i < train->workers; i++)
        here += numbers[i] == numbers[train->rank];
    shoali_free(numbers);
    *cores_out = (double)cpus / here;
    return status;
}

/* Cut the step's ranges as protocols do, and note when each bucket was ready. */
static void cut(shoal_train *train, uint64_t start_us)
{
    shoali_codec_choice *choice = train->choice;
    size_t bytes = train->desc.bucket_bytes != 0 ? train->desc.bucket_bytes : 4u << 20;
    size_t full = bytes / sizeof(float), high = train->param_count;
    uint32_t tensor = train->tensor_count;
    choice->bucket_count = 0;
    for (uint32_t r = 0; r < train->pass.range_count; r++) {
        size_t low = train->pass.ranges[r].offset;
        while (tensor > 0 && train->tensors[tensor - 1].offset >= low) {
            size_t offset = train->tensors[--tensor].offset;
            if (high - offset < full && offset > 0)
                continue;
            uint32_t b = choice->bucket_count++;
            choice->buckets[b] = (bucket){
                .offset = offset, .count = high - offset, .tensor = tensor};
            choice->ready_s[b] = 1e-6 * (double)(train->pass.ranges[r].ready_us - start_us);
            choice->share[b] = (double)(high - offset) / (double)train->param_count;
            high = offset;
        }
    }
    uint32_t end = train->tensor_count;
    for (uint32_t b = 0; b < choice->bucket_count; b++) {
        choice->buckets[b].tensor_count = end - choice->buckets[b].tensor;
        end = choice->buckets[b].tensor;
    }
}

/* Copy the gradients: all of them, or of each tensor the first `part`-th, in whole rows. Returns
 * how many elements that are. */
static size_t pack(shoal_train *train, uint32_t part)
{
    shoali_codec_choice *choice = train->choice;
    size_t total = 0;
    for (uint32_t b = 0; b < choice->bucket_count; b++) {
        bucket *to = &choice->buckets[b];
        to->packed = 0;
        for (uint32_t t = to->tensor; t < to->tensor + to->tensor_count; t++) {
            shoal_tensor *tensor = &choice->table[t];
            *tensor = train->tensors[t];
            const float *from = train->grads + tensor->offset;
            bool rows = (size_t)tensor->rows * tensor->cols == tensor->count &&
                        tensor->rows >= part;
            tensor->rows = rows ? tensor->rows / part : 0;
            tensor->cols = rows ? tensor->cols : 0;
            tensor->count = rows ? (size_t)tensor->rows * tensor->cols
                                 : (tensor->count + part - 1) / part;
            tensor->offset = to->packed;
            memcpy(choice->copy + to->offset + to->packed, from, tensor->count * sizeof *from);
            to->packed += tensor->count;
        }
        total += to->packed;
    }
    return total;
}

static shoal_status start_bucket(shoal_train *train, uint32_t b, const char *codec)
{
    shoali_codec_choice *choice = train->choice;
    const bucket *from = &choice->buckets[b];
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = choice->copy + from->offset;
    desc.count = from->packed;
    desc.tensors = choice->table + from->tensor;
    desc.tensor_count = from->tensor_count;
    desc.members = train->members.ranks;
    desc.member_count = train->members.count;
    desc.collective = train->desc.collective;
    desc.push_codec = codec;
    desc.tos = train->desc.tos;
    desc.label = "codec auto";
    return shoal_op_start(train->comm, &desc, &choice->ops[b]);
}

/* All buckets at once, as after a backward pass without overlap. A gradient that is not finite is
 * told by all ranks alike: then the candidate has no time. */
static shoal_status exchange(shoal_train *train, const char *codec, double *code_s,
                             double *sent_bytes, bool *finite_out)
{
    shoali_codec_choice *choice = train->choice;
    shoal_status status = SHOAL_OK, first = SHOAL_OK;
    shoal_error error = {.status = SHOAL_OK};
    uint32_t started = 0;
    *finite_out = true;
    while (started < choice->bucket_count && status == SHOAL_OK) {
        status = start_bucket(train, started, codec);
        started += status == SHOAL_OK;
    }
    if (status != SHOAL_OK)
        shoali_error_get(&error);
    first = status;
    for (uint32_t b = 0; b < started; b++) {
        shoal_op_stats stats = {.size = sizeof stats};
        status = shoal_op_wait(&choice->ops[b], -1, &stats);
        *code_s += 1e-9 * (double)(stats.encode_ns + stats.decode_ns);
        *sent_bytes += (double)stats.sent_payload_bytes;
        *finite_out = *finite_out && status != SHOAL_ENOTFINITE;
        if (status != SHOAL_OK && status != SHOAL_ENOTFINITE && first == SHOAL_OK) {
            first = status;
            shoali_error_get(&error);
        }
    }
    return first == SHOAL_OK ? SHOAL_OK : shoali_error_set(&error);
}

/* One exchange of what is packed; figures[4]: seconds, processor seconds, seconds of coding, bytes,
 * each of the slowest rank. */
static shoal_status measure(shoal_train *train, const char *codec, float figures[4])
{
    double code_s = 0, sent_bytes = 0;
    bool finite = true;
    float start = 0;
    SHOALI_TRY(shoali_train_reduce(train, &start, 1, SHOAL_MAX, "codec auto: start"));
    double cpu_s = processor_s();
    uint64_t begun_us = shoali_now_us();
    SHOALI_TRY(exchange(train, codec, &code_s, &sent_bytes, &finite));
    double took_s = 1e-6 * (double)(shoali_now_us() - begun_us);
    figures[0] = finite ? (float)took_s : NOT_MEASURED;
    figures[1] = (float)(processor_s() - cpu_s);
    figures[2] = (float)code_s;
    figures[3] = (float)sent_bytes;
    SHOALI_TRY(shoali_train_reduce(train, figures, 4, SHOAL_MAX, "codec auto: figures"));
    train->choice->spent_s += figures[0] < NOT_MEASURED ? (double)figures[0] : 0;
    return SHOAL_OK;
}

/* A sample says how many bytes a codec makes and how long coding takes: with float32's own exchange
 * that is an estimate, good enough to leave out what is far behind. */
static shoal_status estimate(shoal_train *train, shoali_candidate *c)
{
    const shoali_codec_choice *choice = train->choice;
    float figures[4];
    double all = (double)train->param_count / (double)pack(train, SAMPLE);
    SHOALI_TRY(measure(train, c->spec, figures));
    if (figures[0] >= NOT_MEASURED)
        return SHOAL_OK;
    if (!c->lossless && choice->bound.most > 0) {
        float error = (float)shoali_bound_sample_error(choice);
        SHOALI_TRY(shoali_train_reduce(train, &error, 1, SHOAL_MAX, "codec auto: error"));
        c->error = (double)error;
        c->barred = !(c->error <= choice->bound.most);
    }
    c->code_s = all * (double)figures[2];
    c->sent_bytes = all * (double)figures[3];
    double share = c->sent_bytes / fmax(1, choice->off_bytes);
    c->exchange_s = share * choice->off_s + c->code_s;
    c->cpu_s = share * choice->off_cpu_s + c->code_s;
    return SHOAL_OK;
}

/* In full; the candidate keeps the shortest, which others' work disturbed least. */
static shoal_status measure_in_full(shoal_train *train, shoali_candidate *c, bool first)
{
    float figures[4];
    (void)pack(train, 1);
    SHOALI_TRY(measure(train, c->spec, figures));
    if (figures[0] >= NOT_MEASURED || (!first && (double)figures[0] >= c->exchange_s))
        return SHOAL_OK;
    c->exchange_s = (double)figures[0];
    c->cpu_s = (double)figures[1];
    c->code_s = (double)figures[2];
    c->sent_bytes = (double)figures[3];
    return SHOAL_OK;
}

/* The least that a candidate's exchange may turn out to take: coding may run beside the link. */
static double least_s(const shoali_candidate *c)
{
    return isfinite(c->exchange_s) ? fmax(c->exchange_s - c->code_s, c->code_s / 2) : INFINITY;
}

static double shortest_s(const shoali_codec_choice *choice)
{
    double best_s = INFINITY;
    for (uint32_t i = 0; i < choice->count; i++)
        if (!choice->candidates[i].barred)
            best_s = fmin(best_s, choice->candidates[i].exchange_s);
    return best_s;
}

/* A sample of everybody; those in reach of the best in full; those still in reach again, as long as
 * it costs next to nothing. Figures are shared, so all ranks go the same way. */
static shoal_status measure_all(shoal_train *train, double compute_s)
{
    shoali_codec_choice *choice = train->choice;
    shoali_candidate *off = &choice->candidates[0];
    double left = (double)(train->steps - train->step);
    off->exchange_s = choice->off_s;
    off->cpu_s = choice->off_cpu_s;
    off->sent_bytes = choice->off_bytes;
    if (choice->bound.most > 0) {
        (void)pack(train, SAMPLE);
        SHOALI_TRY(shoali_bound_sample(train));
    }
    for (uint32_t i = 1; i < choice->count; i++)
        SHOALI_TRY(estimate(train, &choice->candidates[i]));
    double best_s = shortest_s(choice);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < choice->count; i++) {
            shoali_candidate *c = &choice->candidates[i];
            bool first = round == 0 && i > 0;
            double from_s = round == 0 ? least_s(c) : c->exchange_s;
            if (c->barred || !(from_s <= CLOSE * best_s))
                continue;
            SHOALI_TRY(measure_in_full(train, c, first));
        }
        best_s = shortest_s(choice);
        if (choice->spent_s > SPEND * left * fmax(compute_s, best_s))
            break;
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- choosing */

/* What differs between ranks becomes the slowest one's. */
static shoal_status share_figures(shoal_train *train, shoali_choose_args *args)
{
    shoali_codec_choice *choice = train->choice;
    const uint32_t buckets = choice->bucket_count;
    float *values = shoali_alloc_array(buckets + 6, sizeof *values);
    if (values == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t b = 0; b < buckets; b++)
        values[b] = (float)choice->ready_s[b];
    values[buckets] = (float)(1e-6 * choice->compute_us);
    values[buckets + 1] = (float)(1e-6 * choice->rest_us);
    values[buckets + 2] = (float)-args->cores;
    values[buckets + 3] = (float)-choice->off_s; /* who began last waited for nobody */
    values[buckets + 4] = (float)choice->off_cpu_s;
    values[buckets + 5] = (float)choice->off_bytes;
    shoal_status status = shoali_train_reduce(train, values, buckets + 6, SHOAL_MAX,
                                              "codec auto: computation");
    args->compute_s = (double)values[buckets];
    args->rest_s = (double)values[buckets + 1];
    args->cores = -(double)values[buckets + 2];
    choice->off_s = -(double)values[buckets + 3];
    choice->off_cpu_s = (double)values[buckets + 4];
    choice->off_bytes = (double)values[buckets + 5];
    for (uint32_t b = 0; b < buckets; b++)
        choice->ready_s[b] = train->desc.no_overlap ? args->compute_s
                                                    : fmin(args->compute_s, (double)values[b]);
    shoali_free(values);
    return status;
}

static void tell(const shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    for (uint32_t i = 0; i < choice->count; i++) {
        const shoali_candidate *c = &choice->candidates[i];
        shoali_log(INFO, "codec auto: %s: exchange %.2f ms, coding %.2f ms, step %.2f ms%s%s",
                   c->spec, 1e3 * c->exchange_s, 1e3 * c->code_s, 1e3 * c->step_s,
                   i == choice->chosen ? ": chosen" : "",
                   c->barred ? ": its error is beyond the bound" : "");
    }
}

static shoal_status choose(shoal_train *train, uint64_t start_us, double *probe_us_out)
{
    shoali_codec_choice *choice = train->choice;
    shoali_choose_args args = {.ready_s = choice->ready_s, .share = choice->share};
    cut(train, start_us);
    args.bucket_count = choice->bucket_count;
    choice->copy = shoali_alloc_array(train->param_count, sizeof *choice->copy);
    if (choice->copy == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(count_cores(train, &args.cores));
    SHOALI_TRY(share_figures(train, &args)); /* the wait for the slowest is over, too */
    uint64_t begun_us = shoali_now_us();
    SHOALI_TRY(measure_all(train, args.compute_s));
    shoali_comm_forget_residuals(train->comm);
    shoali_free(choice->copy);
    choice->copy = NULL;
    choice->chosen = shoali_choose(&args, choice->candidates, choice->count, choice->scratch);
    choice->made = choice->measured = true;
    shoali_bound_ladder(choice);
    tell(train);
    SHOALI_TRY(shoali_sync_set_codec(train->sync, choice->candidates[choice->chosen].spec));
    *probe_us_out = (double)(shoali_now_us() - begun_us);
    return SHOAL_OK;
}

static bool measuring(const shoali_codec_choice *choice)
{
    return choice != NULL && !choice->made && choice->seen >= ALONE_FROM;
}

bool shoali_choice_alone(const shoal_train *train)
{
    return measuring(train->choice) || shoali_bound_due(train);
}

shoal_status shoali_choice_step(shoal_train *train, uint64_t start_us, double compute_us,
                                double *probe_us_out)
{
    *probe_us_out = 0;
    shoali_codec_choice *choice = train->choice;
    if (!measuring(choice))
        return shoali_bound_due(train) ? shoali_bound_begin(train) : SHOAL_OK;
    choice->compute_us = fmin(choice->compute_us, compute_us);
    choice->off_cpu_s = choice->seen == MEASURE_AT ? choice->off_cpu_s : processor_s();
    return choice->seen == MEASURE_AT ? choose(train, start_us, probe_us_out) : SHOAL_OK;
}

void shoali_choice_stepped(shoal_train *train, const shoali_step_times *times)
{
    if (train->choice == NULL || train->choice->made)
        return;
    shoali_codec_choice *choice = train->choice;
    double known_us = times->compute_us + (double)times->sync.wait_us;
    choice->rest_us = fmax(0, times->step_us - known_us);
    choice->off_s = 1e-6 * (double)times->sync.comm_us;
    choice->off_cpu_s = fmax(0, processor_s() - choice->off_cpu_s - 1e-6 * times->update_us);
    choice->off_bytes = (double)times->sync.sent_payload_bytes;
    choice->seen++;
}
