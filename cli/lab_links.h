/* SPDX-License-Identifier: Apache-2.0 */
/* The lab's links: what shapes them, at first and while a job runs. */
#ifndef SHOAL_CLI_LAB_LINKS_H
#define SHOAL_CLI_LAB_LINKS_H

#include "lab.h"

/** Feed a batch of commands to `ip -batch -` or `tc -batch -`; both are found by their usual
 *  folders, too. Prints the reason and returns false. */
bool lab_batch(const char *verb, const char *program, const char *batch);
/** What leaves by a device of this namespace is held down to so many bits per second; 0: it is not.
 */
bool lab_shape(const char *verb, const lab_desc *lab, uint64_t bits, const char *device);
/** "10mbit", for both, or two rates with one of the characters of `between` between them. */
bool lab_parse_rates(const char *text, const char *between, uint64_t *up_out, uint64_t *down_out);
/** "6x" or "6x:0.1" */
bool lab_random_fits(const char *text);
/** Each line of a trace can be read, and time goes on; "": there is none. Prints the reason. */
bool lab_trace_fits(const char *verb, const char *path);

#endif
