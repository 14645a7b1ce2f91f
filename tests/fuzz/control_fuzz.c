/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages from other ranks, and what is said at doors: the first byte chooses the decoder.
 * What decodes must encode to the same bytes, but for characters that were made printable, which
 * must then stay as they are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/control.h"
#include "wire/member.h"

/* As STABLE, of any length. */
static void proposal(const uint8_t *data, size_t size)
{
    uint8_t bytes[SHOALI_PROPOSAL_BYTES];
    shoali_proposal one;
    if (shoali_proposal_decode(data, size, &one) &&
        (shoali_proposal_encode(&one, bytes) != size || memcmp(bytes, data, size) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* decode, encode, decode, encode: the second round changes nothing. */
#define STABLE(type, decode, encode, bytes)                                       \
    do {                                                                          \
        type one, two;                                                            \
        uint8_t first[bytes], second[bytes];                                      \
        if (decode(data, size, &one)) {                                           \
            encode(&one, first);                                                  \
            if (!decode(first, bytes, &two) || encode(&two, second) != (bytes) || \
                memcmp(first, second, bytes) != 0)                                \
                abort();                                                          \
        }                                                                         \
    } while (0)

static void missed(const uint8_t *data, size_t size)
{
    STABLE(shoali_missed, shoali_missed_decode, shoali_missed_encode, SHOALI_MISSED_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size--;
    switch (*data++ % 16) {
    case 0:
        STABLE(shoali_ready, shoali_ready_decode, shoali_ready_encode, SHOALI_READY_BYTES);
        break;
    case 1:
        STABLE(shoali_abort, shoali_abort_decode, shoali_abort_encode, SHOALI_ABORT_BYTES);
        break;
    case 2:
        STABLE(shoali_ask, shoali_ask_decode, shoali_ask_encode, SHOALI_ASK_BYTES);
        break;
    case 3:
        STABLE(shoali_answer, shoali_answer_decode, shoali_answer_encode, SHOALI_ANSWER_BYTES);
        break;
    case 4:
        STABLE(shoali_heartbeat, shoali_heartbeat_decode, shoali_heartbeat_encode,
               SHOALI_HEARTBEAT_BYTES);
        break;
    case 13:
        STABLE(shoali_flow_head, shoali_flow_head_decode, shoali_flow_head_encode,
               SHOALI_FLOW_HEAD_BYTES);
        break;
    case 14:
        STABLE(shoali_datagram_place, shoali_datagram_decode, shoali_datagram_encode,
               SHOALI_DATAGRAM_BYTES);
        break;
    case 6:
        STABLE(shoali_serve, shoali_serve_decode, shoali_serve_encode, SHOALI_SERVE_BYTES);
        break;
    case 7:
        STABLE(shoali_invite, shoali_invite_decode, shoali_invite_encode, SHOALI_INVITE_BYTES);
        break;
    case 8:
        STABLE(shoali_reform, shoali_reform_decode, shoali_reform_encode,
               SHOALI_REFORM_MESSAGE_BYTES);
        break;
    case 9:
        STABLE(shoali_come, shoali_come_decode, shoali_come_encode, SHOALI_COME_BYTES);
        break;
    case 10:
        STABLE(shoali_admit, shoali_admit_decode, shoali_admit_encode, SHOALI_ADMIT_BYTES);
        break;
    case 11:
        STABLE(shoali_held, shoali_held_decode, shoali_held_encode, SHOALI_HELD_BYTES);
        break;
    case 12:
        proposal(data, size);
        break;
    case 15:
        missed(data, size);
        break;
    default:
        STABLE(shoali_record, shoali_record_decode, shoali_record_encode, SHOALI_RECORD_BYTES);
    }
    return 0;
}
