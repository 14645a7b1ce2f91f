/* SPDX-License-Identifier: Apache-2.0 */
#include "nearest.h"

#include <stdint.h>
#include <string.h>

enum { NAME_MOST = 32 };

size_t nearest_distance(const char *a, const char *b)
{
    size_t rows[3][NAME_MOST + 1], n = strnlen(a, NAME_MOST + 1), m = strnlen(b, NAME_MOST + 1);
    if (n > NAME_MOST || m > NAME_MOST)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = above[j - 1] + (a[i - 1] != b[j - 1]);
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n % 3][m];
}

size_t nearest_most(const char *typed)
{
    return strnlen(typed, NAME_MOST) < 5 ? 1 : 2;
}
