/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for coded chunks, shared by the operations of one comm: a flow takes one per frame and
 * gives it back, so a warm pool makes an operation free of allocations and of page faults. Grows a
 * slab at a time to the largest demand ever seen and keeps it. Not thread-safe: progress thread
 * only. */
#ifndef SHOALI_COLLECTIVE_SCRATCH_H
#define SHOALI_COLLECTIVE_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct shoali_scratch shoali_scratch;

/** NULL: no memory, last error set. Every buffer has to be back before destroy. NULL is allowed
 * there. */
shoali_scratch *shoali_scratch_create(void);
void shoali_scratch_destroy(shoali_scratch *scratch);

/** At least bytes bytes, 64-byte aligned, contents undefined; NULL = ENOMEM. bytes 0 gives a valid
 * pointer. */
uint8_t *shoali_scratch_get(shoali_scratch *scratch, size_t bytes);
/** Give a buffer back. NULL is allowed. */
void shoali_scratch_put(shoali_scratch *scratch, uint8_t *buffer);

/** Bytes handed out now (as rounded to their class), and the memory held for them. */
size_t shoali_scratch_used_bytes(const shoali_scratch *scratch);
size_t shoali_scratch_held_bytes(const shoali_scratch *scratch);

#endif
