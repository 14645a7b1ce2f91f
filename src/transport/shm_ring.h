/* SPDX-License-Identifier: Apache-2.0 */
/* One direction between two processes of a host: bytes in a memfd that both map, one writer, one
 * reader, no lock. The writer owns tail, the reader head; both only grow. The other process may
 * write anything at any time: what is read from shared memory is checked once and never read again
 * for a decision. */
#ifndef SHOALI_TRANSPORT_SHM_RING_H
#define SHOALI_TRANSPORT_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

enum {
    SHOALI_RING_MIN_BYTES = 4096,
    SHOALI_RING_MAX_BYTES = 64 << 20,
    SHOALI_RING_HEAD_BYTES = 4096
};

/* The first page of the memfd. Each word that one side writes often has cache lines of its own. */
typedef struct shoali_ring_head {
    _Alignas(128) atomic_uint_fast64_t tail;
    _Alignas(128) atomic_uint_fast64_t head;
    _Alignas(128)
        atomic_uint_fast32_t wants_space; /* the writer sleeps until half of the ring is free */
    _Alignas(128) atomic_uint_fast32_t goodbye; /* the writer has left on purpose */
} shoali_ring_head;

typedef struct shoali_ring {
    int fd; /* to be passed on; -1: none (any more) */
    shoali_ring_head *shared;
    uint8_t *data;
    size_t capacity; /* power of two */
    uint64_t at;     /* own counter: tail of the writer, head of the reader */
} shoali_ring;

/** A new ring of `capacity` bytes (power of two within bounds), sealed against shrinking. */
SHOAL_MUST_USE shoal_status shoali_ring_create(size_t capacity, shoali_ring *ring_out);
/** Map another process's ring and close fd, also when it fails. ECORRUPT: wrong size or not
 *  sealed. */
SHOAL_MUST_USE shoal_status shoali_ring_attach(int fd, shoali_ring *ring_out);
void shoali_ring_close(shoali_ring *ring);
/** The descriptor has been passed on; the mapping stays. */
void shoali_ring_close_fd(shoali_ring *ring);

/** Writer: bytes that fit now. Reader: bytes that lie there; SIZE_MAX: the other side wrote
 *  nonsense. */
size_t shoali_ring_free(const shoali_ring *ring);
size_t shoali_ring_used(const shoali_ring *ring);
/** Writer, reader: the own counter says what this side has written there last. Else the other side
 * sees another one, and both could wait for ever. */
bool shoali_ring_tail_kept(const shoali_ring *ring);
bool shoali_ring_head_kept(const shoali_ring *ring);
/** Copy in or out, at most what fits or lies there; seen by the other side at once. */
void shoali_ring_write(shoali_ring *ring, const void *bytes, size_t len_bytes);
void shoali_ring_read(shoali_ring *ring, void *bytes, size_t len_bytes);
/** Reader: add floats to sum, straight from the ring. */
void shoali_ring_add(shoali_ring *ring, float *sum, size_t count);
/** Reader: throw away. */
void shoali_ring_skip(shoali_ring *ring, size_t len_bytes);

/* A process that goes to sleep says so in a page of its own that its peers map; they wake it by an
 * eventfd. */
typedef struct shoali_bell {
    int memory_fd, event_fd; /* -1: none */
    atomic_uint_fast32_t *asleep;
} shoali_bell;

SHOAL_MUST_USE shoal_status shoali_bell_create(shoali_bell *bell_out);
/** Takes both descriptors over, also when it fails. */
SHOAL_MUST_USE shoal_status shoali_bell_attach(int memory_fd, int event_fd, shoali_bell *bell_out);
void shoali_bell_close(shoali_bell *bell);
/** Owner: say that this process sleeps (then look once more whether there is work) or is awake. */
void shoali_bell_sleep(shoali_bell *bell);
void shoali_bell_wake(shoali_bell *bell);
/** Peer, after having written to a ring or made space: one system call if the owner sleeps, none
 *  otherwise. */
void shoali_bell_ring(shoali_bell *bell);
/** Owner: forget that somebody rang. */
void shoali_bell_clear(shoali_bell *bell);

#endif
