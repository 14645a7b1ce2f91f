/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation that is refused, or that fails by itself, leaves no run folder, nor half of one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "virtual/sim_keep.h"

size_t shoali_sim_there(const char *path)
{
    char part[SHOALI_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return length;
    memcpy(part, path, length + 1);
    while (length > 0 && access(part, F_OK) != 0) {
        while (length > 0 && part[length - 1] == '/')
            length--;
        while (length > 0 && part[length - 1] != '/')
            length--;
        part[length] = '\0';
    }
    return length;
}

static void remove_file(const shoali_sim_keep *keep, const char *name)
{
    char path[SHOALI_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", keep->out, name) < (int)sizeof path)
        (void)unlink(path);
}

/* Ours alone: they came with the lock. */
static void remove_files(const shoali_sim_keep *keep)
{
    char name[32];
    remove_file(keep, "run.json");
    remove_file(keep, "events.jsonl");
    remove_file(keep, "metrics.jsonl");
    for (uint32_t w = 1; keep->workers != NULL && w < keep->sim->workers; w++) {
        snprintf(name, sizeof name, "metrics.%u.jsonl", w);
        if (keep->workers[w].begun)
            remove_file(keep, name);
    }
    remove_file(keep, "lock");
}

void shoali_sim_undo(const shoali_sim_keep *keep)
{
    char part[SHOALI_PATH_BYTES];
    size_t length = strlen(keep->out);
    if (length >= sizeof part)
        return;
    if (keep->lock > 0)
        remove_files(keep);
    memcpy(part, keep->out, length + 1);
    while (length > keep->there && rmdir(part) == 0) { /* not if somebody has put something there */
        while (length > 0 && part[length - 1] == '/')
            length--;
        while (length > 0 && part[length - 1] != '/')
            length--;
        part[length] = '\0';
    }
}
