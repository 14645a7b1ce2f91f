/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ripples_talk.h"

#include "support/check.h"

const char *ripples_tell(machine *m, uint32_t peer, uint8_t kind, uint64_t a, uint64_t b,
                         uint8_t bitmap)
{
    uint8_t bytes[18] = {kind};
    for (int i = 0; i < 8; i++) {
        bytes[1 + i] = (uint8_t)(a >> (8 * i));
        bytes[9 + i] = (uint8_t)(b >> (8 * i));
    }
    bytes[17] = bitmap;
    return machine_message(m, peer, bytes, kind == GROUP ? 18 : 17);
}

const char *ripples_iterate(machine *m)
{
    assert_string_equal(machine_ready(m, 0, m->world.count), "");
    assert_non_null(strstr(machine_event(m, SHOALI_EV_BEFORE), "go apply"));
    return machine_event(m, SHOALI_EV_AFTER);
}
