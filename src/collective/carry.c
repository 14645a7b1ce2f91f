/* SPDX-License-Identifier: Apache-2.0 */
/* The rules:
 *
 *   codec SLOTS                sums have no code, members' vectors travel whole: collective SLOTS,
 *                              or ROOTED, which sums nothing
 *   collective FLOW            adds what arrives as it lies: codec RAW_BYTES, or a transform,
 *                              whose rounds are plain sums
 *   FLOW and ROUNDED           adds integers, too: codec SUMMABLE in units that nobody has to
 *                              measure
 *   collective SITES           leaves codes out inside sites: no transform, whose rounds are plain
 *                              sums on all links
 *   pull MEASURE, SUMMABLE     the way back codes sums of what the way there made: the same codec
 *   pull MEASURE, owner job    what was measured is the gradient, what comes back are weights
 */
#include "collective/carry.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "shoal/codec.h"

enum { NAMES_BYTES = 400 };

static bool fits(uint32_t collective, uint32_t codec)
{
    if ((codec & SHOAL_CODEC_SLOTS) != 0 &&
        (collective & (SHOALI_COLL_SLOTS | SHOALI_COLL_ROOTED)) == 0)
        return false;
    const uint32_t plain = SHOAL_CODEC_RAW_BYTES | SHOAL_CODEC_TRANSFORM;
    const uint32_t sums = SHOAL_CODEC_MEASURE | SHOAL_CODEC_SUMMABLE;
    return (collective & SHOALI_COLL_FLOW) == 0 || (codec & plain) != 0 ||
           ((collective & SHOALI_COLL_ROUNDED) != 0 && (codec & sums) == SHOAL_CODEC_SUMMABLE);
}

static void append(char names[NAMES_BYTES], const char *name)
{
    size_t used = strlen(names);
    snprintf(names + used, NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "", name);
}

static void collectives_for(const shoal_codec *codec, char names[NAMES_BYTES])
{
    names[0] = '\0';
    for (size_t i = 0; i < shoali_collective_count(); i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        if ((row->traits & SHOALI_COLL_ROOTED) == 0 && fits(row->traits, codec->traits))
            append(names, row->name);
    }
}

/* Codecs at their defaults. */
static void codecs_for(const shoali_collective *collective, char names[NAMES_BYTES])
{
    names[0] = '\0';
    for (size_t i = 0; i < shoali_codec_count(); i++) {
        shoal_codec *codec = NULL;
        if (shoal_codec_open(shoal_codec_row_name(i), &codec) != SHOAL_OK)
            continue;
        if (fits(collective->traits, codec->traits))
            append(names, shoal_codec_row_name(i));
        shoal_codec_close(codec);
    }
}

static shoal_status cannot(const shoali_collective *collective, const shoal_codec *codec)
{
    char able[NAMES_BYTES], others[NAMES_BYTES];
    collectives_for(codec, able);
    codecs_for(collective, others);
    const char *why = (codec->traits & SHOAL_CODEC_SLOTS) != 0 ? "its sums have no code"
                      : (collective->traits & SHOALI_COLL_ROUNDED) != 0
                          ? "it adds floats, and integers of a fixed unit"
                          : "it adds plain floats only";
    shoal_status status = shoali_fail(SHOAL_EINVAL, "collective %s does not carry codec %s: %s",
                                      collective->spec, codec->spec, why);
    shoali_error_advice("Codec %s goes with %s; collective %s carries %s.", codec->row->name, able,
                        collective->row->name, others);
    return status;
}

static shoal_status sites_apart(const shoali_collective *collective, const shoal_codec *codec)
{
    shoal_status status = shoali_fail(
        SHOAL_EINVAL,
        "collective %s does not carry codec %s: its rounds are sums that travel alike inside a "
        "site and between sites",
        collective->spec, codec->spec);
    shoali_error_advice("Leave out the key site, or take a codec that codes each message, such as "
                        "eden or int8.");
    return status;
}

shoal_status shoali_carry_check(const shoali_collective *collective, const shoal_codec *push,
                                const shoal_codec *pull, bool owner_job)
{
    const uint32_t sums = SHOAL_CODEC_MEASURE | SHOAL_CODEC_SUMMABLE;
    if (!fits(collective->traits, push->traits))
        return cannot(collective, push);
    if (!fits(collective->traits, pull->traits))
        return cannot(collective, pull);
    if ((collective->traits & SHOALI_COLL_SITES) != 0 &&
        ((push->traits | pull->traits) & SHOAL_CODEC_TRANSFORM) != 0)
        return sites_apart(collective, push);
    if ((collective->traits & SHOALI_COLL_ROUNDED) != 0 && pull->hash != push->hash)
        return shoali_fail(SHOAL_EINVAL,
                           "collective %s knows one codec for both ways, not %s and %s",
                           collective->spec, push->spec, pull->spec);
    if (owner_job && (pull->traits & SHOAL_CODEC_MEASURE) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "codec %s measures gradients: weights cannot come back in it; let them "
                           "come as identity, fp16 or bf16",
                           pull->spec);
    if ((pull->traits & sums) == sums && pull->hash != push->hash)
        return shoali_fail(SHOAL_EINVAL,
                           "sums come back in codec %s only where %s has made them, too, not %s",
                           pull->spec, pull->spec, push->spec);
    return SHOAL_OK;
}

shoal_status shoal_codec_carried(const char *codec_spec, const char *collective_spec)
{
    shoal_codec *codec = NULL;
    shoali_collective collective;
    SHOALI_TRY(shoal_codec_open(codec_spec, &codec));
    shoal_status status = shoali_collective_open(collective_spec, &collective);
    if (status == SHOAL_OK) {
        status = shoali_carry_check(&collective, codec, codec, false);
        shoali_collective_close(&collective);
    }
    shoal_codec_close(codec);
    return status;
}
