/* SPDX-License-Identifier: Apache-2.0 */
/* shoal runs: which run folders there are, what is in them, whether they are whole, and how they
 * would go on. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "runs_show.h"
#include "shoal/run.h"

enum { PATH_BYTES = 4096, DEPTH_MOST = 32 };

typedef struct runs_args {
    char **folders; /* of argv */
    int count;
    bool json, quick, details;
    json_t *list; /* what was found */
    bool damaged; /* one of them is */
} runs_args;

static const struct argp_option options[] = {
    {"quick", 'q', NULL, 0, "Believe the digests of checkpoints instead of reading tensors", 0},
    {"long", 'l', NULL, 0, "All about each run, also where there are several", 0},
    {"json", 'j', NULL, 0, "Print JSON", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    runs_args *args = state->input;
    switch (key) {
    case 'q':
        args->quick = true;
        return 0;
    case 'l':
        args->details = true;
        return 0;
    case 'j':
        args->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        args->folders = state->argv + state->next;
        args->count = state->argc - state->next;
        return 0;
    default:
        (void)text;
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- finding */

static int look_at(runs_args *args, const char *dir)
{
    shoal_run_look *look = NULL;
    if (shoal_run_look_at(dir, args->quick, &look) != SHOAL_OK)
        return cli_report("runs");
    json_t *run = runs_object(dir, look);
    args->damaged = args->damaged || runs_is_damaged(run);
    json_array_append_new(args->list, run);
    progress_at((double)json_array_size(args->list), 0, NULL);
    shoal_run_look_close(look);
    return CLI_OK;
}

/* A name below a folder that is one itself; links are not followed, so nothing comes twice. */
static bool is_folder(const char *dir, const struct dirent *entry, char path[PATH_BYTES])
{
    struct stat info;
    const char *name = entry->d_name;
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        snprintf(path, PATH_BYTES, "%s%s%s", dir, slash, name) >= PATH_BYTES)
        return false;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int search(runs_args *args, const char *dir, int depth)
{
    char path[PATH_BYTES];
    struct dirent **names = NULL;
    if (shoal_run_is_folder(dir))
        return look_at(args, dir);
    const int count = scandir(dir, &names, NULL, alphasort);
    int code = CLI_OK;
    if (count < 0) {
        return cli_fail("runs", "cannot look into %s: %s", dir, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        if (depth < DEPTH_MOST && is_folder(dir, names[i], path)) {
            const int found = search(args, path, depth + 1);
            code = found != CLI_OK ? found : code;
        }
        free(names[i]);
    }
    free(names);
    return code;
}

/* What the user has named: it may be a link, and has to be a folder. */
static int search_from(runs_args *args, const char *dir)
{
    struct stat info;
    if (dir[0] == '\0')
        return cli_usage("runs", "the name of a folder is empty");
    if (stat(dir, &info) != 0) {
        return cli_fail("runs", "cannot look into %s: %s", dir, strerror(errno));
    }
    if (!S_ISDIR(info.st_mode))
        return cli_usage("runs", "%s is no folder", dir);
    return search(args, dir, 0);
}

/* ---------------------------------------------------------------- telling */

static int tell(runs_args *args)
{
    if (args->json)
        return answer_print("runs", json_pack("{s:O}", "runs", args->list));
    const size_t count = json_array_size(args->list);
    if (count == 0)
        for (int i = 0; i < args->count; i++)
            printf("no run in %s, or below it\n", args->folders[i]);
    else if (count > 1)
        runs_table(args->list);
    for (size_t i = 0; i < count && (count == 1 || args->details); i++)
        runs_details(json_array_get(args->list, i));
    if (count > 1 && !args->details)
        puts("`shoal runs --long` says more of each.");
    return CLI_OK;
}

static int run(runs_args *args)
{
    int code = CLI_OK;
    args->list = json_array();
    progress_begin("runs", "runs", false, "nothing was changed");
    for (int i = 0; i < args->count; i++) {
        const int found = search_from(args, args->folders[i]);
        code = code == CLI_OK ? found : code;
    }
    progress_end();
    if (code == CLI_OK || json_array_size(args->list) > 0) {
        const int told = tell(args);
        code = code == CLI_OK ? told : code;
    }
    json_decref(args->list);
    return code == CLI_OK && args->damaged ? CLI_FAILED : code;
}

int cli_runs(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "DIR [DIR...]",
        "Say what is in run folders, at DIR or anywhere below it: model, data, how far the run is, "
        "which checkpoints are whole, and how it goes on.\v"
        "Example: shoal runs runs/\n"
        "         shoal runs runs/x --json\n\n"
        "A run is running (its folder is held, and by whom), finished, stopped (it would go on) or "
        "damaged (what, and from where it would go on). Digests of all checkpoints are checked, "
        "unless --quick. Nothing is changed; symbolic links below DIR are not followed. The exit "
        "code is 0, 1 if a run is damaged or cannot be looked into. docs/run-folders.md describes "
        "the folders.",
        progress_children,
        NULL,
        NULL};
    runs_args args = {0};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.count == 0)
        return cli_usage("runs", "which folder? Name one that holds runs, or a run");
    return run(&args);
}
