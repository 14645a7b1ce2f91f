/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of collectives.def is proved for 1 to 17 members, with its default keys and with the
 * keys that change its shape; then correct schedules are broken in every way that matters, and the
 * proof has to notice each. */
#include "base/rng.h"
#include "support/check.h"
#include "support/made_rates.h"
#include "support/prove.h"

enum { MOST = 17 };

static void every_row_with_default_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < shoali_collective_count(); i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        if (row->traits & SHOALI_COLL_FLOW)
            continue;
        for (uint32_t size = 1; size <= MOST; size++)
            for (uint32_t root = 0; root < (row->traits & SHOALI_COLL_ROOTED ? size : 1); root++)
                prove_spec(row->name, size, size, root);
    }
}

static void ring_in_both_directions(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++)
        prove_spec("ring:both", size, size, 0);
}

static void broadcast_as_a_tree(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++)
        for (uint32_t root = 0; root < size; root++)
            prove_spec("broadcast:tree", size, size, root);
}

static void direct_with_weights(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (uint32_t size = 1; size <= MOST; size++)
        for (uint32_t draw = 0; draw < 4; draw++) {
            char spec[160] = "direct:weights=";
            uint32_t someone = (uint32_t)shoali_rng_below(seed, size, draw, size);
            for (uint32_t i = 0; i < size; i++) {
                uint64_t weight = i == someone
                                      ? 1
                                      : shoali_rng_below(seed, 1000 + size, 100 * draw + i, 4);
                size_t used = strlen(spec);
                snprintf(spec + used, sizeof spec - used, "%s%u", i > 0 ? "/" : "",
                         (unsigned)weight);
            }
            prove_spec(spec, size, size, 0);
        }
}

/* Lists that follow measured links: whatever the links, every member's list fits the others'. */
static void by_measured_links(void **state)
{
    (void)state;
    static const char *const specs[] = {"direct:weights=auto", "ring:order=auto",
                                        "ring:both,order=auto"};
    for (uint32_t draw = 0; draw < 4; draw++) {
        made_rates_draw(draw);
        for (uint32_t size = 1; size <= MOST; size++)
            for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
                prove_spec(specs[s], size, size, 0);
    }
    made_rates_draw(0);
}

static void any_number_of_servers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= MOST; workers++)
        for (uint32_t servers = 1; servers <= workers; servers++) {
            char spec[64];
            snprintf(spec, sizeof spec, "worker_aggregator:servers=%u", servers);
            prove_spec(spec, workers, workers, 0);
            if (workers + servers > MOST)
                continue;
            snprintf(spec, sizeof spec, "worker_aggregator:servers=%u,dedicated", servers);
            prove_spec(spec, workers + servers, workers, 0);
        }
}

/* dims=a/b/c for all a b c = size, so also with ones, and both exchanges inside. */
static void any_grid(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++)
        for (uint32_t a = 1; a <= size; a++)
            for (uint32_t b = 1; a * b <= size; b++) {
                char spec[64];
                if (size % (a * b) != 0)
                    continue;
                snprintf(spec, sizeof spec, "hierarchical:dims=%u/%u/%u", a, b, size / a / b);
                prove_spec(spec, size, size, 0);
                snprintf(spec, sizeof spec, "hierarchical:dims=%u/%u/%u,inner=direct", a, b,
                         size / a / b);
                prove_spec(spec, size, size, 0);
            }
    prove_spec("hierarchical:dims=2/2/2/2", 16, 16, 0);
}

/* ---------------------------------------------------------------- mutations */

typedef struct mutation {
    const char *what;
    /** Change step s of a list; false: nothing to change here. */
    bool (*apply)(shoal_schedule *list, uint32_t s, uint32_t size);
} mutation;

static bool drop(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    memmove(&list->steps[s], &list->steps[s + 1], (list->count - s - 1) * sizeof list->steps[0]);
    list->count--;
    return true;
}

/* The list has room for one more step. */
static bool duplicate(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    memmove(&list->steps[s + 1], &list->steps[s], (list->count - s) * sizeof list->steps[0]);
    list->count++;
    return true;
}

static bool other_peer(shoal_schedule *list, uint32_t s, uint32_t size)
{
    list->steps[s].peer = (list->steps[s].peer + 1) % size;
    return true;
}

static bool other_block(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].block = (list->steps[s].block + 1) % list->blocks;
    return list->blocks > 1;
}

static bool longer_run(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].block_count++;
    return true;
}

static bool shorter_run(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].block_count--;
    return true;
}

static bool more_parts(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].parts++;
    return true;
}

static bool fewer_parts(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].parts--;
    return true;
}

/* Later than the first message that depends on it; an OWN without one may be as late as it
 * likes. */
static bool later(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].round++;
    return list->steps[s].kind != SHOAL_OWN || list->count > s + 1;
}

static bool earlier(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    return list->steps[s].round-- > 0;
}

static bool other_leg(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].leg = list->steps[s].leg == SHOAL_PUSH ? SHOAL_PULL : SHOAL_PUSH;
    return true;
}

static bool next_kind(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].kind = (uint8_t)((list->steps[s].kind + 1) % (SHOAL_OWN + 1));
    return true;
}

static bool kind_before(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    list->steps[s].kind = (uint8_t)((list->steps[s].kind + SHOAL_OWN) % (SHOAL_OWN + 1));
    return true;
}

static bool opposite_kind(shoal_schedule *list, uint32_t s, uint32_t size)
{
    return next_kind(list, s, size) && next_kind(list, s, size);
}

/* Only where order matters: the two touch a common block, and are not both sends or both
 * receives. */
static bool swap_with_next(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    if (s + 1 == list->count)
        return false;
    shoal_step a = list->steps[s], b = list->steps[s + 1];
    bool apart = a.block + a.block_count <= b.block || b.block + b.block_count <= a.block;
    bool alike = (a.kind == SHOAL_SEND) == (b.kind == SHOAL_SEND) && a.kind != SHOAL_OWN &&
                 b.kind != SHOAL_OWN;
    list->steps[s] = b;
    list->steps[s + 1] = a;
    return !apart && !alike;
}

/* Two messages to one peer in the wrong order meet each other's receives. */
static bool swap_messages(shoal_schedule *list, uint32_t s, uint32_t size)
{
    (void)size;
    shoal_step a = list->steps[s];
    for (uint32_t t = s + 1; t < list->count; t++) {
        shoal_step b = list->steps[t];
        if (a.kind != SHOAL_SEND || b.kind != SHOAL_SEND || a.peer != b.peer || a.block == b.block)
            continue;
        list->steps[s] = b;
        list->steps[t] = a;
        return true;
    }
    return false;
}

static const mutation mutations[] = {
    {"drop", drop},
    {"duplicate", duplicate},
    {"other peer", other_peer},
    {"other block", other_block},
    {"longer run", longer_run},
    {"shorter run", shorter_run},
    {"more parts", more_parts},
    {"fewer parts", fewer_parts},
    {"later round", later},
    {"earlier round", earlier},
    {"other leg", other_leg},
    {"next kind", next_kind},
    {"opposite kind", opposite_kind},
    {"kind before", kind_before},
    {"swap with next", swap_with_next},
    {"swap messages", swap_messages},
};
enum { MUTATIONS = sizeof mutations / sizeof mutations[0] };

/* Apply one mutation to one step of a copy; the proof must refuse the result. Returns whether there
 * was one. */
static bool refuse_mutation(const prove_lists *right, const char *spec, uint32_t member, uint32_t s,
                            const mutation *m)
{
    char why[PROVE_WHY_BYTES];
    prove_lists broken = *right;
    shoal_schedule *list = &broken.list[member];
    shoal_step *copy = calloc(list->count + 1, sizeof *copy);
    memcpy(copy, list->steps, list->count * sizeof *copy);
    list->steps = copy;
    bool applied = m->apply(list, s, right->size);
    if (applied && prove(&broken, why))
        fail_msg("%s with %u members: '%s' of step %u of member %u went unnoticed", spec,
                 right->size, m->what, s, member);
    free(copy);
    return applied;
}

/* Change both ends of the message that starts at step s of a member in the same way: only the
 * meaning can tell. */
static bool refuse_pair(const prove_lists *right, const char *spec, uint32_t member, uint32_t s,
                        const mutation *m)
{
    char why[PROVE_WHY_BYTES];
    prove_lists broken = *right;
    const shoal_step *send = &right->list[member].steps[s];
    uint32_t k = 0, t = 0, peer = send->peer;
    if (send->kind != SHOAL_SEND)
        return false;
    for (uint32_t i = 0; i < s; i++)
        k += right->list[member].steps[i].kind == SHOAL_SEND &&
             right->list[member].steps[i].peer == peer;
    for (const shoal_step *r = right->list[peer].steps;; r++, t++)
        if (r->peer == member && (r->kind == SHOAL_RECV_ADD || r->kind == SHOAL_RECV_SET) &&
            k-- == 0)
            break;
    shoal_step *copies[2] = {calloc(right->list[member].count + 1, sizeof *copies[0]),
                             calloc(right->list[peer].count + 1, sizeof *copies[1])};
    memcpy(copies[0], right->list[member].steps, right->list[member].count * sizeof *copies[0]);
    memcpy(copies[1], right->list[peer].steps, right->list[peer].count * sizeof *copies[1]);
    broken.list[member].steps = copies[0];
    broken.list[peer].steps = copies[1];
    bool applied = m->apply(&broken.list[member], s, right->size) &&
                   m->apply(&broken.list[peer], t, right->size);
    if (applied && prove(&broken, why))
        fail_msg("%s with %u members: '%s' of message %u of member %u went unnoticed", spec,
                 right->size, m->what, s, member);
    free(copies[0]);
    free(copies[1]);
    return applied;
}

static const mutation pair_mutations[] = {
    {"drop", drop},
    {"other block", other_block},
    {"longer run", longer_run},
    {"shorter run", shorter_run},
    {"more parts", more_parts},
    {"fewer parts", fewer_parts},
    {"other leg", other_leg},
};
enum { PAIR_MUTATIONS = sizeof pair_mutations / sizeof pair_mutations[0] };

/* Returns how many mutations were refused. */
static size_t refuse_all(const char *spec, uint32_t size, uint32_t contributors, uint32_t root,
                         shoal_op_kind kind)
{
    char why[PROVE_WHY_BYTES];
    size_t refused = 0;
    prove_lists lists;
    shoali_collective collective;
    shoal_arena *arena = shoali_arena_create(1 << 16);
    assert_ok(shoali_collective_open(spec, &collective));
    assert_ok(prove_build(&collective, kind, size, contributors, root, arena, &lists));
    assert_true(prove(&lists, why));
    for (uint32_t member = 0; member < size; member++)
        for (uint32_t s = 0; s < lists.list[member].count; s++) {
            for (size_t m = 0; m < MUTATIONS; m++)
                refused += refuse_mutation(&lists, spec, member, s, &mutations[m]);
            for (size_t m = 0; m < PAIR_MUTATIONS; m++)
                refused += refuse_pair(&lists, spec, member, s, &pair_mutations[m]);
        }
    shoali_collective_close(&collective);
    shoali_arena_destroy(arena);
    return refused;
}

static void no_mutation_goes_unnoticed(void **state)
{
    (void)state;
    static const char *const shapes[] = {"ring:both", "direct:weights=2/1/0/3",
                                         "hierarchical:dims=2/2,inner=direct",
                                         "worker_aggregator:servers=2", "broadcast:tree"};
    size_t refused = 0;
    for (size_t i = 0; i < shoali_collective_count(); i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        bool rooted = row->traits & SHOALI_COLL_ROOTED;
        if (row->traits & SHOALI_COLL_FLOW)
            continue;
        for (uint32_t size = 2; size <= 6; size++)
            refused += refuse_all(row->name, size, size, rooted ? 1 : 0,
                                  rooted ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE);
        for (uint32_t size = 2; size <= 4 && (row->traits & SHOALI_COLL_SHARDED); size++) {
            refused += refuse_all(row->name, size, size, 0, SHOAL_REDUCE_SCATTER);
            refused += refuse_all(row->name, size, size, 0, SHOAL_ALL_GATHER);
        }
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        refused += refuse_all(shapes[i], 4, 4, 0, i == 4 ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE);
    refused += refuse_all("direct:weights=auto", 4, 4, 0, SHOAL_ALL_REDUCE);
    refused += refuse_all("ring:order=auto", 5, 5, 0, SHOAL_REDUCE_SCATTER);
    refused += refuse_all("worker_aggregator:servers=2,dedicated", 5, 3, 0, SHOAL_ALL_REDUCE);
    print_message("%zu mutations refused\n", refused);
    assert_true(refused > 10000);
}

/* ---------------------------------------------------------------- what mutations do not reach */

/* Lists that agree with each other in every field, and still cannot run or are wrong. */
static bool two_members(const shoal_step *a, uint32_t a_count, const shoal_step *b,
                        uint32_t b_count, uint32_t blocks, uint16_t rounds,
                        char why[PROVE_WHY_BYTES])
{
    shoal_step copy[2][8];
    memcpy(copy[0], a, a_count * sizeof *a);
    memcpy(copy[1], b, b_count * sizeof *b);
    prove_lists lists = {.size = 2,
                         .contributors = 2,
                         .kind = SHOAL_ALL_REDUCE,
                         .list = {{copy[0], a_count, blocks, rounds, false},
                                  {copy[1], b_count, blocks, rounds, false}}};
    return prove(&lists, why);
}

static void deadlock_and_divergence_are_seen(void **state)
{
    (void)state;
    char why[PROVE_WHY_BYTES];
    const shoal_step waits0[] = {{SHOAL_RECV_ADD, SHOAL_PUSH, 1, 1, 0, 1, 1},
                                 {SHOAL_SEND, SHOAL_PUSH, 1, 1, 0, 1, 1}};
    const shoal_step waits1[] = {{SHOAL_RECV_ADD, SHOAL_PUSH, 1, 0, 0, 1, 1},
                                 {SHOAL_SEND, SHOAL_PUSH, 1, 0, 0, 1, 1}};
    assert_false(two_members(waits0, 2, waits1, 2, 1, 1, why));
    assert_non_null(strstr(why, "deadlock"));

    /* both add the other's value: right sums, but each rank keeps its own rounding of them */
    const shoal_step swap0[] = {{SHOAL_SEND, SHOAL_PUSH, 1, 1, 0, 1, 1},
                                {SHOAL_RECV_ADD, SHOAL_PUSH, 1, 1, 0, 1, 1}};
    const shoal_step swap1[] = {{SHOAL_SEND, SHOAL_PUSH, 1, 0, 0, 1, 1},
                                {SHOAL_RECV_ADD, SHOAL_PUSH, 1, 0, 0, 1, 1}};
    assert_false(two_members(swap0, 2, swap1, 2, 1, 1, why));

    /* one block is summed, the other forgotten */
    const shoal_step half0[] = {{SHOAL_RECV_ADD, SHOAL_PUSH, 1, 1, 0, 1, 1},
                                {SHOAL_OWN, SHOAL_PULL, 1, 0, 0, 1, 2},
                                {SHOAL_SEND, SHOAL_PULL, 2, 1, 0, 1, 2}};
    const shoal_step half1[] = {{SHOAL_SEND, SHOAL_PUSH, 1, 0, 0, 1, 1},
                                {SHOAL_RECV_SET, SHOAL_PULL, 2, 0, 0, 1, 2}};
    assert_false(two_members(half0, 3, half1, 2, 2, 2, why));
    assert_true(two_members(half0, 3, half1, 2, 1, 2, why));
    assert_false(two_members(half0, 3, half1, 2, 1, 3, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_row_with_default_keys),
        CHECK_TEST(ring_in_both_directions),
        CHECK_TEST(broadcast_as_a_tree),
        CHECK_TEST(direct_with_weights),
        CHECK_TEST(by_measured_links),
        CHECK_TEST(any_number_of_servers),
        CHECK_TEST(any_grid),
        CHECK_TEST(no_mutation_goes_unnoticed),
        CHECK_TEST(deadlock_and_divergence_are_seen),
    };
    return CHECK_RUN(tests);
}
