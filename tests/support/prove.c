/* SPDX-License-Identifier: Apache-2.0 */
/* Every member holds, per block, the set of contributors in its sum. Blocks stand for their chunks:
 * all chunks of a block meet the same steps. */
#include "support/prove.h"

#include <stdarg.h>
#include <stdio.h>

#include "support/check.h"
#include "support/made_rates.h"

/* What a member knows of one block. */
typedef struct cell {
    uint32_t set;      /* contributors summed */
    uint32_t encoding; /* kept coded bytes: 1 + the member that encoded them; 0: none */
    uint32_t next;     /* first step of the list that is not done with this block */
    uint32_t round;
    uint8_t last_kind; /* of the step before, SHOAL_OWN if there was none */
    bool written, encoded;
} cell;

/* One block on its way. */
typedef struct message {
    uint32_t set, encoding;
    bool sent;
} message;

typedef struct proof {
    const prove_lists *in;
    uint32_t blocks;
    cell *cells;                          /* [size][blocks] */
    uint32_t *partner[PROVE_MEMBERS_MAX]; /* of each SEND and RECV: the step at the other end */
    message *messages[PROVE_MEMBERS_MAX]; /* [step][blocks], filled by SENDs */
    char *why;
} proof;

static bool wrong(proof *p, const char *format, ...) SHOAL_PRINTF(2, 3);

static bool wrong(proof *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->why, PROVE_WHY_BYTES, format, args);
    va_end(args);
    return false;
}

static bool is_receive(const shoal_step *step)
{
    return step->kind == SHOAL_RECV_ADD || step->kind == SHOAL_RECV_SET;
}

static cell *cell_of(proof *p, uint32_t member, uint32_t block)
{
    return &p->cells[member * p->blocks + block];
}

static uint32_t bits(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

static uint32_t all_contributors(const prove_lists *in)
{
    return in->contributors == 32 ? UINT32_MAX : (UINT32_C(1) << in->contributors) - 1;
}

/* The set that a finished block holds. */
static uint32_t wanted(const prove_lists *in, uint32_t block)
{
    if (in->traits & SHOALI_COLL_ROOTED)
        return UINT32_C(1) << in->root;
    return in->traits & SHOALI_COLL_SLOTS ? UINT32_C(1) << block : all_contributors(in);
}

/* The set that a member starts with; 0: its buffer is undefined there. */
static uint32_t initial(const prove_lists *in, uint32_t member, uint32_t block)
{
    if (in->traits & SHOALI_COLL_ROOTED)
        return member == in->root ? UINT32_C(1) << member : 0;
    if (in->kind == SHOAL_ALL_GATHER)
        return member == block ? all_contributors(in) : 0;
    if ((in->traits & SHOALI_COLL_SLOTS) && member != block)
        return 0;
    return member < in->contributors ? UINT32_C(1) << member : 0;
}

/* ---------------------------------------------------------------- each list by itself */

static bool check_step(proof *p, uint32_t member, const shoal_step *step)
{
    const shoal_schedule *list = &p->in->list[member];
    bool own = step->kind == SHOAL_OWN;
    if (step->kind > SHOAL_OWN || step->leg > SHOAL_PULL || (own && step->leg != SHOAL_PULL))
        return wrong(p, "member %u: kind %u with leg %u", member, step->kind, step->leg);
    if (step->peer >= p->in->size || own != (step->peer == member))
        return wrong(p, "member %u: peer %u", member, step->peer);
    if (step->block_count == 0 || step->block >= list->blocks ||
        step->block_count > list->blocks - step->block)
        return wrong(p, "member %u: blocks %u+%u of %u", member, step->block, step->block_count,
                     list->blocks);
    if (step->round > list->rounds || (!own && step->round == 0))
        return wrong(p, "member %u: round %u of %u", member, step->round, list->rounds);
    return true;
}

static bool check_lists(proof *p)
{
    const shoal_schedule *first = &p->in->list[0];
    uint32_t last = 0;
    for (uint32_t m = 0; m < p->in->size; m++) {
        const shoal_schedule *list = &p->in->list[m];
        if (list->blocks != first->blocks || list->rounds != first->rounds ||
            list->slots != first->slots)
            return wrong(p, "member %u: %u blocks and %u rounds, member 0 has %u and %u", m,
                         list->blocks, list->rounds, first->blocks, first->rounds);
        for (uint32_t s = 0; s < list->count; s++) {
            if (!check_step(p, m, &list->steps[s]))
                return false;
            last = list->steps[s].round > last ? list->steps[s].round : last;
        }
    }
    if (last != first->rounds || first->slots != ((p->in->traits & SHOALI_COLL_SLOTS) != 0))
        return wrong(p, "the last round is %u, rounds says %u (slots %d)", last, first->rounds,
                     first->slots);
    return true;
}

static bool same_shape(const shoal_step *a, const shoal_step *b)
{
    return a->kind == b->kind && a->leg == b->leg && a->round == b->round &&
           a->block_count == b->block_count && a->parts == b->parts;
}

static bool check_uniform(proof *p)
{
    const shoal_schedule *first = &p->in->list[0];
    for (uint32_t m = 1; m < p->in->size; m++) {
        const shoal_schedule *list = &p->in->list[m];
        if (list->count != first->count)
            return wrong(p, "UNIFORM: member %u has %u steps, member 0 has %u", m, list->count,
                         first->count);
        for (uint32_t s = 0; s < list->count; s++)
            if (!same_shape(&list->steps[s], &first->steps[s]))
                return wrong(p, "UNIFORM: step %u of member %u differs from member 0's", s, m);
    }
    return true;
}

static bool check_sharded(proof *p)
{
    for (uint32_t m = 0; m < p->in->size; m++) {
        uint32_t owned = 0;
        for (uint32_t s = 0; s < p->in->list[m].count; s++) {
            const shoal_step *step = &p->in->list[m].steps[s];
            if (step->kind != SHOAL_OWN)
                continue;
            owned++;
            if (step->block != m || step->block_count != 1)
                return wrong(p, "SHARDED: member %u owns blocks %u+%u", m, step->block,
                             step->block_count);
        }
        if (owned != 1 || p->blocks != p->in->size)
            return wrong(p, "SHARDED: member %u owns %u times, %u blocks", m, owned, p->blocks);
    }
    return true;
}

/* ---------------------------------------------------------------- both ends of a message */

/* Index of the k-th step of `member` that moves data to (or from) peer; UINT32_MAX if there are
 * fewer. */
static uint32_t kth(const prove_lists *in, uint32_t member, uint32_t peer, bool receive, uint32_t k)
{
    const shoal_schedule *list = &in->list[member];
    for (uint32_t s = 0; s < list->count; s++) {
        const shoal_step *step = &list->steps[s];
        if (step->peer == peer && step->kind != SHOAL_OWN && is_receive(step) == receive &&
            k-- == 0)
            return s;
    }
    return UINT32_MAX;
}

static bool match(proof *p, uint32_t member, uint32_t s, uint32_t k)
{
    const shoal_step *mine = &p->in->list[member].steps[s];
    uint32_t t = kth(p->in, mine->peer, member, !is_receive(mine), k);
    if (t == UINT32_MAX)
        return wrong(p, "step %u of member %u has no partner at member %u", s, member, mine->peer);
    const shoal_step *theirs = &p->in->list[mine->peer].steps[t];
    if (mine->block != theirs->block || mine->block_count != theirs->block_count ||
        mine->leg != theirs->leg || mine->parts != theirs->parts || mine->round != theirs->round)
        return wrong(p, "step %u of member %u and step %u of member %u disagree", s, member, t,
                     mine->peer);
    p->partner[member][s] = t;
    return true;
}

static bool check_matching(proof *p)
{
    for (uint32_t m = 0; m < p->in->size; m++) {
        uint32_t seen[PROVE_MEMBERS_MAX][2] = {{0}};
        for (uint32_t s = 0; s < p->in->list[m].count; s++) {
            const shoal_step *step = &p->in->list[m].steps[s];
            if (step->kind != SHOAL_OWN && !match(p, m, s, seen[step->peer][is_receive(step)]++))
                return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- running them */

static bool run_send(proof *p, cell *c, const shoal_step *step, message *out)
{
    if (!c->written)
        return wrong(p, "sends a block that was never written");
    if (step->leg == SHOAL_PULL && c->encoding == 0)
        return wrong(p, "PULL of a block whose coded bytes it does not keep");
    if (step->leg == SHOAL_PUSH && (c->encoded || c->encoding != 0))
        return wrong(p, "encodes a block twice, or after it was complete");
    if (step->parts != bits(c->set))
        return wrong(p, "parts %u, but %u are summed", step->parts, bits(c->set));
    c->encoded |= step->leg == SHOAL_PUSH;
    *out = (message){c->set, step->leg == SHOAL_PULL ? c->encoding : 0, true};
    return true;
}

static bool run_receive(proof *p, cell *c, const shoal_step *step, const message *in)
{
    if (c->encoding != 0)
        return wrong(p, "receives into a complete block");
    if (step->kind == SHOAL_RECV_ADD &&
        (step->leg != SHOAL_PUSH || !c->written || (c->set & in->set) != 0))
        return wrong(p, "adds set %x to %x", in->set, c->written ? c->set : 0);
    c->set = step->kind == SHOAL_RECV_ADD ? c->set | in->set : in->set;
    c->encoding = in->encoding;
    c->written = true;
    return true;
}

static bool run_own(proof *p, uint32_t member, uint32_t block, const shoal_step *step)
{
    cell *c = cell_of(p, member, block);
    if (!c->written || c->set != wanted(p->in, block) || c->encoded || c->encoding != 0)
        return wrong(p, "owns set %x, wanted %x, or for the second time", c->set,
                     wanted(p->in, block));
    if (step->parts != bits(c->set))
        return wrong(p, "OWN of %u parts, but %u are summed", step->parts, bits(c->set));
    c->encoded = true;
    c->encoding = member + 1;
    return true;
}

/* Rounds may not fall, and grow unless two sends (a fan-out) or two arrivals (a fan-in and its OWN)
 * follow each other. */
static bool check_round(proof *p, cell *c, const shoal_step *step)
{
    bool sends = step->kind == SHOAL_SEND, sent = c->last_kind == SHOAL_SEND;
    uint32_t least = c->round + (sends != sent ? 1 : 0);
    if (step->round < least)
        return wrong(p, "round %u, but it depends on round %u", step->round, c->round);
    c->round = step->round;
    c->last_kind = step->kind;
    return true;
}

/* Do the next step on a block if it can be done now. *moved says whether; false is a violation. */
static bool advance(proof *p, uint32_t member, uint32_t block, bool *moved)
{
    const shoal_schedule *list = &p->in->list[member];
    cell *c = cell_of(p, member, block);
    while (c->next < list->count &&
           block - list->steps[c->next].block >= list->steps[c->next].block_count)
        c->next++;
    *moved = false;
    if (c->next == list->count)
        return true;
    const shoal_step *step = &list->steps[c->next];
    message *at = &p->messages[member][c->next * p->blocks + block];
    if (is_receive(step)) {
        at = &p->messages[step->peer][p->partner[member][c->next] * p->blocks + block];
        if (!at->sent)
            return true;
    }
    *moved = true;
    bool good = step->kind == SHOAL_SEND  ? run_send(p, c, step, at)
                : step->kind == SHOAL_OWN ? run_own(p, member, block, step)
                                          : run_receive(p, c, step, at);
    good = good && check_round(p, c, step);
    if (!good) {
        size_t used = strlen(p->why);
        snprintf(p->why + used, PROVE_WHY_BYTES - used, " (member %u, step %u, block %u)", member,
                 c->next, block);
    }
    c->next++;
    return good;
}

static bool run(proof *p)
{
    for (bool progress = true; progress;) {
        progress = false;
        for (uint32_t m = 0; m < p->in->size; m++)
            for (uint32_t b = 0; b < p->blocks; b++)
                for (bool moved = true; moved; progress |= moved)
                    if (!advance(p, m, b, &moved))
                        return false;
    }
    for (uint32_t m = 0; m < p->in->size; m++)
        for (uint32_t b = 0; b < p->blocks; b++)
            if (cell_of(p, m, b)->next < p->in->list[m].count)
                return wrong(p, "deadlock: member %u waits for ever in step %u, block %u", m,
                             cell_of(p, m, b)->next, b);
    return true;
}

static bool check_results(proof *p)
{
    const prove_lists *in = p->in;
    for (uint32_t m = 0; m < in->contributors; m++)
        for (uint32_t b = 0; b < p->blocks; b++) {
            const cell *c = cell_of(p, m, b);
            if (in->kind == SHOAL_REDUCE_SCATTER && b != m)
                continue;
            if (c->set != wanted(in, b))
                return wrong(p, "block %u of member %u ends as %x, wanted %x", b, m, c->set,
                             wanted(in, b));
            if (in->size > 1 && in->kind != SHOAL_REDUCE_SCATTER &&
                (c->encoding == 0 || c->encoding != cell_of(p, 0, b)->encoding))
                return wrong(p, "block %u has other bits at member %u than at member 0", b, m);
        }
    return true;
}

static bool prove_prepared(proof *p)
{
    const prove_lists *in = p->in;
    for (uint32_t m = 0; m < in->size; m++)
        for (uint32_t b = 0; b < p->blocks; b++) {
            uint32_t set = initial(in, m, b);
            *cell_of(p, m, b) = (cell){.set = set, .written = set != 0, .last_kind = SHOAL_OWN};
        }
    bool shards = (in->traits & SHOALI_COLL_SHARDED) && in->size > 1 &&
                  in->kind != SHOAL_REDUCE_SCATTER;
    return check_lists(p) && (!shards || check_sharded(p)) &&
           (!(in->traits & SHOALI_COLL_UNIFORM) || check_uniform(p)) && check_matching(p) &&
           run(p) && check_results(p);
}

bool prove(const prove_lists *lists, char why[PROVE_WHY_BYTES])
{
    proof p = {.in = lists, .blocks = lists->list[0].blocks, .why = why};
    why[0] = '\0';
    p.cells = calloc((size_t)lists->size * p.blocks + 1, sizeof *p.cells);
    for (uint32_t m = 0; m < lists->size; m++) {
        p.partner[m] = calloc(lists->list[m].count + 1, sizeof *p.partner[m]);
        p.messages[m] = calloc((size_t)lists->list[m].count * p.blocks + 1, sizeof *p.messages[m]);
    }
    bool good = prove_prepared(&p);
    for (uint32_t m = 0; m < lists->size; m++) {
        free(p.partner[m]);
        free(p.messages[m]);
    }
    free(p.cells);
    return good;
}

/* ---------------------------------------------------------------- rows */

shoal_status prove_build(const shoali_collective *collective, shoal_op_kind kind, uint32_t size,
                         uint32_t contributors, uint32_t root, shoal_arena *arena,
                         prove_lists *lists_out)
{
    *lists_out = (prove_lists){.size = size,
                               .contributors = contributors,
                               .root = root,
                               .traits = collective->traits,
                               .kind = kind};
    assert_in_range(size, 1, PROVE_MEMBERS_MAX);
    for (uint32_t m = 0; m < size; m++) {
        shoal_schedule_args args = {size, contributors, m, root, NULL, made_rates(size)};
        shoal_status status = shoali_collective_build(collective, kind, &args, arena,
                                                      &lists_out->list[m]);
        if (status != SHOAL_OK)
            return status;
    }
    return SHOAL_OK;
}

static void prove_collective(const shoali_collective *collective, uint32_t size,
                             uint32_t contributors, uint32_t root)
{
    static const shoal_op_kind summing[] = {SHOAL_ALL_REDUCE, SHOAL_REDUCE_SCATTER,
                                            SHOAL_ALL_GATHER};
    static const shoal_op_kind rooted[] = {SHOAL_BROADCAST};
    uint32_t traits = collective->traits;
    const shoal_op_kind *kinds = traits & SHOALI_COLL_ROOTED ? rooted : summing;
    size_t count = kinds == summing && (traits & SHOALI_COLL_SHARDED) ? 3 : 1;
    for (size_t i = 0; i < count; i++) {
        char why[PROVE_WHY_BYTES];
        prove_lists lists;
        shoal_arena *arena = shoali_arena_create(1 << 16);
        assert_non_null(arena);
        shoal_status status = prove_build(collective, kinds[i], size, contributors, root, arena,
                                          &lists);
        assert_ok(status);
        if (!prove(&lists, why))
            fail_msg("%s, kind %d, %u members (%u contribute), root %u: %s", collective->spec,
                     kinds[i], size, contributors, root, why);
        shoali_arena_destroy(arena);
    }
}

void prove_spec(const char *spec, uint32_t size, uint32_t contributors, uint32_t root)
{
    shoali_collective collective;
    assert_ok(shoali_collective_open(spec, &collective));
    prove_collective(&collective, size, contributors, root);
    shoali_collective_close(&collective);
}

void prove_row(const shoali_collective_row *row, uint32_t size)
{
    shoali_collective collective = {.row = row, .traits = row->traits};
    snprintf(collective.spec, sizeof collective.spec, "%s", row->name);
    prove_collective(&collective, size, size, 0);
}
