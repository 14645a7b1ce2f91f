/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a real worker on the progress thread, and what it has asked for. */
#ifndef SHOALI_DRIVER_REAL_HOST_H
#define SHOALI_DRIVER_REAL_HOST_H

#include "comm/comm.h"
#include "driver/driver.h"
#include "sync/sync.h"

typedef struct shoali_real_timer {
    uint64_t id, at_us;
} shoali_real_timer;

/** A message, or the loss of a peer, that came before the machine started. */
typedef struct shoali_real_early {
    struct shoali_real_early *next;
    uint32_t endpoint;
    bool down;
    shoali_down how;  /* of a loss */
    size_t len_bytes; /* of the message, or of the text with its NUL */
    uint8_t bytes[];
} shoali_real_early;

/** The progress thread's. */
typedef struct shoali_real_machine {
    void *state;
    shoali_actions actions;
    bool started; /* START has been fed */
    shoali_real_early *early, **early_last;
    bool held;         /* MIX or APPLY runs on the work thread */
    shoali_action job; /* held: what it does */
    shoali_mix_term *job_terms;
    uint32_t job_terms_capacity;
    uint8_t *message; /* room for an outgoing one */
    size_t message_capacity;
    shoali_real_timer *timers;
    uint32_t timer_count, timer_capacity;
} shoali_real_machine;

void shoali_real_host_init(shoali_real_machine *machine);
/** Listener of the comm. ctx is the sync. */
shoali_comm_listener shoali_real_listener(shoal_sync *sync);
/** Task: hand the caller's notes to the machine. arg is the sync. */
void shoali_real_drain(void *arg);
void shoali_real_host_fini(shoal_sync *sync);

/* for real_ops.c */
void shoali_real_feed(shoal_sync *sync, shoali_event *event);
/** End with this thread's last error. */
void shoali_real_break(shoal_sync *sync);
/** Tell the caller that something has changed. */
void shoali_real_signal(shoal_sync *sync);

#endif
