/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's newest events in memory: a fixed size, no lock. Any thread adds, and any other reads
 * at the same time; what is being overwritten meanwhile is left out. */
#ifndef SHOALI_WATCH_KEPT_H
#define SHOALI_WATCH_KEPT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    SHOALI_KEPT_EVENTS = 1 << 14, /* newer ones take the oldest's places */
    SHOALI_KEPT_WORDS = 6,
    SHOALI_KEPT_MODEL_BYTES = 64
};

typedef struct shoali_trace_event {
    uint64_t start_us; /* monotonic, of its host */
    uint64_t step;
    uint64_t offset; /* of a bucket: its first element */
    uint32_t took_us;
    uint32_t encode_us, decode_us; /* of a bucket: processor time in it */
    uint32_t sent_bytes;           /* of a bucket: coded */
    uint32_t kind, unused;
} shoali_trace_event;
_Static_assert(sizeof(shoali_trace_event) == 8 * SHOALI_KEPT_WORDS, "an event is whole words");

typedef struct shoali_kept {
    char model[SHOALI_KEPT_MODEL_BYTES]; /* what is told beside the events */
    uint32_t together;                   /* workers make each step together */
    _Atomic uint64_t noted;
    struct shoali_kept_slot {
        _Atomic uint64_t turn; /* 1 + the event's number; 0: it is being written, or none */
        _Atomic uint64_t word[SHOALI_KEPT_WORDS];
    } slot[SHOALI_KEPT_EVENTS];
} shoali_kept;

void shoali_kept_add(shoali_kept *ring, const shoali_trace_event *event);
/** Those that ended at since_us or later, as they came.
 * @param out [SHOALI_KEPT_EVENTS]
 * @param overwritten_out events that were there, and are not any more
 * @return how many */
uint64_t shoali_kept_copy(const shoali_kept *ring, uint64_t since_us, shoali_trace_event *out,
                          uint64_t *overwritten_out);
/** The newest of a step, at most so many, the newest first; looked for among the newest 4 * most.
 * @return how many */
uint64_t shoali_kept_step(const shoali_kept *ring, uint64_t step, shoali_trace_event *out,
                          uint64_t most);

#endif
