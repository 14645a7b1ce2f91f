/* SPDX-License-Identifier: Apache-2.0 */
/* From one epoch into the next. */
#ifndef SHOALI_REFORM_REFORM_H
#define SHOALI_REFORM_REFORM_H

#include "alive/alive.h"

/** As shoal_comm_reform; told, unless NULL, hears of each endpoint of the left epoch that was lost
 * to it by then, on the progress thread. */
SHOAL_MUST_USE shoal_status shoali_comm_reform(
    shoal_comm **comm, uint64_t done, int64_t timeout_us, shoal_view *view_out,
    void (*told)(void *ctx, uint32_t endpoint, const shoali_lost_peer *what), void *ctx);

#endif
