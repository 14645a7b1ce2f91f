/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with its includes in order, and what every test wants. */
#ifndef SHOALI_TESTS_SUPPORT_CHECK_H
#define SHOALI_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shoal/status.h"

/** Fail with the last error's text unless expression is SHOAL_OK. */
#define assert_ok(expression) check_ok((expression), #expression, __FILE__, __LINE__)
/** Fail unless expression is status. */
#define assert_status(expression, status) \
    check_status((expression), (status), #expression, __FILE__, __LINE__)
/** The last error's text contains part. */
#define assert_error_has(part) check_error_has((part), __FILE__, __LINE__)

void check_ok(shoal_status got, const char *expression, const char *file, int line);
void check_status(shoal_status got, shoal_status want, const char *expression, const char *file,
                  int line);
void check_error_has(const char *part, const char *file, int line);

/** Seed of this run: SHOAL_TEST_SEED or a fixed default; printed once, with the command that
 * repeats the run. */
uint64_t check_seed(void);

/** What a variable of the environment says; otherwise: it is not there. */
uint64_t check_number(const char *name, uint64_t otherwise);

/** How many lives a search for faults tries in `make check`. */
#ifdef __SANITIZE_ADDRESS__
enum { CHECK_LIVES = 1000 };
#else
enum { CHECK_LIVES = 10000 };
#endif

/** From -1 to 1, the same for the same seed and stream; of the arena, to shoali_free. count may be
 * 0. */
float *check_floats(size_t count, uint64_t stream);

/** main() of a test file: CHECK_MAIN(test_a, test_b) */
#define CHECK_TEST(f) cmocka_unit_test(f)
#define CHECK_RUN(tests) cmocka_run_group_tests((tests), NULL, NULL)

#endif
