/* SPDX-License-Identifier: Apache-2.0 */
/* Ears of a protocol machine. */
#ifndef SHOALI_ALIVE_LISTEN_H
#define SHOALI_ALIVE_LISTEN_H

#include "endpoint/endpoint.h"

void shoali_listen_init(shoali_ears *ears);
void shoali_listen_free(shoali_ears *ears);
void shoali_listen_message(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                           size_t len_bytes);

#endif
