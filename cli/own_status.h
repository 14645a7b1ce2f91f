/* SPDX-License-Identifier: Apache-2.0 */
/* The status socket of this very process, among those of all jobs of the user. */
#ifndef SHOAL_CLI_OWN_STATUS_H
#define SHOAL_CLI_OWN_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/** Its path, for shoal_watch_ask; false: it has none (a single worker). Socket files of other jobs
 * are told from it by the kernel: by whose process listens there. */
bool own_status_path(char *out, size_t bytes);

#endif
