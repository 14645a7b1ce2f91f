/* SPDX-License-Identifier: Apache-2.0 */
/* Members come and go while a job sums: whoever is there agrees on who that is, every sum is of
 * exactly those, and counts go on from the one that was furthest. */
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/strangers.h"

enum { COUNT = 3000, STEPS_MAX = 10000000 };
#define SECONDS(n) ((int64_t)(n)*1000 * 1000)

typedef struct plan {
    uint32_t members;   /* at the start; more ranks are started when board->go says so */
    uint32_t end_size;  /* ends when so many members have made `steps` steps together */
    uint32_t end_epoch; /* and not in an earlier epoch */
    uint32_t victim;
    bool spare; /* the late ones */
    bool named; /* they meet at a name: 127.1 is none of four numbers, and needs no /etc/hosts */
    int64_t peer_timeout_us;
} plan;

static void count_step(const rank_env *env, const shoal_view *view, const float *buf)
{
    for (size_t i = 0; i < COUNT; i += 97)
        rank_check(buf[i] == (float)view->rank_count);
    atomic_fetch_add(&env->board->rank[env->rank].steps, 1);
}

static void reform(const rank_env *env, shoal_comm **comm, uint64_t *done, shoal_view *view)
{
    rank_ok(shoal_comm_reform(comm, *done, SECONDS(15), view));
    rank_check(view->done_max >= *done);
    rank_check(view->done_max <= view->done_min + 1 || view->epoch > 1);
    *done = view->done_max;
    atomic_fetch_add(&env->board->reformed, 1);
}

/* Sum ones until the job is as it should be, and all know it. */
static void sum(const rank_env *env, shoal_comm *comm)
{
    const plan *p = env->arg;
    float buf[COUNT];
    shoal_view view = {.size = sizeof view};
    rank_ok(shoal_comm_view(comm, &view));
    uint64_t done = view.done_max, good = 0;
    while (good < 50 && done < STEPS_MAX) {
        for (size_t i = 0; i < COUNT; i++)
            buf[i] = 1;
        shoal_status status = shoal_comm_reform_wanted(comm)
                                  ? SHOAL_EEPOCH
                                  : shoal_allreduce(comm, buf, COUNT, NULL, NULL);
        if (status == SHOAL_OK) {
            done++;
            count_step(env, &view, buf);
            good += view.rank_count == p->end_size && view.epoch >= p->end_epoch;
            if (done == 3)
                atomic_fetch_add(&env->board->ready, 1);
            continue;
        }
        rank_check(status == SHOAL_EPEER || status == SHOAL_EEPOCH);
        reform(env, &comm, &done, &view);
        good = 0;
    }
    rank_check(good == 50);
    shoal_comm_destroy(comm);
}

static void member(const rank_env *env)
{
    const plan *p = env->arg;
    rank_env own = *env;
    shoal_comm *comm;
    char place[256];
    if (p->named) {
        rank_check(strncmp(env->desc.rendezvous, "tcp://127.0.0.1:", 16) == 0);
        snprintf(place, sizeof place, "tcp://127.1:%s", env->desc.rendezvous + 16);
        own.desc.rendezvous = place;
        own.desc.token = "a secret of this test, for a name"; /* off "localhost" a job has one */
    }
    own.desc.reform = true;
    own.desc.peer_timeout_us = p->peer_timeout_us;
    own.desc.world_size = (int32_t)p->members;
    if (env->rank >= p->members) {
        own.desc.rank = (int32_t)p->victim;
        own.desc.spare = p->spare;
        while (atomic_load(&env->board->go) == 0)
            (void)poll(NULL, 0, 1);
    }
    rank_ok(shoal_comm_create(&own.desc, &comm));
    sum(&own, comm);
}

static void lose_one(const char *scheme, uint32_t victim)
{
    plan p = {.members = 4, .end_size = 3, .end_epoch = 1};
    ranks r;
    ranks_start(&r, 4, scheme, NULL, member, &p);
    ranks_wait_ready(&r, 4, SECONDS(20));
    ranks_kill(&r, victim, SIGKILL);
    ranks_finish(&r, victim, SECONDS(20));
}

static void the_others_go_on(void **state)
{
    (void)state;
    lose_one("tcp", 2);
    lose_one("file", 1);
}

static void the_loss_of_rank_0_is_no_worse(void **state)
{
    (void)state;
    lose_one("tcp", 0);
    lose_one("file", 0);
}

/* The port of rank 0's door, which stands first in PLACE.doors. */
static uint16_t find_door(const ranks *r)
{
    char path[300], line[256];
    snprintf(path, sizeof path, "%s.doors", r->place + strlen("file://"));
    const uint64_t until_us = shoali_now_us() + SECONDS(60);
    FILE *file;
    while ((file = fopen(path, "re")) == NULL) {
        assert_true(shoali_now_us() < until_us);
        (void)poll(NULL, 0, 1);
    }
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    return (uint16_t)strtoul(strrchr(line, ':') + 1, NULL, 10);
}

/* They stand at the door of rank 0, where the others are to come. How long it took. */
static uint64_t reform_among_strangers(void)
{
    plan p = {.members = 4, .end_size = 3, .end_epoch = 1};
    ranks r;
    ranks_start(&r, 4, "file", NULL, member, &p);
    ranks_wait_ready(&r, 4, SECONDS(20));
    strangers *s = strangers_start(find_door(&r), 400);
    const uint64_t began_us = shoali_now_us();
    ranks_kill(&r, 2, SIGKILL);
    ranks_finish(&r, 2, SECONDS(30));
    const uint64_t took_us = shoali_now_us() - began_us;
    strangers_stop(s);
    return took_us;
}

/* Who is kept apart is so each time; a busy machine is so now and then. */
static void silent_strangers_do_not_keep_members_apart(void **state)
{
    (void)state;
    uint64_t took_us = UINT64_MAX;
    for (int tries = 0; tries < 4 && took_us > (uint64_t)SECONDS(4); tries++)
        took_us = reform_among_strangers();
    if (took_us > (uint64_t)SECONDS(4))
        fail_msg("it took %.1f s", (double)took_us * 1e-6);
}

/* A process is started with the settings of the one that died; by then rank 0 may be another. */
static void replace_in(const char *scheme, plan p)
{
    const uint32_t victim = p.victim;
    const bool spare = p.spare;
    ranks r;
    ranks_start(&r, 4, scheme, NULL, member, &p);
    ranks_wait_ready(&r, 3, SECONDS(20));
    if (spare)
        atomic_store(&r.board->go, 1);
    ranks_kill(&r, victim, SIGKILL);
    while (!spare && (atomic_load(&r.board->reformed) < 2))
        (void)poll(NULL, 0, 1);
    atomic_store(&r.board->go, 1);
    ranks_finish(&r, victim, SECONDS(20));
}

static void replace_one(const char *scheme, uint32_t victim, bool spare)
{
    replace_in(scheme, (plan){
                           .members = 3,
                           .end_size = 3,
                           .end_epoch = 1,
                           .spare = spare,
                           .victim = victim,
                       });
}

static void a_replacement_comes_in(void **state)
{
    (void)state;
    replace_one("tcp", 1, false);
    replace_one("file", 0, false);
    replace_one("tcp", 0, false);
}

static void a_spare_takes_the_place(void **state)
{
    (void)state;
    replace_one("tcp", 1, true);
    replace_one("file", 2, true);
}

/* Slurm's first host, the name of a service: newcomers look there, and who leads is there. */
static void a_job_that_meets_at_a_name_is_found(void **state)
{
    (void)state;
    plan p = {.members = 3, .end_size = 3, .end_epoch = 1, .named = true, .victim = 1};
    replace_in("tcp", p);
    p.spare = true;
    replace_in("tcp", p);
    p.victim = 0; /* whoever leads then listens there */
    replace_in("tcp", p);
}

/* A stopped process counts as lost, and comes back when it runs again. */
static void who_was_stopped_comes_back(void **state)
{
    (void)state;
    plan p = {.members = 3, .end_size = 3, .end_epoch = 2, .peer_timeout_us = SECONDS(1) / 2};
    ranks r;
    ranks_start(&r, 3, "file", NULL, member, &p);
    ranks_wait_ready(&r, 3, SECONDS(20));
    uint32_t before = atomic_load(&r.board->rank[1].steps);
    uint64_t stopped_us = shoali_now_us();
    ranks_kill(&r, 0, SIGSTOP);
    while (atomic_load(&r.board->reformed) < 2 ||
           atomic_load(&r.board->rank[1].steps) < before + 50)
        assert_true(shoali_now_us() < stopped_us + (uint64_t)SECONDS(60));
    ranks_kill(&r, 0, SIGCONT);
    ranks_finish(&r, RANKS_MAX, SECONDS(20));
}

/* ---------------------------------------------------------------- a minority */

static void stay_alone(const rank_env *env)
{
    rank_env own = *env;
    float buf[COUNT] = {0};
    shoal_view view = {.size = sizeof view};
    own.desc.reform = true;
    own.desc.peer_timeout_us = SECONDS(1) / 2;
    shoal_comm *comm = rank_join(&own);
    atomic_fetch_add(&env->board->ready, 1);
    while (shoal_allreduce(comm, buf, COUNT, NULL, NULL) == SHOAL_OK)
        continue;
    rank_status(shoal_comm_reform(&comm, 1, SECONDS(1), &view), SHOAL_EEPOCH);
    rank_error_has("minority");
    shoal_comm_destroy(comm);
}

static void a_minority_does_not_go_on(void **state)
{
    (void)state;
    ranks r;
    ranks_start(&r, 3, "tcp", NULL, stay_alone, NULL);
    ranks_wait_ready(&r, 3, SECONDS(20));
    ranks_kill(&r, 0, SIGSTOP);
    ranks_kill(&r, 2, SIGSTOP);
    ranks_finish_one(&r, 1, SECONDS(20));
}

static void be_fixed(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    rank_status(shoal_comm_reform(&comm, 0, 0, NULL), SHOAL_EINVAL);
    rank_check(!shoal_comm_reform_wanted(comm));
    rank_ok(shoal_barrier(comm));
    shoal_comm_destroy(comm);
}

static void fixed_members_do_not_reform(void **state)
{
    (void)state;
    ranks_run(2, "file", NULL, be_fixed, NULL, SECONDS(20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_others_go_on),
        CHECK_TEST(the_loss_of_rank_0_is_no_worse),
        CHECK_TEST(silent_strangers_do_not_keep_members_apart),
        CHECK_TEST(a_replacement_comes_in),
        CHECK_TEST(a_spare_takes_the_place),
        CHECK_TEST(a_job_that_meets_at_a_name_is_found),
        CHECK_TEST(who_was_stopped_comes_back),
        CHECK_TEST(a_minority_does_not_go_on),
        CHECK_TEST(fixed_members_do_not_reform),
    };
    return CHECK_RUN(tests);
}
