/* SPDX-License-Identifier: Apache-2.0 */
/* Every frame has an entry from send() until its owner hears of it:
 *
 *   HELD    waits for its time (delay), or for the next frame to the same peer (reorder)
 *   INSIDE  with the inner transport, once or twice (dup), under the entry's number as cookie
 *   LOST    dropped: its owner hears "sent" at the next progress(), the receiver nothing
 *   MUTE    its peer is cut off: nobody hears anything until the peer is dropped */
#include "transport/fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "wire/frame.h"

enum { REORDER_HOLD_US = 20000, FIRST_ENTRIES = 64 };

typedef enum { FREE, HELD, INSIDE, LOST, MUTE } entry_state;

typedef struct entry {
    entry_state state;
    uint32_t peer;
    uint8_t tos;
    uint8_t left; /* INSIDE: times that the inner transport still has it */
    bool until_next, twice, corrupt;
    shoal_status status;
    shoal_data head;
    const void *body;
    uint64_t cookie, due_us;
} entry;

typedef struct fault {
    shoali_fault_params params;
    const shoali_transport_row *inner;
    void *inner_state;
    void *own_params; /* of the inner one, when this transport made it */
    shoali_transport_events events;
    shoali_transport_args args;
    bool active;    /* this endpoint is the one */
    bool *cut, *up; /* per peer */
    entry *entries;
    size_t capacity, used; /* used: entries that are not FREE */
    uint64_t draws, frames;
    bool corrupt_next;
} fault;

#define AT(field) offsetof(shoali_fault_params, field)
static const shoali_key keys[] = {
    {"drop", SHOALI_KEY_FLOAT, AT(drop), 0, 1, NULL, "0", "probability that a frame is lost"},
    {"dup", SHOALI_KEY_FLOAT, AT(dup), 0, 1, NULL, "0", "probability that a frame is sent twice"},
    {"reorder", SHOALI_KEY_FLOAT, AT(reorder), 0, 1, NULL, "0",
     "probability that the next frame overtakes"},
    {"corrupt", SHOALI_KEY_FLOAT, AT(corrupt), 0, 1, NULL, "0",
     "probability that a bit of the header flips"},
    {"delay_us", SHOALI_KEY_INT, AT(delay_us), 0, 1e9, NULL, "0",
     "a frame waits up to this many microseconds"},
    {"cut", SHOALI_KEY_INT, AT(cut), -1, 1e15, NULL, "-1",
     "frames after which the link goes silent; -1: never"},
    {"kill", SHOALI_KEY_INT, AT(kill), -1, 1e15, NULL, "-1",
     "frames after which the process dies; -1: never"},
    {"peer", SHOALI_KEY_INT, AT(peer), -1, UINT32_MAX, NULL, "-1",
     "towards this rank only; -1: all"},
    {"rank", SHOALI_KEY_INT, AT(rank), -1, UINT32_MAX, NULL, "-1", "at this rank only; -1: all"},
    {"seed", SHOALI_KEY_INT, AT(seed), 0, 1e15, NULL, "1", "of the plan"},
    {"over", SHOALI_KEY_TEXT, AT(over), 0, 0, NULL, "tcp", "name of the transport behind"},
};

static uint64_t now_of(const fault *f)
{
    return f->args.now_us(f->args.now_ctx);
}

static bool strikes(fault *f, double probability)
{
    return probability > 0 &&
           shoali_rng_double((uint64_t)f->params.seed, f->args.me, f->draws++) < probability;
}

static bool is_target(const fault *f, uint32_t peer)
{
    return f->active && (f->params.peer < 0 || f->params.peer == (int64_t)peer);
}

/* ---------------------------------------------------------------- entries */

static entry *new_entry(fault *f)
{
    for (size_t i = 0; i < f->capacity; i++)
        if (f->entries[i].state == FREE)
            return &f->entries[i];
    size_t bigger = f->capacity > 0 ? 2 * f->capacity : FIRST_ENTRIES;
    entry *grown = shoali_realloc(f->entries, f->capacity * sizeof *grown, bigger * sizeof *grown);
    if (grown == NULL)
        return NULL;
    entry *fresh = &grown[f->capacity];
    f->entries = grown;
    f->capacity = bigger;
    return fresh;
}

/* Free the entry, then tell its owner: who may send again at once. */
static void finish(fault *f, size_t i, shoal_status status)
{
    entry done = f->entries[i];
    f->entries[i].state = FREE;
    f->used--;
    f->events.sent(f->events.ctx, done.peer, done.cookie, status);
}

/* What the inner transport does not have goes back to its owner. */
static void finish_held(fault *f, uint32_t peer, shoal_status status)
{
    for (size_t i = 0; i < f->capacity; i++)
        if (f->entries[i].peer == peer && f->entries[i].state != FREE &&
            f->entries[i].state != INSIDE)
            finish(f, i, status);
}

/* ---------------------------------------------------------------- events of the inner transport */

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    fault *f = ctx;
    return f->cut[peer] ? NULL : f->events.place(f->events.ctx, peer, head);
}

static float *on_place_add(void *ctx, uint32_t peer, const shoal_data *head)
{
    fault *f = ctx;
    return f->cut[peer] || f->events.place_add == NULL
               ? NULL
               : f->events.place_add(f->events.ctx, peer, head);
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    fault *f = ctx;
    if (!f->cut[peer]) {
        f->events.frames(f->events.ctx, peer, heads, bodies, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        f->events.unplace(f->events.ctx, peer, &heads[i], bodies[i]);
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    fault *f = ctx;
    f->events.unplace(f->events.ctx, peer, head, body);
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    fault *f = ctx;
    (void)peer;
    entry *e = &f->entries[cookie];
    if (status != SHOAL_OK)
        e->status = status;
    if (--e->left == 0)
        finish(f, cookie, e->status);
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    fault *f = ctx;
    if (!f->cut[peer])
        f->events.control(f->events.ctx, peer, kind, bytes, len_bytes);
}

static void on_peer_up(void *ctx, uint32_t peer)
{
    fault *f = ctx;
    f->up[peer] = true;
    f->events.peer_up(f->events.ctx, peer);
}

static void on_peer_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    fault *f = ctx;
    if (f->cut[peer])
        return; /* nothing comes through a cut link, not even the end */
    f->up[peer] = false;
    finish_held(f, peer, why == SHOAL_OK ? SHOAL_EPEER : why);
    f->events.peer_down(f->events.ctx, peer, why, text);
}

static void on_link_down(void *ctx, uint32_t peer, bool lost, const char *text)
{
    fault *f = ctx;
    if (!f->cut[peer] && f->events.link_down != NULL)
        f->events.link_down(f->events.ctx, peer, lost, text);
}

/* One bit of the header: the checksum finds it wherever it is. */
static void on_tamper(void *ctx, uint8_t *header)
{
    fault *f = ctx;
    if (!f->corrupt_next)
        return;
    uint64_t bit = shoali_rng_below((uint64_t)f->params.seed, f->args.me, f->draws++,
                                    8 * SHOALI_FRAME_BYTES);
    header[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* ---------------------------------------------------------------- open and close */

static shoal_status find_inner(fault *f)
{
    f->inner = f->params.inner;
    if (f->inner != NULL)
        return SHOAL_OK;
    f->inner = shoali_transport_find(f->params.over);
    if (f->inner == NULL)
        return SHOAL_EINVAL;
    if (f->inner == &shoali_transport_fault)
        return shoali_fail(SHOAL_EINVAL, "transport 'fault' cannot stand in front of itself");
    f->own_params = shoali_alloc(f->inner->schema.params_size);
    if (f->own_params == NULL)
        return SHOAL_ENOMEM;
    f->params.inner_params = f->own_params;
    return shoali_spec_parse("transport", f->params.over, &f->inner->schema, f->own_params);
}

static shoal_status open_inner(fault *f)
{
    shoali_transport_events events = {.ctx = f,
                                      .place = on_place,
                                      .place_add = on_place_add,
                                      .frames = on_frames,
                                      .unplace = on_unplace,
                                      .sent = on_sent,
                                      .control = on_control,
                                      .peer_up = on_peer_up,
                                      .peer_down = on_peer_down,
                                      .link_down = on_link_down};
    shoali_transport_args args = f->args;
    SHOALI_TRY(find_inner(f));
    args.params = f->params.inner_params;
    args.tamper = on_tamper;
    args.tamper_ctx = f;
    f->cut = shoali_alloc_array(args.size, sizeof *f->cut);
    f->inner_state = shoali_alloc(f->inner->state_size);
    f->up = shoali_alloc_array(args.size, sizeof *f->up);
    if (f->cut == NULL || f->up == NULL || f->inner_state == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = f->inner->open(f->inner_state, &args, &events);
    if (status != SHOAL_OK) {
        shoali_free(f->inner_state);
        f->inner_state = NULL;
    }
    return status;
}

static void fault_close(void *state)
{
    fault *f = state;
    if (f->inner_state != NULL)
        f->inner->close(f->inner_state);
    for (size_t i = 0; i < f->capacity; i++)
        if (f->entries[i].state != FREE)
            finish(f, i, SHOAL_ECANCELLED);
    shoali_free(f->inner_state);
    shoali_free(f->own_params);
    shoali_free(f->cut);
    shoali_free(f->up);
    shoali_free(f->entries);
    *f = (fault){0};
}

static shoal_status fault_open(void *state, const shoali_transport_args *args,
                               const shoali_transport_events *events)
{
    fault *f = state;
    *f = (fault){
        .params = *(const shoali_fault_params *)args->params, .events = *events, .args = *args};
    f->active = f->params.rank < 0 || f->params.rank == (int64_t)args->me;
    shoal_status status = open_inner(f);
    if (status != SHOAL_OK) {
        shoal_error error;
        shoali_error_get(&error);
        fault_close(f);
        return shoali_error_set(&error);
    }
    f->args.interface = f->args.toward = f->args.job = NULL; /* borrowed for open alone */
    f->args.token = NULL;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- sending */

static shoal_status send_once(fault *f, size_t i)
{
    entry e = f->entries[i];
    f->corrupt_next = e.corrupt;
    shoal_status status = f->inner->send(f->inner_state, e.peer, e.tos, &e.head, e.body, i);
    f->corrupt_next = false;
    if (status == SHOAL_OK)
        f->entries[i].left++;
    return status;
}

/* Hand a frame to the inner transport; it may have gone and come back when this returns. */
static shoal_status put_inside(fault *f, size_t i)
{
    bool twice = f->entries[i].twice;
    f->entries[i].state = INSIDE;
    f->entries[i].left = 1; /* ours: keeps the entry while two sends go out */
    f->entries[i].status = SHOAL_OK;
    shoal_status status = send_once(f, i);
    if (status == SHOAL_OK && twice)
        (void)send_once(f, i); /* the copy may fail: the frame has gone */
    if (--f->entries[i].left == 0 && status == SHOAL_OK)
        finish(f, i, f->entries[i].status);
    return status;
}

static void put_inside_or_finish(fault *f, size_t i)
{
    shoal_status status = put_inside(f, i);
    if (status != SHOAL_OK)
        finish(f, i, status);
}

/* A frame has gone to this peer: whoever waited to be overtaken follows. */
static void release_waiting(fault *f, uint32_t peer)
{
    for (size_t i = 0; i < f->capacity; i++)
        if (f->entries[i].state == HELD && f->entries[i].until_next && f->entries[i].peer == peer)
            put_inside_or_finish(f, i);
}

static void count_frame(fault *f, uint32_t peer)
{
    int64_t before = (int64_t)f->frames++;
    if (f->params.kill >= 0 && before >= f->params.kill) {
        shoali_log(INFO, "fault: the plan kills this process after %lld frames", (long long)before);
        (void)kill(getpid(), SIGKILL);
    }
    if (f->params.cut >= 0 && before >= f->params.cut && !f->cut[peer]) {
        shoali_log(INFO, "fault: the plan cuts the link to rank %u after %lld frames", peer,
                   (long long)before);
        f->cut[peer] = true;
    }
}

static void plan(fault *f, entry *e)
{
    if (f->cut[e->peer]) {
        e->state = MUTE;
        return;
    }
    if (!is_target(f, e->peer))
        return;
    e->corrupt = strikes(f, f->params.corrupt);
    e->twice = strikes(f, f->params.dup);
    if (strikes(f, f->params.drop)) {
        e->state = LOST;
    } else if (strikes(f, f->params.reorder)) {
        e->state = HELD;
        e->until_next = true;
        e->due_us = now_of(f) + REORDER_HOLD_US;
    } else if (f->params.delay_us > 0) {
        e->state = HELD;
        e->due_us = now_of(f) + shoali_rng_below((uint64_t)f->params.seed, f->args.me, f->draws++,
                                                 (uint64_t)f->params.delay_us + 1);
    }
}

static shoal_status fault_send(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                               const void *body, uint64_t cookie)
{
    fault *f = state;
    if (peer >= f->args.size || !f->up[peer])
        return shoali_fail(SHOAL_EPEER, "no connection to rank %u", peer);
    if (head->len_bytes > SHOALI_FRAME_MAX_BODY_BYTES) /* now, not when its time has come */
        return shoali_fail(SHOAL_EINVAL, "frame of %u bytes", head->len_bytes);
    entry *e = new_entry(f);
    if (e == NULL)
        return SHOAL_ENOMEM;
    if (is_target(f, peer))
        count_frame(f, peer);
    *e = (entry){
        .state = INSIDE, .peer = peer, .tos = tos, .head = *head, .body = body, .cookie = cookie};
    plan(f, e);
    f->used++;
    if (e->state != INSIDE)
        return SHOAL_OK;
    size_t i = (size_t)(e - f->entries);
    shoal_status status = put_inside(f, i);
    if (status != SHOAL_OK) {
        f->entries[i].state = FREE;
        f->used--;
        return status;
    }
    release_waiting(f, peer);
    return SHOAL_OK;
}

static shoal_status fault_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                                  size_t len_bytes)
{
    fault *f = state;
    if (peer < f->args.size && f->cut[peer])
        return SHOAL_OK;
    return f->inner->control(f->inner_state, peer, kind, bytes, len_bytes);
}

static void fault_progress(void *state, uint64_t now_us)
{
    fault *f = state;
    for (size_t i = 0; i < f->capacity && f->used > 0; i++) {
        if (f->entries[i].state == LOST) {
            finish(f, i, SHOAL_OK);
        } else if (f->entries[i].state == HELD && f->entries[i].due_us <= now_us) {
            put_inside_or_finish(f, i);
        }
    }
    f->inner->progress(f->inner_state, now_us);
}

static uint64_t fault_next_wake_us(const void *state)
{
    const fault *f = state;
    uint64_t wake_us = f->inner->next_wake_us(f->inner_state);
    for (size_t i = 0; i < f->capacity && f->used > 0; i++) {
        uint64_t due_us = f->entries[i].state == LOST ? 0 : f->entries[i].due_us;
        if ((f->entries[i].state == LOST || f->entries[i].state == HELD) && due_us < wake_us)
            wake_us = due_us;
    }
    return wake_us;
}

/* ---------------------------------------------------------------- passed through */

static void fault_address(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    const fault *f = state;
    f->inner->address(f->inner_state, out);
}

static shoal_status fault_add_peer(void *state, uint32_t peer, const char *address)
{
    fault *f = state;
    return f->inner->add_peer(f->inner_state, peer, address);
}

static int fault_fd(const void *state)
{
    const fault *f = state;
    return f->inner->fd(f->inner_state);
}

static void fault_drop_peer(void *state, uint32_t peer, bool polite)
{
    fault *f = state;
    if (peer >= f->args.size)
        return;
    f->up[peer] = false;
    f->inner->drop_peer(f->inner_state, peer, polite && !f->cut[peer]);
    finish_held(f, peer, SHOAL_ECANCELLED);
}

static void fault_peer_stats(const void *state, uint32_t peer, shoal_peer_stats *stats_add)
{
    const fault *f = state;
    f->inner->peer_stats(f->inner_state, peer, stats_add);
}

static void fault_links(const void *state, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES])
{
    const fault *f = state;
    out[0] = '\0';
    if (f->inner->links != NULL)
        f->inner->links(f->inner_state, peer, out);
}

static void fault_forked(void *state)
{
    fault *f = state;
    if (f->inner_state != NULL)
        f->inner->forked(f->inner_state);
}

const shoali_transport_row shoali_transport_fault = {
    .name = "fault",
    .about = "another transport with faults drawn from a seed: for tests of what is built on it",
    .traits = SHOALI_TRANSPORT_STREAM | SHOALI_TRANSPORT_CONTROL,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(shoali_fault_params)},
    .state_size = sizeof(fault),
    .open = fault_open,
    .address = fault_address,
    .add_peer = fault_add_peer,
    .send = fault_send,
    .control = fault_control,
    .fd = fault_fd,
    .progress = fault_progress,
    .next_wake_us = fault_next_wake_us,
    .drop_peer = fault_drop_peer,
    .peer_stats = fault_peer_stats,
    .links = fault_links,
    .close = fault_close,
    .forked = fault_forked,
};
