/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "transport/tcp_socket.h"

shoal_status shoali_meet_stream_start(shoali_meet_stream *stream, int fd, bool dialler,
                                      const shoali_meeting *meeting)
{
    shoali_hello self = {.purpose = SHOALI_PURPOSE_JOIN,
                         .endpoint = meeting->mine->rank,
                         .target = 0,
                         .incarnation = meeting->mine->incarnation};
    SHOALI_TRY(shoali_random(self.nonce, sizeof self.nonce));
    snprintf(self.job, sizeof self.job, "%s", meeting->job);
    stream->fd = fd;
    stream->heard = stream->open = false;
    stream->in_len = stream->out_len = stream->out_at = 0;
    shoali_handshake_start(&stream->shake, dialler, &self, meeting->token->bytes,
                           meeting->token->len_bytes);
    return SHOAL_OK;
}

void shoali_meet_stream_close(shoali_meet_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
    stream->open = false;
}

bool shoali_meet_stream_put(shoali_meet_stream *stream, uint16_t kind, const void *body,
                            size_t len_bytes)
{
    if (!shoali_meet_stream_idle(stream) || len_bytes > SHOALI_MEET_BODY_BYTES)
        return false;
    shoali_frame frame = {.kind = kind, .head.len_bytes = (uint32_t)len_bytes};
    shoali_frame_encode(&frame, stream->out);
    memcpy(stream->out + SHOALI_FRAME_BYTES, body, len_bytes);
    stream->out_len = SHOALI_FRAME_BYTES + len_bytes;
    stream->out_at = 0;
    return true;
}

/* How many of len_bytes went out; 0: not now. */
static shoal_status send_some(int fd, const uint8_t *bytes, size_t len_bytes, size_t *sent_out)
{
    ssize_t sent = send(fd, bytes, len_bytes, MSG_NOSIGNAL);
    *sent_out = sent > 0 ? (size_t)sent : 0;
    if (sent >= 0 || errno == EAGAIN || errno == EINTR)
        return SHOAL_OK;
    return shoali_fail_os(SHOAL_EPEER, errno, "the connection broke");
}

shoal_status shoali_meet_stream_write(shoali_meet_stream *stream)
{
    size_t sent;
    shoali_handshake *shake = &stream->shake;
    while (shake->out_len > 0) {
        SHOALI_TRY(send_some(stream->fd, shake->out, shake->out_len, &sent));
        if (sent == 0)
            return SHOAL_OK;
        shake->out_len -= sent;
        memmove(shake->out, shake->out + sent, shake->out_len);
    }
    while (stream->out_at < stream->out_len) {
        SHOALI_TRY(send_some(stream->fd, stream->out + stream->out_at,
                             stream->out_len - stream->out_at, &sent));
        if (sent == 0)
            return SHOAL_OK;
        stream->out_at += sent;
    }
    stream->out_len = stream->out_at = 0;
    return SHOAL_OK;
}

static shoal_status read_handshake(shoali_meet_stream *stream)
{
    while (!stream->open) {
        uint8_t bytes[SHOALI_HELLO_BYTES];
        size_t got, want = shoali_handshake_want(&stream->shake);
        SHOALI_TRY(
            shoali_tcp_receive(stream->fd, bytes, want < sizeof bytes ? want : sizeof bytes, &got));
        stream->heard = true;
        shoal_status status = shoali_handshake_feed(&stream->shake, bytes, got);
        if (status != SHOAL_OK && status != SHOAL_PENDING) {
            shoal_error why;
            shoali_error_get(&why);
            shoali_meet_stream_try(stream); /* the refusal, as far as it goes */
            return shoali_error_set(&why);
        }
        stream->open = status == SHOAL_OK;
    }
    return SHOAL_OK;
}

shoal_status shoali_meet_stream_read(shoali_meet_stream *stream, uint16_t *kind_out,
                                     const uint8_t **body_out, size_t *len_bytes_out)
{
    SHOALI_TRY(read_handshake(stream));
    for (;;) {
        shoali_frame frame;
        size_t want = SHOALI_FRAME_BYTES, got;
        if (stream->in_len >= SHOALI_FRAME_BYTES) {
            SHOALI_TRY(shoali_frame_decode(stream->in, &frame));
            if (frame.head.len_bytes > SHOALI_MEET_BODY_BYTES)
                return shoali_fail(SHOAL_ECORRUPT, "a frame of %u bytes in a rendezvous",
                                   frame.head.len_bytes);
            want += frame.head.len_bytes;
            if (stream->in_len == want) {
                *kind_out = frame.kind;
                *body_out = stream->in + SHOALI_FRAME_BYTES;
                *len_bytes_out = frame.head.len_bytes;
                stream->in_len = 0;
                return SHOAL_OK;
            }
        }
        SHOALI_TRY(shoali_tcp_receive(stream->fd, stream->in + stream->in_len,
                                      want - stream->in_len, &got));
        stream->in_len += got;
    }
}
