/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of frames, from messages.def: SHOALI_MESSAGE_data and so on. */
#ifndef SHOALI_WIRE_MESSAGES_H
#define SHOALI_WIRE_MESSAGES_H

enum {
#define SHOAL_MESSAGE(name, value, what) SHOALI_MESSAGE_##name = (value),
#include "wire/messages.def"
#undef SHOAL_MESSAGE
    SHOALI_MESSAGE_FIRST_CONTROL = 16,
    SHOALI_MESSAGE_LAST_CONTROL = 255
};

#endif
