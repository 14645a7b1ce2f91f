/* SPDX-License-Identifier: Apache-2.0 */
/* Workers at their final mean (sync/finale.c), in a world where one random thing happens after the
 * other: a letter arrives, an operation ends, somebody dies in the middle of what it says, links
 * break both ways or one way, with a reset or so that each end notices when it does, or are slow
 * for a while. alive/view.c and the driver are here as far as the machine can tell: who is lost,
 * what is known of its death, and the end of a worker that reaches only a minority. */
#ifndef SHOALI_TESTS_SUPPORT_FINALE_WORLD_H
#define SHOALI_TESTS_SUPPORT_FINALE_WORLD_H

#include "base/rng.h"
#include "sync/finale.h"

enum { FINALE_MOST = 7, FINALE_QUEUE = 128, FINALE_BYTES = 16, FINALE_SUMS = 128 };

typedef struct finale_letter {
    bool down; /* the sender is gone; nothing comes after it */
    shoali_down how;
    size_t len_bytes;
    uint8_t bytes[FINALE_BYTES];
} finale_letter;

/** What a worker knows of another. */
typedef struct finale_peer {
    bool closed; /* it has lost it: it says and hears nothing more */
    bool fresh;  /* it may hear of its death, if it dies */
    shoali_down how;
} finale_peer;

typedef struct finale_node {
    shoali_world world;
    shoali_finale finale;
    shoali_actions actions;
    uint64_t memory[FINALE_MOST * 4];
    finale_peer peers[FINALE_MOST];
    bool asked, through, away, dead, behind;
    uint64_t timer_us;    /* 0: none */
    uint64_t slot, param; /* which sum: the attempt's number, 0: its own */
    uint64_t op;          /* that runs; 0: none */
    uint32_t members;     /* bitmap */
} finale_node;

/** One attempt's operation: who has begun it, and for whom it broke. */
typedef struct finale_sum {
    uint64_t op;
    uint32_t begun, broke;
} finale_sum;

typedef struct finale_world {
    uint32_t size, breaks; /* links that have broken */
    uint32_t deaths;
    finale_sum sums[FINALE_SUMS];
    finale_node nodes[FINALE_MOST];
    finale_letter mail[FINALE_MOST][FINALE_MOST][FINALE_QUEUE]; /* from, to */
    uint32_t letters[FINALE_MOST][FINALE_MOST];
    bool mute[FINALE_MOST][FINALE_MOST]; /* what from says to the other is lost */
    bool slow[FINALE_MOST][FINALE_MOST];
    uint32_t committed; /* so many have */
    shoali_rng rng;
} finale_world;

/** How much trouble there may be. */
typedef struct finale_plan {
    uint32_t alive;      /* so many do not die at least */
    uint32_t breaks;     /* one link at a time */
    uint32_t partitions; /* all links between two sides */
    bool resets_only;    /* both ends of a broken link hear of it by themselves */
    bool no_proof;       /* nobody ever learns that somebody has died */
    bool strikes;        /* who is the first to commit is cut off with some others at once */
} finale_plan;

/** Live one life, until everybody is dead, through or left behind. False: it comes to no end. */
bool finale_live(finale_world *w, uint64_t seed, const finale_plan *plan);
/** Some workers that live reach each other, and may decide for all. */
bool finale_some_could(const finale_world *w);
void finale_free(finale_world *w);

#endif
