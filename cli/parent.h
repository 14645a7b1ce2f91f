/* SPDX-License-Identifier: Apache-2.0 */
/* A command that does not outlive who started it: SHOAL_PARENT is the number of a process. When
 * that has ended, however it ended, the command ends as by SIGTERM, and its ranks with it. */
#ifndef SHOAL_CLI_PARENT_H
#define SHOAL_CLI_PARENT_H

/**
 * Look at SHOAL_PARENT, take it out of the environment (ranks end with their launcher), and watch
 * that process from now on. Call it before any process is made.
 * @return CLI_OK, also without the variable; else an exit code, the reason is printed.
 */
int parent_heed(void);

#endif
