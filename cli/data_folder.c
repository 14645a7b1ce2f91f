/* SPDX-License-Identifier: Apache-2.0 */
/* Where data sets go: a folder that holds nothing yet. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The folder itself is locked: a file would be in the data set. False: another process has it; a
 * file system without locks has no such processes that we could know of. */
static bool lock(DIR *folder)
{
    return flock(dirfd(folder), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static int look_into(const char *verb, const char *dir, DIR *folder)
{
    char name[NAME_MAX + 1] = "";
    if (!lock(folder))
        return cli_usage(verb,
                         "%s is being filled by another `shoal data`: wait for it, or take "
                         "another --out",
                         dir);
    if (!first_name(folder, name))
        return cli_fail(verb, "cannot look into %s: %s", dir, strerror(errno));
    if (name[0] != '\0')
        return cli_usage(verb, "%s holds %s already: take another --out, or remove it first", dir,
                         name);
    return CLI_OK;
}

int data_fill(const char *verb, const char *dir, int (*make)(void *args), void *args)
{
    const bool made = mkdir(dir, 0777) == 0;
    DIR *folder = opendir(dir);
    int code = CLI_OK;
    if (folder != NULL)
        code = look_into(verb, dir, folder);
    else if (errno == EACCES)
        code = cli_fail(verb, "cannot look into %s: %s", dir, strerror(errno));
    if (code ==
        CLI_OK) /* of no folder, and of one that cannot be made, who makes the files says so */
        code = make(args);
    if (made && code != CLI_OK)
        (void)rmdir(dir); /* if nothing is in it */
    if (folder != NULL)
        closedir(folder);
    return code;
}
