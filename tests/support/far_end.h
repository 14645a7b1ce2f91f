/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a rendezvous' connection, which says what a test likes. Blocks, for a minute at
 * most. */
#ifndef SHOALI_TESTS_SUPPORT_FAR_END_H
#define SHOALI_TESTS_SUPPORT_FAR_END_H

#include "meet/stream.h"

/** Connect to a loopback port, as soon as somebody listens there. */
void far_end_call(shoali_meet_stream *end, uint16_t port, const shoali_meeting *meeting);
/** Wait for a caller. */
void far_end_answer(shoali_meet_stream *end, int listener, const shoali_meeting *meeting);
/** Finish the handshake and send a frame. False: the other side will not have it. */
bool far_end_say(shoali_meet_stream *end, uint16_t kind, const void *body, size_t len_bytes);
/** The next frame, or how it ended. */
shoal_status far_end_hear(shoali_meet_stream *end, uint16_t *kind_out, const uint8_t **body_out,
                          size_t *len_bytes_out);

#endif
