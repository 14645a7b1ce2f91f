/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>

#include "base/arena.h"
#include "base/rng.h"

void check_ok(shoal_status got, const char *expression, const char *file, int line)
{
    check_status(got, SHOAL_OK, expression, file, line);
}

void check_status(shoal_status got, shoal_status want, const char *expression, const char *file,
                  int line)
{
    if (got == want)
        return;
    print_error("%s\n  returned %s, wanted %s; last error: %s\n", expression,
                shoal_status_name(got), shoal_status_name(want), shoal_last_error()->text);
    _fail(file, line);
}

void check_error_has(const char *part, const char *file, int line)
{
    const shoal_error *error = shoal_last_error();
    if (strstr(error->text, part) != NULL || strstr(error->advice, part) != NULL)
        return;
    print_error("last error \"%s\" (%s) lacks \"%s\"\n", error->text, error->advice, part);
    _fail(file, line);
}

uint64_t check_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t check_seed(void)
{
    static uint64_t seed;
    static bool known;
    if (!known) {
        seed = check_number("SHOAL_TEST_SEED", 20181);
        known = true;
        print_message("seed %llu (repeat with SHOAL_TEST_SEED=%llu %s)\n", (unsigned long long)seed,
                      (unsigned long long)seed, program_invocation_name);
    }
    return seed;
}

float *check_floats(size_t count, uint64_t stream)
{
    float *x = shoali_alloc_array(count + 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(2 * shoali_rng_double(check_seed(), stream, i) - 1);
    return x;
}
