/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel program's slots (innet/xdp/slots.h), compiled here, beside the daemon's
 * (slot_aggregator.c): whatever comes, in whatever order, both do the same and answer with the same
 * bytes; and workers behind a net that loses, repeats and reorders get exact sums from them. Built
 * with SHOALI_XDP_OBJECT, it is the program itself in the kernel of this machine
 * (innet/CMakeLists.txt). */
#include "slots.h"

#include "base/rng.h"
#include "collective/slot.h"
#include "support/check.h"
#ifdef SHOALI_XDP_OBJECT
#include "run_in_kernel.h"
#endif

enum { BLOCK = 4, BYTES = SHOALI_PACKET_BYTES + 64, FLIGHTS = 4096, WORKERS_MOST = 9 };
#ifdef SHOALI_XDP_OBJECT
enum { RUNS = 12 };
#else
enum { RUNS = 150 };
#endif

typedef struct flight {
    uint32_t to, len_bytes; /* to: a worker, or WORKERS_MOST, the aggregator */
    uint8_t bytes[BYTES];
} flight;

typedef struct bench {
    shoali_rng rng;
    shoal_arena *arena;
    shoali_slot_share share;
    shoali_slot_pool pool;
    shoali_kernel_job job;
    shoali_kernel_cell *cells;
    shoali_slot_worker workers[WORKERS_MOST];
    float *inputs, *x; /* [workers][count] */
    flight *flights;
    uint32_t count;
    uint64_t now_us;
} bench;

static uint64_t below(bench *b, uint64_t bound)
{
    return shoali_rng_next(&b->rng) % bound;
}

static void send_to(bench *b, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    for (uint64_t copies = below(b, 8) == 0 ? 0 : 1 + (below(b, 8) == 0); copies > 0; copies--) {
        assert_true(b->count < FLIGHTS && len_bytes <= BYTES);
        flight *f = &b->flights[b->count++];
        *f = (flight){.to = to, .len_bytes = (uint32_t)len_bytes};
        memcpy(f->bytes, bytes, len_bytes);
    }
}

/* ---------------------------------------------------------------- the kernel's side, here */

#ifdef SHOALI_XDP_OBJECT
static void begin_job(const bench *b)
{
    assert_true(run_in_kernel_share(&b->share));
}

static enum slots_verdict in_kernel(const bench *b, uint8_t *packet, size_t *bytes)
{
    (void)b;
    return run_in_kernel(packet, bytes);
}
#else
static void begin_job(const bench *b)
{
    (void)b;
}

static enum slots_verdict in_kernel(bench *b, uint8_t *packet, size_t *bytes)
{
    struct shoali_packet_wire head;
    struct slots_body body = {0};
    uint32_t add, word;
    const uint32_t count = (uint32_t)((*bytes - SHOALI_PACKET_BYTES) / 4);
    memcpy(&head, packet, sizeof head);
    shoali_kernel_cell *cell = &b->cells[SLOTS_16(head.slot)];
    enum slots_verdict verdict = slots_begin(&b->job, cell, &head, count, &add, &body);
    if (verdict == SLOTS_SEND) {
        uint32_t *acc = cell->values[cell->round & 1];
        for (uint32_t i = 0; i < count && add != 0; i++) {
            memcpy(&word, packet + SHOALI_PACKET_BYTES + 4 * i, sizeof word);
            acc[i] = (add == 2 ? acc[i] : 0) + SLOTS_32(word);
        }
        verdict = slots_end(&b->job, cell, &head, &body);
    }
    memcpy(packet, &head, sizeof head);
    *bytes = SHOALI_PACKET_BYTES + 4 * (size_t)body.values;
    for (uint32_t i = 0; i < body.values; i++) {
        word = SLOTS_32(cell->values[body.half][i]);
        memcpy(packet + SHOALI_PACKET_BYTES + 4 * i, &word, sizeof word);
    }
    for (uint32_t i = 0; body.missing && i < SHOALI_PACKET_MISSING_BYTES; i++)
        packet[(*bytes)++] = slots_missing_byte(&b->job, &body, i);
    return verdict;
}

#endif

/* Both take the packet; the answers are compared, and sent. */
static void aggregate(bench *b, const flight *f)
{
    shoali_packet head;
    uint32_t values;
    uint8_t packet[BYTES], answer[BYTES];
    size_t bytes = f->len_bytes, want_bytes = 0;
    if (!shoali_packet_decode(f->bytes, f->len_bytes, &head, &values) ||
        head.slot >= b->share.slots)
        return;
    memcpy(packet, f->bytes, f->len_bytes);
    const shoali_slot_verdict want = shoali_slot_pool_take(&b->pool, &head,
                                                           f->bytes + SHOALI_PACKET_BYTES, values);
    const enum slots_verdict got = in_kernel(b, packet, &bytes);
    assert_int_equal(got, want == SHOALI_SLOT_SEND     ? SLOTS_SEND
                          : want == SHOALI_SLOT_RESEND ? SLOTS_ANSWER
                                                       : SLOTS_DROP);
    if (want == SHOALI_SLOT_SEND)
        memcpy(answer, shoali_slot_pool_result(&b->pool, head.slot, &want_bytes), BYTES / 2);
    else if (want == SHOALI_SLOT_RESEND)
        want_bytes = shoali_slot_pool_answer(&b->pool, &head, answer);
    else
        return;
    assert_int_equal(bytes, want_bytes);
    if (want == SHOALI_SLOT_RESEND && answer[2] == packet[2])
        packet[3] = answer[3]; /* whom it answers is not said the same way everywhere */
    assert_memory_equal(packet, answer, bytes < BYTES / 2 ? bytes : BYTES / 2);
    for (uint32_t w = 0; w < b->share.workers; w++)
        if (want == SHOALI_SLOT_SEND || w == head.worker)
            send_to(b, w, packet, bytes);
}

/* ---------------------------------------------------------------- workers */

static void contribute(bench *b, uint32_t w, uint32_t slot)
{
    uint8_t bytes[BYTES];
    send_to(b, WORKERS_MOST, bytes, shoali_slot_worker_contribution(&b->workers[w], slot, bytes));
}

static void receive(bench *b, const flight *f)
{
    shoali_packet head;
    uint32_t values;
    assert_true(shoali_packet_decode(f->bytes, f->len_bytes, &head, &values));
    if (shoali_slot_worker_take(&b->workers[f->to], &head, f->bytes + SHOALI_PACKET_BYTES, values,
                                b->now_us) == SHOALI_SLOT_SEND)
        contribute(b, f->to, head.slot);
}

/* Nothing is under way: everybody asks. */
static void probe_all(bench *b)
{
    uint8_t bytes[BYTES];
    for (uint32_t w = 0; w < b->share.workers; w++)
        for (uint32_t slot = 0; slot < b->share.slots; slot++)
            if (!b->workers[w].slots[slot].finished)
                send_to(b, WORKERS_MOST, bytes,
                        shoali_slot_worker_probe(&b->workers[w], slot, bytes));
}

static uint32_t open_slots(const bench *b)
{
    uint32_t open = 0;
    for (uint32_t w = 0; w < b->share.workers; w++)
        open += b->workers[w].open;
    return open;
}

static void set_up(bench *b, uint32_t workers, size_t count, bool sparse)
{
    assert_ok(
        shoali_slot_lay_out(count, BLOCK, 1 + (uint32_t)below(b, 5), workers, sparse, &b->share));
    b->share.key = shoali_rng_next(&b->rng);
    assert_ok(shoali_slot_pool_init(&b->pool, &b->share, b->arena));
    b->job = (shoali_kernel_job){.workers = workers,
                                 .block = BLOCK,
                                 .blocks = b->share.blocks,
                                 .slots = b->share.slots,
                                 .sparse = sparse,
                                 .unassigned = b->share.slots};
    b->cells = calloc(b->share.slots, sizeof *b->cells);
    b->inputs = calloc(workers * count, sizeof *b->inputs);
    b->x = calloc(workers * count, sizeof *b->x);
    assert_true(b->cells != NULL && b->inputs != NULL && b->x != NULL);
    for (uint32_t slot = 0; slot < b->share.slots; slot++) {
        b->cells[slot].block = SHOALI_PACKET_NONE;
        b->cells[slot].next = sparse ? SHOALI_PACKET_NONE : slot;
        b->cells[slot].exponent = SHOALI_EXPONENT_ZERO;
    }
    begin_job(b);
    for (uint32_t w = 0; w < workers; w++) {
        for (size_t i = 0; i < count; i++)
            b->inputs[w * count + i] = b->x[w * count + i] = shoali_rng_below(7, w, i / BLOCK, 3) ==
                                                                     0
                                                                 ? 0
                                                                 : (float)below(b, 200) - 100;
        assert_ok(
            shoali_slot_worker_init(&b->workers[w], &b->share, b->x + w * count, w, b->arena));
        shoali_slot_worker_begin(&b->workers[w], 0);
        for (uint32_t slot = 0; slot < b->share.slots; slot++)
            contribute(b, w, slot);
    }
}

static void check_sums(const bench *b)
{
    const size_t count = b->share.count;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (uint32_t w = 0; w < b->share.workers; w++)
            sum += b->inputs[w * count + i];
        for (uint32_t w = 0; w < b->share.workers; w++)
            assert_float_equal(b->x[w * count + i], sum, 1e-4);
    }
}

static void both_do_the_same(void **state)
{
    (void)state;
    static bench b;
    for (uint64_t k = 0; k < RUNS; k++) {
        b = (bench){.rng = {check_seed(), 40 + k, 0}, .arena = shoali_arena_create(1 << 14)};
        b.flights = malloc(FLIGHTS * sizeof *b.flights);
        assert_true(b.arena != NULL && b.flights != NULL);
        set_up(&b, 2 + (uint32_t)below(&b, WORKERS_MOST - 1), 1 + below(&b, 120), k % 2 == 1);
        for (uint32_t steps = 0; open_slots(&b) > 0; steps++) {
            assert_true(steps < 200000);
            if (b.count == 0)
                probe_all(&b);
            if (b.count == 0)
                continue;
            const uint32_t at = below(&b, 3) == 0 ? 0 : (uint32_t)below(&b, b.count);
            const flight f = b.flights[at];
            b.flights[at] = b.flights[--b.count];
            if (f.to == WORKERS_MOST)
                aggregate(&b, &f);
            else
                receive(&b, &f);
        }
        check_sums(&b);
        free(b.flights);
        free(b.cells);
        free(b.inputs);
        free(b.x);
        shoali_arena_destroy(b.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(both_do_the_same)};
#ifdef SHOALI_XDP_OBJECT
    const char *why = run_in_kernel_open(SHOALI_XDP_OBJECT);
    if (why != NULL) {
        printf("skipped: %s\n", why);
        return 77;
    }
#endif
    return CHECK_RUN(tests);
}
