/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library, for the rooms that own some (tools/layers.txt). */
#ifndef SHOALI_BASE_THREAD_H
#define SHOALI_BASE_THREAD_H

#include <pthread.h>

#include "shoal/status.h"

/** A thread with all signals blocked: they are the program's, not ours. */
SHOAL_MUST_USE shoal_status shoali_thread_start(pthread_t *thread, void *(*run)(void *arg),
                                                void *arg);

#endif
