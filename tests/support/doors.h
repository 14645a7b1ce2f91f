/* SPDX-License-Identifier: Apache-2.0 */
/* Doors of a made-up epoch, on loopback. */
#ifndef SHOALI_TESTS_SUPPORT_DOORS_H
#define SHOALI_TESTS_SUPPORT_DOORS_H

#include "meet/door.h"

enum { DOORS_RANKS = 3, DOORS_MOST = 4 };

typedef struct doors {
    shoali_door *door;
    shoali_record mine;
    shoali_token token;
    char rendezvous[256];
    uint32_t me;
    /* of its owner, in epoch 5 */
    atomic_bool away[DOORS_RANKS];
    char others[DOORS_RANKS][SHOALI_DOOR_BYTES];
    atomic_uint wanted;
} doors;

/** A door of rank `me` of a job of DOORS_MOST at most, which met at rendezvous. */
void doors_open(doors *d, uint32_t me, const char *rendezvous);
/** It is kept by a member of an epoch of `size`, from now on by a thread. */
void doors_start(doors *d, uint32_t size);
void doors_close(doors *d);
/** Incarnation of a member of that epoch. */
uint64_t doors_incarnation(uint32_t rank);

#endif
