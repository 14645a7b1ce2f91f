/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"

const char *shoali_getenv(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

/* A launcher and the variables in which it tells rank and size; the first size variable that is set
 * counts. */
typedef struct source {
    const char *name, *rank, *sizes[4];
} source;
static const source sources[] = {
    {"Shoal", "SHOAL_RANK", {"SHOAL_WORLD_SIZE"}},
    {"torchrun", "RANK", {"WORLD_SIZE"}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}},
    {"PMIx", "PMIX_RANK", {"PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
    {"PMI", "PMI_RANK", {"PMI_SIZE"}},
    {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

typedef struct finder {
    const shoal_comm_desc *desc;
    shoali_env env;
    void *ctx;
    shoali_launch *out;
} finder;

static const char *variable(const finder *f, const char *name)
{
    const char *value = f->env(f->ctx, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A decimal number within 0..max, and nothing else. */
static bool parse_number(const char *text, uint64_t max, uint64_t *value_out)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > max)
        return false;
    *value_out = value;
    return true;
}

static shoal_status number(const char *name, const char *text, uint64_t max, uint64_t *value_out)
{
    if (parse_number(text, max, value_out))
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "the variable %s holds '%.40s', not a number in 0..%llu", name,
                       text, (unsigned long long)max);
}

static const char *size_variable(const finder *f, const source *s)
{
    for (size_t i = 0; i < sizeof s->sizes / sizeof s->sizes[0] && s->sizes[i] != NULL; i++)
        if (variable(f, s->sizes[i]) != NULL)
            return s->sizes[i];
    return NULL;
}

static bool is_complete(const finder *f, const source *s)
{
    return variable(f, s->rank) != NULL && size_variable(f, s) != NULL;
}

static shoal_status nothing_found(const finder *f)
{
    for (size_t i = 0; i < SOURCES; i++) {
        bool rank = variable(f, sources[i].rank) != NULL;
        if (rank != (size_variable(f, &sources[i]) != NULL)) {
            shoal_status status = shoali_fail(SHOAL_EINVAL, "%s is set, but %s is not",
                                              rank ? sources[i].rank
                                                   : size_variable(f, &sources[i]),
                                              rank ? sources[i].sizes[0] : sources[i].rank);
            shoali_error_advice("Set both, or give rank and world_size.");
            return status;
        }
    }
    shoal_status status = shoali_fail(
        SHOAL_EINVAL,
        "rank and size are unknown: neither given nor set by SHOAL_RANK, torchrun (RANK), "
        "Open MPI (OMPI_COMM_WORLD_RANK), PMIx (PMIX_RANK), PMI (PMI_RANK) or Slurm "
        "(SLURM_PROCID)");
    shoali_error_advice(
        "Start the program with `shoal run -n N`, torchrun, mpirun or srun, or set SHOAL_RANK, "
        "SHOAL_WORLD_SIZE and SHOAL_RENDEZVOUS.");
    return status;
}

static void note(shoali_launch *out, const char *format, ...) SHOAL_PRINTF(2, 3);

static void note(shoali_launch *out, const char *format, ...)
{
    size_t used = strlen(out->why);
    va_list args;
    va_start(args, format);
    vsnprintf(out->why + used, sizeof out->why - used, format, args);
    va_end(args);
}

/* Rank and size from the first complete source; fields of the descriptor stand above all. *won_out
 * NULL: the descriptor. */
static shoal_status find_rank(const finder *f, const source **won_out)
{
    const source *won = NULL;
    uint64_t rank = 0, size = 0;
    bool given = f->desc->rank >= 0 && f->desc->world_size >= 0;
    for (size_t i = 0; i < SOURCES && !given && won == NULL; i++)
        if (is_complete(f, &sources[i]))
            won = &sources[i];
    if (!given && won == NULL)
        return nothing_found(f);
    if (won != NULL) {
        const char *size_name = size_variable(f, won);
        SHOALI_TRY(number(won->rank, variable(f, won->rank), UINT32_MAX, &rank));
        SHOALI_TRY(number(size_name, variable(f, size_name), UINT32_MAX, &size));
        note(f->out, "rank and size from the variables of %s", won->name);
        for (size_t i = 0; i < SOURCES; i++)
            if (&sources[i] != won && is_complete(f, &sources[i]))
                note(f->out, " (not those of %s)", sources[i].name);
    } else {
        note(f->out, "rank and size as given");
    }
    if (f->desc->rank >= 0)
        rank = (uint64_t)f->desc->rank;
    if (f->desc->world_size >= 0)
        size = (uint64_t)f->desc->world_size;
    if (size < 1 || size > SHOALI_MAX_ENDPOINTS || rank >= size)
        return shoali_fail(
            SHOAL_EINVAL, "rank %llu of %llu: the size must be 1..%d and the rank below it (%s)",
            (unsigned long long)rank, (unsigned long long)size, SHOALI_MAX_ENDPOINTS, f->out->why);
    f->out->rank = (uint32_t)rank;
    f->out->world_size = (uint32_t)size;
    *won_out = won;
    return SHOAL_OK;
}

bool shoali_launch_first_host(const char *list, char *host_out, size_t host_bytes)
{
    size_t used = 0;
    bool inside = false, skipping = false; /* of brackets; past the first number in them */
    for (const char *c = list; *c != '\0' && (inside || *c != ','); c++) {
        if (*c == '[' || *c == ']') {
            if (inside != (*c == ']'))
                return false;
            inside = *c == '[';
            skipping = false;
        } else if (inside && (*c == '-' || *c == ',')) {
            skipping = true;
        } else if (!skipping) {
            if (used + 1 >= host_bytes)
                return false;
            host_out[used++] = *c;
        }
    }
    host_out[used] = '\0';
    return !inside && used > 0;
}

/* tcp://host:port from MASTER_ADDR and the port above MASTER_PORT. */
static shoal_status meet_at_master(const finder *f)
{
    const char *host = variable(f, "MASTER_ADDR");
    uint64_t port;
    SHOALI_TRY(number("MASTER_PORT", variable(f, "MASTER_PORT"), 65534, &port));
    snprintf(f->out->rendezvous, sizeof f->out->rendezvous,
             strchr(host, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", host, (unsigned)port + 1);
    f->out->another = "in MASTER_PORT on all ranks; rank 0 takes the one above it";
    note(f->out, "; meeting at %s, from MASTER_ADDR and MASTER_PORT + 1", f->out->rendezvous);
    return SHOAL_OK;
}

static shoal_status meet_on_slurm(const finder *f)
{
    const char *list = variable(f, "SLURM_STEP_NODELIST");
    if (list == NULL)
        list = variable(f, "SLURM_JOB_NODELIST");
    const char *job = variable(f, "SLURM_JOB_ID"), *step = variable(f, "SLURM_STEP_ID");
    char host[256];
    uint64_t job_id, step_id = 0;
    if (list == NULL || !shoali_launch_first_host(list, host, sizeof host))
        return shoali_fail(SHOAL_EINVAL, "SLURM_STEP_NODELIST '%.80s' names no first host",
                           list ? list : "");
    if (job == NULL)
        return shoali_fail(SHOAL_EINVAL, "SLURM_JOB_ID is not set, so there is no port to meet at");
    SHOALI_TRY(number("SLURM_JOB_ID", job, UINT64_MAX, &job_id));
    if (step != NULL)
        SHOALI_TRY(number("SLURM_STEP_ID", step, UINT64_MAX, &step_id));
    /* 20000..29999: below the ports that kernels hand out, and different for neighbouring jobs and
     * steps */
    unsigned port = 20000 + (unsigned)((job_id * 13 + step_id) % 10000);
    snprintf(f->out->rendezvous, sizeof f->out->rendezvous, "tcp://%s:%u", host, port);
    note(f->out, "; meeting at %s, the first host of the Slurm step", f->out->rendezvous);
    return SHOAL_OK;
}

/* All ranks of an Open MPI job on one host: a file named after user and job. */
static bool meet_on_this_host(const finder *f)
{
    const char *local = variable(f, "OMPI_COMM_WORLD_LOCAL_SIZE");
    const char *name = variable(f, "PMIX_NAMESPACE");
    uint64_t count;
    if (local == NULL || name == NULL || !parse_number(local, UINT32_MAX, &count) ||
        count != f->out->world_size)
        return false;
    snprintf(f->out->rendezvous, sizeof f->out->rendezvous, "file:///tmp/shoal-%u-%016llx",
             (unsigned)getuid(), (unsigned long long)shoali_hash(name, strlen(name), 0));
    note(f->out, "; meeting at %s, as all ranks share this host", f->out->rendezvous);
    return true;
}

/* Shoal's launchers set the variable themselves. */
static const char *another_point(const finder *f, bool given)
{
    if (given)
        return "where the program says the rendezvous";
    return variable(f, "SHOAL_LAUNCHER_FD") != NULL || variable(f, "SHOAL_LAUNCH_ID") != NULL ||
                   variable(f, "SHOAL_OWN_LAUNCHER") != NULL
               ? "with --port; rank 0 takes the one above it"
               : "in SHOAL_RENDEZVOUS on all ranks";
}

static shoal_status find_meeting(const finder *f, const source *won)
{
    const char *given = f->desc->rendezvous;
    if (given != NULL && strcmp(given, "env") == 0)
        given = NULL;
    f->out->another = another_point(f, given != NULL);
    const char *text = given != NULL ? given : variable(f, "SHOAL_RENDEZVOUS");
    if (text != NULL) {
        if (strlen(text) >= sizeof f->out->rendezvous)
            return shoali_fail(SHOAL_EINVAL, "the rendezvous '%.80s...' is too long", text);
        snprintf(f->out->rendezvous, sizeof f->out->rendezvous, "%s", text);
        note(f->out, "; meeting at %.200s, %s", text,
             given != NULL ? "as given" : "from SHOAL_RENDEZVOUS");
        return SHOAL_OK;
    }
    if (f->out->world_size == 1)
        return SHOAL_OK;
    if (variable(f, "MASTER_ADDR") != NULL && variable(f, "MASTER_PORT") != NULL)
        return meet_at_master(f);
    if (won != NULL && variable(f, "SLURM_PROCID") != NULL && strcmp(won->name, "Shoal") != 0 &&
        strcmp(won->name, "Open MPI") != 0)
        return meet_on_slurm(f);
    if (meet_on_this_host(f))
        return SHOAL_OK;
    shoal_status status = shoali_fail(
        SHOAL_EINVAL, "%s, but nothing says where rank 0 is to be met", f->out->why);
    shoali_error_advice("Set SHOAL_RENDEZVOUS to tcp://HOST:PORT of rank 0's host or to "
                        "file:///SHARED/PATH on all ranks.");
    return status;
}

shoal_status shoali_launch_find(const shoal_comm_desc *desc, shoali_env env, void *ctx,
                                shoali_launch *launch_out)
{
    shoali_launch launch = {0};
    finder f = {desc, env, ctx, &launch};
    const source *won = NULL;
    SHOALI_TRY(find_rank(&f, &won));
    if (desc->servers < 0 || (uint32_t)desc->servers >= launch.world_size)
        return shoali_fail(SHOAL_EINVAL, "%d servers among %u endpoints leave no worker",
                           desc->servers, launch.world_size);
    launch.workers = launch.world_size - (uint32_t)desc->servers;
    SHOALI_TRY(find_meeting(&f, won));
    *launch_out = launch;
    return SHOAL_OK;
}

static void tell_launcher(shoali_env env, void *ctx, const void *word, size_t bytes)
{
    const char *text = env(ctx, "SHOAL_LAUNCHER_FD");
    uint64_t fd;
    struct stat file;
    if (text == NULL || !parse_number(text, INT32_MAX, &fd) || fstat((int)fd, &file) != 0 ||
        !S_ISFIFO(file.st_mode))
        return; /* it is not, or no longer, the launcher's */
    if (write((int)fd, word, bytes) != (ssize_t)bytes)
        shoali_log(DEBUG, "the launcher does not listen: %s", strerror(errno));
}

void shoali_launch_survives(shoali_env env, void *ctx)
{
    tell_launcher(env, ctx, (const uint8_t[SHOALI_LAUNCHER_WORD]){'s'}, SHOALI_LAUNCHER_WORD);
}

void shoali_launch_keeps(shoali_env env, void *ctx)
{
    tell_launcher(env, ctx, (const uint8_t[SHOALI_LAUNCHER_WORD]){'k'}, SHOALI_LAUNCHER_WORD);
}

void shoali_launch_lacks(shoali_env env, void *ctx)
{
    tell_launcher(env, ctx, (const uint8_t[SHOALI_LAUNCHER_WORD]){'u'}, SHOALI_LAUNCHER_WORD);
}

void shoali_launch_has_place(shoali_env env, void *ctx)
{
    uint64_t number;
    const char *text = env(ctx, "SHOAL_SPARE");
    if (text == NULL || !parse_number(text, UINT16_MAX, &number))
        return;
    const uint8_t word[SHOALI_LAUNCHER_WORD] = {'p', (uint8_t)number, (uint8_t)(number >> 8)};
    tell_launcher(env, ctx, word, sizeof word);
}
