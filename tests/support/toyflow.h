/* SPDX-License-Identifier: Apache-2.0 */
/* A flow that is no schedule, the smallest that uses everything a flow can: each member waits a
 * while (timer), says hello with the largest magnitude of its vector (control), then sends all of
 * it to all others (frames), and when everything is here adds up in member order. A member whose
 * vector is zero sends none: its hello says so. Hostile or late input is dropped. Takes identity
 * only. */
#ifndef SHOALI_TESTS_SUPPORT_TOYFLOW_H
#define SHOALI_TESTS_SUPPORT_TOYFLOW_H

#include "collective/flow.h"

extern const shoali_flow_row toy_flow;

#endif
