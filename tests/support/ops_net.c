/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a life and what its ranks are told: control messages of a pair arrive in order
 * until the pair is lost, data frames overtake each other, packets get lost. A frame's body is read
 * when it is sent, or only when it arrives; its sender gets it back once. */
#include "collective/flow.h"
#include "support/check.h"
#include "support/ops_life.h"

enum { DATAGRAM_BYTES = 1472 };

static life *the_life;

static life_rank *rank_of(void *ctx)
{
    return ctx;
}

static uint32_t index_of(const void *ctx)
{
    return (uint32_t)((const life_rank *)ctx - the_life->rank);
}

/* ------------------------------------------------------------------ the host table */

static uint8_t *copy_of(const void *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes + 1);
    assert_non_null(copy);
    if (len_bytes > 0)
        memcpy(copy, bytes, len_bytes);
    return copy;
}

static void say(uint32_t from, uint32_t to, life_event event, const void *bytes, size_t len_bytes)
{
    life *l = the_life;
    uint64_t *last_us = &l->control_us[from][to];
    if (l->rank[from].dead || l->rank[from].lost[to])
        return;
    const uint64_t at_us = l->now_us + life_delay(l);
    *last_us = at_us > *last_us ? at_us : *last_us;
    event.from = from;
    event.to = to;
    event.bytes = bytes != NULL ? copy_of(bytes, len_bytes) : NULL;
    event.len_bytes = len_bytes;
    life_at(l, *last_us, event);
}

static void control(void *ctx, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes)
{
    say(index_of(ctx), the_life->who[endpoint],
        (life_event){.kind = EVENT_CONTROL, .control = kind}, bytes, len_bytes);
}

/* Its sender gets it back, at the end of a round. */
static void give_back(life_frame *frame, uint64_t after_us)
{
    if (frame->returning)
        return;
    frame->returning = true;
    life_at(the_life, the_life->now_us + after_us,
            (life_event){.kind = EVENT_SENT, .to = frame->from, .frame = frame});
}

static void post(void *ctx, shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                 uint64_t cookie)
{
    life *l = the_life;
    life_frame *frame = calloc(1, sizeof *frame);
    assert_non_null(frame);
    *frame = (life_frame){.next = l->frames,
                          .op = op,
                          .from = index_of(ctx),
                          .to = l->who[op->plan->members[member]],
                          .member = member,
                          .head = *head,
                          .body = body,
                          .cookie = cookie,
                          .early = life_random(l, 2) == 0};
    l->frames = frame;
    if (rank_of(ctx)->lost[frame->to] || rank_of(ctx)->dead)
        give_back(frame, 0);
    else
        life_at(l, l->now_us + (life_random(l, 4) == 0 ? life_delay(l) : 0),
                (life_event){.kind = EVENT_LEAVE, .to = frame->from, .frame = frame});
}

static void recall(void *ctx, shoal_op *op)
{
    (void)ctx;
    for (life_frame *frame = the_life->frames; frame != NULL; frame = frame->next)
        if (frame->op == op && !frame->handed) {
            frame->recalled = true;
            give_back(frame, 0);
        }
}

static void datagram(void *ctx, shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes)
{
    life *l = the_life;
    const life_event event = {.kind = EVENT_DATAGRAM,
                              .from = index_of(ctx),
                              .to = l->who[op->plan->members[member]],
                              .len_bytes = len_bytes};
    for (uint32_t copies = 1 + (life_random(l, 50) == 0); copies > 0; copies--)
        if ((double)life_random(l, 1000) >= l->loss * 1000) {
            life_event one = event;
            one.bytes = copy_of(bytes, len_bytes);
            life_at(l, l->now_us + life_delay(l), one);
        }
}

static void job(void *ctx, shoali_job *what)
{
    life_at(the_life, the_life->now_us + life_delay(the_life),
            (life_event){.kind = EVENT_JOB, .to = index_of(ctx), .job = what});
}

static shoal_status number(void *ctx, uint64_t group, uint64_t *number_out)
{
    return shoali_numbers_next(&rank_of(ctx)->ops.numbers, group, number_out);
}

static void plans(void *ctx, bool enter)
{
    if (rank_of(ctx)->among_plans == enter)
        life_break(the_life, "rank %u is among the plans twice", index_of(ctx));
    rank_of(ctx)->among_plans = enter;
}

static shoali_there there(void *ctx, uint32_t endpoint, const char **why_out)
{
    const life_rank *rank = rank_of(ctx);
    const uint32_t other = the_life->who[endpoint];
    *why_out = rank->lost[other] ? "it is lost" : "it has said goodbye";
    if (rank->lost[other] || rank->left[other])
        return SHOALI_THERE_NOT;
    return rank->leaving || rank->leaves[other] ? SHOALI_THERE_CHANGES : SHOALI_THERE;
}

static bool begins(void *ctx)
{
    return !rank_of(ctx)->dead;
}

static bool relayed(void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx, (void)from, (void)to;
    return false;
}

static shoal_status links(void *ctx, shoal_op *op, shoali_flow_args *args)
{
    (void)ctx;
    args->datagram_bytes = DATAGRAM_BYTES;
    args->datagram_key = shoali_mix(the_life->seed + index_of(ctx),
                                    shoali_mix(op->id.group, op->id.sequence));
    return SHOAL_OK;
}

static void gone(void *ctx, uint32_t endpoint, const char *why)
{
    life_break(the_life, "rank %u gives up rank %u: %s", index_of(ctx), the_life->who[endpoint],
               why);
}

static void doing(void *ctx, uint32_t endpoint, char *text, size_t text_bytes)
{
    (void)ctx, (void)endpoint;
    text[0] = text_bytes > 0 ? '\0' : text[0];
}

static void over(void *ctx, shoal_op *op)
{
    if (op->rounds.parent == NULL)
        life_over(the_life, index_of(ctx), op);
    if (op->extras.on_done != NULL)
        op->extras.on_done(op->extras.done_ctx, op->status, &op->error, &op->stats);
    shoali_op_free(op);
}

static uint64_t now_ns(void)
{
    return the_life->rank[the_life->running].clock_us * 1000;
}

/* ------------------------------------------------------------------ an epoch */

void life_open(life *l)
{
    the_life = l;
    for (uint32_t e = 0; e < l->epoch_size; e++) {
        life_rank *rank = &l->rank[l->who[e]];
        rank->number = e;
        rank->open = true;
        rank->wake_us = 0;
        snprintf(rank->host, sizeof rank->host, "host%u", l->who[e]);
        rank->ops = (shoali_ops){.host = {rank, control, post, recall, datagram, job, number, plans,
                                          there, begins, relayed, links, gone, doing, over, now_ns},
                                 .me = e,
                                 .size = l->epoch_size,
                                 .ranks = l->epoch_size,
                                 .chunk_elems = 16,
                                 .timeout_us = (int64_t)60 * 1000 * 1000,
                                 .seed = 1,
                                 .now_us = &rank->clock_us,
                                 .busy = &rank->busy};
        assert_ok(shoali_ops_init(&rank->ops));
        rank->ops.residuals = rank->kept;
        rank->kept = NULL;
    }
    for (uint32_t e = 0; e < l->epoch_size; e++)
        for (uint32_t i = 0; i < l->epoch_size; i++) /* two ranks of a host each */
            l->rank[l->who[e]].ops.peers[i] = (shoali_ops_peer){l->rank[l->who[i]].host, i & ~1u};
}

void life_close(life *l)
{
    for (uint32_t r = 0; r < l->size; r++) {
        life_rank *rank = &l->rank[r];
        if (!rank->open)
            continue;
        const bool after = life_random(l, 2) == 0;
        if (rank->ops.open != NULL) { /* a rule is broken: nothing is safe any more */
            rank->open = false;
            continue;
        }
        for (uint32_t s = 0; s < LIFE_SHAPES && !after; s++)
            if (rank->plans[s] != NULL)
                shoali_plans_give_up(rank->plans[s]);
        if (shoali_scratch_used_bytes(rank->ops.scratch) > 0)
            life_break(l, "rank %u has %zu bytes of frames left", r,
                       shoali_scratch_used_bytes(rank->ops.scratch));
        rank->kept = rank->ops.residuals; /* as reform/reform.c does */
        rank->ops.residuals = NULL;
        shoali_residuals_reform(rank->kept);
        shoali_ops_free(&rank->ops, SHOAL_ECANCELLED);
        for (uint32_t s = 0; s < LIFE_SHAPES && after; s++)
            if (rank->plans[s] != NULL)
                shoali_plans_give_up(rank->plans[s]);
        memset(rank->plans, 0, sizeof rank->plans);
        rank->open = false;
    }
    for (uint32_t i = 0; i < l->count; i++)
        free(l->heap[i].bytes);
    l->count = 0;
    while (l->frames != NULL) {
        life_frame *next = l->frames->next;
        free(l->frames->copy);
        free(l->frames);
        l->frames = next;
    }
    memset(l->control_us, 0, sizeof l->control_us);
}

/* ------------------------------------------------------------------ what arrives */

static uint32_t number_of(const life *l, uint32_t rank)
{
    return l->rank[rank].number;
}

static shoal_op *receiver(life *l, const life_frame *frame, uint32_t *member_out)
{
    return shoali_take_for(&l->rank[frame->to].ops, number_of(l, frame->from), &frame->head,
                           member_out);
}

static void unplace(life *l, life_frame *frame)
{
    uint32_t member;
    shoal_op *op = frame->place != NULL ? receiver(l, frame, &member) : NULL;
    uint8_t *place = frame->place;
    frame->place = NULL;
    if (op != NULL)
        op->row->unplace(op->flow, member, &frame->head, place);
}

static void take_leave(life *l, life_frame *frame)
{
    if (frame->recalled || frame->returning)
        return;
    frame->handed = true;
    frame->cut = l->breaks_until_us[frame->from][frame->to] > l->now_us && life_random(l, 2) == 0;
    if (frame->early && frame->head.len_bytes > 0)
        frame->copy = copy_of(frame->body, frame->head.len_bytes);
    if (frame->early || frame->cut)
        give_back(frame, life_random(l, 2) == 0 ? life_delay(l) : 0);
    life_at(
        l, l->now_us + life_delay(l),
        (life_event){.kind = EVENT_PLACE, .to = frame->to, .from = frame->from, .frame = frame});
}

static void take_place(life *l, life_frame *frame)
{
    uint32_t member;
    if (frame->cut || l->rank[frame->to].lost[frame->from] || l->rank[frame->to].dead ||
        l->dead_line[frame->from][frame->to])
        return; /* who sent it will hear */
    shoal_op *op = receiver(l, frame, &member);
    frame->place = op != NULL ? op->row->place(op->flow, member, &frame->head) : NULL;
    if (frame->place != NULL)
        life_at(
            l, l->now_us + (life_random(l, 4) == 0 ? life_delay(l) : 0),
            (life_event){.kind = EVENT_BODY, .to = frame->to, .from = frame->from, .frame = frame});
    else
        give_back(frame, 0);
}

/* What a rank's memory may do to what it has coded: the receiver's flow finds out by itself. */
static bool is_garbled(const life *l, const life_frame *frame, const shoal_op *op)
{
    for (uint32_t a = 0; a < l->acts; a++)
        if (op->extras.done_ctx == &l->act[a].part[frame->to])
            return l->act[a].garbles == frame->from && frame->head.len_bytes > 0;
    return false;
}

static void take_body(life *l, life_frame *frame)
{
    uint32_t member;
    uint8_t *place = frame->place;
    if (place == NULL)
        return;
    if (frame->cut) {
        unplace(l, frame);
        return;
    }
    frame->place = NULL;
    shoal_op *op = receiver(l, frame, &member);
    if (op == NULL) {
        life_break(l, "an operation of rank %u has ended, a frame of rank %u was coming", frame->to,
                   frame->from);
        return;
    }
    if (frame->head.len_bytes > 0)
        memcpy(place, frame->copy != NULL ? frame->copy : frame->body, frame->head.len_bytes);
    if (is_garbled(l, frame, op))
        place[0] ^= 1;
    shoali_take_frames(&l->rank[frame->to].ops, number_of(l, frame->from), &frame->head, &place, 1);
    give_back(frame, 0);
}

static void take_sent(life_frame *frame)
{
    shoal_op *op = frame->op;
    frame->op = NULL;
    if (!frame->early)
        frame->cut = true; /* the body is not to be read any more */
    if (op->state == SHOALI_OP_RUNNING)
        op->row->on_sent(op->flow, frame->member, frame->cookie);
    else
        life_break(the_life, "rank %u ended while a frame to rank %u was under way", frame->from,
                   frame->to);
}

static void take_job(shoali_job *what, bool dead)
{
    what->status = dead ? shoali_fail(SHOAL_ECANCELLED, "it is dead") : what->work(what->arg);
    if (what->status != SHOAL_OK)
        shoali_error_get(&what->error);
    what->done(what->arg, what->status);
}

/* ------------------------------------------------------------------ what is lost */

/* What comm/ does when a peer is lost: links first, then operations. */
static void take_down(life *l, uint32_t at, uint32_t about)
{
    life_rank *rank = &l->rank[at];
    char text[96];
    if (rank->lost[about] || rank->dead)
        return;
    rank->lost[about] = true;
    life_tell(l, "rank %u loses rank %u", at, about);
    for (life_frame *frame = l->frames; frame != NULL; frame = frame->next) {
        if (frame->from == about && frame->to == at)
            unplace(l, frame);
        if (frame->from == at && frame->to == about && frame->op != NULL) {
            frame->cut |= !frame->early || !frame->handed;
            frame->recalled |= !frame->handed;
            give_back(frame, 0);
        }
    }
    snprintf(text, sizeof text, "rank %u (host host%u) is lost: nothing comes", number_of(l, about),
             about);
    shoali_agree_forget(&rank->ops, number_of(l, about));
    shoali_run_peer_lost(&rank->ops, number_of(l, about), SHOAL_EPEER, text);
    if (!l->rank[about].dead && !l->rank[about].lost[at]) /* its connection is closed */
        life_at(l, l->now_us + life_delay(l),
                (life_event){.kind = EVENT_DOWN, .to = about, .from = at});
}

static void take_broke(life *l, uint32_t at, uint32_t about)
{
    char text[96];
    if (l->rank[at].lost[about] || l->rank[at].dead)
        return;
    snprintf(text, sizeof text, "rank %u to rank %u: a link is broken", number_of(l, at),
             number_of(l, about));
    shoali_run_link_broke(&l->rank[at].ops, number_of(l, about), text);
}

/* ------------------------------------------------------------------ any event */

static bool is_word(const life_event *e)
{
    return e->kind == EVENT_CONTROL || e->kind == EVENT_LEAVING || e->kind == EVENT_GOODBYE ||
           e->kind == EVENT_DATAGRAM;
}

void life_happen(life *l, const life_event *e)
{
    life_rank *rank = &l->rank[e->to];
    l->running = e->to;
    const bool deaf = rank->dead ||
                      (is_word(e) && (rank->lost[e->from] || l->dead_line[e->from][e->to]));
    switch (e->kind) {
    case EVENT_CONTROL:
        if (!deaf)
            assert_int_equal(shoali_take_control(&rank->ops, number_of(l, e->from), e->control,
                                                 e->bytes, e->len_bytes),
                             SHOALI_TAKEN);
        break;
    case EVENT_DATAGRAM:
        if (!deaf)
            (void)shoali_take_datagram(&rank->ops, number_of(l, e->from), e->bytes, e->len_bytes);
        break;
    case EVENT_LEAVE:
        take_leave(l, e->frame);
        break;
    case EVENT_PLACE:
        take_place(l, e->frame);
        break;
    case EVENT_BODY:
        take_body(l, e->frame);
        break;
    case EVENT_SENT:
        take_sent(e->frame);
        break;
    case EVENT_JOB:
        take_job(e->job, rank->dead);
        break;
    case EVENT_DOWN:
        take_down(l, e->to, e->from);
        break;
    case EVENT_BROKE:
        take_broke(l, e->to, e->from);
        break;
    case EVENT_LEAVING:
        if (deaf)
            break;
        rank->leaves[e->from] = true;
        shoali_run_peer_leaving(&rank->ops, number_of(l, e->from));
        break;
    case EVENT_GOODBYE:
        if (!deaf)
            rank->left[e->from] = true;
        break;
    case EVENT_START:
        life_start(l, e->to, e->act);
        break;
    case EVENT_WAKE:
        break;
    }
    free(e->bytes);
}

/* ------------------------------------------------------------------ between the files */

void life_say(life *l, uint32_t from, life_event_kind kind)
{
    for (uint32_t to = 0; to < l->epoch_size; to++)
        if (l->who[to] != from)
            say(from, l->who[to], (life_event){.kind = kind}, NULL, 0);
}

void life_die(life *l, uint32_t r, bool silent)
{
    life_rank *rank = &l->rank[r];
    rank->dead = true;
    l->running = r;
    l->hurt[r] = true;
    for (uint32_t o = 0; o < l->size; o++) {
        if (o == r)
            continue;
        l->dead_line[o][r] = true;
        l->dead_line[r][o] |= silent;
        const uint64_t heard_us = silent ? l->now_us + LIFE_SILENCE_US : l->control_us[r][o];
        life_at(l, (heard_us > l->now_us ? heard_us : l->now_us) + life_delay(l),
                (life_event){.kind = EVENT_DOWN, .to = o, .from = r});
    }
    for (life_frame *frame = l->frames; frame != NULL; frame = frame->next) {
        if (frame->to == r)
            unplace(l, frame);
        if (frame->from == r && frame->op != NULL) {
            frame->cut |= silent || !frame->early || !frame->handed;
            frame->recalled |= !frame->handed;
            give_back(frame, 0);
        }
    }
    shoali_run_cancel_all(&rank->ops); /* so that its memory comes back; nobody hears of it */
    life_finish_round(l, r);
}

void life_cut(life *l, uint32_t from, uint32_t to)
{
    for (life_frame *frame = l->frames; frame != NULL; frame = frame->next) {
        if (frame->from != from || frame->to != to || !frame->handed || life_random(l, 2) == 0)
            continue;
        frame->cut = true;
        if (frame->op != NULL)
            give_back(frame, 0);
    }
}
