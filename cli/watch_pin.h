/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the list change when jobs end; names do not. */
#ifndef SHOAL_CLI_WATCH_PIN_H
#define SHOAL_CLI_WATCH_PIN_H

#include <stdbool.h>

#include "shoal/watch.h"

enum { WATCH_NAME_BYTES = 64 };

/** The name of the job that answered, if place is a number and no other job has that name: to go on
 * by. place NULL: no. */
bool watch_pin(const char *place, const shoal_watch *answer, char name[WATCH_NAME_BYTES]);

#endif
