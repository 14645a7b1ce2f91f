/* SPDX-License-Identifier: Apache-2.0 */
/* shoal_job_check: one question after the other, each about two options, answered by traits. */
#include "shoal/job.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "collective/schedule.h"
#include "shoal/codec.h"
#include "sync/sync.h"

enum { NAMES_BYTES = 160 };

static bool is_auto(const char *spec)
{
    return strncmp(spec, "auto", 4) == 0 && (spec[4] == '\0' || spec[4] == ':');
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

/* A codec is for gradients, or for what has moved; some protocols send parameters as they are. */
static shoal_status sync_and_codec(const shoali_protocol *protocol, const char *codec)
{
    char names[NAMES_BYTES];
    shoal_codec *opened = NULL;
    if (!is_auto(codec)) {
        SHOALI_TRY(shoal_codec_open(codec, &opened));
        bool plain = (shoal_codec_traits(opened) & SHOAL_CODEC_RAW_BYTES) != 0;
        shoal_codec_close(opened);
        if (plain)
            return SHOAL_OK;
    }
    if ((protocol->traits & SHOALI_SYNC_CODED) != 0)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "--sync %s sends parameters as they are: --codec %s would "
                                      "change nothing",
                                      protocol->spec, codec);
    protocols_with(SHOALI_SYNC_CODED, names);
    shoali_error_advice("Leave --codec out, or take one of these protocols: %s.", names);
    return status;
}

/* "auto" is compared among what the collective carries: identity at least. */
static shoal_status codec_and_collective(const shoali_protocol *protocol, const char *codec,
                                         const char *collective)
{
    static const char allow[] = "auto:allow=";
    char spec[NAMES_BYTES];
    if ((protocol->traits & SHOALI_SYNC_COLLECTIVE) == 0 || is_auto(collective))
        return SHOAL_OK;
    if (!is_auto(codec))
        return shoal_codec_carried(codec, collective);
    SHOALI_TRY(shoal_codec_carried("identity", collective));
    if (strncmp(codec, allow, sizeof allow - 1) != 0)
        return SHOAL_OK;
    for (const char *at = codec + sizeof allow - 1; *at != '\0';) {
        size_t length = strcspn(at, "+");
        snprintf(spec, sizeof spec, "%.*s", (int)length, at);
        SHOALI_TRY(shoal_codec_carried(spec, collective));
        at += length + (at[length] == '+');
    }
    return SHOAL_OK;
}

/* The keys of a collective may ask for another number of members. */
static shoal_status collective_and_workers(const char *spec, uint32_t workers)
{
    shoali_collective collective;
    shoal_schedule schedule;
    if (workers < 2 || is_auto(spec))
        return SHOAL_OK;
    SHOALI_TRY(shoali_collective_open(spec, &collective));
    shoal_status status = SHOAL_OK;
    const uint32_t no_list = SHOALI_COLL_FLOW | SHOALI_COLL_RATED | SHOALI_COLL_ROOTED |
                             SHOALI_COLL_DEDICATED;
    const bool has_list = (collective.traits & no_list) == 0;
    shoal_arena *arena = has_list ? shoali_arena_create(4096) : NULL;
    if (has_list && arena == NULL)
        status = SHOAL_ENOMEM;
    if (arena != NULL) {
        const shoal_schedule_args args = {.size = workers, .contributors = workers};
        status = shoali_collective_build(&collective, SHOAL_ALL_REDUCE, &args, arena, &schedule);
    }
    if (status == SHOAL_EINVAL) {
        shoal_error why;
        shoali_error_get(&why);
        status = shoali_fail(SHOAL_EINVAL, "--collective %s does not go with %u workers: %.200s",
                             collective.spec, workers, why.text);
        shoali_error_advice("Take as many workers as its keys multiply to, or ring, direct or "
                            "halving_doubling, which take any number.");
    }
    shoali_arena_destroy(arena);
    shoali_collective_close(&collective);
    return status;
}

shoal_status shoal_job_check(const shoal_job *job)
{
    shoali_protocol protocol;
    if (job == NULL || job->size != sizeof *job)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_job: size is not sizeof; start from SHOAL_JOB_INIT");
    const char *codec = job->codec != NULL ? job->codec : "identity";
    const char *collective = job->collective != NULL ? job->collective : "ring";
    SHOALI_TRY(shoali_sync_open(job->sync != NULL ? job->sync : "all_reduce", &protocol));
    shoal_status status = sync_and_codec(&protocol, codec);
    if (status == SHOAL_OK)
        status = codec_and_collective(&protocol, codec, collective);
    if (status == SHOAL_OK)
        status = collective_and_workers(collective, job->workers);
    shoali_sync_close(&protocol);
    return status;
}
