/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOAL_VERSION_H
#define SHOAL_VERSION_H

#include "shoal/status.h"

#define SHOAL_VERSION_MAJOR 0
#define SHOAL_VERSION_MINOR 1
#define SHOAL_VERSION_PATCH 0
#define SHOAL_VERSION_STRING "0.1.0"
#define SHOAL_WIRE_VERSION 1 /* ranks whose wire versions differ refuse each other at join */

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library that is running, as "major.minor.patch"; compare with SHOAL_VERSION_STRING. */
SHOAL_API const char *shoal_version(void);

#ifdef __cplusplus
}
#endif
#endif
