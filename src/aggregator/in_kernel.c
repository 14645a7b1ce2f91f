/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/in_kernel.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

enum { PORTS_MAX = 256, TCX_INGRESS = 46 /* BPF_TCX_INGRESS of linux/bpf.h, since 6.6 */ };

/* Of libbpf 1, whose ABI these are: a library that most users never need is no dependency. */
#define CALLS(CALL)                                                                         \
    CALL(void *, set_print, "libbpf_set_print", (int (*)(int, const char *, va_list)))      \
    CALL(void *, object_open, "bpf_object__open", (const char *))                           \
    CALL(int, object_load, "bpf_object__load", (void *))                                    \
    CALL(void, object_close, "bpf_object__close", (void *))                                 \
    CALL(int, map_fd, "bpf_object__find_map_fd_by_name", (const void *, const char *))      \
    CALL(void *, program, "bpf_object__find_program_by_name", (const void *, const char *)) \
    CALL(int, program_fd, "bpf_program__fd", (const void *))                                \
    CALL(int, link, "bpf_link_create", (int, int, int, const void *))                       \
    CALL(int, update, "bpf_map_update_elem", (int, const void *, const void *, uint64_t))   \
    CALL(int, lookup, "bpf_map_lookup_elem", (int, const void *, void *))                   \
    CALL(int, erase, "bpf_map_delete_elem", (int, const void *))

#define CALL_FIELD(type, name, symbol, args) type(*name) args;
typedef struct libbpf {
    CALLS(CALL_FIELD)
} libbpf;

struct shoali_in_kernel {
    /* constant */
    void *library, *object;
    libbpf bpf;
    int program, jobs, cells, ports;
    int links[PORTS_MAX];
    uint32_t link_count;
    shoali_summer summer;
    /* lock */
    pthread_mutex_t lock;
    bool used[SHOALI_KERNEL_CELLS];
    uint32_t next; /* the search for free cells starts here: freed ones rest for a while, as
                      a packet of theirs may be in the program's hands */
};

/* ------------------------------------------------------------------ as a service's summer */

static shoal_status summer_begin(void *ctx, const shoali_slot_share *share,
                                 const shoali_ip *workers, shoali_kernel_sum *sum_out)
{
    return shoali_in_kernel_begin(ctx, share, workers, sum_out);
}

static void summer_end(void *ctx, const shoali_kernel_sum *sum)
{
    shoali_in_kernel_end(ctx, sum);
}

static void summer_counted(void *ctx, const shoali_kernel_sum *sum, uint64_t *received_bytes_out,
                           uint64_t *sent_bytes_out)
{
    shoali_kernel_job job;
    shoali_in_kernel_counted(ctx, sum, &job);
    *received_bytes_out = job.received_bytes;
    *sent_bytes_out = job.sent_bytes;
}

static bool summer_missing(void *ctx, const shoali_kernel_sum *sum, uint32_t *slot_out,
                           uint32_t *round_out, uint32_t *worker_out)
{
    return shoali_in_kernel_missing(ctx, sum, slot_out, round_out, worker_out);
}

const shoali_summer *shoali_in_kernel_summer(const shoali_in_kernel *k)
{
    return &k->summer;
}

/* ------------------------------------------------------------------ open */

static int silent(int level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

static shoal_status find_calls(shoali_in_kernel *k)
{
    k->library = dlopen("libbpf.so.1", RTLD_NOW | RTLD_LOCAL);
    if (k->library == NULL)
        return shoali_fail(SHOAL_ENOTSUP, "libbpf.so.1 is not installed here");
#define CALL_FIND(type, name, symbol, args)                           \
    if ((*(void **)&k->bpf.name = dlsym(k->library, symbol)) == NULL) \
        return shoali_fail(SHOAL_ENOTSUP, "the libbpf.so.1 that is here has no " symbol);
    CALLS(CALL_FIND)
    (void)k->bpf.set_print(silent);
    return SHOAL_OK;
}

/* Where it is installed, or built: below the folder of this library. */
static shoal_status find_program(const char *wanted, char path[PATH_MAX])
{
    static const char *const places[] = {"shoal", "innet"};
    static const char mine;
    Dl_info here;
    if (wanted != NULL) {
        snprintf(path, PATH_MAX, "%s", wanted);
        return access(path, R_OK) == 0
                   ? SHOAL_OK
                   : shoali_fail(SHOAL_ENOTSUP, "there is no program at %s", wanted);
    }
    const int known = dladdr(&mine, &here);
    const char *slash = known != 0 ? strrchr(here.dli_fname, '/') : NULL;
    const int folder = slash != NULL ? (int)(slash - here.dli_fname) : 0;
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, PATH_MAX, "%.*s/%s/switchml.bpf.o", folder, here.dli_fname, places[i]);
        if (access(path, R_OK) == 0)
            return SHOAL_OK;
    }
    return shoali_fail(SHOAL_ENOTSUP, "there is no shoal/switchml.bpf.o beside the library %s",
                       known != 0 ? here.dli_fname : "");
}

static shoal_status load(shoali_in_kernel *k, const char *path)
{
    k->object = k->bpf.object_open(path);
    if (k->object == NULL)
        return shoali_fail(SHOAL_ENOTSUP, "%s is no program for the kernel", path);
    const int error = -k->bpf.object_load(k->object);
    if (error == EPERM || error == EACCES)
        return shoali_fail(SHOAL_ENOTSUP, "it may not load programs into the kernel (that takes "
                                          "root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)");
    if (error != 0)
        return shoali_fail(SHOAL_ENOTSUP, "the kernel refuses %s: %s", path, strerror(error));
    void *program = k->bpf.program(k->object, "shoal_switchml");
    k->program = program != NULL ? k->bpf.program_fd(program) : -1;
    k->jobs = k->bpf.map_fd(k->object, "jobs");
    k->cells = k->bpf.map_fd(k->object, "cells");
    k->ports = k->bpf.map_fd(k->object, "ports");
    if (k->program < 0 || k->jobs < 0 || k->cells < 0 || k->ports < 0)
        return shoali_fail(SHOAL_ENOTSUP, "%s is another program", path);
    return SHOAL_OK;
}

typedef shoal_status (*per_port)(shoali_in_kernel *k, const char *name, unsigned index);

static shoal_status for_ports(shoali_in_kernel *k, const char *ports, per_port each)
{
    size_t length;
    for (const char *at = *ports != '\0' ? ports : NULL; at != NULL;
         at = at[length] == ',' ? at + length + 1 : NULL) {
        char name[IF_NAMESIZE];
        length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < INT_MAX ? length : INT_MAX), at);
        const unsigned index = length < sizeof name ? if_nametoindex(name) : 0;
        if (index == 0)
            return shoali_fail(SHOAL_EINVAL, "ports %s: there is no interface '%.*s' here", ports,
                               (int)(length < 64 ? length : 64), at);
        SHOALI_TRY(each(k, name, index));
    }
    return SHOAL_OK;
}

static shoal_status check_port(shoali_in_kernel *k, const char *name, unsigned index)
{
    (void)k, (void)name, (void)index;
    return SHOAL_OK;
}

static shoal_status attach(shoali_in_kernel *k, const char *name, unsigned index)
{
    if (k->link_count == PORTS_MAX)
        return shoali_fail(SHOAL_EINVAL, "more than %d ports", PORTS_MAX);
    const int link = k->bpf.link(k->program, (int)index, TCX_INGRESS, NULL);
    if (link < 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "the kernel does not attach it to %s (%s); 6.6 and later "
                           "can",
                           name, strerror(-link));
    k->links[k->link_count++] = link;
    return SHOAL_OK;
}

shoal_status shoali_in_kernel_open(const char *program, const char *ports, shoali_in_kernel **out)
{
    char path[PATH_MAX];
    SHOALI_TRY(for_ports(NULL, ports, check_port));
    SHOALI_TRY(find_program(program, path));
    shoali_in_kernel *k = shoali_alloc(sizeof *k);
    if (k == NULL)
        return SHOAL_ENOMEM;
    pthread_mutex_init(&k->lock, NULL);
    k->summer = (shoali_summer){.ctx = k,
                                .block_most = SHOALI_KERNEL_VALUES,
                                .begin = summer_begin,
                                .end = summer_end,
                                .counted = summer_counted,
                                .missing = summer_missing};
    shoal_status status = find_calls(k);
    if (status == SHOAL_OK)
        status = load(k, path);
    if (status == SHOAL_OK)
        status = for_ports(k, ports, attach);
    if (status != SHOAL_OK) {
        shoali_in_kernel_close(k);
        return status;
    }
    *out = k;
    return SHOAL_OK;
}

/* libbpf stays: others may use it by now. */
void shoali_in_kernel_close(shoali_in_kernel *k)
{
    if (k == NULL)
        return;
    for (uint32_t i = 0; i < k->link_count; i++)
        close(k->links[i]);
    if (k->object != NULL)
        k->bpf.object_close(k->object);
    pthread_mutex_destroy(&k->lock);
    shoali_free(k);
}

int shoali_in_kernel_program(const shoali_in_kernel *k)
{
    return k->program;
}

/* ------------------------------------------------------------------ cells */

static bool are_free(const shoali_in_kernel *k, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (k->used[first + i])
            return false;
    return true;
}

static bool take_cells(shoali_in_kernel *k, uint32_t count, uint32_t *first_out)
{
    bool found = false;
    pthread_mutex_lock(&k->lock);
    for (uint32_t tried = 0; !found && tried < SHOALI_KERNEL_CELLS; tried++) {
        const uint32_t first = (k->next + tried) % SHOALI_KERNEL_CELLS;
        if (first + count > SHOALI_KERNEL_CELLS || !are_free(k, first, count))
            continue;
        memset(k->used + first, true, count);
        k->next = (first + count) % SHOALI_KERNEL_CELLS;
        *first_out = first;
        found = true;
    }
    pthread_mutex_unlock(&k->lock);
    return found;
}

static void leave_cells(shoali_in_kernel *k, const shoali_kernel_sum *sum)
{
    pthread_mutex_lock(&k->lock);
    memset(k->used + sum->first_cell, false, sum->slots);
    pthread_mutex_unlock(&k->lock);
}

/* ------------------------------------------------------------------ a share */

static shoal_status check(const shoali_slot_share *share, const shoali_ip *workers)
{
    if (share->workers > SHOALI_KERNEL_WORKERS || share->block > SHOALI_KERNEL_VALUES ||
        share->slots > SHOALI_KERNEL_CELLS)
        return shoali_fail(SHOAL_ENOTSUP,
                           "%u workers, blocks of %u values, %u slots: the program in the kernel "
                           "is made for %d, %d and %d",
                           share->workers, share->block, share->slots, SHOALI_KERNEL_WORKERS,
                           SHOALI_KERNEL_VALUES, SHOALI_KERNEL_CELLS);
    for (uint32_t w = 0; w < share->workers; w++)
        if (workers[w].any.sa_family != AF_INET)
            return shoali_fail(SHOAL_ENOTSUP,
                               "worker %u has no IPv4 address, and the program in "
                               "the kernel knows no others",
                               w);
    return SHOAL_OK;
}

/* As the first packets find it (slot_aggregator.c: shoali_slot_pool_init). */
static bool write_cells(const shoali_in_kernel *k, const shoali_slot_share *share, uint32_t first)
{
    for (uint32_t slot = 0; slot < share->slots; slot++) {
        const uint32_t number = first + slot;
        const shoali_kernel_cell cell = {.block = SHOALI_PACKET_NONE,
                                         .next = share->sparse ? SHOALI_PACKET_NONE : slot,
                                         .exponent = SHOALI_EXPONENT_ZERO};
        if (k->bpf.update(k->cells, &number, &cell, 0) != 0)
            return false;
    }
    return true;
}

static bool write_ports(const shoali_in_kernel *k, const shoali_kernel_sum *sum,
                        const shoali_ip *workers)
{
    for (uint32_t w = 0; w < sum->workers; w++) {
        const shoali_kernel_port_key key = {sum->key, w, 0};
        const shoali_kernel_port port = {.ip = workers[w].v4.sin_addr.s_addr,
                                         .udp = workers[w].v4.sin_port};
        if (k->bpf.update(k->ports, &key, &port, 0) != 0)
            return false;
    }
    return true;
}

/* The job comes last: from then on packets are taken. */
static bool write_job(const shoali_in_kernel *k, const shoali_slot_share *share,
                      const shoali_kernel_sum *sum)
{
    const shoali_kernel_job job = {.workers = share->workers,
                                   .block = share->block,
                                   .blocks = share->blocks,
                                   .slots = share->slots,
                                   .sparse = share->sparse,
                                   .first_cell = sum->first_cell,
                                   .unassigned = share->slots};
    return k->bpf.update(k->jobs, &sum->key, &job, 0) == 0;
}

shoal_status shoali_in_kernel_begin(shoali_in_kernel *k, const shoali_slot_share *share,
                                    const shoali_ip *workers, shoali_kernel_sum *sum_out)
{
    const uint32_t key[2] = {htonl((uint32_t)(share->key >> 32)), htonl((uint32_t)share->key)};
    shoali_kernel_sum sum = {.slots = share->slots, .workers = share->workers};
    memcpy(&sum.key, key, sizeof key);
    SHOALI_TRY(check(share, workers));
    if (!take_cells(k, sum.slots, &sum.first_cell))
        return shoali_fail(SHOAL_ENOTSUP, "the kernel's maps have no room for %u slots more",
                           share->slots);
    if (!write_cells(k, share, sum.first_cell) || !write_ports(k, &sum, workers) ||
        !write_job(k, share, &sum)) {
        const int error = errno;
        shoali_in_kernel_end(k, &sum);
        return shoali_fail(SHOAL_ENOTSUP, "the kernel's maps take no more: %s", strerror(error));
    }
    *sum_out = sum;
    return SHOAL_OK;
}

void shoali_in_kernel_end(shoali_in_kernel *k, const shoali_kernel_sum *sum)
{
    (void)k->bpf.erase(k->jobs, &sum->key);
    for (uint32_t w = 0; w < sum->workers; w++) {
        const shoali_kernel_port_key key = {sum->key, w, 0};
        (void)k->bpf.erase(k->ports, &key);
    }
    leave_cells(k, sum);
}

void shoali_in_kernel_counted(const shoali_in_kernel *k, const shoali_kernel_sum *sum,
                              shoali_kernel_job *job_out)
{
    if (k->bpf.lookup(k->jobs, &sum->key, job_out) != 0)
        memset(job_out, 0, sizeof *job_out);
}

bool shoali_in_kernel_missing(const shoali_in_kernel *k, const shoali_kernel_sum *sum,
                              uint32_t *slot_out, uint32_t *round_out, uint32_t *worker_out)
{
    shoali_kernel_cell cell;
    for (uint32_t slot = 0; slot < sum->slots; slot++) {
        const uint32_t number = sum->first_cell + slot;
        if (k->bpf.lookup(k->cells, &number, &cell) != 0 || cell.finished)
            continue;
        for (uint32_t w = 0; w < sum->workers; w++)
            if ((cell.seen >> w & 1) == 0) {
                *slot_out = slot;
                *round_out = cell.round;
                *worker_out = w;
                return true;
            }
    }
    return false;
}
