/* SPDX-License-Identifier: Apache-2.0 */
#include "shoal/version.h"

const char *shoal_version(void)
{
    return SHOAL_VERSION_STRING;
}
