/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOALI_TESTS_SUPPORT_EXAMPLE_SYNC_H
#define SHOALI_TESTS_SUPPORT_EXAMPLE_SYNC_H

#include "sync/sync.h"

/** The protocol of docs/add-sync.md: "averaging:every=4". */
extern const shoali_sync_row example_sync_averaging;

#endif
