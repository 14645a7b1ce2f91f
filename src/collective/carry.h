/* SPDX-License-Identifier: Apache-2.0 */
/* Which collective carries which codec: derived from their traits, nowhere listed. */
#ifndef SHOALI_COLLECTIVE_CARRY_H
#define SHOALI_COLLECTIVE_CARRY_H

#include "codec/codec.h"
#include "collective/schedule.h"

/**
 * Whether sums by this collective can travel in these codecs.
 * @param owner_job the completed sum becomes something else before it travels back.
 * @return SHOAL_OK | EINVAL: the text says why not and names what goes together
 */
SHOAL_MUST_USE shoal_status shoali_carry_check(const shoali_collective *collective,
                                               const shoal_codec *push, const shoal_codec *pull,
                                               bool owner_job);

#endif
