/* SPDX-License-Identifier: Apache-2.0 */
/* One protocol machine without a driver: feed events, read the actions as text, one after the
 * other with "; " between them:
 *
 *     send 2 010500..   op 7 [4,10) GRAD push pull owner patient ring within 90
 *     cancel 7   hurry 7   mix PARAM [0,10) = 1*GRAD   apply SLOT0 [0,10) *0.25   timer 3 @900
 *     go apply|hold|skip|stop @iteration /4   fail EPEER r2 text */
#ifndef SHOALI_TESTS_SUPPORT_MACHINE_H
#define SHOALI_TESTS_SUPPORT_MACHINE_H

#include "sync/sync.h"

enum { MACHINE_MAX = 16, MACHINE_TENSOR = 4 };

typedef struct machine {
    shoali_protocol protocol;
    shoali_world world;
    shoal_tensor tensors[MACHINE_MAX];
    uint32_t endpoints[MACHINE_MAX], hosts[MACHINE_MAX];
    void *state;
    shoali_actions actions;
    char text[4096];
} machine;

/** A world of tensor_count tensors of MACHINE_TENSOR elements, two of which make a bucket. */
void machine_open(machine *m, const char *spec, uint32_t workers, uint32_t servers, uint32_t me,
                  uint32_t tensor_count);
/** The same with a row that is not in the table. */
void machine_open_row(machine *m, const shoali_sync_row *row, const char *spec, uint32_t workers,
                      uint32_t servers, uint32_t me, uint32_t tensor_count);
void machine_close(machine *m);

/** Feed one event; the text of all actions it led to, valid until the next call. */
const char *machine_feed(machine *m, const shoali_event *event);
const char *machine_start(machine *m);
const char *machine_ready(machine *m, size_t offset, size_t count);
/** An event that is only a kind: BEFORE, AFTER, STOP. */
const char *machine_event(machine *m, shoali_event_kind kind);
const char *machine_done(machine *m, uint64_t id, shoal_status status, const char *text);
const char *machine_message(machine *m, uint32_t peer, const void *bytes, size_t len_bytes);
const char *machine_down(machine *m, uint32_t peer, const char *text);
const char *machine_timer(machine *m, uint64_t id, uint64_t now_us);

#endif
