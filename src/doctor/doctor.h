/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the doctor share. Everything runs on the caller's thread; every wait has a
 * deadline. */
#ifndef SHOALI_DOCTOR_DOCTOR_H
#define SHOALI_DOCTOR_DOCTOR_H

#include "meet/stream.h"
#include "shoal/doctor.h"
#include "transport/address.h"

enum {
    SHOALI_DOCTOR_MAX_RANKS = 256,
    SHOALI_DOCTOR_BODY_BYTES = 1200, /* of one rank's word in an exchange */
    SHOALI_DOCTOR_FACTS_BYTES = 64 + 16 + 64 + 64 + 16 + 6 * 8
};

/** How a rank's attempt to reach another ended. */
enum {
    SHOALI_WAY_UNTRIED,
    SHOALI_WAY_OPEN,
    SHOALI_WAY_REFUSED,
    SHOALI_WAY_SILENT,
    SHOALI_WAY_NONE
};

/** What a rank knows of its own host, and tells all. */
typedef struct shoali_facts {
    char host[64], interface[16];
    char ip[64];            /* where the job's connections would come in */
    char route[64];         /* own address on the kernel's way to rank 0; "": not known */
    char loopback_name[16]; /* the address that the rendezvous' name has here, if that is loopback
                               and rank 0 is elsewhere or others are; "" else */
    uint32_t port;          /* where the doctor listens, TCP and UDP */
    uint32_t mtu, port_mbit, cores;
    bool kernel_tls; /* the kernel has TLS for sockets */
    uint64_t send_buffer_bytes, receive_buffer_bytes, nonce;
} shoali_facts;

/** What one rank measured with one peer in one round. */
typedef struct shoali_pair_word {
    uint32_t peer;       /* UINT32_MAX: nobody in this round */
    uint32_t rtt_ns;     /* 0: not measured */
    uint64_t in_bytes_s; /* from peer to this rank */
    int64_t clock_us;    /* the peer's clock ahead of this one's; INT64_MIN: not compared */
    uint32_t hole;       /* 1: large packets from the peer vanish */
    uint32_t hole_bytes; /* the largest that came */
} shoali_pair_word;
enum { SHOALI_PAIR_WORD_BYTES = 4 + 4 + 8 + 8 + 4 + 4 };

typedef struct shoali_talk shoali_talk;

struct shoal_doctor {
    uint32_t rank, ranks;
    bool met;
    char place[SHOALI_RENDEZVOUS_BYTES];
    shoali_facts *facts;     /* [ranks] */
    shoal_doctor_host *host; /* [ranks] */
    shoal_doctor_pair *pair; /* [ranks * ranks], from * ranks + to */
    uint8_t *way;            /* [ranks * ranks] SHOALI_WAY_* */
    double *speed;           /* [ranks] operations per second */
    shoal_finding *findings;
    uint32_t count, capacity;
};

/* facts.c: this host. */
SHOAL_MUST_USE shoal_status shoali_facts_find(const shoal_comm_desc *desc, const char *place,
                                              const shoali_token *token, shoali_facts *facts_out);
size_t shoali_facts_encode(const shoali_facts *facts, uint8_t out[SHOALI_DOCTOR_FACTS_BYTES]);
/** False: an encoder cannot have written this. */
bool shoali_facts_decode(const uint8_t *bytes, size_t len_bytes, shoali_facts *facts_out);
/** A thread's share of a core, and its core's speed in operations per second; takes 60 ms, 180 if
 * others compute on this host. */
void shoali_facts_core(double *share_out, double *speed_out);

/* talk.c: rank 0 as a star; each rank says a word, all get all words. */
SHOAL_MUST_USE shoal_status shoali_talk_open(const shoali_meeting *meeting, uint32_t ranks,
                                             shoali_talk **talk_out);
/**
 * words[rank] is what that rank said, len_bytes[rank] how long; 0: it did not come, or has gone.
 * Both are the talk's, until the next exchange.
 * @return SHOAL_OK | EPEER, ETIMEDOUT: rank 0 has gone
 */
SHOAL_MUST_USE shoal_status shoali_talk_exchange(shoali_talk *talk, const void *word,
                                                 size_t len_bytes, uint64_t timeout_us);
const uint8_t *shoali_talk_word(const shoali_talk *talk, uint32_t rank, size_t *len_bytes_out);
void shoali_talk_close(shoali_talk *talk);

/* pairs.c: connections between all ranks, and what they carry. */
typedef struct shoali_pairs shoali_pairs;
/** Listens where the facts say; fills facts->port. */
SHOAL_MUST_USE shoal_status shoali_pairs_open(shoali_facts *facts, shoali_pairs **pairs_out);
/** Try to reach every rank that is here, for at most two seconds; way_out[ranks]. */
SHOAL_MUST_USE shoal_status shoali_pairs_connect(shoali_pairs *pairs, const shoal_doctor *doctor,
                                                 uint8_t *way_out);
/** One round with one peer: round trips, clock, large packets, the rate of both ways. */
void shoali_pairs_measure(shoali_pairs *pairs, const shoal_doctor *doctor, uint32_t peer,
                          shoali_pair_word *word_out);
void shoali_pairs_close(shoali_pairs *pairs);
size_t shoali_pair_word_encode(const shoali_pair_word *word, uint8_t out[SHOALI_PAIR_WORD_BYTES]);
bool shoali_pair_word_decode(const uint8_t *bytes, size_t len_bytes, shoali_pair_word *word_out);

/* findings.c: the verdict; pure. */
/** Compare all that rank 0 knows; findings in order of rank. */
SHOAL_MUST_USE shoal_status shoali_findings_make(shoal_doctor *doctor);
SHOAL_MUST_USE shoal_status shoali_findings_add(shoal_doctor *doctor, const char *kind,
                                                uint32_t rank, int32_t peer, const char *advice,
                                                const char *format, ...) SHOAL_PRINTF(6, 7);

#endif
