/* SPDX-License-Identifier: Apache-2.0 */
/* Levelled log on stderr (or a callback sink inside tests): "shoal 12:00:01.123 W r3/8 text", or
 * one JSON object per line with --log-format json. The level says how often: ERROR the job ends,
 * WARN look at this, INFO once per event a user cares for, DEBUG per operation, TRACE per frame.
 * Log once, where the cause is known. A library user who sets nothing sees WARN and ERROR only. */
#ifndef SHOALI_BASE_LOG_H
#define SHOALI_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

typedef enum {
    SHOALI_LOG_ERROR,
    SHOALI_LOG_WARN,
    SHOALI_LOG_INFO,
    SHOALI_LOG_DEBUG,
    SHOALI_LOG_TRACE
} shoali_log_level;

/** Process-wide settings; also read once from SHOAL_LOG (level name) and SHOAL_LOG_FORMAT (text,
 * json). */
void shoali_log_set_level(shoali_log_level level);
void shoali_log_set_json(bool json);
/** Prefix of this thread's lines; rank -1: none. Each comm's threads set it. */
void shoali_log_set_rank(int32_t rank, int32_t size);
/** Tests: collect lines instead of printing; NULL restores stderr. */
void shoali_log_set_sink(void (*sink)(void *ctx, shoali_log_level level, const char *line),
                         void *ctx);

/** Warnings and errors go to this descriptor as well, as JSON, a write each; -1: nowhere. */
void shoali_log_set_copy(int fd);

bool shoali_log_on(shoali_log_level level);
void shoali_log_write(shoali_log_level level, const char *format, ...) SHOAL_PRINTF(2, 3);

#define shoali_log(level, ...)                                 \
    do {                                                       \
        if (shoali_log_on(SHOALI_LOG_##level))                 \
            shoali_log_write(SHOALI_LOG_##level, __VA_ARGS__); \
    } while (0)

#endif
