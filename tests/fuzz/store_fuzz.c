/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in at the store of rank 0 and at doors: behind the handshake of a member that holds
 * the token (first byte odd), or from a stranger. Frames and records are refused with a reason, or
 * whole and bounded; a stranger gets no frame in. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meet/stream.h"
#include "wire/member.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static shoali_record mine[2] = {{.rank = 0, .incarnation = 7}, {.rank = 1, .incarnation = 8}};
static shoali_token token = {.bytes = "sixteen or more..", .len_bytes = 17};

static bool turn(shoali_meet_stream *stream)
{
    const uint8_t *body;
    size_t length;
    uint16_t kind;
    if (shoali_meet_stream_write(stream) != SHOAL_OK)
        return false;
    shoal_status status = shoali_meet_stream_read(stream, &kind, &body, &length);
    shoali_meet_stream_try(stream);
    return status == SHOAL_PENDING;
}

/* Both ends, until they are open. */
static void greet(shoali_meet_stream *caller, shoali_meet_stream *store)
{
    for (int i = 0; i < 8 && !(caller->open && store->open); i++)
        if (!turn(caller) || !turn(store))
            abort();
    if (!caller->open || !store->open)
        abort();
}

static void hear(shoali_meet_stream *store, bool member)
{
    const uint8_t *body;
    size_t length;
    uint16_t kind;
    shoal_status status;
    while ((status = shoali_meet_stream_read(store, &kind, &body, &length)) == SHOAL_OK) {
        shoali_record record;
        shoali_come come;
        shoali_held held;
        shoali_admit admit;
        if (!member || length > SHOALI_MEET_BODY_BYTES)
            abort();
        (void)shoali_record_decode(body, length, &record);
        (void)shoali_come_decode(body, length, &come);
        (void)shoali_held_decode(body, length, &held);
        (void)shoali_admit_decode(body, length, &admit);
    }
    if (status != SHOAL_PENDING && shoal_last_error()->text[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static shoali_meet_stream caller, store;
    int ends[2];
    if (len_bytes < 1)
        return 0;
    bool member = bytes[0] % 2 != 0;
    shoali_meeting meeting = {.mine = &mine[0], .job = "fuzz", .token = &token};
    shoali_meeting theirs = {.mine = &mine[1], .job = "fuzz", .token = &token};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0 ||
        shoali_meet_stream_start(&store, ends[0], false, &meeting) != SHOAL_OK ||
        shoali_meet_stream_start(&caller, ends[1], true, &theirs) != SHOAL_OK)
        abort();
    if (member)
        greet(&caller, &store);
    for (size_t at = 1, piece; at < len_bytes && store.fd >= 0; at += piece) {
        piece = 1 + (size_t)bytes[0] * 8 < len_bytes - at ? 1 + (size_t)bytes[0] * 8
                                                          : len_bytes - at;
        if (write(ends[1], bytes + at, piece) != (ssize_t)piece)
            break;
        hear(&store, member);
        shoali_meet_stream_try(&store);
    }
    shoali_meet_stream_close(&store);
    shoali_meet_stream_close(&caller);
    return 0;
}
