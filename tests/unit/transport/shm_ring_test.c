/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "transport/shm_ring.h"

/* Writer and reader as two mappings of one memory. */
static void open_pair(shoali_ring *writer, shoali_ring *reader, size_t capacity)
{
    assert_ok(shoali_ring_create(capacity, writer));
    assert_ok(shoali_ring_attach(dup(writer->fd), reader));
    assert_int_equal(reader->capacity, capacity);
    assert_ptr_not_equal(reader->shared, writer->shared);
}

static void bytes_come_out_as_they_went_in(void **state)
{
    (void)state;
    enum { CAPACITY = 4096, TOTAL = 400000 };
    shoali_ring writer, reader;
    uint8_t bytes[CAPACITY], got[CAPACITY];
    shoali_rng rng = {check_seed(), 6, 0};
    size_t in = 0, out = 0;
    open_pair(&writer, &reader, CAPACITY);
    while (out < TOTAL) {
        size_t room = shoali_ring_free(&writer), there = shoali_ring_used(&reader);
        assert_int_equal(room + there, CAPACITY);
        size_t put = shoali_rng_next(&rng) % (room + 1), take = shoali_rng_next(&rng) % (there + 1);
        for (size_t i = 0; i < put; i++)
            bytes[i] = (uint8_t)((in + i) * 7 + ((in + i) >> 8));
        shoali_ring_write(&writer, bytes, put);
        in += put;
        if (shoali_rng_next(&rng) % 8 == 0) {
            shoali_ring_skip(&reader, take);
        } else {
            shoali_ring_read(&reader, got, take);
            for (size_t i = 0; i < take; i++)
                assert_int_equal(got[i], (uint8_t)((out + i) * 7 + ((out + i) >> 8)));
        }
        out += take;
    }
    shoali_ring_close(&writer);
    shoali_ring_close(&reader);
}

/* Sums come out the same wherever in the ring the floats lie: across its end, at odd addresses. */
static void floats_are_added_from_the_ring(void **state)
{
    (void)state;
    enum { CAPACITY = 8192, MOST = CAPACITY / 4 - 1 };
    shoali_ring writer, reader;
    float values[MOST], sum[MOST], wanted[MOST];
    shoali_rng rng = {check_seed(), 7, 0};
    open_pair(&writer, &reader, CAPACITY);
    for (int round = 0; round < 300; round++) {
        size_t odd = round < 100 ? 0 : shoali_rng_next(&rng) % 4;
        size_t count = shoali_rng_next(&rng) % MOST;
        for (size_t i = 0; i < count; i++) {
            values[i] = (float)(shoali_rng_next(&rng) % 1000) - 500;
            sum[i] = (float)i;
            wanted[i] = (float)i + values[i];
        }
        shoali_ring_write(&writer, "abc", odd);
        shoali_ring_write(&writer, values, count * sizeof(float));
        shoali_ring_skip(&reader, odd);
        shoali_ring_add(&reader, sum, count);
        assert_memory_equal(sum, wanted, count * sizeof(float));
        assert_int_equal(shoali_ring_used(&reader), 0);
    }
    shoali_ring_close(&writer);
    shoali_ring_close(&reader);
}

static void impossible_counters_are_seen(void **state)
{
    (void)state;
    shoali_ring writer, reader;
    open_pair(&writer, &reader, 4096);
    atomic_store(&writer.shared->tail, 4097);
    assert_true(shoali_ring_used(&reader) == SIZE_MAX);
    atomic_store(&writer.shared->tail, (uint64_t)-1);
    assert_true(shoali_ring_used(&reader) == SIZE_MAX);
    atomic_store(&reader.shared->head, 5000);
    assert_true(shoali_ring_free(&writer) == SIZE_MAX);
    assert_false(shoali_ring_tail_kept(&writer));
    assert_false(shoali_ring_head_kept(&reader));
    atomic_store(&writer.shared->tail, writer.at);
    atomic_store(&reader.shared->head, reader.at);
    assert_true(shoali_ring_tail_kept(&writer) && shoali_ring_head_kept(&reader));
    shoali_ring_close(&writer);
    shoali_ring_close(&reader);
}

static int memory(size_t bytes, bool sealed)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return fd;
}

static void foreign_memory_is_checked(void **state)
{
    (void)state;
    shoali_ring ring;
    shoali_bell bell;
    assert_status(shoali_ring_attach(memory(4096 + 4096, false), &ring), SHOAL_ECORRUPT);
    assert_error_has("not sealed");
    assert_status(shoali_ring_attach(memory(4096 + 5000, true), &ring), SHOAL_ECORRUPT);
    assert_status(shoali_ring_attach(memory(4096, true), &ring), SHOAL_ECORRUPT);
    assert_status(shoali_ring_attach(memory(100, true), &ring), SHOAL_ECORRUPT);
    assert_status(shoali_ring_attach(open("/dev/null", O_RDWR | O_CLOEXEC), &ring), SHOAL_ECORRUPT);
    assert_status(shoali_bell_attach(memory(8192, true), memory(1, true), &bell), SHOAL_ECORRUPT);
    assert_status(shoali_ring_create(5000, &ring), SHOAL_EINVAL);
    assert_status(shoali_ring_create(2048, &ring), SHOAL_EINVAL);
}

static void a_ring_cannot_be_shrunk_under_our_feet(void **state)
{
    (void)state;
    shoali_ring ring;
    assert_ok(shoali_ring_create(4096, &ring));
    assert_int_equal(ftruncate(ring.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    shoali_ring_close(&ring);
}

static bool is_ringing(const shoali_bell *bell)
{
    struct pollfd fd = {.fd = bell->event_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void a_bell_rings_for_sleepers_only(void **state)
{
    (void)state;
    shoali_bell owner, peer;
    assert_ok(shoali_bell_create(&owner));
    assert_ok(shoali_bell_attach(dup(owner.memory_fd), dup(owner.event_fd), &peer));
    shoali_bell_wake(&owner);
    shoali_bell_ring(&peer);
    assert_false(is_ringing(&owner));
    shoali_bell_sleep(&owner);
    shoali_bell_ring(&peer);
    assert_true(is_ringing(&owner));
    shoali_bell_clear(&owner);
    shoali_bell_ring(&peer); /* once per sleep is enough */
    assert_false(is_ringing(&owner));
    shoali_bell_close(&peer);
    shoali_bell_close(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_come_out_as_they_went_in),
        CHECK_TEST(floats_are_added_from_the_ring),
        CHECK_TEST(impossible_counters_are_seen),
        CHECK_TEST(foreign_memory_is_checked),
        CHECK_TEST(a_ring_cannot_be_shrunk_under_our_feet),
        CHECK_TEST(a_bell_rings_for_sleepers_only),
    };
    return CHECK_RUN(tests);
}
