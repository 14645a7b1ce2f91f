/* SPDX-License-Identifier: Apache-2.0 */
/* An exported net, in C, for the benches in C++ (pe_net.c). */
#ifndef SHOALI_RTL_PE_NET_H
#define SHOALI_RTL_PE_NET_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Its shoali_fixed_net: the export has the same structs. */
const void *pe_net(void);
unsigned pe_net_in_frac(void);
/** The exported C on one frame; first: of a sequence. */
void pe_net_run(const int16_t *x, int16_t *y, int first);

#ifdef __cplusplus
}
#endif
#endif
