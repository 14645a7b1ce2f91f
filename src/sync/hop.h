/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind hop and d_psgd: replicas on a graph that send their parameters to neighbours,
 * tagged with an iteration. hop.c has the state table; hop_queue.c what is kept per neighbour. */
#ifndef SHOALI_SYNC_HOP_H
#define SHOALI_SYNC_HOP_H

#include "sync/finale.h"

typedef struct shoali_hop_params {
    char graph[SHOALI_KEY_TEXT_BYTES];
    int64_t tokens; /* 0: none */
    int64_t backup, staleness, skip, trigger;
    int32_t weights; /* SHOALI_HOP_LINEAR, SHOALI_HOP_PLAIN */
    bool serial, notify_ack;
} shoali_hop_params;
enum { SHOALI_HOP_LINEAR, SHOALI_HOP_PLAIN };

/** Rows of the table share these. */
size_t shoali_hop_state_size(const shoali_world *world);
uint32_t shoali_hop_slots(const shoali_world *world);
uint32_t shoali_hop_max_staleness(const void *params);
uint32_t shoali_hop_max_gap(const shoali_world *world);
shoal_status shoali_hop_on_event(void *state, const shoali_event *event, shoali_actions *actions);

/** Tokens in force: what was asked for, or what backup, staleness, skip and directed graphs need to
 * be bounded. */
uint64_t shoali_hop_tokens(const shoali_hop_params *params);
/** Rows of the table share these, too: a directed graph has no edges whose ends could keep images
 * of each other, and must be balanced. */
const char *shoali_hop_graph(const void *params);
uint32_t shoali_hop_traits(const shoali_hop_params *params);
shoal_status shoali_hop_fits(const void *params, uint32_t codec_traits, uint32_t workers);

/* ---------------------------------------------------------------- hop_queue.c */

enum { SHOALI_HOP_WINDOW = 4 }; /* own updates that are under way at a time */

/** What a worker knows of a neighbour, and the queue of its updates. The s-th put of one side is
 * the s-th take of the other; tags travel as messages, in the same order. */
typedef struct shoali_hop_edge {
    uint32_t peer;
    bool heard, hears;        /* its updates come here; ours go there */
    bool gone;                /* lost, or has said goodbye */
    bool finished;            /* asks for no more tokens to be waited for */
    bool take_open;           /* take number `arrived` */
    uint32_t puts;            /* a bit per own update of the window that is under way to it */
    float weight;             /* graph.h */
    uint64_t iter;            /* that it is in, as last heard */
    uint64_t acked;           /* notify_ack: own updates that it has used */
    uint64_t head;            /* number of its oldest update that is kept */
    uint64_t arrived, tagged; /* updates that are here; that were announced */
    uint64_t newest;          /* 1 + tag of the newest update that was ever here; 0: none */
    uint64_t *tags;           /* [capacity + window] by number */
} shoali_hop_edge;

typedef struct shoali_hop_queue {
    const shoali_world *world;
    shoali_hop_edge *edges;        /* first those that are heard */
    uint32_t edge_count, capacity; /* updates kept per neighbour */
    uint32_t open;                 /* operations */
    bool paired;            /* hop_images.c: every update of one side meets one of the other */
    uint64_t sent;          /* own updates so far */
    shoali_mix_term *terms; /* [2 * edge_count + 1] */
} shoali_hop_queue;

/** Slots: the finale's, the window of own updates (lossy: images instead), then capacity for each
 * neighbour that is heard. */
uint32_t shoali_hop_queue_slots(uint32_t heard, uint32_t capacity, bool lossy, bool paired);
size_t shoali_hop_queue_bytes(uint32_t edges, uint32_t capacity);
/** memory: shoali_hop_queue_bytes() of zeroes. Fails as shoali_graph_around does. */
SHOAL_MUST_USE shoal_status shoali_hop_queue_start(shoali_hop_queue *queue,
                                                   const shoali_world *world, const char *graph,
                                                   uint32_t edges, uint32_t capacity, bool paired,
                                                   void *memory);

shoali_hop_edge *shoali_hop_queue_edge(const shoali_hop_queue *queue, uint32_t peer);
/** Room in the window for one more own update. */
bool shoali_hop_queue_may_put(const shoali_hop_queue *queue);
/** lossy: no own update is under way, so images are what the neighbours have; else true. */
bool shoali_hop_queue_settled(const shoali_hop_queue *queue);
/** Send PARAM to all that are there and hear it. */
void shoali_hop_queue_put(shoali_hop_queue *queue, uint64_t iteration, shoali_actions *actions);
/** Ask for the next update of every neighbour where there is room. */
void shoali_hop_queue_take(shoali_hop_queue *queue, uint64_t iteration, shoali_actions *actions);
/** An operation ended; false: it was none of these. */
bool shoali_hop_queue_done(shoali_hop_queue *queue, uint64_t id, bool ok, shoali_actions *actions);
/** A neighbour announces its next update; false: more of them than its window allows. */
bool shoali_hop_queue_tag(shoali_hop_queue *queue, shoali_hop_edge *edge, uint64_t tag);
/** Forget updates with tags below this one; with keep_newest all but the newest as well. */
void shoali_hop_queue_drop(shoali_hop_queue *queue, uint64_t below, bool keep_newest);
/** Updates with at least this tag that a neighbour has announced and that are kept or on their
 * way. */
uint64_t shoali_hop_queue_count(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                                uint64_t tag);
/** The slot of a neighbour's update with this tag, or (any) of its newest, to *slot_out and its
 * tag to *tag_out; false: it is not here. */
bool shoali_hop_queue_find(const shoali_hop_queue *queue, const shoali_hop_edge *edge, uint64_t tag,
                           bool any, uint32_t *slot_out, uint64_t *tag_out);
/** Cancel what is open with a neighbour (NULL: with all). */
void shoali_hop_queue_cancel(shoali_hop_queue *queue, shoali_hop_edge *edge,
                             shoali_actions *actions);

/* ---------------------------------------------------------------- hop_images.c */

uint32_t shoali_hop_image_slots(uint32_t edges, bool paired);
/** The slot of what a neighbour knows of this replica. */
uint32_t shoali_hop_image(const shoali_hop_queue *queue, const shoali_hop_edge *edge);
/** Own update `number` for a neighbour; returns its slot. */
uint32_t shoali_hop_image_change(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                                 uint64_t number, shoali_actions *actions);
/** It has gone, and its slot holds what arrives there. */
void shoali_hop_image_sent(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                           uint64_t number, shoali_actions *actions);
/** A neighbour's update is here; `before`: the slot of the one before. */
void shoali_hop_image_came(const shoali_hop_queue *queue, uint32_t slot, uint32_t before,
                           uint64_t number, shoali_actions *actions);
/** paired, settled: average PARAM with the neighbours' updates of this iteration. */
void shoali_hop_images_meet(const shoali_hop_queue *queue, uint64_t iteration,
                            shoali_actions *actions);

#endif
