/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared operations on real ranks: runs of one plan beside each other, among ranks that have not
 * prepared, after failures, and what a plan says whose communicator is gone. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"

enum { COUNT = 3000, BESIDE = 12, SECOND_US = 1000 * 1000 };

static float bufs[BESIDE][COUNT];

static void fill(float *buf, uint32_t rank, uint32_t salt)
{
    for (size_t i = 0; i < COUNT; i++)
        buf[i] = (float)((rank * 7 + i * 3 + salt) % 101) - 50;
}

static void check_sum(const rank_env *env, const float *buf, uint32_t salt)
{
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < env->size; rank++)
            sum += (float)((rank * 7 + i * 3 + salt) % 101) - 50;
        rank_check(buf[i] == sum);
    }
}

static shoal_op_desc usual(void)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.count = COUNT;
    desc.label = "gradients";
    return desc;
}

static shoal_op_plan *prepare(shoal_comm *comm, const char *collective)
{
    shoal_op_plan *plan = NULL;
    shoal_op_desc desc = usual();
    desc.collective = collective;
    rank_ok(shoal_op_prepare(comm, &desc, &plan));
    return plan;
}

static shoal_status run_once(shoal_op_plan *plan, float *buf)
{
    shoal_op *op = NULL;
    shoal_status status = shoal_op_run(plan, buf, &op);
    return status == SHOAL_OK ? shoal_op_wait(&op, -1, NULL) : status;
}

/* Every collective that is for this: switchml's packets, too. */
static void many(const rank_env *env)
{
    static const char *const specs[] = {"ring",
                                        "direct",
                                        "halving_doubling",
                                        "worker_aggregator",
                                        "gather",
                                        "omnireduce:block=16",
                                        "switchml"};
    shoal_comm *comm = rank_join(env);
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        shoal_op_plan *plan = prepare(comm, specs[s]);
        for (uint32_t again = 0; again < 3; again++) {
            shoal_op *ops[BESIDE] = {NULL};
            for (uint32_t i = 0; i < BESIDE; i++) {
                fill(bufs[i], env->rank, i + again);
                rank_ok(shoal_op_run(plan, bufs[i], &ops[i]));
            }
            for (uint32_t i = 0; i < BESIDE; i++) {
                rank_ok(shoal_op_wait(&ops[i], -1, NULL));
                for (size_t e = 0; strcmp(specs[s], "switchml") == 0 && e < COUNT; e++)
                    bufs[i][e] = rintf(bufs[i][e]); /* it rounds */
                check_sum(env, bufs[i], i + again);
            }
        }
        shoal_op_plan_destroy(plan);
    }
    shoal_comm_destroy(comm);
}

static void runs_beside_each_other(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, many, NULL, 60 * SECOND_US);
}

/* One rank prepares, one starts, one calls the wrapper: the same operation. */
static void mixed(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    shoal_op_plan *plan = prepare(comm, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        shoal_op *op = NULL;
        shoal_op_desc desc = usual();
        fill(bufs[0], env->rank, i);
        desc.buf = bufs[0];
        if ((env->rank + i) % 3 == 0) {
            rank_ok(run_once(plan, bufs[0]));
        } else if ((env->rank + i) % 3 == 1) {
            rank_ok(shoal_op_start(comm, &desc, &op));
            rank_ok(shoal_op_wait(&op, -1, NULL));
        } else {
            rank_ok(shoal_allreduce(comm, bufs[0], COUNT, NULL, NULL));
        }
        check_sum(env, bufs[0], i);
    }
    shoal_op *op = NULL;
    fill(bufs[0], env->rank, 0);
    rank_ok(shoal_op_run(plan, bufs[0], &op));
    shoal_op_plan_destroy(plan); /* its run goes on */
    rank_ok(shoal_op_wait(&op, -1, NULL));
    check_sum(env, bufs[0], 0);
    shoal_comm_destroy(comm);
}

static void all_understand_each_other(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, mixed, NULL, 60 * SECOND_US);
}

static void failing(const rank_env *env)
{
    shoal_comm *comm = rank_join(env);
    shoal_op_plan *plan = prepare(comm, "direct");
    for (uint32_t i = 0; i < 3; i++) {
        fill(bufs[0], env->rank, i);
        rank_ok(run_once(plan, bufs[0]));
        check_sum(env, bufs[0], i);
        fill(bufs[0], env->rank, i);
        if (env->rank == i % env->size)
            bufs[0][COUNT / 2] = NAN;
        rank_status(run_once(plan, bufs[0]), SHOAL_ENOTFINITE);
        rank_error_has("(gradients)");
    }
    if (env->rank == 0) { /* others run something else under the same number */
        rank_status(run_once(plan, bufs[0]), SHOAL_EMISMATCH);
    } else {
        rank_status(shoal_allreduce(comm, bufs[0], COUNT - 1, NULL, NULL), SHOAL_EMISMATCH);
    }
    fill(bufs[0], env->rank, 9);
    rank_ok(run_once(plan, bufs[0]));
    check_sum(env, bufs[0], 9);
    shoal_op_plan_destroy(plan);
    shoal_comm_destroy(comm);
}

static void failures_leave_no_trace(void **state)
{
    (void)state;
    ranks_run(3, "file", NULL, failing, NULL, 60 * SECOND_US);
}

/* ------------------------------------------------------------------ what is refused */

static void refused(const rank_env *env)
{
    static const uint32_t rows[] = {0};
    shoal_comm *comm = rank_join(env);
    shoal_op_plan *plan = NULL;
    shoal_op *op = NULL;
    shoal_op_desc desc = usual();
    desc.rows = rows;
    rank_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    rank_error_has("has rows");
    desc = usual();
    desc.id.sequence = 3;
    rank_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    rank_error_has("a name of its own");
    desc = usual();
    desc.collective = "square";
    rank_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    rank_error_has("square");
    desc.size--;
    rank_status(shoal_op_prepare(comm, &desc, &plan), SHOAL_EINVAL);
    desc = usual();
    rank_status(shoal_op_prepare(NULL, &desc, &plan), SHOAL_EINVAL);
    rank_status(shoal_op_prepare(comm, &desc, NULL), SHOAL_EINVAL);
    rank_check(plan == NULL);
    rank_ok(shoal_op_prepare(comm, &desc, &plan));
    rank_status(shoal_op_run(plan, NULL, &op), SHOAL_EINVAL);
    rank_status(shoal_op_run(plan, bufs[0], NULL), SHOAL_EINVAL);
    rank_status(shoal_op_run(NULL, bufs[0], &op), SHOAL_EINVAL);
    pid_t child = fork();
    if (child == 0) {
        bool right = shoal_op_run(plan, bufs[0], &op) == SHOAL_EFORKED &&
                     shoal_op_prepare(comm, &desc, &plan) == SHOAL_EFORKED;
        shoal_op_plan_destroy(plan);
        _exit(right ? 0 : 1);
    }
    int code = -1;
    rank_check(child > 0 && waitpid(child, &code, 0) == child && code == 0);
    shoal_comm_destroy(comm);
    rank_status(shoal_op_run(plan, bufs[0], &op), SHOAL_ECANCELLED);
    rank_error_has("destroyed");
    shoal_op_plan_destroy(plan);
    shoal_op_plan_destroy(NULL);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ranks_run(2, "file", NULL, refused, NULL, 60 * SECOND_US);
}

static void reforming(const rank_env *env)
{
    rank_env own = *env;
    shoal_view view = {.size = sizeof view};
    shoal_op *op = NULL;
    own.desc.reform = true;
    shoal_comm *comm = rank_join(&own);
    shoal_op_plan *plan = prepare(comm, NULL);
    fill(bufs[0], env->rank, 0);
    rank_ok(run_once(plan, bufs[0]));
    rank_meet(env, env->size); /* else one that goes first ends it for the others */
    rank_ok(shoal_comm_reform(&comm, 1, 30 * SECOND_US, &view));
    rank_check(view.epoch == 1 && view.rank_count == env->size);
    rank_status(shoal_op_run(plan, bufs[0], &op), SHOAL_EEPOCH);
    rank_error_has("prepare it anew");
    shoal_op_plan_destroy(plan);
    plan = prepare(comm, NULL);
    fill(bufs[0], env->rank, 1);
    rank_ok(run_once(plan, bufs[0]));
    check_sum(env, bufs[0], 1);
    shoal_op_plan_destroy(plan);
    shoal_comm_destroy(comm);
}

static void a_plan_is_of_one_epoch(void **state)
{
    (void)state;
    ranks_run(3, "tcp", NULL, reforming, NULL, 60 * SECOND_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(runs_beside_each_other), CHECK_TEST(all_understand_each_other),
        CHECK_TEST(failures_leave_no_trace), CHECK_TEST(what_cannot_be_is_refused),
        CHECK_TEST(a_plan_is_of_one_epoch)};
    return CHECK_RUN(tests);
}
