/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon's program in the kernel (innet/xdp/switchml.bpf.c): it does the aggregator's part of
 * lossy aggregation where packets enter the ports of a switch that this machine is. Loaded by
 * libbpf, which is looked for only when somebody asks; attached by links (tcx) that end with this
 * process however it ends, and nothing is pinned.
 *
 * Threads: begin, end and the questions may be called from any. */
#ifndef SHOALI_AGGREGATOR_IN_KERNEL_H
#define SHOALI_AGGREGATOR_IN_KERNEL_H

#include "calls/serve.h"
#include "transport/address.h"
#include "wire/kernel_maps.h"

typedef struct shoali_in_kernel shoali_in_kernel;

/**
 * Load the program and attach it.
 * @param program file of the object, NULL: beside this library.
 * @param ports names of interfaces, "sw0,sw1"; "" attaches it nowhere (tests).
 * @return SHOAL_OK | EINVAL (no such interface) | ENOTSUP (libbpf, the object, the right to load it
 *     or a kernel that knows tcx is missing; the text says which) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_in_kernel_open(const char *program, const char *ports,
                                                  shoali_in_kernel **out);
/** Detach and unload; NULL is allowed. */
void shoali_in_kernel_close(shoali_in_kernel *k);
/** As what services ask; lives as long as k. */
const shoali_summer *shoali_in_kernel_summer(const shoali_in_kernel *k);
/** The program's descriptor, for tests that run it without a network. */
int shoali_in_kernel_program(const shoali_in_kernel *k);

/** Sum this share from now on; worker w sends from workers[w].
 *  @return SHOAL_OK | ENOTSUP: its maps have no room for it, or it is not made for such a share */
SHOAL_MUST_USE shoal_status shoali_in_kernel_begin(shoali_in_kernel *k,
                                                   const shoali_slot_share *share,
                                                   const shoali_ip *workers,
                                                   shoali_kernel_sum *sum_out);
void shoali_in_kernel_end(shoali_in_kernel *k, const shoali_kernel_sum *sum);
/** What it has counted so far. */
void shoali_in_kernel_counted(const shoali_in_kernel *k, const shoali_kernel_sum *sum,
                              shoali_kernel_job *job_out);
/** As shoali_slot_pool_missing. */
bool shoali_in_kernel_missing(const shoali_in_kernel *k, const shoali_kernel_sum *sum,
                              uint32_t *slot_out, uint32_t *round_out, uint32_t *worker_out);

#endif
