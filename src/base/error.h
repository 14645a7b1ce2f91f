/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the thread's last error. Every function that returns a failing status has called one of
 * these (directly or below it), where the cause was first known; callers pass the status on. */
#ifndef SHOALI_BASE_ERROR_H
#define SHOALI_BASE_ERROR_H

#include "shoal/status.h"

/** Set the thread's last error to a formatted sentence, clear all other fields, return status. */
shoal_status shoali_fail(shoal_status status, const char *format, ...) SHOAL_PRINTF(2, 3);

/** The same for a failed system call: appends ": strerror(os_error)" and keeps os_error. */
shoal_status shoali_fail_os(shoal_status status, int os_error, const char *format, ...)
    SHOAL_PRINTF(3, 4);

/* The status of a failure is the constant that was given: a compiler that sees it knows the failing
 * path, and does not take its outputs for uninitialised ones. The status is evaluated twice. */
#define shoali_fail(status, ...) ((void)shoali_fail((status), __VA_ARGS__), (status))
#define shoali_fail_os(status, os_error, ...) \
    ((void)shoali_fail_os((status), (os_error), __VA_ARGS__), (status))

/** Add to the error set just before: culprit, operation, time waited, advice. NULL, -1: leave. */
void shoali_error_about(int32_t rank, const char *host, const char *operation, int64_t waited_us);
void shoali_error_advice(const char *format, ...) SHOAL_PRINTF(1, 2);

/** Copy an error kept elsewhere (an operation's) to this thread, and take this thread's. */
shoal_status shoali_error_set(const shoal_error *error);
void shoali_error_get(shoal_error *error_out);

/** Return early with the status of a failing expression. */
#define SHOALI_TRY(expression)                         \
    do {                                               \
        shoal_status shoali_try_status = (expression); \
        if (shoali_try_status != SHOAL_OK)             \
            return shoali_try_status;                  \
    } while (0)

#endif
