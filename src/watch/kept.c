/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/kept.h"

#include <stdbool.h>
#include <string.h>

void shoali_kept_add(shoali_kept *ring, const shoali_trace_event *event)
{
    uint64_t words[SHOALI_KEPT_WORDS];
    const uint64_t at = atomic_fetch_add_explicit(&ring->noted, 1, memory_order_relaxed);
    struct shoali_kept_slot *slot = &ring->slot[at % SHOALI_KEPT_EVENTS];
    memcpy(words, event, sizeof words);
    atomic_store_explicit(&slot->turn, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < SHOALI_KEPT_WORDS; i++)
        atomic_store_explicit(&slot->word[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&slot->turn, at + 1, memory_order_release);
}

static bool take(const struct shoali_kept_slot *slot, uint64_t turn, shoali_trace_event *out)
{
    uint64_t words[SHOALI_KEPT_WORDS];
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != turn)
        return false;
    for (int i = 0; i < SHOALI_KEPT_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    memcpy(out, words, sizeof *out);
    return atomic_load_explicit(&slot->turn, memory_order_relaxed) == turn;
}

uint64_t shoali_kept_copy(const shoali_kept *ring, uint64_t since_us, shoali_trace_event *out,
                          uint64_t *overwritten_out)
{
    const uint64_t noted = atomic_load(&ring->noted);
    const uint64_t first = noted > SHOALI_KEPT_EVENTS ? noted - SHOALI_KEPT_EVENTS : 0;
    uint64_t count = 0;
    *overwritten_out = first;
    for (uint64_t at = first; at < noted; at++)
        if (take(&ring->slot[at % SHOALI_KEPT_EVENTS], at + 1, &out[count]) &&
            out[count].start_us + out[count].took_us >= since_us)
            count++;
    return count;
}

uint64_t shoali_kept_step(const shoali_kept *ring, uint64_t step, shoali_trace_event *out,
                          uint64_t most)
{
    const uint64_t noted = atomic_load(&ring->noted);
    const uint64_t looked = 4 * most < SHOALI_KEPT_EVENTS ? 4 * most : SHOALI_KEPT_EVENTS;
    const uint64_t first = noted > looked ? noted - looked : 0;
    uint64_t count = 0;
    for (uint64_t at = noted; at-- > first && count < most;)
        if (take(&ring->slot[at % SHOALI_KEPT_EVENTS], at + 1, &out[count]))
            count += out[count].step == step;
    return count;
}
