/* SPDX-License-Identifier: Apache-2.0 */
/* What repeats allocates nothing: calls of malloc and its kin from the library (the linker sends
 * them through here) are counted in all threads of real ranks, once their first rounds are over. */
#include "support/ranks.h"

#include "support/tinydata.h"
#include "worker/worker.h"

enum { RANKS = 4, WARM = 3, TIMES = 100, STEPS = 1000, COUNT = 5000, SECOND_US = 1000 * 1000 };

static atomic_uint counted;
static _Thread_local bool own; /* by the test itself */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);

static void count(void)
{
    if (!own)
        atomic_fetch_add(&counted, 1);
}

void *__wrap_malloc(size_t bytes)
{
    count();
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t number, size_t size)
{
    count();
    return __real_calloc(number, size);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    count();
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    count();
    return __real_strdup(text);
}

/* A shared library's calls do not come through here (the build for mutants). */
static void needs_the_hook(void)
{
    atomic_store(&counted, 0);
    shoali_free(shoali_alloc(1));
    if (atomic_load(&counted) == 0)
        skip();
}

/* At most 0.05 of them each time. What comes for the first time late (the end of an epoch has an
 * operation of its own) is among them. */
static void check_few(const char *what, uint32_t times)
{
    const unsigned found = atomic_load(&counted);
    if (found * 20 > times) {
        fprintf(stderr, "%s: %u allocations in %u times\n", what, found, times);
        rank_check(found * 20 <= times);
    }
}

/* ------------------------------------------------------------------ operations */

typedef struct way {
    const char *collective, *codec;
} way;

/* Plain, with feedback, measured first, in rounds, inside each host first; every schedule. */
static const way ways[] = {{"ring", NULL},
                           {"ring:both", "fp16"},
                           {"direct", "inceptionn:bound=2^-8"},
                           {"ring", "inceptionn:prescale=auto"},
                           {"halving_doubling", "terngrad"},
                           {"worker_aggregator", "terngrad"},
                           {"hierarchical:dims=2/2", NULL},
                           {"gather", "topk"},
                           {"ring", "powersgd"}};

static void wrapped(const rank_env *env)
{
    static float buf[COUNT];
    shoal_comm *comm = rank_join(env);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        for (int i = 0; i < WARM + TIMES; i++) {
            if (i == WARM) {
                rank_ok(shoal_barrier(comm));
                atomic_store(&counted, 0);
            }
            for (size_t e = 0; e < COUNT; e++)
                buf[e] = (float)((e * 7 + env->rank) % 13) - 6;
            rank_ok(shoal_allreduce(comm, buf, COUNT, ways[w].collective, ways[w].codec));
        }
        check_few(ways[w].codec != NULL ? ways[w].codec : ways[w].collective, TIMES);
    }
    shoal_comm_destroy(comm);
}

static void calls_that_repeat_do_not_allocate(void **state)
{
    (void)state;
    needs_the_hook();
    ranks_run(RANKS, "file", NULL, wrapped, NULL, 150 * SECOND_US);
    ranks_run(RANKS, "file", "tcp:shm=off", wrapped, NULL, 150 * SECOND_US);
}

/* ------------------------------------------------------------------ training */

static void trained(const rank_env *env)
{
    const way *w = env->arg;
    shoal_train *train = NULL;
    shoal_train_progress progress = {.size = sizeof progress};
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 4;
    desc.epochs = 1000;
    desc.max_steps = STEPS;
    desc.lr = 0.05;
    desc.no_evaluation = true;
    desc.collective = w->collective;
    desc.codec = w->codec;
    shoal_comm *comm = rank_join(env);
    rank_ok(shoal_train_create(comm, &desc, &train));
    for (int step = 0; step < STEPS - 1; step++) { /* the last one says how it went */
        if (step == WARM)
            atomic_store(&counted, 0);
        rank_ok(shoal_train_step(train, &progress));
    }
    check_few(w->codec != NULL ? w->codec : "training", STEPS - 1 - WARM);
    shoal_train_destroy(train);
    shoal_comm_destroy(comm);
}

static void steps_do_not_allocate(void **state)
{
    (void)state;
    needs_the_hook();
    static const size_t some[] = {0, 2, 3, 8};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        ranks_run(RANKS, "file", NULL, trained, &ways[some[i]], 150 * SECOND_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(calls_that_repeat_do_not_allocate),
                                       CHECK_TEST(steps_do_not_allocate)};
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
