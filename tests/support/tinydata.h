/* SPDX-License-Identifier: Apache-2.0 */
/* A small data set in IDX files and a small model for it: trains in milliseconds. */
#ifndef SHOALI_TESTS_SUPPORT_TINYDATA_H
#define SHOALI_TESTS_SUPPORT_TINYDATA_H

#include <stdint.h>

enum { TINY_SIDE = 6, TINY_CLASSES = 4, TINY_TRAIN = 70, TINY_TEST = 30 };

/** Write MNIST's four files to dir: one bright stripe per class in noise. */
void tiny_data_write(const char *dir, uint64_t seed);
/** Write model.json to dir: dense 16, tanh, dense 4 (with norm: batch norm behind the first). */
void tiny_model_write(const char *dir, bool norm);

/** Of tiny_set_up: the directory with data and model.json, and the latter's path. */
extern const char *tiny_dir;
extern const char *const tiny_model;
/** Fixtures of a group: both in a scratch directory (no norm), and its removal. */
int tiny_set_up(void **state);
int tiny_tear_down(void **state);

#endif
