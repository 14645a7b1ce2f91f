/* SPDX-License-Identifier: Apache-2.0 */
#include "support/opsworld.h"

#include "base/rng.h"
#include "support/check.h"

enum { CHUNK = 64, MOST_CONTROL = 2048 };

typedef struct opsworld_event {
    struct opsworld_event *next;
    uint16_t kind; /* of a control message; 0: data or a job */
    size_t len_bytes;
    shoal_op *op; /* data: the sender's; NULL: it is no more to arrive */
    bool recalled;
    uint32_t member;
    shoal_data head;
    const void *body;
    uint64_t cookie;
    shoali_job *job;
    uint8_t bytes[];
} event;

static opsworld *the_world;

static opsworld_rank *rank_of(void *ctx)
{
    return ctx;
}

static uint32_t index_of(const void *ctx)
{
    return (uint32_t)((const opsworld_rank *)ctx - the_world->rank);
}

static event *add(uint32_t from, uint32_t to, size_t len_bytes)
{
    event **link = &the_world->first[from][to];
    while (*link != NULL)
        link = &(*link)->next;
    *link = calloc(1, sizeof **link + len_bytes);
    assert_non_null(*link);
    (*link)->len_bytes = len_bytes;
    return *link;
}

/* ------------------------------------------------------------------ the host table */

static void control(void *ctx, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes)
{
    if (rank_of(ctx)->dead)
        return;
    event *e = add(index_of(ctx), endpoint, len_bytes);
    e->kind = kind;
    memcpy(e->bytes, bytes, len_bytes);
}

static void post(void *ctx, shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                 uint64_t cookie)
{
    event *e = add(index_of(ctx), op->plan->members[member], 0);
    rank_of(ctx)->posted++;
    e->op = op;
    e->recalled = rank_of(ctx)->dead;
    e->member = member;
    e->head = *head;
    e->body = body;
    e->cookie = cookie;
}

static void recall(void *ctx, shoal_op *op)
{
    for (uint32_t to = 0; to < the_world->size; to++)
        for (event *e = the_world->first[index_of(ctx)][to]; e != NULL; e = e->next)
            e->recalled |= e->op == op;
}

static void datagram(void *ctx, shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes)
{
    (void)ctx, (void)op, (void)member, (void)bytes, (void)len_bytes;
    fail_msg("no flow of datagrams runs here");
}

static void job(void *ctx, shoali_job *what)
{
    add(index_of(ctx), index_of(ctx), 0)->job = what;
}

static shoal_status number(void *ctx, uint64_t group, uint64_t *number_out)
{
    return shoali_numbers_next(&rank_of(ctx)->ops.numbers, group, number_out);
}

static void plans(void *ctx, bool enter)
{
    opsworld_rank *rank = rank_of(ctx);
    assert_true(rank->among_plans != enter); /* neither twice nor left twice */
    rank->among_plans = enter;
}

static shoali_there there(void *ctx, uint32_t endpoint, const char **why_out)
{
    *why_out = "it went before";
    return rank_of(ctx)->sees[endpoint];
}

static bool begins(void *ctx)
{
    rank_of(ctx)->begun++;
    return !rank_of(ctx)->dead;
}

static bool relayed(void *ctx, uint32_t from, uint32_t to)
{
    return rank_of(ctx)->relays && from + to == 1;
}

static shoal_status links(void *ctx, shoal_op *op, shoali_flow_args *args)
{
    (void)ctx, (void)op, (void)args;
    return SHOAL_OK;
}

static void gone(void *ctx, uint32_t endpoint, const char *why)
{
    (void)why;
    rank_of(ctx)->gone[endpoint] = true;
}

static void doing(void *ctx, uint32_t endpoint, char *text, size_t text_bytes)
{
    (void)ctx;
    snprintf(text, text_bytes, "; rank %u was busy", endpoint);
}

static void over(void *ctx, shoal_op *op)
{
    opsworld_rank *rank = rank_of(ctx);
    if (op->rounds.parent == NULL) {
        assert_true(rank->end_count < OPSWORLD_ENDS);
        opsworld_end *end = &rank->ends[rank->end_count++];
        *end = (opsworld_end){.status = op->status,
                              .error = op->error,
                              .stats = op->stats,
                              .at_us = the_world->now_us};
        memcpy(end->name, op->name, sizeof end->name);
    }
    if (op->extras.on_done != NULL)
        op->extras.on_done(op->extras.done_ctx, op->status, &op->error, &op->stats);
    shoali_op_free(op);
}

static uint64_t now_ns(void)
{
    return the_world->now_us * 1000;
}

/* ------------------------------------------------------------------ create and destroy */

opsworld *opsworld_create(uint32_t size, uint64_t seed)
{
    opsworld *world = the_world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_true(size <= OPSWORLD_MOST);
    world->size = size;
    world->seed = seed;
    world->now_us = 1000 * 1000;
    for (uint32_t r = 0; r < size; r++) {
        opsworld_rank *rank = &world->rank[r];
        snprintf(rank->host, sizeof rank->host, "host%u", r);
        rank->ops = (shoali_ops){.host = {rank, control, post, recall, datagram, job, number, plans,
                                          there, begins, relayed, links, gone, doing, over, now_ns},
                                 .me = r,
                                 .size = size,
                                 .ranks = size,
                                 .chunk_elems = CHUNK,
                                 .timeout_us = 60 * 1000 * 1000,
                                 .seed = 1,
                                 .now_us = &world->now_us,
                                 .busy = &rank->busy};
        assert_ok(shoali_ops_init(&rank->ops));
    }
    for (uint32_t r = 0; r < size; r++)
        for (uint32_t i = 0; i < size; i++)
            world->rank[r].ops.peers[i] = (shoali_ops_peer){world->rank[i].host, i};
    return world;
}

static void drop(event **link)
{
    event *e = *link;
    *link = e->next;
    free(e);
}

void opsworld_destroy(opsworld *world)
{
    for (uint32_t r = 0; r < world->size; r++) {
        for (uint32_t to = 0; to < world->size; to++)
            while (world->first[r][to] != NULL)
                drop(&world->first[r][to]);
        assert_null(world->rank[r].ops.open);
        shoali_ops_free(&world->rank[r].ops, SHOAL_ECANCELLED);
    }
    free(world);
    the_world = NULL;
}

/* ------------------------------------------------------------------ start */

shoal_op *opsworld_start_with(opsworld *world, uint32_t rank, const shoal_op_desc *desc,
                              const shoali_op_extras *extras)
{
    shoal_op *op = NULL;
    assert_ok(shoali_op_make(&world->rank[rank].ops, desc, extras, SHOALI_MAIN_ROUND, &op));
    shoali_run_start(op);
    return op;
}

shoal_op *opsworld_start(opsworld *world, uint32_t rank, const shoal_op_desc *desc)
{
    const shoali_op_extras extras = {.check_finite = true, .error_feedback = true};
    return opsworld_start_with(world, rank, desc, &extras);
}

/* ------------------------------------------------------------------ what happens */

static void take_data(shoali_ops *ops, uint32_t from, const event *e)
{
    uint32_t member;
    shoal_op *op = shoali_take_for(ops, from, &e->head, &member);
    uint8_t *place = op != NULL ? op->row->place(op->flow, member, &e->head) : NULL;
    if (place == NULL)
        return;
    memcpy(place, e->body, e->head.len_bytes);
    shoali_take_frames(ops, from, &e->head, &place, 1);
}

static void finish_round(uint32_t r)
{
    shoali_run_timers(&the_world->rank[r].ops, false);
    shoali_run_reap(&the_world->rank[r].ops);
}

static void happen(uint32_t from, uint32_t to)
{
    event *e = the_world->first[from][to];
    the_world->first[from][to] = e->next;
    if (e->job != NULL) {
        e->job->status = e->job->work(e->job->arg);
        if (e->job->status != SHOAL_OK)
            shoali_error_get(&e->job->error);
        e->job->done(e->job->arg, e->job->status);
    } else if (e->op == NULL) {
        if (!the_world->rank[to].dead)
            assert_int_equal(shoali_take_control(&the_world->rank[to].ops, from, e->kind, e->bytes,
                                                 e->len_bytes),
                             SHOALI_TAKEN);
    } else {
        the_world->now_us += the_world->frame_us;
        if (!the_world->rank[to].dead && !e->recalled)
            take_data(&the_world->rank[to].ops, from, e);
        e->op->row->on_sent(e->op->flow, e->member, e->cookie);
        finish_round(from);
    }
    free(e);
    finish_round(to);
}

static bool can_happen(const opsworld *world, uint32_t from, uint32_t to)
{
    const event *e = world->first[from][to];
    return e != NULL && (!world->cut[from][to] || e->recalled);
}

/* Something that can happen, drawn; false: nothing can. */
static bool step(opsworld *world)
{
    uint32_t some = 0;
    for (uint32_t i = 0; i < world->size * world->size; i++)
        some += can_happen(world, i / world->size, i % world->size);
    if (some == 0)
        return false;
    uint32_t pick = (uint32_t)shoali_rng_below(world->seed, 0, world->draws++, some);
    for (uint32_t i = 0; i < world->size * world->size; i++)
        if (can_happen(world, i / world->size, i % world->size) && pick-- == 0) {
            happen(i / world->size, i % world->size);
            return true;
        }
    return false;
}

void opsworld_run(opsworld *world, uint64_t until_us)
{
    for (;;) {
        uint64_t next_us = UINT64_MAX;
        for (uint32_t r = 0; r < world->size; r++)
            finish_round(r);
        if (step(world))
            continue;
        for (uint32_t r = 0; r < world->size; r++)
            if (shoali_run_next_us(&world->rank[r].ops) < next_us)
                next_us = shoali_run_next_us(&world->rank[r].ops);
        if (next_us == UINT64_MAX || next_us > until_us)
            break;
        world->now_us = next_us > world->now_us ? next_us : world->now_us;
    }
    if (until_us != UINT64_MAX && until_us > world->now_us)
        world->now_us = until_us;
}

void opsworld_kill(opsworld *world, uint32_t rank)
{
    char text[80];
    snprintf(text, sizeof text, "rank %u (host host%u) is lost: it was killed", rank, rank);
    world->rank[rank].dead = true;
    for (uint32_t to = 0; to < world->size; to++)
        for (event **link = &world->first[rank][to]; *link != NULL;) {
            (*link)->recalled |= (*link)->op != NULL;
            if ((*link)->op == NULL && (*link)->job == NULL)
                drop(link);
            else
                link = &(*link)->next;
        }
    shoali_run_cancel_all(&world->rank[rank].ops); /* so that what it had is given back */
    for (uint32_t r = 0; r < world->size; r++) {
        opsworld_rank *other = &world->rank[r];
        if (r == rank || other->dead)
            continue;
        other->sees[rank] = SHOALI_THERE_NOT;
        for (event *e = world->first[r][rank]; e != NULL; e = e->next)
            e->recalled = true;
        shoali_agree_forget(&other->ops, rank);
        shoali_run_peer_lost(&other->ops, rank, SHOAL_EPEER, text);
    }
}

const opsworld_end *opsworld_last(const opsworld *world, uint32_t rank)
{
    assert_true(world->rank[rank].end_count > 0);
    return &world->rank[rank].ends[world->rank[rank].end_count - 1];
}
