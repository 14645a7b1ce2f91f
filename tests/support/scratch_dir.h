/* SPDX-License-Identifier: Apache-2.0 */
/* A directory below /tmp for one test, and small files in it. */
#ifndef SHOALI_TESTS_SUPPORT_SCRATCH_DIR_H
#define SHOALI_TESTS_SUPPORT_SCRATCH_DIR_H

#include <stddef.h>

/** Make one; its path lives until scratch_dir_remove. Fails the test if that cannot be. */
const char *scratch_dir_make(void);
/** Remove it with all that is in it. */
void scratch_dir_remove(void);
/** Both as fixtures of a test or a group. */
int scratch_set_up(void **state);
int scratch_tear_down(void **state);
/** DIR/name, in a static buffer that the next call reuses. */
const char *scratch_path(const char *name);
void scratch_write(const char *name, const void *bytes, size_t len_bytes);
/** The same through gzip. */
void scratch_write_gz(const char *name, const void *bytes, size_t len_bytes);
/** Whole file; caller frees. Fails the test if there is none. */
void *scratch_read(const char *name, size_t *len_bytes_out);
/** Files in it. */
size_t scratch_count(void);

#endif
