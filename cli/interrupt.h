/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and SIGTERM of a command that has something to take away before it ends by them. */
#ifndef SHOAL_CLI_INTERRUPT_H
#define SHOAL_CLI_INTERRUPT_H

/** From now on the first of them calls stop(of), in a signal's handler; the second ends the process
 * at once. Whoever ignores them goes on doing so. One at a time. */
void interrupt_begin(void (*stop)(void *of), void *of);
/** As before. @return the signal that came; 0: none. Who has cleaned up raises it. */
int interrupt_end(void);

#endif
