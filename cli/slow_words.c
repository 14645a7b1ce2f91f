/* SPDX-License-Identifier: Apache-2.0 */
#include "slow_words.h"

#include <stddef.h>
#include <string.h>

static const slow_words words[] = {
    {"input", "data_ms", "is slow at making its batches:", "ms per step",
     "It computes longest, and at least half of the time by which it does is for making batches: "
     "reading and augmenting samples."},
    {"load", "samples", "has more samples than the others:", "per step",
     "It computes longest, and at least half of the time by which it does is what so many samples "
     "more take on the other ranks."},
    {"disk", "disk_ms", "is slow at writing its part of checkpoints:", "ms per step",
     "The other ranks write theirs faster, by more than 10 % of a step's time even at the low end "
     "of a 98 % interval."},
    {"pause", "paused_ms", "pauses now and then, for at least", "ms per step",
     "In fewer than half of the steps its process did not run for 0.2 s or longer, as if stopped "
     "or frozen: more than 10 % of the time, and three times as much as any other's."}};

const slow_words *slow_words_of(const char *cause)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].cause, cause) == 0)
            return &words[i];
    return NULL;
}
