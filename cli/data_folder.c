/* SPDX-License-Identifier: Apache-2.0 */
/* Where data sets go: a folder that holds nothing yet. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* What a run that was ended left of a file: NAME.PID.part. Making it anew is what it asked for. */
static bool is_unfinished(const char *name)
{
    const char *end = strrchr(name, '.');
    return end != NULL && strcmp(end, ".part") == 0;
}

/* The first name by the alphabet, so that the same folder is refused by the same words; "":
 * nothing. False: it cannot be read, errno says why. */
static bool first_name(DIR *folder, char first[NAME_MAX + 1])
{
    first[0] = '\0';
    for (const struct dirent *e; errno = 0, (e = readdir(folder)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_unfinished(e->d_name))
            continue;
        if (first[0] == '\0' || strcmp(e->d_name, first) < 0)
            snprintf(first, NAME_MAX + 1, "%s", e->d_name);
    }
    return errno == 0;
}

int data_may_fill(const char *verb, const char *dir)
{
    char name[NAME_MAX + 1] = "";
    DIR *folder = opendir(dir);
    if (folder == NULL && errno != EACCES)
        return CLI_OK; /* not there, or no folder: who makes the files says so */
    int code = CLI_OK;
    if (folder == NULL || !first_name(folder, name))
        code = cli_fail(verb, "cannot look into %s: %s", dir, strerror(errno));
    else if (name[0] != '\0')
        code = cli_usage(verb, "%s holds %s already: take another --out, or remove it first", dir,
                         name);
    if (folder != NULL)
        closedir(folder);
    return code;
}
