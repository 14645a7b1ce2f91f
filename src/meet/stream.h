/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the rendezvous, at either end: the handshake, then frames with small bodies.
 * Non-blocking; the owner polls. Everything is bounded, whoever called. */
#ifndef SHOALI_MEET_STREAM_H
#define SHOALI_MEET_STREAM_H

#include "meet/meet.h"
#include "wire/frame.h"
#include "wire/handshake.h"

enum { SHOALI_MEET_BODY_BYTES = SHOALI_RECORD_BYTES };

typedef struct shoali_meet_stream {
    int fd;     /* -1: closed */
    bool heard; /* it has sent something */
    bool open;  /* the handshake is done: frames may go */
    shoali_handshake shake;
    size_t in_len, out_len, out_at;
    uint8_t in[SHOALI_FRAME_BYTES + SHOALI_MEET_BODY_BYTES];
    uint8_t out[SHOALI_FRAME_BYTES + SHOALI_MEET_BODY_BYTES];
} shoali_meet_stream;

/** Take over a connected (or connecting) non-blocking socket. endpoint: mine; the target is rank
 * 0's. */
SHOAL_MUST_USE shoal_status shoali_meet_stream_start(shoali_meet_stream *stream, int fd,
                                                     bool dialler, const shoali_meeting *meeting);
void shoali_meet_stream_close(shoali_meet_stream *stream);

/** Queue a frame. False: the one before it is not gone yet, or the handshake is not done. */
bool shoali_meet_stream_put(shoali_meet_stream *stream, uint16_t kind, const void *body,
                            size_t len_bytes);
static inline bool shoali_meet_stream_idle(const shoali_meet_stream *stream)
{
    return stream->open && stream->out_len == 0;
}
/** Bytes wait for the socket: poll for POLLOUT. */
static inline bool shoali_meet_stream_wants_out(const shoali_meet_stream *stream)
{
    return stream->out_len > 0 || stream->shake.out_len > 0;
}

/** Send what can be sent. @return SHOAL_OK | EPEER (with text: the connection broke) */
SHOAL_MUST_USE shoal_status shoali_meet_stream_write(shoali_meet_stream *stream);

/** The same where it makes no difference whether it works. */
static inline void shoali_meet_stream_try(shoali_meet_stream *stream)
{
    if (shoali_meet_stream_write(stream) != SHOAL_OK)
        return;
}

/**
 * Receive: first the handshake, then at most one frame, whose body lies at *body_out until the next
 * call.
 * @return SHOAL_OK: a frame | PENDING: nothing more now | else with text: close it
 */
SHOAL_MUST_USE shoal_status shoali_meet_stream_read(shoali_meet_stream *stream, uint16_t *kind_out,
                                                    const uint8_t **body_out,
                                                    size_t *len_bytes_out);

#endif
