/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/numbers.h"

#include "base/arena.h"
#include "base/error.h"

enum { FIRST_GROUPS = 8 };

struct shoali_group {
    uint64_t group, next;
};

static shoal_status grow(shoali_numbers *numbers)
{
    const uint32_t fresh = numbers->capacity == 0 ? FIRST_GROUPS : 2 * numbers->capacity;
    struct shoali_group *more = shoali_realloc(numbers->groups, numbers->capacity * sizeof *more,
                                               fresh * sizeof *more);
    if (more == NULL)
        return SHOAL_ENOMEM;
    numbers->groups = more;
    numbers->capacity = fresh;
    return SHOAL_OK;
}

shoal_status shoali_numbers_next(shoali_numbers *numbers, uint64_t group, uint64_t *number_out)
{
    uint32_t at = 0;
    while (at < numbers->count && numbers->groups[at].group != group)
        at++;
    if (at == numbers->capacity)
        SHOALI_TRY(grow(numbers));
    if (at == numbers->count)
        numbers->groups[numbers->count++] = (struct shoali_group){group, 1};
    *number_out = numbers->groups[at].next++;
    return SHOAL_OK;
}

void shoali_numbers_free(shoali_numbers *numbers)
{
    shoali_free(numbers->groups);
    *numbers = (shoali_numbers){0};
}
