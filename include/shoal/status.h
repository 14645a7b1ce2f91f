/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOAL_STATUS_H
#define SHOAL_STATUS_H

#include <stdint.h>

#if defined(__GNUC__)
#define SHOAL_API __attribute__((visibility("default")))
#define SHOAL_MUST_USE __attribute__((warn_unused_result))
#define SHOAL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SHOAL_API
#define SHOAL_MUST_USE
#define SHOAL_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Every status, once: X(name, value, text). Values are part of the ABI and never renumbered.
 *
 * They are grouped by what the caller has to rebuild before going on:
 *   1-9   nothing (success, or not finished yet)
 *   10-19 the caller's argument          20-29 the data
 *   30-39 this operation                 40-49 the membership: reform or rejoin
 *   50-59 the process: memory, files, system
 */
#define SHOAL_STATUS_LIST(X)                                                  \
    X(OK, 0, "success")                                                       \
    X(PENDING, 1, "not finished yet")                                         \
    X(EINVAL, 10, "invalid argument")                                         \
    X(ENOTSUP, 11, "not supported here")                                      \
    X(ECORRUPT, 20, "corrupt data")                                           \
    X(ENOTFINITE, 21, "a value is not finite")                                \
    X(ETIMEDOUT, 30, "deadline passed")                                       \
    X(ECANCELLED, 31, "operation cancelled")                                  \
    X(EMISMATCH, 32, "ranks started different operations")                    \
    X(EPEER, 40, "a peer was lost")                                           \
    X(EEPOCH, 41, "the membership changed")                                   \
    X(EAUTH, 42, "authentication failed")                                     \
    X(EVERSION, 43, "incompatible versions")                                  \
    X(ENOMEM, 50, "out of memory")                                            \
    X(EIO, 51, "input or output failed")                                      \
    X(ESYSTEM, 52, "a system call failed")                                    \
    X(EINTERNAL, 53, "internal error: please report")                         \
    X(EFORKED, 54, "handle belongs to the parent process")

typedef enum shoal_status {
#define SHOAL_STATUS_ENUM(name, value, text) SHOAL_##name = (value),
    SHOAL_STATUS_LIST(SHOAL_STATUS_ENUM)
#undef SHOAL_STATUS_ENUM
} shoal_status;

/** Name of a status without prefix ("EPEER"), "?" if unknown. Static storage. */
SHOAL_API const char *shoal_status_name(shoal_status status);

/** One short phrase for a status ("a peer was lost"). Static storage. */
SHOAL_API const char *shoal_status_text(shoal_status status);

/** What went wrong last on this thread. All strings are NUL-terminated; unknown fields are -1 or "". */
typedef struct shoal_error {
    shoal_status status;
    int32_t rank;        /* the rank that the error is about (the culprit), -1 if none */
    char host[64];       /* its host */
    char operation[64];  /* "all-reduce 1182", "join", "read model file" */
    int64_t waited_us;   /* how long the failed wait lasted, -1 if it did not wait */
    int32_t os_error;    /* errno, 0 if none */
    char text[512];      /* the full sentence: what, where */
    char advice[192];    /* one sentence: what to do; may be empty */
} shoal_error;

/**
 * The error of the last call on this thread that did not return SHOAL_OK.
 * @return never NULL; valid until the next failing call on this thread.
 */
SHOAL_API const shoal_error *shoal_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
