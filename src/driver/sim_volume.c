/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on links (shoali_sim_links), counted from the same lists of steps that the engine runs.
 * Lists do not depend on the element count and repeat every iteration, so what was counted is
 * kept. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"

static void free_volume(shoali_volume *volume)
{
    shoali_free(volume->loads);
    shoali_free(volume->sent);
    shoali_free(volume->received);
    shoali_free(volume->dense);
    shoali_free(volume->tails);
    shoali_free(volume);
}

void shoali_sim_volume_drop(shoali_volume *volume)
{
    if (volume != NULL && --volume->users == 0)
        free_volume(volume);
}

/* Of an operation among so many, loads at most. */
static uint32_t links_at_most(const shoal_sim *sim, uint32_t size)
{
    const uint32_t more = sim->world.link_count - sim->world.pair_links;
    return 2 * size + more < sim->world.link_count ? 2 * size + more : sim->world.link_count;
}

static shoali_volume *make(shoal_sim *sim, uint32_t size)
{
    shoali_volume *volume = shoali_alloc(sizeof *volume);
    if (volume != NULL) {
        const uint32_t most = links_at_most(sim, size);
        volume->users = 1;
        volume->size = size;
        volume->loads = shoali_alloc_array(most, sizeof *volume->loads);
        volume->sent = shoali_alloc_array(size, sizeof *volume->sent);
        volume->received = shoali_alloc_array(size, sizeof *volume->received);
        volume->dense = shoali_alloc_array(size, sizeof *volume->dense);
        if (volume->loads != NULL && volume->sent != NULL && volume->received != NULL &&
            volume->dense != NULL)
            return volume;
        free_volume(volume);
    }
    shoali_sim_break(sim, SHOAL_ENOMEM);
    return NULL;
}

static shoal_status take_tails(shoali_volume *volume, const uint32_t *tails)
{
    volume->tails = shoali_alloc_array(volume->rounds + 1, sizeof *tails);
    if (volume->tails == NULL)
        return SHOAL_ENOMEM;
    memcpy(volume->tails, tails, volume->rounds * sizeof *tails);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- bytes per element */

/* Part of an operation's range that travels as float32 all the same. */
static double raw_part(const shoal_sim *sim, const shoal_codec *codec, const shoali_sync_op *op)
{
    size_t raw = 0;
    for (uint32_t i = 0; i < sim->tensor_count; i++) {
        const shoal_tensor *t = &sim->tensors[i];
        if (t->offset >= op->offset && t->offset < op->offset + op->count &&
            shoali_codec_keeps(codec, t))
            raw += t->count;
    }
    return op->count > 0 ? (double)raw / (double)op->count : 0;
}

/* ---------------------------------------------------------------- links */

/* sim->world.link_place finds a volume's load of a link: index + 1, 0 for the others. It serves one
 * volume at a time and is zero in between. */
static void load_link(uint32_t *place, shoali_volume *volume, uint32_t link, uint64_t bytes)
{
    if (place[link] == 0) {
        volume->loads[volume->load_count] = (shoali_load){link, 0};
        place[link] = ++volume->load_count;
    }
    volume->loads[place[link] - 1].bytes += bytes;
}

static void places_begin(shoal_sim *sim, const shoali_volume *volume)
{
    for (uint32_t i = 0; i < volume->load_count; i++)
        sim->world.link_place[volume->loads[i].link] = i + 1;
}

static void places_end(shoal_sim *sim, const shoali_volume *volume)
{
    for (uint32_t i = 0; i < volume->load_count; i++)
        sim->world.link_place[volume->loads[i].link] = 0;
}

static void add(shoal_sim *sim, shoali_volume *volume, const shoali_sim_op *op, uint32_t from,
                uint32_t to, uint64_t bytes)
{
    uint32_t links[2];
    volume->sent[from] += bytes;
    volume->received[to] += bytes;
    if (!shoali_sim_links(sim, op->members[from], op->members[to], links))
        return;
    load_link(sim->world.link_place, volume, links[0], bytes);
    if (links[1] != links[0])
        load_link(sim->world.link_place, volume, links[1], bytes);
}

void shoali_sim_volume_add(shoal_sim *sim, shoali_volume *volume, const shoali_sim_op *op,
                           uint32_t from, uint32_t to, uint64_t bytes)
{
    places_begin(sim, volume);
    add(sim, volume, op, from, to, bytes);
    places_end(sim, volume);
}

/* ---------------------------------------------------------------- counting */

typedef struct counting {
    shoal_sim *sim;
    const shoali_sim_op *op;
    shoali_volume *volume;
    const shoal_codec *codecs[2]; /* by leg */
    double raw_part[2];
    uint32_t blocks, most; /* links at most */
    double *round_ns;      /* [rounds][most] of each load's link */
    shoal_arena *arena;    /* of lost */
    shoali_lost lost;      /* opened with the first list */
    uint32_t sender;       /* member whose list is counted */
} counting;

static shoal_op_kind kind_of(const shoali_sync_op *op)
{
    return op->kind == SHOALI_SYNC_BROADCAST ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE;
}

/* One member's list, valid until the next. */
static shoal_status build(const counting *c, uint32_t me, shoal_schedule *schedule_out)
{
    shoali_arena_reset(c->sim->kept.arena);
    const shoal_schedule_args args = {
        .size = c->op->size, .contributors = c->op->contributors, .me = me, .root = c->op->op.root};
    return shoali_collective_build(c->op->collective, kind_of(&c->op->op), &args,
                                   c->sim->kept.arena, schedule_out);
}

static bool is_lossy(void *ctx, uint32_t peer, double *loss_out, double *latency_out)
{
    const counting *c = ctx;
    const uint32_t from = c->op->members[c->sender], to = c->op->members[peer];
    uint32_t links[2];
    if (!shoali_sim_links(c->sim, from, to, links))
        return false;
    *loss_out = shoali_sim_loss(c->sim, from, to);
    *latency_out = (double)shoali_sim_latency_ns(c->sim, from, to) * 1e-9;
    return *loss_out > 0;
}

static shoal_status count_lost(counting *c, const shoal_schedule *schedule, uint32_t me,
                               uint32_t times)
{
    c->sender = me;
    if (c->arena == NULL)
        c->arena = shoali_arena_create(1 << 14);
    if (c->arena == NULL)
        return SHOAL_ENOMEM;
    if (c->lost.messages == NULL)
        SHOALI_TRY(shoali_lost_open(&c->lost, c->arena, schedule->rounds, c->op->size));
    shoali_lost_count(&c->lost, schedule, (shoali_lost_way){is_lossy, c}, times);
    return SHOAL_OK;
}

static uint64_t step_bytes(const counting *c, const shoal_schedule *schedule,
                           const shoal_step *step, uint64_t *dense_inout)
{
    size_t elems = 0;
    for (uint32_t b = step->block; b < step->block + step->block_count; b++) {
        size_t offset, count;
        shoali_schedule_range(schedule, c->op->op.count, b, &offset, &count);
        elems += count;
    }
    double coded = shoal_codec_bytes_per_elem(c->codecs[step->leg], step->parts);
    *dense_inout += (uint64_t)llround((double)elems * sizeof(float) * c->sim->report.inflate);
    double raw = shoali_schedule_inside(schedule, step) ? 1 : c->raw_part[step->leg];
    double each = raw * sizeof(float) + (1 - raw) * coded;
    return (uint64_t)llround((double)elems * each * c->sim->report.inflate);
}

/* What one more message takes of its links in its round. */
static void count_round(counting *c, const shoal_step *step, uint32_t from, uint32_t to,
                        uint64_t bytes)
{
    uint32_t links[2];
    if (!shoali_sim_links(c->sim, c->op->members[from], c->op->members[to], links))
        return;
    for (int i = 0; i < (links[0] == links[1] ? 1 : 2); i++) {
        const size_t at = (size_t)(step->round - 1) * c->most + c->sim->world.link_place[links[i]] -
                          1;
        c->round_ns[at] += (double)bytes / shoali_sim_link_rate(c->sim, links[i]);
    }
}

static shoal_status count_member(counting *c, uint32_t me)
{
    shoal_schedule schedule;
    SHOALI_TRY(build(c, me, &schedule));
    if (c->round_ns == NULL) {
        c->volume->rounds = schedule.rounds;
        c->blocks = schedule.blocks;
        c->round_ns = shoali_alloc_array((size_t)schedule.rounds * c->most, sizeof *c->round_ns);
    }
    if (c->round_ns == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < schedule.count; i++) {
        const shoal_step *step = &schedule.steps[i];
        if (step->kind != SHOAL_SEND)
            continue;
        const uint64_t bytes = step_bytes(c, &schedule, step, &c->volume->dense[me]);
        add(c->sim, c->volume, c->op, me, step->peer, bytes);
        count_round(c, step, me, step->peer, bytes);
    }
    return count_lost(c, &schedule, me, 1);
}

static double chunks_of(const counting *c)
{
    const double block = (double)c->op->op.count / c->blocks;
    return fmax(1, ceil(block / (double)c->sim->chunk_elems));
}

/* Chunks of a block follow each other: those of one round pass beside the next round's, all but the
 * first, for which links of later rounds wait, as in shoal predict's formula: the rounds' busiest
 * links beyond the busiest of all, by the chunks of a block. */
static void count_idle(counting *c)
{
    double busiest_ns = 0, rounds_ns = 0;
    if (c->round_ns == NULL)
        return; /* no rounds */
    for (uint32_t i = 0; i < c->volume->load_count; i++) {
        const shoali_load *load = &c->volume->loads[i];
        busiest_ns = fmax(busiest_ns,
                          (double)load->bytes / shoali_sim_link_rate(c->sim, load->link));
    }
    for (uint32_t round = 0; round < c->volume->rounds; round++) {
        double most_ns = 0;
        for (uint32_t i = 0; i < c->volume->load_count; i++)
            most_ns = fmax(most_ns, c->round_ns[(size_t)round * c->most + i]);
        rounds_ns += most_ns;
    }
    if (rounds_ns > busiest_ns)
        c->volume->idle_ns = (uint64_t)llround((rounds_ns - busiest_ns) / chunks_of(c));
}

/* What of its messages gets lost, and what all wait for it in the rounds. */
static shoal_status end_lost(counting *c)
{
    shoali_lost_load load = {.loss = c->lost.loss, .latency_s = c->lost.latency_s};
    double busiest_ns = 0;
    uint32_t rounds = 0;
    if (!(load.loss > 0))
        return SHOAL_OK;
    for (uint32_t i = 0; i < c->volume->load_count; i++) {
        const shoali_load *l = &c->volume->loads[i];
        const double ns = (double)l->bytes / shoali_sim_link_rate(c->sim, l->link);
        load.packets = ns > busiest_ns ? (double)l->bytes / SHOALI_PACKET_BYTES : load.packets;
        busiest_ns = fmax(busiest_ns, ns);
    }
    for (uint32_t i = 0; i < c->volume->load_count; i++) {
        const shoali_load *l = &c->volume->loads[i];
        const double ns = (double)l->bytes / shoali_sim_link_rate(c->sim, l->link);
        load.links += l->link % 2 == 0 && ns > 0.9 * busiest_ns;
    }
    load.packet_s = busiest_ns * 1e-9 / fmax(load.packets, 1e-9);
    load.messages = shoali_lost_messages(&c->lost, &rounds);
    load.rounds = rounds;
    load.chunks = chunks_of(c);
    c->volume->idle_ns += (uint64_t)(shoali_lost_rounds_s(&load) * 1e9);
    c->volume->loss = load.loss;
    c->volume->latency_s = load.latency_s;
    return take_tails(c->volume, c->lost.tails);
}

/* Members on one host use no link, members on a host each all the same: false, if they do neither.
 * link_place serves as a mark of hosts. */
static bool same_for_all(const counting *c, bool *apart_out)
{
    const uint32_t *members = c->op->members, *hosts = c->sim->world.hosts;
    uint32_t *mark = c->sim->world.link_place, size = c->op->size, seen = 0;
    for (uint32_t m = 0; m < size; m++) {
        seen += mark[2 * hosts[members[m]]] == 0;
        mark[2 * hosts[members[m]]] = 1;
    }
    for (uint32_t m = 0; m < size; m++)
        mark[2 * hosts[members[m]]] = 0;
    *apart_out = seen == size;
    return seen == size || seen == 1;
}

/* Every rank moves what rank 0 moves: one list, whatever the size. */
static shoal_status count_uniform(counting *c, bool apart)
{
    shoal_schedule schedule;
    uint64_t bytes = 0, dense = 0;
    SHOALI_TRY(build(c, 0, &schedule));
    c->volume->rounds = schedule.rounds;
    c->blocks = schedule.blocks;
    SHOALI_TRY(count_lost(c, &schedule, 0, c->op->size));
    for (uint32_t i = 0; i < schedule.count; i++)
        if (schedule.steps[i].kind == SHOAL_SEND)
            bytes += step_bytes(c, &schedule, &schedule.steps[i], &dense);
    for (uint32_t m = 0; m < c->op->size; m++) {
        uint32_t host = c->sim->world.hosts[c->op->members[m]];
        c->volume->sent[m] = c->volume->received[m] = bytes;
        c->volume->dense[m] = dense;
        if (!apart)
            continue;
        load_link(c->sim->world.link_place, c->volume, 2 * host, bytes);
        load_link(c->sim->world.link_place, c->volume, 2 * host + 1, bytes);
    }
    return SHOAL_OK;
}

static shoal_status count(counting *c)
{
    bool uniform = (c->op->collective->row->traits & SHOALI_COLL_UNIFORM) != 0, apart;
    if (c->op->size == 1)
        return SHOAL_OK;
    if (uniform && c->sim->world.pair_links == c->sim->world.link_count &&
        same_for_all(c, &apart)) {
        SHOALI_TRY(count_uniform(c, apart));
        return end_lost(c);
    }
    shoal_status status = SHOAL_OK;
    for (uint32_t me = 0; status == SHOAL_OK && me < c->op->size; me++)
        status = count_member(c, me);
    if (status == SHOAL_OK)
        count_idle(c);
    shoali_free(c->round_ns);
    return status == SHOAL_OK ? end_lost(c) : status;
}

static uint64_t key_of(const shoali_sim_op *op)
{
    uint64_t key = shoali_mix(op->collective->hash, op->op.kind);
    key = shoali_mix(key, ((uint64_t)op->contributors << 32) | op->op.root);
    key = shoali_mix(key, ((uint64_t)op->op.push_coded << 1) | op->op.pull_coded);
    key = shoali_mix(shoali_mix(key, op->op.offset), op->op.count);
    key = shoali_hash(op->members, op->size * sizeof *op->members, key);
    return key != 0 ? key : 1;
}

static shoali_volume *counted(shoal_sim *sim, const shoali_sim_op *op)
{
    counting c = {.sim = sim, .op = op, .volume = make(sim, op->size)};
    if (c.volume == NULL)
        return NULL;
    c.most = links_at_most(sim, op->size);
    c.codecs[SHOAL_PUSH] = op->op.push_coded ? sim->codec : sim->identity;
    c.codecs[SHOAL_PULL] = op->op.pull_coded ? sim->codec : sim->identity;
    for (int leg = 0; leg < 2; leg++)
        c.raw_part[leg] = raw_part(sim, c.codecs[leg], &op->op);
    shoal_status status = count(&c);
    places_end(sim, c.volume);
    shoali_arena_destroy(c.arena);
    if (status == SHOAL_OK)
        return c.volume;
    shoali_sim_break(sim, status);
    shoali_sim_volume_drop(c.volume);
    return NULL;
}

shoali_volume *shoali_sim_volume(shoal_sim *sim, const shoali_sim_op *op)
{
    uint64_t key = key_of(op);
    shoali_volume **kept = &sim->kept.volumes[key % SHOALI_SIM_VOLUMES];
    if (*kept != NULL && (*kept)->key == key) {
        (*kept)->users++;
        return *kept;
    }
    shoali_volume *volume = counted(sim, op);
    if (volume == NULL)
        return NULL;
    volume->key = key;
    volume->users++;
    shoali_sim_volume_drop(*kept);
    *kept = volume;
    return volume;
}

shoali_volume *shoali_sim_volume_measured(shoal_sim *sim, const shoali_sim_op *op)
{
    shoali_volume *usual = shoali_sim_volume(sim, op);
    shoali_volume *volume = usual != NULL ? make(sim, op->size) : NULL;
    if (volume != NULL) {
        volume->rounds = usual->rounds;
        volume->idle_ns = usual->idle_ns;
        volume->loss = usual->loss;
        volume->latency_s = usual->latency_s;
        memcpy(volume->dense, usual->dense, volume->size * sizeof *volume->dense);
        if (usual->tails != NULL && take_tails(volume, usual->tails) != SHOAL_OK) {
            shoali_sim_break(sim, SHOAL_ENOMEM);
            shoali_sim_volume_drop(volume);
            volume = NULL;
        }
    }
    shoali_sim_volume_drop(usual);
    return volume;
}

void shoali_sim_volumes_fini(shoal_sim *sim)
{
    for (uint32_t i = 0; i < SHOALI_SIM_VOLUMES; i++) {
        shoali_sim_volume_drop(sim->kept.volumes[i]);
        sim->kept.volumes[i] = NULL;
    }
}
