/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: signs of life, losses, and whether this rank is among those that go on. */
#ifndef SHOALI_ALIVE_VIEW_H
#define SHOALI_ALIVE_VIEW_H

#include "endpoint/endpoint.h"
#include "wire/control.h"
#include "wire/member.h"

/** One of several links to it is not used any more. lost: what was on its way there may be. */
void shoali_view_link_down(shoal_comm *comm, uint32_t endpoint, bool lost, const char *text);
void shoali_view_heartbeat(shoal_comm *comm, uint32_t endpoint, const shoali_heartbeat *beat);
/** Another endpoint misses one that it watches. */
void shoali_view_missed(shoal_comm *comm, const shoali_missed *missed);
/** Another endpoint wants to know of one whether it is there: of this one, or of a third. */
void shoali_view_asked(shoal_comm *comm, uint32_t endpoint, const shoali_missed *about);
/** The join is over: from here on silence counts. */
void shoali_view_begin(shoal_comm *comm);
void shoali_view_timers(shoal_comm *comm);
/** Look whether the process behind an endpoint has certainly ended, for peer->ended. */
void shoali_view_look(shoal_comm *comm, uint32_t endpoint);
uint64_t shoali_view_next_us(const shoal_comm *comm);
enum { SHOALI_PAUSE_US = 200 * 1000 }; /* so late is no busy machine's scheduler any more */
/** Lateness of this thread is no silence of others. */
void shoali_view_late(shoal_comm *comm, uint64_t late_us);
/** "; it was last doing all-reduce 7 (...) for 0.4 s" or "". */
void shoali_view_doing(const shoal_comm *comm, uint32_t endpoint, char *text, size_t text_bytes);

#endif
