/* SPDX-License-Identifier: Apache-2.0 */
/* What members of a job that may change its members tell each other on their connections. */
#ifndef SHOALI_ALIVE_TELL_H
#define SHOALI_ALIVE_TELL_H

#include "endpoint/endpoint.h"

/* The tasks are for the progress thread; arg is the comm */
void shoali_reform_introduce(void *arg); /* tell all where this rank's door is */
/** Members that may change: newcomers find this one from now on. The caller's thread. */
SHOAL_MUST_USE shoal_status shoali_reform_open_door(shoal_comm *comm);
void shoali_reform_leave(void *arg); /* end all operations, and tell all */
void shoali_reform_say_moved(void *arg);
/** Connected to all of an epoch after the first: wait until it begins. */
SHOAL_MUST_USE shoal_status shoali_reform_begin(shoal_comm *comm);
void shoali_reform_want(void *arg);
void shoali_reform_on_message(shoal_comm *comm, uint32_t endpoint, const shoali_reform *message);

#endif
