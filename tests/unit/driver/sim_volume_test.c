/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include "support/check.h"

enum { COUNT = 1200 };

static const shoal_tensor one_tensor[] = {{.key = 1, .count = COUNT, .lr_scale = 1}};
static const shoal_tensor half_raw[] = {
    {.key = 1, .count = 900, .lr_scale = 1},
    {.key = 2, .offset = 900, .count = 300, .flags = SHOAL_TENSOR_RAW, .lr_scale = 1}};

typedef struct fixture {
    shoal_sim *sim;
    shoali_collective collective;
    shoali_sim_op op;
} fixture;

/* An operation of all the simulation's endpoints. */
static void open_op(fixture *f, const shoal_sim_desc *desc, const char *collective)
{
    memset(f, 0, sizeof *f);
    assert_ok(shoal_sim_create(desc, &f->sim));
    assert_ok(shoali_collective_open(collective, &f->collective));
    f->op = (shoali_sim_op){.size = f->sim->size,
                            .contributors = f->sim->workers,
                            .members = f->sim->world.endpoint_ids,
                            .collective = &f->collective};
    f->op.op = (shoali_sync_op){.count = COUNT, .push_coded = true, .pull_coded = true};
}

static void close_op(fixture *f)
{
    shoali_collective_close(&f->collective);
    shoal_sim_destroy(f->sim);
}

static shoal_sim_desc describe(uint32_t workers)
{
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = workers;
    desc.tensors = one_tensor;
    desc.tensor_count = 1;
    return desc;
}

static uint64_t on_link(const shoali_volume *volume, uint32_t link)
{
    for (uint32_t i = 0; i < volume->load_count; i++)
        if (volume->loads[i].link == link)
            return volume->loads[i].bytes;
    return 0;
}

static void a_ring_loads_every_link_alike(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(6);
    fixture f;
    open_op(&f, &desc, "ring");
    shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
    const uint64_t bytes = 2 * 5 * (COUNT / 6) * 4;
    assert_int_equal(volume->load_count, 12);
    assert_int_equal(volume->rounds, 10);
    for (uint32_t m = 0; m < 6; m++) {
        assert_int_equal(volume->sent[m], bytes);
        assert_int_equal(volume->received[m], bytes);
        assert_int_equal(on_link(volume, 2 * m), bytes);
        assert_int_equal(on_link(volume, 2 * m + 1), bytes);
    }
    shoali_sim_volume_drop(volume);
    close_op(&f);
}

/* Three workers a host: of the ring's six hops two leave a host. */
static void members_of_one_host_spare_its_link(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(6);
    fixture f;
    desc.network = "links:hosts=2";
    open_op(&f, &desc, "ring");
    shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
    assert_int_equal(volume->load_count, 4);
    for (uint32_t link = 0; link < 4; link++)
        assert_int_equal(on_link(volume, link), 2 * 5 * (COUNT / 6) * 4);
    assert_int_equal(volume->sent[1], 2 * 5 * (COUNT / 6) * 4);
    shoali_sim_volume_drop(volume);
    close_op(&f);
}

static void a_dedicated_server_carries_everything(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(5);
    fixture f;
    desc.sync = "param_server:dedicated";
    desc.codec = "fp16";
    open_op(&f, &desc, "worker_aggregator:dedicated");
    f.op.op.pull_coded = false; /* gradients up in two bytes, weights down in four */
    shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
    assert_int_equal(volume->received[5], 5 * COUNT * 2);
    assert_int_equal(volume->sent[5], 5 * COUNT * 4);
    assert_int_equal(on_link(volume, 2 * 5 + 1), 5 * COUNT * 2);
    assert_int_equal(on_link(volume, 2 * 5), 5 * COUNT * 4);
    assert_int_equal(on_link(volume, 0), COUNT * 2);
    assert_int_equal(volume->idle_ns, 5 * COUNT * 2 * 8); /* at 1 Gbit/s: one chunk is all */
    shoali_sim_volume_drop(volume);
    close_op(&f);
}

/* The way out of a lone server begins when the first chunk of all is in; who sends at once has
 * nothing to wait for, but for a fifth member that is folded in (its 1200 elements before the other
 * rounds, a third of them, a chunk of each block); in a chain every member waits for one chunk
 * more. */
static void the_first_chunk_has_a_way_to_go(void **state)
{
    (void)state;
    static const struct {
        const char *collective;
        uint64_t chunks;
    } cases[] = {{"worker_aggregator", 4},
                 {"worker_aggregator:servers=5", 0},
                 {"direct", 0},
                 {"halving_doubling", 4},
                 {"broadcast", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_sim_desc desc = describe(5);
        fixture f;
        desc.chunk_elems = 100;
        open_op(&f, &desc, cases[i].collective);
        if (strcmp(cases[i].collective, "broadcast") == 0)
            f.op.op.kind = SHOALI_SYNC_BROADCAST;
        shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
        assert_int_equal(volume->idle_ns, cases[i].chunks * 100 * 4 * 8);
        shoali_sim_volume_drop(volume);
        close_op(&f);
    }
}

/* Two hosts of three: inside a host each sends 2 * 2/3 of the operation in four bytes an element,
 * between hosts a sixth twice in two. */
static void inside_a_site_float32_travels(void **state)
{
    (void)state;
    static const struct {
        const char *network;
        uint64_t across; /* bytes that leave a host */
    } cases[] = {{"links:hosts=2", 3 * (COUNT / 6) * 2 * 2}, {"links", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_sim_desc desc = describe(6);
        fixture f;
        desc.codec = "fp16";
        desc.network = cases[i].network;
        open_op(&f, &desc, "hierarchical:site=3");
        shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
        for (uint32_t m = 0; m < 6; m++)
            assert_int_equal(volume->sent[m], COUNT * 4 / 3 * 4 + COUNT / 6 * 2 * 2);
        if (cases[i].across > 0)
            for (uint32_t link = 0; link < 4; link++)
                assert_int_equal(on_link(volume, link), cases[i].across);
        shoali_sim_volume_drop(volume);
        close_op(&f);
    }
}

static void raw_tensors_stay_float32(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(2);
    fixture f;
    desc.codec = "fp16";
    desc.tensors = half_raw;
    desc.tensor_count = 2;
    open_op(&f, &desc, "worker_aggregator");
    shoali_volume *volume = shoali_sim_volume(f.sim, &f.op);
    assert_int_equal(volume->sent[1], 900 * 2 + 300 * 4);
    shoali_sim_volume_drop(volume);
    close_op(&f);
}

static void what_was_counted_is_kept(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(3);
    fixture f;
    open_op(&f, &desc, "ring");
    shoali_volume *a = shoali_sim_volume(f.sim, &f.op), *b = shoali_sim_volume(f.sim, &f.op);
    assert_ptr_equal(a, b);
    f.op.op.count = 600;
    shoali_volume *c = shoali_sim_volume(f.sim, &f.op);
    assert_ptr_not_equal(a, c);
    for (uint32_t i = 0; i < SHOALI_SIM_VOLUMES; i++) { /* push the first out of the store */
        f.op.op.count = 3 + i;
        shoali_sim_volume_drop(shoali_sim_volume(f.sim, &f.op));
    }
    assert_int_equal(a->sent[0], 4 * COUNT / 3 * 4); /* still ours */
    shoali_sim_volume_drop(a);
    shoali_sim_volume_drop(b);
    shoali_sim_volume_drop(c);
    close_op(&f);
}

static void measured_bytes_replace_the_count(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(3);
    fixture f;
    open_op(&f, &desc, "ring");
    shoali_volume *volume = shoali_sim_volume_measured(f.sim, &f.op);
    assert_int_equal(volume->load_count, 0);
    assert_int_equal(volume->rounds, 4);
    shoali_sim_volume_add(f.sim, volume, &f.op, 0, 1, 10);
    shoali_sim_volume_add(f.sim, volume, &f.op, 0, 2, 5);
    assert_int_equal(volume->sent[0], 15);
    assert_int_equal(volume->received[2], 5);
    assert_int_equal(on_link(volume, 0), 15);
    assert_int_equal(on_link(volume, 3), 10);
    shoali_sim_volume_drop(volume);
    close_op(&f);
}

static void what_the_row_cannot_carry_breaks_the_run(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe(3);
    fixture f;
    open_op(&f, &desc, "worker_aggregator:servers=4");
    assert_null(shoali_sim_volume(f.sim, &f.op));
    assert_int_equal(f.sim->status, SHOAL_EINVAL);
    close_op(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_ring_loads_every_link_alike),
        CHECK_TEST(members_of_one_host_spare_its_link),
        CHECK_TEST(a_dedicated_server_carries_everything),
        CHECK_TEST(the_first_chunk_has_a_way_to_go),
        CHECK_TEST(inside_a_site_float32_travels),
        CHECK_TEST(raw_tensors_stay_float32),
        CHECK_TEST(what_was_counted_is_kept),
        CHECK_TEST(measured_bytes_replace_the_count),
        CHECK_TEST(what_the_row_cannot_carry_breaks_the_run),
    };
    return CHECK_RUN(tests);
}
