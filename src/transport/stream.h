/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in and out of a connected, non-blocking stream socket. Between it and the frames of a
 * connection sits TLS, where there is any (tls.h). */
#ifndef SHOALI_TRANSPORT_STREAM_H
#define SHOALI_TRANSPORT_STREAM_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* What a read or write says instead of a number of bytes > 0. */
enum { SHOALI_STREAM_LATER = 0, SHOALI_STREAM_END = -1, SHOALI_STREAM_FAILED = -2 /* errno */ };

static inline ssize_t shoali_stream_read(int fd, struct iovec *parts, int count)
{
    ssize_t got;
    do
        got = readv(fd, parts, count);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    if (got == 0)
        return SHOALI_STREAM_END;
    return errno == EAGAIN || errno == EWOULDBLOCK ? SHOALI_STREAM_LATER : SHOALI_STREAM_FAILED;
}

static inline ssize_t shoali_stream_write(int fd, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EWOULDBLOCK ? SHOALI_STREAM_LATER : SHOALI_STREAM_FAILED;
}

#endif
