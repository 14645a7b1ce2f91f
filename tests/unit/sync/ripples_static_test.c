/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/ripples_static.h"

#include <math.h>

#include "support/check.h"
#include "sync/group_generator.h"

enum { MOST = 32 };

typedef struct job {
    shoali_world world;
    uint32_t hosts[MOST], order[MOST], members[MOST];
    uint8_t absent[MOST];
} job;

static void open_job(job *j, uint32_t workers, uint32_t per_host)
{
    *j = (job){.world = {.workers = workers}};
    for (uint32_t i = 0; i < workers; i++)
        j->hosts[i] = i / per_host;
    j->world.hosts = j->hosts;
    shoali_host_order(&j->world, j->order);
}

static uint32_t group_of(job *j, uint32_t me, uint64_t step)
{
    j->world.me = me;
    return shoali_static_group(&j->world, j->order, j->absent, step, j->members);
}

/* The table of specification 1.6, as the authors' code has it: partners of places 0 .. 3 of the
 * first host of two. */
static void four_phases_for_four_workers(void **state)
{
    (void)state;
    static const char *const table[4][4] = {
        {"0,4", "1", "2,3", "2,3"},
        {"0,1,2,3", "0,1,2,3", "0,1,2,3", "0,1,2,3"},
        {"0,3", "1,5", "2", "0,3"},
        {"0,1,2,3", "0,1,2,3", "0,1,2,3", "0,1,2,3"},
    };
    job j;
    open_job(&j, 8, 4);
    for (uint64_t step = 0; step < 8; step++)
        for (uint32_t me = 0; me < 4; me++) {
            char text[64] = "";
            uint32_t count = group_of(&j, me, step);
            for (uint32_t i = 0; i < count; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i > 0 ? "," : "",
                         j.members[i]);
            assert_string_equal(text, table[step % 4][me]);
        }
}

/* Whoever is missing and however workers lie on hosts: all members of a group see the same one. */
static void groups_agree_and_do_not_overlap(void **state)
{
    (void)state;
    for (uint32_t per_host = 1; per_host <= 7; per_host++)
        for (uint32_t trial = 0; trial < 40; trial++) {
            job j;
            uint32_t workers = 2 + trial % 23;
            open_job(&j, workers, per_host);
            for (uint32_t i = 0; i < workers; i++) {
                if (trial % 4 == 3) /* round the hosts instead of host by host */
                    j.hosts[i] = i % ((workers + per_host - 1) / per_host);
                j.absent[i] = trial >= 20 && (i * 7 + trial) % 5 == 0;
            }
            shoali_host_order(&j.world, j.order);
            for (uint64_t step = 0; step < 4; step++)
                for (uint32_t me = 0; me < workers; me++) {
                    uint32_t mine[MOST];
                    if (j.absent[me])
                        continue;
                    uint32_t count = group_of(&j, me, step);
                    memcpy(mine, j.members, sizeof mine);
                    bool inside = false;
                    for (uint32_t i = 0; i < count; i++) {
                        inside |= mine[i] == me;
                        assert_false(j.absent[mine[i]]);
                        assert_true(i == 0 || mine[i - 1] < mine[i]);
                        assert_int_equal(group_of(&j, mine[i], step), count);
                        assert_memory_equal(j.members, mine, count * sizeof *mine);
                    }
                    assert_true(inside);
                }
        }
}

/* x = F_step x */
static void average(job *j, uint64_t step, double *x)
{
    double y[MOST];
    for (uint32_t me = 0; me < j->world.workers; me++) {
        uint32_t count = group_of(j, me, step);
        y[me] = 0;
        for (uint32_t i = 0; i < count; i++)
            y[me] += x[j->members[i]] / count;
    }
    memcpy(x, y, j->world.workers * sizeof *x);
}

/* || F0 F1 F2 F3 - J ||_2 = 0.6495 for any number of hosts (specification 1.6); the norm is the
 * root of the largest eigenvalue of A^T A, by power iteration; every F is symmetric. */
static void four_phases_contract_alike_on_any_number_of_hosts(void **state)
{
    (void)state;
    for (uint32_t workers = 8; workers <= 32; workers *= 2) {
        job j;
        double x[MOST], norm = 0;
        open_job(&j, workers, 4);
        for (uint32_t i = 0; i < workers; i++)
            x[i] = sin(1.0 + i);
        for (int round = 0; round < 200; round++) {
            double mean = 0;
            for (uint32_t i = 0; i < workers; i++)
                mean += x[i] / workers;
            norm = 0;
            for (uint32_t i = 0; i < workers; i++) {
                x[i] -= mean;
                norm += x[i] * x[i];
            }
            for (uint32_t i = 0; i < workers; i++)
                x[i] /= sqrt(norm);
            for (uint64_t step = 0; step < 4; step++)
                average(&j, 3 - step, x);
            for (uint64_t step = 0; step < 4; step++)
                average(&j, step, x);
        }
        norm = 0;
        for (uint32_t i = 0; i < workers; i++)
            norm += x[i] * x[i];
        assert_true(fabs(sqrt(sqrt(norm)) - 0.6495) < 1e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(four_phases_for_four_workers),
        CHECK_TEST(groups_agree_and_do_not_overlap),
        CHECK_TEST(four_phases_contract_alike_on_any_number_of_hosts),
    };
    return CHECK_RUN(tests);
}
