/* SPDX-License-Identifier: Apache-2.0 */
#include "train_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "shoal/job.h"

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* ------------------------------------------------------------------ keeping */

/* NAME=VALUE: values may be secrets, and the folder is read by others. */
static json_t *entry_of(const char *name, const char *text)
{
    if (text == NULL)
        return json_true();
    return strcmp(name, "export") == 0 ? json_stringn(text, strcspn(text, "=")) : json_string(text);
}

void train_kept_add(train_kept *kept, const char *name, const char *text)
{
    kept->given = kept->given != NULL ? kept->given : json_object();
    json_t *entry = entry_of(name, text), *list = json_object_get(kept->given, name);
    if (strcmp(name, "export") != 0) {
        json_object_set_new(kept->given, name, entry);
        return;
    }
    if (list == NULL)
        json_object_set_new(kept->given, name, list = json_array());
    json_array_append_new(list, entry);
}

void train_kept_launch(train_kept *kept, const launch_desc *launch)
{
    char port[16];
    snprintf(port, sizeof port, "%u", launch->port);
    if (launch->hosts != NULL)
        train_kept_add(kept, "hosts", launch->hosts);
    if (launch->path != NULL)
        train_kept_add(kept, "path", launch->path);
    if (launch->port != 0)
        train_kept_add(kept, "port", port);
    for (uint32_t i = 0; i < launch->forward_count; i++)
        train_kept_add(kept, "export", launch->forward[i]);
}

const char *train_kept_text(train_kept *kept)
{
    /* How it is told, not what is done; and what the library keeps in another form. */
    static const char *const others[] = {"out",
                                         "resume",
                                         "start",
                                         "json",
                                         "quiet",
                                         "dry-run",
                                         "log",
                                         "log-format",
                                         "circulant",
                                         "precision",
                                         "admm",
                                         "metrics",
                                         "metrics-token-file",
                                         "tensorboard",
                                         "trace",
                                         "trace-last",
                                         NULL};
    json_t *rest = kept->given != NULL ? json_copy(kept->given) : json_object();
    for (size_t i = 0; others[i] != NULL; i++)
        json_object_del(rest, others[i]);
    free(kept->text);
    kept->text = rest != NULL ? json_dumps(rest, JSON_COMPACT) : NULL;
    json_decref(rest);
    return kept->text;
}

const char *train_kept_option(const train_kept *kept, const char *name)
{
    const char *text, *other;
    for (uint32_t i = 0; kept->run != NULL; i++) {
        text = shoal_run_option(kept->run, i, &other);
        if (text == NULL || strcmp(name, other) == 0)
            return text;
    }
    return NULL;
}

void train_kept_free(train_kept *kept)
{
    json_decref(kept->given);
    free(kept->text);
    shoal_run_close(kept->run);
    *kept = (train_kept){0};
}

/* ------------------------------------------------------------------ going on */

static bool lists(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return true;
    return false;
}

/* Whether the command line names a protocol that this option of the run does not go with: then the
 * user could not leave it out. */
static bool gives_way(const json_t *given, const char *name)
{
    const char *sync = json_string_value(json_object_get(given, "sync"));
    const shoal_job job = {.size = sizeof job, .sync = sync, .asks = SHOAL_JOB_CHECKPOINTS};
    return strcmp(name, "checkpoint-every") == 0 && sync != NULL &&
           shoal_job_check(&job) != SHOAL_OK;
}

/* Whether the command line, or the library, decides about this option already. */
static bool is_decided(const json_t *given, const char *name, const char *text)
{
    static const char *const library[] = {"model", "data", NULL}; /* with layers and digest */
    static const char *const there[] = {"hosts", "export", "path", NULL}; /* a lab is here */
    static const char *const instead[] = {"lab", "workers", NULL}; /* as many as hosts have slots */
    const json_t *own = json_object_get(given, name);
    if (is_one_of(name, library))
        return true;
    if (json_object_get(given, "lab") != NULL && is_one_of(name, there))
        return true;
    if (json_object_get(given, "hosts") != NULL && is_one_of(name, instead))
        return true;
    if (own == NULL && gives_way(given, name))
        return true;
    return json_is_array(own) ? lists(own, text) : own != NULL;
}

static bool has_run_file(const char *folder)
{
    char path[4096];
    return (size_t)snprintf(path, sizeof path, "%s/run.json", folder) < sizeof path &&
           access(path, F_OK) == 0;
}

static bool is_simulated(const shoal_run *run)
{
    json_t *all = json_loads(shoal_run_json(run), 0, NULL);
    const bool simulated = json_is_string(json_object_get(all, "clock"));
    json_decref(all);
    return simulated;
}

int train_kept_restore(train_kept *kept, const char *resume, train_take take, void *args)
{
    const char *name, *text;
    if (resume == NULL || !has_run_file(resume)) /* an older version's: all options are given */
        return CLI_OK;
    if (shoal_run_open(resume, &kept->run) != SHOAL_OK)
        return cli_report("train");
    if (is_simulated(kept->run))
        return cli_usage(
            "train",
            "--resume %s: shoal sim wrote it: it holds no weights, and nothing goes on "
            "from it",
            resume);
    json_t *given = kept->given != NULL ? json_deep_copy(kept->given) : NULL;
    int taken = 1;
    for (uint32_t i = 0; taken > 0 && (text = shoal_run_option(kept->run, i, &name)) != NULL; i++) {
        if (is_decided(given, name, text))
            continue;
        taken = take(args, name, text);
        if (taken == 1)
            train_kept_add(kept, name, text[0] != '\0' ? text : NULL);
        else if (taken <= 0)
            cli_usage("train", "%s/run.json: --%s %s: %s", resume, name, text,
                      taken < 0 ? "this version has no such option" : "not in range");
    }
    json_decref(given);
    return taken > 0 ? CLI_OK : CLI_USAGE;
}
