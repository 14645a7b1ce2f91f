/* SPDX-License-Identifier: Apache-2.0 */
/* shoal_job_check: one question after the other, each about two options, answered by traits. */
#include "shoal/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto_spec.h"
#include "base/error.h"
#include "collective/schedule.h"
#include "job/counted.h"
#include "nn/optim.h"
#include "shoal/codec.h"
#include "sync/sync.h"

enum { NAMES_BYTES = 160 };
#define FAITHFUL (1.0 / 7) /* squared error that SHOALI_SYNC_FAITHFUL bears with */

/* What holds where nothing else is asked for. */
static const struct {
    const char *sync, *codec, *collective;
} standard = {"all_reduce", "identity", "ring"};

/* What may be asked for, with the option's name; `gradients`: only protocols with that trait have
 * it; `timed`: there is no network or no fixed step to measure, so nothing is chosen by time. */
typedef struct feature {
    uint32_t bit;
    const char *option;
    bool gradients, timed;
    uint32_t excludes; /* of the features above */
    const char *why;
} feature;

enum {
    SIMULATED = SHOAL_JOB_SIMULATED,
    REFORM = SHOAL_JOB_REFORM,
    PLAN = SHOAL_JOB_PLAN,
    ADMM = SHOAL_JOB_ADMM,
    BATCH_AUTO = SHOAL_JOB_BATCH_AUTO,
    NO_EXCHANGE = SHOAL_JOB_NO_EXCHANGE
};

static const feature features[] = {
    {SIMULATED, "--simulate", true, true, 0, NULL},
    {REFORM, "--on-loss reform", true, true, SIMULATED,
     "simulated workers are one process, and end together"},
    {PLAN, "--plan", true, true, SIMULATED | REFORM,
     "a plan is for a fixed number of real workers"},
    {ADMM, "--admm", true, false, REFORM | PLAN,
     "its multipliers belong to fixed workers with whole layers"},
    {BATCH_AUTO, "--batch auto", false, false, SIMULATED | REFORM | PLAN,
     "batches are divided by what fixed workers with whole layers take"},
    {NO_EXCHANGE, "--no-exchange", false, false, SIMULATED | REFORM,
     "workers that exchange nothing have nothing to agree on"},
    {SHOAL_JOB_RESUME, "--resume", false, false, SIMULATED, "their state is in no checkpoint"},
    {SHOAL_JOB_SKIPS, "--nonfinite skip", false, false, PLAN,
     "a plan's parts have no moment at which all could skip"},
    {SHOAL_JOB_PACED, "--compute-ms", false, false, SIMULATED | PLAN,
     "there is no forward and backward pass of one worker to stretch"},
    {SHOAL_JOB_DUMPS, "--dump-gradients", false, false, SIMULATED | PLAN,
     "no worker's own gradients of all layers are held apart there"},
    {SHOAL_JOB_CLIPS, "--clip-norm", false, false, PLAN,
     "no worker has the gradients of all layers, whose norm it is"},
    {SHOAL_JOB_CHECKPOINTS, "--checkpoint-every", false, false, 0, NULL},
    {SHOAL_JOB_STOPS, "--on-term checkpoint", false, false, SIMULATED | PLAN | ADMM | NO_EXCHANGE,
     "all workers write the same step down together, with all that it takes to go on"}};
enum { FEATURES = sizeof features / sizeof *features };

static bool is_auto(const char *spec)
{
    return shoali_auto_spec_named(spec);
}

/* "a, b, c": the protocols with a trait. */
static void protocols_with(uint32_t trait, char names[NAMES_BYTES])
{
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < shoali_sync_count() && used < NAMES_BYTES; i++) {
        const shoali_sync_row *row = shoali_sync_row_at(i);
        if ((row->traits & trait) != 0)
            used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "",
                                     row->name);
    }
}

const char *shoal_job_option(size_t i)
{
    return i < FEATURES ? features[i].option : NULL;
}

static const feature *first_feature(uint32_t bits)
{
    for (size_t i = 0; i < FEATURES; i++)
        if ((bits & features[i].bit) != 0)
            return &features[i];
    return NULL;
}

static shoal_status features_together(uint32_t asks)
{
    for (size_t i = 0; i < FEATURES; i++) {
        const feature *one = &features[i], *other = first_feature(asks & one->excludes);
        if ((asks & one->bit) == 0 || other == NULL)
            continue;
        shoal_status status = shoali_fail(SHOAL_EINVAL, "%s does not go with %s: %s", one->option,
                                          other->option, one->why);
        shoali_error_advice("Leave one of the two out.");
        return status;
    }
    return SHOAL_OK;
}

/* Batches are divided by a sum of all workers now and then. */
static shoal_status batches_and_sync(uint32_t asks, const shoali_protocol *protocol)
{
    if ((asks & BATCH_AUTO) == 0 || (protocol->traits & SHOALI_SYNC_LATER) == 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(
        SHOAL_EINVAL,
        "--batch auto does not go with --sync %s: a late worker would "
        "wait for the others, who wait for it to divide the batches",
        protocol->spec);
    shoali_error_advice("Leave one of the two out.");
    return status;
}

/* Where replicas differ, what a worker has of the job must be its replica alone. */
static shoal_status checkpoints_and_sync(uint32_t asks, const shoali_protocol *protocol)
{
    const uint32_t any = SHOALI_SYNC_EXACT | SHOALI_SYNC_APART;
    char names[NAMES_BYTES];
    if ((asks & SHOAL_JOB_CHECKPOINTS) == 0 || (protocol->traits & any) != 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(
        SHOAL_EINVAL,
        "--checkpoint-every does not go with --sync %s: between its iterations there is no state "
        "of all workers to go on from, and its checkpoint is the mean at the end",
        protocol->spec);
    protocols_with(any, names);
    shoali_error_advice("Leave --checkpoint-every out, or take one of these protocols, at default "
                        "keys: %s.",
                        names);
    return status;
}

/* What goes on without the lost takes others in as well, unless servers hold the weights. */
static bool takes_others(const shoali_protocol *protocol)
{
    const uint32_t not_these = SHOALI_SYNC_OWNER | SHOALI_SYNC_SERVERS;
    return (protocol->traits & SHOALI_SYNC_SURVIVES) != 0 && (protocol->traits & not_these) == 0;
}

static shoal_status features_and_sync(uint32_t asks, const shoali_protocol *protocol)
{
    char names[NAMES_BYTES];
    SHOALI_TRY(batches_and_sync(asks, protocol));
    SHOALI_TRY(checkpoints_and_sync(asks, protocol));
    for (size_t i = 0; i < FEATURES; i++) {
        if ((asks & features[i].bit) == 0 || !features[i].gradients ||
            (protocol->traits & SHOALI_SYNC_GRADIENTS) != 0 ||
            (features[i].bit == REFORM && takes_others(protocol)))
            continue;
        shoal_status status = shoali_fail(SHOAL_EINVAL, "%s does not go with --sync %s",
                                          features[i].option, protocol->spec);
        protocols_with(
            SHOALI_SYNC_GRADIENTS | (features[i].bit == REFORM ? SHOALI_SYNC_SURVIVES : 0u), names);
        if (features[i].bit == REFORM && (protocol->traits & SHOALI_SYNC_SURVIVES) != 0)
            shoali_error_advice("Leave --on-loss reform out: %s goes on without lost workers by "
                                "itself, but takes in no replacements; these do: %s.",
                                protocol->spec, names);
        else
            shoali_error_advice("Leave one of the two out; %s goes with --sync %s.",
                                features[i].option, names);
        return status;
    }
    return SHOAL_OK;
}

/* Where owners of ranges step, nobody sees all gradients, and a range may end within a matrix. */
static shoal_status steps_and_sync(const shoal_job *job, const shoali_protocol *protocol)
{
    char names[NAMES_BYTES];
    uint32_t traits = 0;
    const bool clips = (job->asks & SHOAL_JOB_CLIPS) != 0,
               owners = (protocol->traits & SHOALI_SYNC_OWNER) != 0,
               loose = (protocol->traits & SHOALI_SYNC_EXACT) == 0;
    if (job->optimizer != NULL)
        SHOALI_TRY(shoali_optim_ask(job->optimizer, &traits));
    const bool whole = (traits & SHOALI_OPTIM_WHOLE) != 0,
               averages = (traits & SHOALI_OPTIM_AVERAGES) != 0;
    if (!(owners && (clips || whole)) && !(averages && (owners || loose)))
        return SHOAL_OK;
    protocols_with(SHOALI_SYNC_GRADIENTS, names);
    shoal_status status = shoali_fail(
        SHOAL_EINVAL, "%s%s does not go with --sync %s: %s",
        clips && owners ? "--clip-norm" : "--optimizer ", clips && owners ? "" : job->optimizer,
        protocol->spec,
        owners ? "owners of ranges make the steps, and none has all gradients and weights"
               : "its average is of weights that all workers have alike");
    shoali_error_advice("Leave one of the two out; it goes with --sync %s.", names);
    return status;
}

static shoal_status steps_and_features(const shoal_job *job)
{
    uint32_t traits = 0;
    if (job->optimizer != NULL)
        SHOALI_TRY(shoali_optim_ask(job->optimizer, &traits));
    const bool averages = (traits & SHOALI_OPTIM_AVERAGES) != 0,
               whole = (traits & SHOALI_OPTIM_WHOLE) != 0;
    const feature *other = averages || whole
                               ? first_feature(job->asks & (PLAN | (averages ? ADMM : 0u)))
                               : NULL;
    if (other == NULL)
        return SHOAL_OK;
    shoal_status status = shoali_fail(
        SHOAL_EINVAL, "--optimizer %s does not go with %s: %s", job->optimizer, other->option,
        other->bit == PLAN ? "workers have parts of matrices, and it takes whole ones"
                           : "the projected weights are no average of trained ones");
    shoali_error_advice("Leave one of the two out.");
    return status;
}

/* What names an exchange beside something that leaves nothing to choose there. */
static shoal_status features_and_exchange(const shoal_job *job)
{
    const char *option = NULL, *spec = NULL;
    const feature *one = NULL;
    if ((job->asks & NO_EXCHANGE) != 0) {
        const bool sync = strcmp(job->sync, standard.sync) != 0;
        const bool codec = strcmp(job->codec, standard.codec) != 0;
        const bool collective = strcmp(job->collective, standard.collective) != 0;
        one = first_feature(NO_EXCHANGE);
        option = sync ? "--sync" : codec ? "--codec" : "--collective";
        spec = sync ? job->sync : codec ? job->codec : collective ? job->collective : NULL;
    }
    for (size_t i = 0; i < FEATURES && spec == NULL; i++) {
        if ((job->asks & features[i].bit) == 0 || !features[i].timed)
            continue;
        one = &features[i];
        option = is_auto(job->codec) ? "--codec" : "--collective";
        spec = is_auto(job->codec)                                     ? job->codec
               : is_auto(job->collective) && features[i].bit != REFORM ? job->collective
                                                                       : NULL;
    }
    if (spec == NULL)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s does not go with %s %s", one->option,
                                      option, spec);
    if (one->bit == NO_EXCHANGE)
        shoali_error_advice("Nothing is sent: leave one of the two out.");
    else
        shoali_error_advice("auto measures time among fixed workers on a network: name a codec.");
    return status;
}

/* What an image of a model lacks is coded again and again: each time, less has to be left. And one
 * worker sends to one: there is nobody to measure or to sum with. */
static shoal_status changes_and_codec(const shoali_protocol *protocol, const char *codec,
                                      const shoal_codec *opened)
{
    const uint32_t traits = shoal_codec_traits(opened);
    const double variance = shoal_codec_variance(opened);
    const bool bounded = isfinite(shoal_codec_error_bound(opened));
    const char *why = NULL;
    if ((traits & (SHOAL_CODEC_TRANSFORM | SHOAL_CODEC_MEASURE)) != 0)
        why = "it measures or sums among all workers, and each sends to one neighbour at a time";
    else if (variance >= 1 && !bounded)
        why = "it does not promise less noise than signal, so replicas might drift apart";
    else if ((protocol->traits & SHOALI_SYNC_FAITHFUL) != 0 && variance > FAITHFUL && !bounded)
        why = "with backup or staleness a codec may lose a seventh of what it is given, not more";
    if (why == NULL)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL, "--sync %s does not go with --codec %s: %s",
                                      protocol->spec, codec, why);
    shoali_error_advice("Take eden:bits=4 or int8, or one of the protocols that sum: all_reduce, "
                        "local_sgd, diloco.");
    return status;
}

static shoal_status makes_steps(const char *spec, bool *steps_out)
{
    shoal_codec *codec = NULL;
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    *steps_out = (shoal_codec_traits(codec) & SHOAL_CODEC_STEPS) != 0;
    shoal_codec_close(codec);
    return SHOAL_OK;
}

/* Where the sum of all gradients comes back as a step of one size, that must be what is made. */
static shoal_status steps_and_codec(const shoal_job *job, const shoali_protocol *protocol)
{
    bool steps = false;
    uint32_t traits = 0;
    if (!is_auto(job->codec))
        SHOALI_TRY(makes_steps(job->codec, &steps));
    if (!steps)
        return SHOAL_OK;
    if (job->optimizer != NULL)
        SHOALI_TRY(shoali_optim_ask(job->optimizer, &traits));
    const feature *other = first_feature(job->asks & (PLAN | SHOAL_JOB_CLIPS));
    shoal_status status = SHOAL_OK;
    if ((protocol->traits & SHOALI_SYNC_GRADIENTS) == 0)
        status = shoali_fail(SHOAL_EINVAL,
                             "--sync %s does not go with --codec %s: the codec makes a step of "
                             "all workers' gradients, and this protocol sums something else",
                             protocol->spec, job->codec);
    else if (other != NULL)
        status = shoali_fail(SHOAL_EINVAL,
                             "%s does not go with --codec %s: what comes back is a step of one "
                             "size everywhere, and no gradient",
                             other->option, job->codec);
    else if ((traits & SHOALI_OPTIM_REMEMBERS) != 0)
        status = shoali_fail(SHOAL_EINVAL,
                             "--optimizer %s does not go with --codec %s: the codec has the "
                             "momentum, and what comes back are signs",
                             job->optimizer, job->codec);
    if (status != SHOAL_OK)
        shoali_error_advice("Take --optimizer sgd:momentum=0 and --sync all_reduce, and a rate "
                            "that says how far a weight moves in a step.");
    return status;
}

/* A codec is for gradients, or for what has moved; some protocols send whole parameters. */
static shoal_status sync_and_codec(const shoali_protocol *protocol, const char *codec)
{
    char names[NAMES_BYTES];
    if (is_auto(codec) && (protocol->traits & (SHOALI_SYNC_CODED | SHOALI_SYNC_CHANGES)) != 0 &&
        (protocol->traits & SHOALI_SYNC_GRADIENTS) == 0) {
        protocols_with(SHOALI_SYNC_GRADIENTS, names);
        shoal_status status = shoali_fail(SHOAL_EINVAL,
                                          "--sync %s does not go with --codec %s: it "
                                          "cannot change its codec on the way",
                                          protocol->spec, codec);
        shoali_error_advice("Name a codec, or take one of these protocols: %s.", names);
        return status;
    }
    if (!is_auto(codec)) {
        shoal_codec *opened = NULL;
        SHOALI_TRY(shoal_codec_open(codec, &opened));
        const uint32_t traits = shoal_codec_traits(opened);
        const bool models = (protocol->traits & SHOALI_SYNC_MODELS) != 0;
        const bool same = (traits & SHOAL_CODEC_RAW_BYTES) != 0 ||
                          ((traits & SHOAL_CODEC_LOSSLESS) != 0 && models);
        const bool changes = (protocol->traits & SHOALI_SYNC_CHANGES) != 0;
        shoal_status answer = changes && !same ? changes_and_codec(protocol, codec, opened)
                                               : SHOAL_OK;
        shoal_codec_close(opened);
        if (same || changes)
            return answer;
    }
    if ((protocol->traits & SHOALI_SYNC_CODED) != 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--sync %s sends parameters, of which --codec %s might lose "
                                      "some each time",
                                      protocol->spec, codec);
    protocols_with(SHOALI_SYNC_CODED | SHOALI_SYNC_CHANGES, names);
    shoali_error_advice("Take one without losses (expo), or one of these protocols: %s.", names);
    return status;
}

/* A row that spreads one member's values makes no sum. */
static shoal_status no_sum(const char *spec)
{
    shoali_collective collective;
    SHOALI_TRY(shoali_collective_open(spec, &collective));
    const bool rooted = (collective.traits & SHOALI_COLL_ROOTED) != 0;
    shoali_collective_close(&collective);
    if (!rooted)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--collective %s makes no sum: it spreads one "
                                      "member's values",
                                      spec);
    shoali_error_advice("Take one of these: `shoal list collectives`.");
    return status;
}

static shoal_status sync_and_collective(const shoali_protocol *protocol, const char *collective)
{
    char names[NAMES_BYTES];
    if (!is_auto(collective))
        SHOALI_TRY(no_sum(collective));
    if (strcmp(collective, standard.collective) == 0 ||
        (protocol->traits & SHOALI_SYNC_COLLECTIVE) != 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--sync %s has ways of its own between workers: "
                                      "--collective %s would make its last average only",
                                      protocol->spec, collective);
    protocols_with(SHOALI_SYNC_COLLECTIVE, names);
    shoali_error_advice("Leave --collective out, or take one of these protocols: %s.", names);
    return status;
}

/* "auto" is compared among what the collective carries: identity at least. */
static shoal_status codec_and_collective(const shoali_protocol *protocol, const char *codec,
                                         const char *collective)
{
    char spec[SHOALI_AUTO_ITEM_BYTES];
    shoali_auto_spec asked = {0};
    if (is_auto(codec))
        SHOALI_TRY(shoali_auto_spec_parse(codec, &asked));
    if ((protocol->traits & SHOALI_SYNC_COLLECTIVE) == 0)
        return SHOAL_OK;
    if (is_auto(collective)) {
        if (strcmp(codec, standard.codec) == 0)
            return SHOAL_OK;
        shoal_status status = shoali_fail(SHOAL_EINVAL,
                                          "--collective %s does not go with --codec "
                                          "%s",
                                          collective, codec);
        shoali_error_advice("It chooses among ways that carry float32 (ring, omnireduce, gather): "
                            "name a collective, or leave --codec out.");
        return status;
    }
    if (!is_auto(codec))
        return shoal_codec_carried(codec, collective);
    SHOALI_TRY(shoal_codec_carried("identity", collective));
    for (const char *at = asked.allow; at != NULL;) {
        shoal_codec *opened;
        SHOALI_TRY(shoali_auto_spec_next(&asked, &at, spec));
        SHOALI_TRY(shoal_codec_open(spec, &opened));
        const uint32_t traits = shoal_codec_traits(opened);
        shoal_codec_close(opened);
        if ((traits & SHOAL_CODEC_TRANSFORM) != 0 && asked.error > 0)
            return shoali_auto_spec_no_transform(&asked, spec);
        SHOALI_TRY(shoal_codec_carried(spec, collective));
        if ((traits & (SHOAL_CODEC_STEPS | SHOAL_CODEC_LOCAL)) != 0)
            return shoali_fail(SHOAL_EINVAL,
                               "--codec %s: %s makes other steps than the others, so it is no "
                               "choice of time; name it alone",
                               codec, spec);
    }
    return SHOAL_OK;
}

/* The keys of a collective may ask for another number of members. */
static shoal_status collective_and_workers(const char *spec, uint32_t workers)
{
    shoali_collective collective;
    if (workers < 2 || is_auto(spec))
        return SHOAL_OK;
    SHOALI_TRY(shoali_collective_open(spec, &collective));
    shoal_status status = shoali_collective_takes(&collective, workers);
    if (status == SHOAL_EINVAL) {
        shoal_error why;
        shoali_error_get(&why);
        status = shoali_fail(SHOAL_EINVAL, "--collective %s does not go with %u workers: %.200s",
                             collective.spec, workers, why.text);
        shoali_error_advice("Take as many workers as its keys multiply to, or ring, direct or "
                            "halving_doubling, which take any number.");
    }
    shoali_collective_close(&collective);
    return status;
}

/* What only the row knows of its keys. */
static shoal_status row_fits(const shoali_protocol *protocol, const shoal_job *job)
{
    uint32_t traits = 0;
    shoal_codec *codec = NULL;
    if (protocol->row->fits == NULL)
        return SHOAL_OK;
    if (!is_auto(job->codec)) {
        SHOALI_TRY(shoal_codec_open(job->codec, &codec));
        traits = shoal_codec_traits(codec);
        shoal_codec_close(codec);
    }
    if (protocol->row->fits(protocol->params, 0, job->workers) != SHOAL_OK) {
        shoal_error why;
        shoali_error_get(&why);
        return shoali_fail(SHOAL_EINVAL, "--sync %s does not go with %u workers: %.200s",
                           protocol->spec, job->workers, why.text);
    }
    if (protocol->row->fits(protocol->params, traits, job->workers) == SHOAL_OK)
        return SHOAL_OK;
    shoal_error why;
    shoali_error_get(&why);
    return shoali_fail(SHOAL_EINVAL, "--sync %s does not go with --codec %s: %.200s",
                       protocol->spec, job->codec, why.text);
}

static shoal_status workers_together(const shoal_job *job)
{
    if ((job->asks & REFORM) != 0 && job->workers == 1)
        return shoali_fail(SHOAL_EINVAL, "--on-loss reform goes with several workers, not with one "
                                         "alone");
    return collective_and_workers(job->collective, job->workers);
}

shoal_status shoal_job_check(const shoal_job *asked)
{
    shoali_protocol protocol;
    if (asked == NULL || asked->size != sizeof *asked)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_job: size is not sizeof; start from SHOAL_JOB_INIT");
    shoal_job job = *asked;
    job.sync = job.sync != NULL ? job.sync : standard.sync;
    job.codec = job.codec != NULL ? job.codec : standard.codec;
    job.collective = job.collective != NULL ? job.collective : standard.collective;
    SHOALI_TRY(shoali_sync_open(job.sync, &protocol));
    shoal_status status = features_together(job.asks);
    if (status == SHOAL_OK)
        status = features_and_sync(job.asks, &protocol);
    if (status == SHOAL_OK)
        status = steps_and_sync(&job, &protocol);
    if (status == SHOAL_OK)
        status = steps_and_features(&job);
    if (status == SHOAL_OK)
        status = features_and_exchange(&job);
    if (status == SHOAL_OK)
        status = sync_and_codec(&protocol, job.codec);
    if (status == SHOAL_OK)
        status = sync_and_collective(&protocol, job.collective);
    if (status == SHOAL_OK)
        status = codec_and_collective(&protocol, job.codec, job.collective);
    if (status == SHOAL_OK)
        status = row_fits(&protocol, &job);
    if (status == SHOAL_OK)
        status = steps_and_codec(&job, &protocol);
    if (status == SHOAL_OK)
        status = shoali_job_counted(&job, protocol.spec, protocol.traits);
    if (status == SHOAL_OK)
        status = workers_together(&job);
    shoali_sync_close(&protocol);
    return status;
}
