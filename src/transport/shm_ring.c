/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "kernel/kernel.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

_Static_assert(sizeof(shoali_ring_head) <= SHOALI_RING_HEAD_BYTES, "the head fits its page");

/* ---------------------------------------------------------------- memory */

static int new_memory(size_t bytes)
{
    int fd = memfd_create("shoal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    int os_error = errno;
    if (fd >= 0)
        close(fd);
    (void)shoali_fail_os(SHOAL_ESYSTEM, os_error, "cannot make %zu bytes of shared memory", bytes);
    return -1;
}

/* Without the seals, the other process could shrink the file under our feet and kill us by
 * SIGBUS. */
static shoal_status sealed_bytes(int fd, size_t *bytes_out)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 || st.st_size < 0)
        return shoali_fail(SHOAL_ECORRUPT, "shared memory of another process is not sealed");
    *bytes_out = (size_t)st.st_size;
    return SHOAL_OK;
}

static shoal_status map(int fd, size_t bytes, void **at_out)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return shoali_fail_os(SHOAL_ENOMEM, errno, "cannot map %zu bytes of shared memory", bytes);
    (void)madvise(at, bytes, MADV_DONTFORK);
    *at_out = at;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- rings */

static bool is_capacity(size_t bytes)
{
    return bytes >= SHOALI_RING_MIN_BYTES && bytes <= SHOALI_RING_MAX_BYTES &&
           (bytes & (bytes - 1)) == 0;
}

static shoal_status map_ring(int fd, size_t capacity, shoali_ring *ring_out)
{
    void *at;
    SHOALI_TRY(map(fd, SHOALI_RING_HEAD_BYTES + capacity, &at));
    *ring_out = (shoali_ring){fd, at, (uint8_t *)at + SHOALI_RING_HEAD_BYTES, capacity, 0};
    return SHOAL_OK;
}

shoal_status shoali_ring_create(size_t capacity, shoali_ring *ring_out)
{
    if (!is_capacity(capacity))
        return shoali_fail(SHOAL_EINVAL, "a ring of %zu bytes: a power of two from %d to %d",
                           capacity, SHOALI_RING_MIN_BYTES, SHOALI_RING_MAX_BYTES);
    int fd = new_memory(SHOALI_RING_HEAD_BYTES + capacity);
    if (fd < 0)
        return SHOAL_ESYSTEM;
    shoal_status status = map_ring(fd, capacity, ring_out);
    if (status != SHOAL_OK)
        close(fd);
    return status;
}

static shoal_status try_attach(int fd, shoali_ring *ring_out)
{
    size_t bytes;
    SHOALI_TRY(sealed_bytes(fd, &bytes));
    if (bytes <= SHOALI_RING_HEAD_BYTES || !is_capacity(bytes - SHOALI_RING_HEAD_BYTES))
        return shoali_fail(SHOAL_ECORRUPT, "a ring of another process has %zu bytes", bytes);
    return map_ring(fd, bytes - SHOALI_RING_HEAD_BYTES, ring_out);
}

shoal_status shoali_ring_attach(int fd, shoali_ring *ring_out)
{
    shoal_status status = try_attach(fd, ring_out);
    close(fd);
    if (status == SHOAL_OK)
        ring_out->fd = -1;
    return status;
}

void shoali_ring_close_fd(shoali_ring *ring)
{
    if (ring->fd >= 0)
        close(ring->fd);
    ring->fd = -1;
}

void shoali_ring_close(shoali_ring *ring)
{
    if (ring->shared != NULL)
        munmap(ring->shared, SHOALI_RING_HEAD_BYTES + ring->capacity);
    shoali_ring_close_fd(ring);
    *ring = (shoali_ring){.fd = -1};
}

size_t shoali_ring_free(const shoali_ring *ring)
{
    uint64_t used = ring->at - atomic_load_explicit(&ring->shared->head, memory_order_acquire);
    return used <= ring->capacity ? ring->capacity - (size_t)used : SIZE_MAX;
}

bool shoali_ring_tail_kept(const shoali_ring *ring)
{
    return atomic_load_explicit(&ring->shared->tail, memory_order_relaxed) == ring->at;
}

bool shoali_ring_head_kept(const shoali_ring *ring)
{
    return atomic_load_explicit(&ring->shared->head, memory_order_relaxed) == ring->at;
}

size_t shoali_ring_used(const shoali_ring *ring)
{
    uint64_t used = atomic_load_explicit(&ring->shared->tail, memory_order_acquire) - ring->at;
    return used <= ring->capacity ? (size_t)used : SIZE_MAX;
}

void shoali_ring_write(shoali_ring *ring, const void *bytes, size_t len_bytes)
{
    size_t at = ring->at & (ring->capacity - 1);
    size_t first = ring->capacity - at < len_bytes ? ring->capacity - at : len_bytes;
    if (len_bytes > 0) {
        memcpy(ring->data + at, bytes, first);
        memcpy(ring->data, (const uint8_t *)bytes + first, len_bytes - first);
    }
    ring->at += len_bytes;
    atomic_store_explicit(&ring->shared->tail, ring->at, memory_order_release);
}

void shoali_ring_read(shoali_ring *ring, void *bytes, size_t len_bytes)
{
    size_t at = ring->at & (ring->capacity - 1);
    size_t first = ring->capacity - at < len_bytes ? ring->capacity - at : len_bytes;
    if (len_bytes > 0) {
        memcpy(bytes, ring->data + at, first);
        memcpy((uint8_t *)bytes + first, ring->data, len_bytes - first);
    }
    shoali_ring_skip(ring, len_bytes);
}

void shoali_ring_add(shoali_ring *ring, float *sum, size_t count)
{
    enum { PIECE = 1024 };
    const size_t at = ring->at & (ring->capacity - 1);
    const size_t run = (ring->capacity - at) / sizeof(float);
    float piece[PIECE];
    if (at % sizeof(float) != 0) { /* something of odd length went before */
        for (size_t i = 0; i < count; i += PIECE) {
            size_t n = count - i < PIECE ? count - i : PIECE;
            shoali_ring_read(ring, piece, n * sizeof(float));
            shoali_kernel()->add(sum + i, piece, n);
        }
        return;
    }
    const size_t first = run < count ? run : count;
    shoali_kernel()->add(sum, (const float *)(const void *)(ring->data + at), first);
    shoali_kernel()->add(sum + first, (const float *)(const void *)ring->data, count - first);
    shoali_ring_skip(ring, count * sizeof(float));
}

void shoali_ring_skip(shoali_ring *ring, size_t len_bytes)
{
    ring->at += len_bytes;
    atomic_store_explicit(&ring->shared->head, ring->at, memory_order_release);
}

/* ---------------------------------------------------------------- bells */

static shoal_status map_bell(int memory_fd, int event_fd, shoali_bell *bell_out)
{
    void *at;
    SHOALI_TRY(map(memory_fd, SHOALI_RING_HEAD_BYTES, &at));
    *bell_out = (shoali_bell){memory_fd, event_fd, at};
    return SHOAL_OK;
}

shoal_status shoali_bell_create(shoali_bell *bell_out)
{
    shoali_bell bell = {.memory_fd = new_memory(SHOALI_RING_HEAD_BYTES), .event_fd = -1};
    if (bell.memory_fd < 0)
        return SHOAL_ESYSTEM;
    bell.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    shoal_status status = bell.event_fd >= 0
                              ? map_bell(bell.memory_fd, bell.event_fd, bell_out)
                              : shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot make an eventfd");
    if (status != SHOAL_OK)
        shoali_bell_close(&bell);
    return status;
}

static shoal_status try_attach_bell(int memory_fd, int event_fd, shoali_bell *bell_out)
{
    size_t bytes;
    SHOALI_TRY(sealed_bytes(memory_fd, &bytes));
    if (bytes != SHOALI_RING_HEAD_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "a bell of another process has %zu bytes", bytes);
    int flags = fcntl(event_fd, F_GETFL);
    if (flags < 0 || fcntl(event_fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return shoali_fail_os(SHOAL_ECORRUPT, errno, "a bell of another process cannot be rung");
    return map_bell(memory_fd, event_fd, bell_out);
}

shoal_status shoali_bell_attach(int memory_fd, int event_fd, shoali_bell *bell_out)
{
    shoal_status status = try_attach_bell(memory_fd, event_fd, bell_out);
    close(memory_fd);
    if (status == SHOAL_OK)
        bell_out->memory_fd = -1;
    else
        close(event_fd);
    return status;
}

void shoali_bell_close(shoali_bell *bell)
{
    if (bell->asleep != NULL)
        munmap(bell->asleep, SHOALI_RING_HEAD_BYTES);
    if (bell->memory_fd >= 0)
        close(bell->memory_fd);
    if (bell->event_fd >= 0)
        close(bell->event_fd);
    *bell = (shoali_bell){-1, -1, NULL};
}

/* Whoever writes a word here and reads the other side's there needs both in this order, on both
 * sides: without the full fences each could miss the other's word, and both would sleep. */
void shoali_bell_sleep(shoali_bell *bell)
{
    atomic_store_explicit(bell->asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void shoali_bell_wake(shoali_bell *bell)
{
    atomic_store_explicit(bell->asleep, 0, memory_order_relaxed);
}

void shoali_bell_ring(shoali_bell *bell)
{
    static const uint64_t one = 1;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(bell->asleep, memory_order_relaxed) != 0 &&
        atomic_exchange(bell->asleep, 0) != 0)
        (void)!write(bell->event_fd, &one, sizeof one); /* full: it is ringing already */
}

void shoali_bell_clear(shoali_bell *bell)
{
    uint64_t rung;
    (void)!read(bell->event_fd, &rung, sizeof rung);
}
