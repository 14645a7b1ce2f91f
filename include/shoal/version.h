/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOAL_VERSION_H
#define SHOAL_VERSION_H

#include "shoal/status.h"

/* Semantic versioning: before 1.0 a minor version may break the ABI, a patch never does. A program
 * may be built against one patch and run with another: what it was built against stands here, what
 * it runs with is what shoal_version() says. */
#define SHOAL_VERSION_MAJOR 0
#define SHOAL_VERSION_MINOR 1
#define SHOAL_VERSION_PATCH 0

/** The three numbers as text, for messages and for a comparison with shoal_version(). */
#define SHOAL_VERSION_STRING "0.1.0"

/**
 * What the ranks of a job say to each other: handshake, frames and coded chunks (docs/wire.md).
 * Counted apart from the release, so that releases that speak alike work together. Ranks whose wire
 * versions differ refuse each other at join with EVERSION, which names both.
 * 2: addresses come with the bits of their subnets; 3: and with their processes; 6: heartbeats say
 * what a rank measured of itself; 7: endpoints that are not heard are asked,
 * calls of paced operations say for how long.
 */
#define SHOAL_WIRE_VERSION 7

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the library that is running, as "major.minor.patch".
 * @return static storage, never NULL. Any thread, any time, also before the first communicator.
 */
SHOAL_API const char *shoal_version(void);

#ifdef __cplusplus
}
#endif
#endif
