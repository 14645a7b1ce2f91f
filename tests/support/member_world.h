/* SPDX-License-Identifier: Apache-2.0 */
/* A world of processes that lose each other, in virtual time: src/member itself decides, and what
 * carries its words (connections, doors, meetings, proofs of death) is here, as alive/view.c,
 * door.c, knock.c, join.c and reform.c do it. One seed is one life of a job: who is there, who
 * comes later, which words get lost or late, who is cut off from whom and how, who is stopped, who
 * dies.
 *
 * Rules, checked all the time:
 *   - whatever makes a step goes on from where the last step was made: never two halves
 *   - nobody makes a step in an epoch that is not higher than the one before
 *   - no step is lost: a new epoch knows of all that its members have made
 *   - nobody is asked into an epoch that is not higher than all that it has agreed to
 *   - whoever waits ends in time */
#ifndef SHOALI_TESTS_SUPPORT_MEMBER_WORLD_H
#define SHOALI_TESTS_SUPPORT_MEMBER_WORLD_H

#include "base/rng.h"
#include "member/life.h"
#include "member/member.h"

enum {
    WORLD_NODES = 7,
    WORLD_VIEWS = 400,
    WORLD_TIMEOUT_US = 2500 * 1000,
    WORLD_REFORM_US = 20 * 1000 * 1000,
    WORLD_NOBODY = 255
};

typedef enum word_kind {
    /* of a view */
    WORD_BEAT,
    WORD_LEAVING,
    WORD_MOVED,
    WORD_GOODBYE,
    WORD_DOWN, /* a connection has ended without goodbye */
    WORD_HELLO,
    WORD_READY,
    WORD_GO,
    WORD_ARRIVE, /* at the meeting */
    WORD_TABLE,
    /* of a visit */
    WORD_CALL,
    WORD_HELD,
    WORD_ADMIT,
    WORD_HANG_UP
} word_kind;

typedef struct world_word {
    word_kind kind;
    uint8_t from, to;
    uint16_t view, visit;
    uint8_t where; /* HELD: whom to call; from: stay */
} world_word;

typedef struct world_event {
    uint64_t at_us, order;
    enum { EVENT_WORD, EVENT_TICK, EVENT_FAULT } kind;
    world_word word; /* word.to: whose tick; fault's number */
} world_event;

/** Histories that trouble at random hardly ever makes: five members, of whom the last two are cut
 * off from rank 0, which goes on with ranks 1 and 2; these reach both sides. */
typedef enum world_plan {
    PLAN_RANDOM,
    PLAN_ALL_DIE,    /* ranks 1 and 2 die before they hear GO */
    PLAN_LATE_DEATH, /* they are cut off from 0 before they do, and 2 dies as it has agreed again */
    PLANS
} world_plan;

/** Members of one epoch; made when it is proposed. */
typedef struct world_view {
    uint16_t parent;
    uint32_t size;
    uint8_t nodes[WORLD_NODES];
    uint64_t done[WORLD_NODES]; /* steps of each, when it was proposed */
    shoali_proposal proposal;
    shoali_admit place;
    bool stepped;
} world_view;

typedef struct world_peer {
    bool up, lost, left, moved, leaving, stuck, ready;
    uint64_t heard_us, word_us, said_us;
    shoali_death death;
} world_peer;

/** Connections of one view at one of its members. */
typedef struct world_comm {
    bool open;
    uint16_t view;
    uint32_t me;
    world_peer peers[WORLD_NODES];
    uint64_t beat_us;
    /* while it meets */
    uint8_t arrived;
    bool told, said_ready, go;
    uint64_t ready_us, until_us;
} world_comm;

typedef struct world_call {
    uint8_t node;
    uint16_t visit;
    bool member, held;
    shoali_guest call;
    shoali_proposal doubts[SHOALI_DOUBTS];
} world_call;

typedef enum node_state {
    NODE_ABSENT, /* it comes later */
    NODE_RUN,
    NODE_LOOK,
    NODE_VISIT,
    NODE_LEAD,
    NODE_SEEK,
    NODE_MEET,
    NODE_ENDED
} node_state;

typedef struct world_node {
    node_state state;
    bool dead;
    uint64_t dead_us, paused_until_us, starts_us;
    double rate; /* of its clock */
    uint64_t identity, done, tick_us, deaf_until_us;
    world_comm comm, fresh;
    bool member; /* m is in use */
    shoali_member m;
    uint8_t states[WORLD_NODES];
    uint64_t identities[WORLD_NODES], said_us[WORLD_NODES];
    uint64_t until_us, pause_us; /* of the reform; not before then */
    uint16_t visit;              /* under way; 0: none */
    uint8_t host, seek_next, seek_hops;
    bool answered;
    uint64_t visit_us;
    uint32_t calls;
    world_call door[2 * WORLD_NODES];
} world_node;

typedef struct world {
    shoali_rng rng;
    uint64_t now_us, order, end_us;
    uint32_t nodes, members; /* all; of the first view */
    world_node node[WORLD_NODES];
    bool cut[WORLD_NODES][WORLD_NODES]; /* from, to: words get lost */
    uint64_t proof_us[WORLD_NODES];     /* how long until others can know of a death; 0: never */
    uint64_t last_us[WORLD_NODES][WORLD_NODES][5];
    world_view view[WORLD_VIEWS];
    uint32_t views;
    uint16_t visits;
    uint16_t stepped;         /* the view of the last step */
    uint64_t steps, returned; /* returned: processes that came back as newcomers */
    world_event *heap;
    uint32_t count, capacity;
    world_plan plan;
    bool turned; /* its first GO has been said */
    char violation[200];
    bool trace;
} world;

/** Live one life. @return true: no rule was broken; else world->violation says which */
bool world_live(world *w, uint64_t seed, bool trace);
void world_free(world *w);

/* between the files */
void world_say(world *w, uint8_t from, uint8_t to, word_kind kind, uint16_t view, uint16_t visit,
               uint8_t where);
void world_break(world *w, const char *rule, uint32_t a, uint32_t b);
uint64_t world_random(world *w, uint64_t below);
/** More trouble: soon; before the leader of a view says GO; when a node has proposed a view. */
void world_strike(world *w);
void world_at_go(world *w, uint16_t view);
void world_at_proposal(world *w, uint8_t node);
uint64_t node_now(const world *w, uint8_t node);
uint8_t comm_node(const world *w, const world_comm *comm, uint32_t rank);
uint32_t comm_size(const world *w, const world_comm *comm);
void comm_open(world *w, uint8_t node, world_comm *comm, uint16_t view);
void comm_say(world *w, world_comm *comm, uint8_t node, uint32_t rank, word_kind kind);
void comm_say_all(world *w, world_comm *comm, uint8_t node, word_kind kind);
void comm_lose(world *w, uint8_t node, world_comm *comm, uint32_t rank);
void comm_watch(world *w, uint8_t node, world_comm *comm);
void comm_close(world *w, uint8_t node, world_comm *comm, word_kind how);
void node_tick(world *w, uint8_t node);
void node_hear(world *w, uint8_t node, const world_word *word);
/** The kernel closes what a dead process had open. */
void node_died(world *w, uint8_t node);
void node_enter_first(world *w, uint8_t node);
#endif
