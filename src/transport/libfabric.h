/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the transport libfabric: data by an endpoint of libfabric, all else by the row tcp inside
 * it, whose control connections prove who is who and say who has died or left, whatever the
 * provider tells. Per peer a link:
 *
 *   the control connection stands -> MEETING -> UP -> (dead)
 *
 * MEETING: each side sends a tag, which only the two know, and a first fragment by libfabric; once
 * that has come it says so on the control connection, and is up when the other has said so, too.
 *
 * Frames are bytes of a stream, cut into numbered fragments. They are copied into memory of the
 * link and out of it: so it is registered once, a peer that is dropped gives bodies back at once,
 * and there is a buffer ready for whatever may come, because at most `window` fragments are
 * neither acknowledged nor consumed. A frame counts as sent when its last one is acknowledged: on
 * the control connection, where that waits behind no data of the other direction. */
#ifndef SHOALI_TRANSPORT_LIBFABRIC_H
#define SHOALI_TRANSPORT_LIBFABRIC_H

#include "transport/address.h"
#include "transport/ofi.h"
#include "transport/outbox.h"
#include "wire/frame.h"

enum {
    SHOALI_LF_MAX_WINDOW = 64,
    SHOALI_LF_HEAD_BYTES = 16, /* of a fragment: kind, number, payload, acknowledged */
    SHOALI_LF_GREETINGS = 1,   /* buffers for fragments without payload, each way */
    SHOALI_LF_BATCH = 16,
    SHOALI_LF_TICK_US = 1000 /* while something is on its way that may not wake us */
};

typedef struct shoali_lf_params {
    char provider[SHOALI_KEY_TEXT_BYTES], domain[SHOALI_KEY_TEXT_BYTES];
    int64_t fragment_bytes, window, port;
    bool plain; /* data between hosts is not encrypted, and may be so */
    bool shm;   /* read by the comm, as tcp's */
} shoali_lf_params;

/* One buffer, and what it is used for. */
typedef struct shoali_lf_slot {
    shoali_ofi_op op; /* first: completions point to it */
    struct shoali_lf_link *link;
    uint8_t *bytes;
    size_t len_bytes; /* to send; received */
    enum {
        SHOALI_LF_SEND,
        SHOALI_LF_SEND_GREETING,
        SHOALI_LF_RECEIVE,
        SHOALI_LF_RECEIVE_GREETING
    } use;
    bool under_way; /* with the provider */
    bool waits;     /* to be handed to it again: it could not take it */
} shoali_lf_slot;

/* A frame whose bytes have all gone into fragments. */
typedef struct shoali_lf_flying {
    uint64_t cookie;
    uint32_t last, body_bytes; /* last: the fragment of its end */
} shoali_lf_flying;

/** What comes in by a link. */
typedef struct shoali_lf_incoming {
    uint32_t expected, told; /* told: acknowledged so far */
    bool in_body;
    uint8_t header[SHOALI_FRAME_BYTES];
    size_t header_got;
    shoali_frame frame;
    uint8_t *body;
    uint32_t got;
    shoal_data heads[SHOALI_LF_BATCH];
    uint8_t *bodies[SHOALI_LF_BATCH];
    size_t complete;
} shoali_lf_incoming;

typedef struct shoali_lf_link {
    struct shoali_lf *lf;
    struct shoali_lf_link *next; /* of the dead */
    uint32_t peer;
    bool dead, up;
    bool greeted, fabric_said, fabric_heard, fabric_sent; /* steps of the meeting */
    bool failed;           /* the provider could not deliver: the control connection may say why */
    uint64_t failed_us;    /* judge then */
    uint64_t give_up_us;   /* the meeting */
    char failed_text[160]; /* the provider's words */
    uint64_t address, my_tag, their_tag;
    uint32_t fragment_bytes, window; /* the smaller of both sides' */
    uint32_t under_way;              /* slots with the provider */
    uint8_t *memory;
    shoali_ofi_memory lent;
    shoali_lf_slot *slots; /* window sends, window receives, greeting out, in */
    shoali_lf_slot *arrived[SHOALI_LF_MAX_WINDOW]; /* by number */
    /* sending */
    shoali_outbox box;
    uint32_t next_number, acked; /* acked: below it all are */
    shoali_lf_flying *flying;
    uint32_t flying_capacity, flying_head, flying_count;
    uint64_t busy_since_us, busy_us, acked_bytes;
    bool rang; /* something went out since the bell was rung */
    shoali_lf_incoming in;
} shoali_lf_link;

typedef enum { SHOALI_LF_NONE, SHOALI_LF_JOINING, SHOALI_LF_UP, SHOALI_LF_DOWN } shoali_lf_state;

typedef struct shoali_lf_peer {
    shoali_lf_state state;
    shoali_address address;
    uint8_t name[SHOALI_OFI_NAME_BYTES];
    char bell[SHOALI_UNIX_BYTES];
    shoali_lf_link *link;
    uint64_t last_seen_us;
    shoal_peer_stats stats;
} shoali_lf_peer;

typedef struct shoali_lf {
    shoali_transport_args args;
    shoali_transport_events events;
    shoali_lf_params params;
    const shoali_transport_row *inner;
    void *inner_state, *inner_params;
    const shoali_ofi_calls *ofi;
    shoali_ofi *endpoint;
    shoali_address address;
    char bell_name[SHOALI_UNIX_BYTES];
    int epoll, bell; /* bell: a datagram socket, where the provider cannot wake us; else -1 */
    shoali_lf_peer *peers;
    shoali_lf_link *dead;
    uint64_t now_us, wake_us;
    bool more; /* frames are queued, or completions wait */
} shoali_lf;

/* libfabric.c */
/** The peer is lost: its link ends, its owner hears why. */
void shoali_lf_peer_fail(shoali_lf *lf, uint32_t peer, shoal_status why, const char *what);

/* libfabric_link.c: beginning and end of a link; the bell. */
shoal_status shoali_lf_link_create(shoali_lf *lf, uint32_t peer);
/** A control frame of the kind `fabric`. */
void shoali_lf_link_message(shoali_lf_link *link, const uint8_t *bytes, size_t len_bytes);
/** A step of the meeting may have become possible. */
void shoali_lf_link_meet(shoali_lf_link *link);
/** Tell the peer how far its fragments have been taken. */
void shoali_lf_link_say_taken(shoali_lf_link *link);
/** Bodies go back; its memory when the provider has let go of it. */
void shoali_lf_link_kill(shoali_lf_link *link, shoal_status status);
void shoali_lf_link_free_dead(shoali_lf *lf, bool all);
shoal_status shoali_lf_bell_open(shoali_lf *lf);
void shoali_lf_bell_clear(const shoali_lf *lf);
void shoali_lf_bell_ring(const shoali_lf *lf, const shoali_lf_peer *peer);

/* libfabric_move.c: frames through fragments. */
shoal_status shoali_lf_slot_post(shoali_lf_slot *slot);
void shoali_lf_slot_done(shoali_lf_slot *slot, const shoali_ofi_done *done);
/** The first fragment, which only shows that one comes through. */
void shoali_lf_link_greet(shoali_lf_link *link);
/** The peer has taken all fragments below this number. */
void shoali_lf_link_acknowledged(shoali_lf_link *link, uint32_t below);
void shoali_lf_link_pump_in(shoali_lf_link *link);
void shoali_lf_link_pump_out(shoali_lf_link *link);
/** When the link must be looked at again although nobody speaks; UINT64_MAX: never. */
uint64_t shoali_lf_link_wake_us(const shoali_lf_link *link);
void shoali_lf_link_return_all(shoali_lf_link *link, shoal_status status);

extern const shoali_transport_row shoali_transport_libfabric;

#endif
