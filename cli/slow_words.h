/* SPDX-License-Identifier: Apache-2.0 */
/* Causes of a verdict beside computing and links (docs/status.md), in words. */
#ifndef SHOAL_CLI_SLOW_WORDS_H
#define SHOAL_CLI_SLOW_WORDS_H

/** "rank 3 (h) WHAT 12.00 UNIT; all wait for it" */
typedef struct slow_words {
    const char *cause, *key; /* key: of the number, in JSON */
    const char *what, *unit;
    const char *evidence; /* a sentence */
} slow_words;

/** NULL: another cause. */
const slow_words *slow_words_of(const char *cause);

#endif
