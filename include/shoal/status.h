/* SPDX-License-Identifier: Apache-2.0 */
/* What functions return, and what else is known when they fail. docs/errors.md says what to do
 * about each status; a caller who knows no single value can act on its group. */
#ifndef SHOAL_STATUS_H
#define SHOAL_STATUS_H

#include <stdint.h>

/* On every public function: exported from the library, whose other symbols are hidden. On those
 * that can fail: the compiler warns when nobody looks at the status. On printf-like ones: arguments
 * are checked against the format. */
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
 * Every status, once: X(name, value, text). Values are part of the ABI and never renumbered; a new
 * one goes into the group it belongs to. Bindings make enumeration and texts from this list.
 *
 * They are grouped by what the caller has to rebuild before going on:
 *   0-9    nothing: success, or not finished yet
 *   10-19  the caller's argument: the same call will fail again, nothing has happened
 *   20-29  the data: what was read is not what it should be, outputs are undefined
 *   30-39  this operation: it is over on every member, the communicator is sound
 *   40-49  the membership: the communicator is over; reform, rejoin or restart
 *   50-59  the process: memory, files, system calls, or a broken contract inside the library
 */
#define SHOAL_STATUS_LIST(X)                               \
    X(OK, 0, "success")                                    \
    X(PENDING, 1, "not finished yet")                      \
    X(EINVAL, 10, "invalid argument")                      \
    X(ENOTSUP, 11, "not supported here")                   \
    X(ECORRUPT, 20, "corrupt data")                        \
    X(ENOTFINITE, 21, "a value is not finite")             \
    X(ETIMEDOUT, 30, "deadline passed")                    \
    X(ECANCELLED, 31, "operation cancelled")               \
    X(EMISMATCH, 32, "ranks started different operations") \
    X(EPEER, 40, "a peer was lost")                        \
    X(EEPOCH, 41, "the membership changed")                \
    X(EAUTH, 42, "authentication failed")                  \
    X(EVERSION, 43, "incompatible versions")               \
    X(ENOMEM, 50, "out of memory")                         \
    X(EIO, 51, "input or output failed")                   \
    X(ESYSTEM, 52, "a system call failed")                 \
    X(EINTERNAL, 53, "internal error: please report")      \
    X(EFORKED, 54, "handle belongs to the parent process")

/** 0 is success; everything else left a description in shoal_last_error(), PENDING excepted. */
typedef enum shoal_status {
#define SHOAL_STATUS_ENUM(name, value, text) SHOAL_##name = (value),
    SHOAL_STATUS_LIST(SHOAL_STATUS_ENUM)
#undef SHOAL_STATUS_ENUM
} shoal_status;

/** Name of a status without prefix ("EPEER"), "?" if unknown: for logs. Static storage. */
SHOAL_API const char *shoal_status_name(shoal_status status);

/** One short phrase for a status ("a peer was lost"). Static storage. */
SHOAL_API const char *shoal_status_text(shoal_status status);

/**
 * What went wrong last on this thread. All strings are NUL-terminated; unknown fields are -1 or "".
 * An error of an operation is kept in the operation and copied here by whoever waits for it.
 */
typedef struct shoal_error {
    shoal_status status; /* what the failing call returned */
    int32_t rank;        /* the rank that the error is about: the culprit, not who reports it */
    char host[64];       /* its host */
    char operation[64];  /* "all-reduce 1182", "join", "read model file" */
    int64_t waited_us;   /* how long the failed wait lasted, -1 if it did not wait */
    int32_t os_error;    /* errno of the system call behind it, 0 if none */
    char text[512];      /* the full sentence: what failed, where, with figures */
    char advice[192];    /* one sentence: what to do; may be empty */
} shoal_error;

/**
 * The error of the last call on this thread that did not return SHOAL_OK. A successful call leaves
 * it as it is: look at the status first, here for the rest.
 * @return never NULL; valid until the next failing call on this thread.
 */
SHOAL_API const shoal_error *shoal_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
