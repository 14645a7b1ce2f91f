/* SPDX-License-Identifier: Apache-2.0 */
/* The op of docs/add-op.md. It stands outside the table, so only tests open it. */
#ifndef SHOALI_TESTS_SUPPORT_EXAMPLE_OP_H
#define SHOALI_TESTS_SUPPORT_EXAMPLE_OP_H

#include "nn/exec.h"

extern const shoali_layer_row shoali_layer_example;
extern const shoali_exec shoali_exec_example;

#endif
