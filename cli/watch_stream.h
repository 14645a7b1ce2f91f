/* SPDX-License-Identifier: Apache-2.0 */
/* Those who watch, each over a response that goes on: server-sent events. Each gets the newest text
 * when it has read the one before, so who reads slowly gets fewer; nothing heaps up. */
#ifndef SHOAL_CLI_WATCH_STREAM_H
#define SHOAL_CLI_WATCH_STREAM_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

enum { WATCH_STREAMS = 32 }; /* at most */

typedef struct watch_streams watch_streams;

watch_streams *watch_streams_new(void); /* NULL: no memory */
/** A response that is never over. NULL: there are too many, or no memory. */
struct MHD_Response *watch_streams_open(watch_streams *streams, struct MHD_Connection *connection);
/** What is published now, once. NULL: no memory. */
struct MHD_Response *watch_streams_last(watch_streams *streams);
/** Tell all. Who has not read an earlier one in time is hung up on. @return false: no memory */
bool watch_streams_publish(watch_streams *streams, const char *json, int64_t now_ms);
/** Nobody watches (any more). */
void watch_streams_free(watch_streams *streams);

#endif
