/* SPDX-License-Identifier: Apache-2.0 */
/* onebit and the adam behind it each count steps from the first one of the run: which renew the
 * variance (kappa), and behind which workers that go apart meet (local). Both are to know of the
 * same, and no step may be undone at one of them. */
#include "job/counted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "shoal/codec.h"
#include "sync/sync.h"

/* The value of `key=` in a spec; usual: it is not there. */
static double value_of(const char *spec, const char *key, double usual)
{
    const size_t len = strlen(key);
    for (const char *at = spec != NULL ? strpbrk(spec, ":,") : NULL; at != NULL;
         at = strpbrk(at + 1, ":,"))
        if (strncmp(at + 1, key, len) == 0 && at[1 + len] == '=')
            return strtod(at + len + 2, NULL);
    return usual;
}

static const char *option_of(const shoal_job *job, uint32_t bits)
{
    const struct {
        uint32_t bit;
        const char *option;
    } all[] = {{SHOAL_JOB_REFORM, "--on-loss reform"},
               {SHOAL_JOB_SKIPS, "--nonfinite skip"},
               {SHOAL_JOB_SIMULATED, "--simulate"},
               {SHOAL_JOB_PLAN, "--plan"},
               {SHOAL_JOB_ADMM, "--admm"},
               {SHOAL_JOB_BATCH_AUTO, "--batch auto"},
               {SHOAL_JOB_CLIPS, "--clip-norm"},
               {SHOAL_JOB_STOPS, "--on-term checkpoint"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((job->asks & bits & all[i].bit) != 0)
            return all[i].option;
    return NULL;
}

static shoal_status refuse_option(const shoal_job *job, const char *option, const char *why,
                                  const char *key)
{
    shoal_status status = shoali_fail(SHOAL_EINVAL, "%s does not go with --codec %s: %s", option,
                                      job->codec, why);
    shoali_error_advice("Leave one of the two out, or %s.", key);
    return status;
}

static shoal_status renewed_together(const shoal_job *job)
{
    const long codec = (long)value_of(job->codec, "kappa", 0),
               optimizer = (long)value_of(job->optimizer, "kappa", 0);
    const char *option = option_of(job, SHOAL_JOB_REFORM | SHOAL_JOB_SKIPS);
    if (codec == 0)
        return SHOAL_OK;
    if (job->optimizer != NULL && codec != optimizer) {
        shoal_status status = shoali_fail(SHOAL_EINVAL,
                                          "--codec %s does not go with --optimizer %s: squares of "
                                          "what signs say are no variance",
                                          job->codec, job->optimizer);
        shoali_error_advice("Give both the same: --codec onebit:warmup=W,kappa=%ld --optimizer "
                            "adam:freeze=W,kappa=%ld.",
                            codec, codec);
        return status;
    }
    return option == NULL
               ? SHOAL_OK
               : refuse_option(job, option,
                               "its steps would be counted anew, the optimiser's would not",
                               "kappa=");
}

/* ------------------------------------------------------------------ apart */

/* Keys of both, with their defaults. */
static bool same_keys(const shoal_job *job)
{
    static const struct {
        const char *codec, *optimizer;
        double codec_usual, optimizer_usual;
    } keys[] = {{"local", "local", 1, 1},
                {"doubling", "doubling", 0, 0},
                {"warmup", "freeze", 100, 0},
                {"beta", "beta1", 0.9, 0.9}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (value_of(job->codec, keys[i].codec, keys[i].codec_usual) !=
            value_of(job->optimizer, keys[i].optimizer, keys[i].optimizer_usual))
            return false;
    return true;
}

static shoal_status is_local(const char *spec, bool *local_out)
{
    shoal_codec *codec = NULL;
    *local_out = false;
    if (strncmp(spec, "auto", 4) == 0) /* its own check names what it may choose among */
        return SHOAL_OK;
    SHOALI_TRY(shoal_codec_open(spec, &codec));
    *local_out = (shoal_codec_traits(codec) & SHOAL_CODEC_LOCAL) != 0;
    shoal_codec_close(codec);
    return SHOAL_OK;
}

static shoal_status apart_in_optimizer(const shoal_job *job)
{
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--codec %s does not go with --optimizer %s: both have to "
                                      "know in which steps workers are apart",
                                      job->codec, job->optimizer);
    shoali_error_advice("Give both the same: --codec onebit:warmup=W,local=H,doubling=D,beta=B "
                        "--optimizer adam:freeze=W,local=H,doubling=D,beta1=B (or adamw; all but W "
                        "and H have defaults).");
    return status;
}

/* Whoever is apart has weights and momentum of its own: what goes by weights or gradients of all
 * does not fit, nor who is alone, whose sums are none. */
static shoal_status apart_together(const shoal_job *job, const char *sync, uint32_t sync_traits)
{
    bool local;
    SHOALI_TRY(is_local(job->codec, &local));
    if (!local && value_of(job->optimizer, "local", 1) <= 1)
        return SHOAL_OK;
    if (!local || (job->optimizer != NULL && !same_keys(job)))
        return apart_in_optimizer(job);
    const char *option = option_of(job, UINT32_MAX);
    if (option != NULL)
        return refuse_option(job, option,
                             "between meetings each worker has weights and a momentum of its own",
                             "local=");
    shoal_status status = SHOAL_OK;
    if ((sync_traits & SHOALI_SYNC_GRADIENTS) == 0)
        status = shoali_fail(SHOAL_EINVAL,
                             "--sync %s does not go with --codec %s: workers go apart and meet by "
                             "the codec alone, in sums of gradients",
                             sync, job->codec);
    else if (job->workers == 1)
        status = shoali_fail(SHOAL_EINVAL,
                             "--codec %s goes with several workers, not with one "
                             "alone, who meets nobody",
                             job->codec);
    if (status != SHOAL_OK)
        shoali_error_advice("Take --sync all_reduce and at least 2 workers, or leave local= out.");
    return status;
}

shoal_status shoali_job_counted(const shoal_job *job, const char *sync, uint32_t sync_traits)
{
    SHOALI_TRY(renewed_together(job));
    return apart_together(job, sync, sync_traits);
}
