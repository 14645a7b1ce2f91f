/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "meet/launch.h"

/* An environment of name=value strings, NULL at the end. */
static const char *lookup(void *ctx, const char *name)
{
    size_t length = strlen(name);
    for (const char *const *entry = ctx; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

#define ENV(...) ((void *)(const char *[]){__VA_ARGS__, NULL})

static const shoal_comm_desc empty = SHOAL_COMM_DESC_INIT;

static shoali_launch find(const shoal_comm_desc *desc, void *env)
{
    shoali_launch launch;
    assert_ok(shoali_launch_find(desc, lookup, env, &launch));
    return launch;
}

static void assert_launch(const shoali_launch *launch, uint32_t rank, uint32_t size,
                          const char *rendezvous)
{
    assert_int_equal(launch->rank, rank);
    assert_int_equal(launch->world_size, size);
    assert_string_equal(launch->rendezvous, rendezvous);
}

static void assert_refused(const shoal_comm_desc *desc, void *env, const char *part)
{
    shoali_launch launch;
    assert_status(shoali_launch_find(desc, lookup, env, &launch), SHOAL_EINVAL);
    assert_error_has(part);
}

static void the_descriptor_stands_above_all(void **state)
{
    (void)state;
    shoal_comm_desc desc = empty;
    desc.rank = 1;
    desc.world_size = 3;
    desc.rendezvous = "tcp://a:1";
    void *env = ENV("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=b", "MASTER_PORT=2",
                    "SHOAL_RENDEZVOUS=x");
    shoali_launch launch = find(&desc, env);
    assert_launch(&launch, 1, 3, "tcp://a:1");
    assert_int_equal(launch.workers, 3);
    desc.servers = 1;
    desc.world_size = -1; /* from torchrun */
    launch = find(&desc, env);
    assert_launch(&launch, 1, 2, "tcp://a:1");
    assert_int_equal(launch.workers, 1);
}

static void each_launcher_is_understood(void **state)
{
    (void)state;
    shoali_launch launch = find(
        &empty, ENV("SHOAL_RANK=2", "SHOAL_WORLD_SIZE=4", "SHOAL_RENDEZVOUS=file:///s/x"));
    assert_launch(&launch, 2, 4, "file:///s/x");
    launch = find(&empty, ENV("RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=h", "MASTER_PORT=29500"));
    assert_launch(&launch, 3, 8, "tcp://h:29501");
    launch = find(&empty, ENV("RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=fe80::1", "MASTER_PORT=5"));
    assert_launch(&launch, 3, 8, "tcp://[fe80::1]:6");
    launch = find(&empty, ENV("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "MASTER_ADDR=h",
                              "MASTER_PORT=9"));
    assert_launch(&launch, 1, 2, "tcp://h:10");
    launch = find(&empty, ENV("PMIX_RANK=5", "SLURM_NTASKS=6", "SHOAL_RENDEZVOUS=tcp://h:1"));
    assert_launch(&launch, 5, 6, "tcp://h:1");
    launch = find(&empty, ENV("PMI_RANK=0", "PMI_SIZE=1"));
    assert_launch(&launch, 0, 1, "");
}

static void the_order_is_kept_and_said(void **state)
{
    (void)state;
    void *env = ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "RANK=7", "WORLD_SIZE=9", "MASTER_ADDR=h",
                    "MASTER_PORT=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3");
    shoali_launch launch = find(&empty, env);
    assert_launch(&launch, 7, 9, "tcp://h:2");
    assert_non_null(strstr(launch.why, "torchrun (not those of Open MPI) (not those of Slurm)"));
    assert_non_null(strstr(launch.why, "MASTER_PORT + 1"));
}

static void slurm_meets_on_its_first_host(void **state)
{
    (void)state;
    shoali_launch launch = find(&empty,
                                ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=1000",
                                    "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=n[03-04,9],m1"));
    assert_launch(&launch, 1, 2, "tcp://n03:23002"); /* 20000 + (1000 * 13 + 2) % 10000 */
    assert_refused(&empty, ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=a"),
                   "SLURM_JOB_ID");
    assert_refused(&empty, ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=a[1"),
                   "names no first host");
}

/* Who is told that the port is taken is told to change what he has said, not what we make of it. */
static void another_point_is_named_where_this_one_was(void **state)
{
    (void)state;
    static const char *const common[] = {"SHOAL_RANK=0", "SHOAL_WORLD_SIZE=2"};
    static const char point[] = "SHOAL_RENDEZVOUS=tcp://a:1";
    shoal_comm_desc desc = empty;
    shoali_launch launch = find(&empty, ENV(common[0], common[1], point));
    assert_non_null(strstr(launch.another, "SHOAL_RENDEZVOUS"));
    static const char *const launched[] = {"SHOAL_LAUNCHER_FD=5", "SHOAL_LAUNCH_ID=a.0",
                                           "SHOAL_OWN_LAUNCHER=1"};
    for (size_t i = 0; i < sizeof launched / sizeof launched[0]; i++) {
        launch = find(&empty, ENV(common[0], common[1], point, launched[i]));
        assert_non_null(strstr(launch.another, "--port"));
        assert_null(strstr(launch.another, "SHOAL_RENDEZVOUS"));
    }
    launch = find(&empty, ENV(common[0], common[1], "MASTER_ADDR=b", "MASTER_PORT=2"));
    assert_non_null(strstr(launch.another, "MASTER_PORT"));
    desc.rendezvous = "tcp://c:3";
    launch = find(&desc, ENV(common[0], common[1], point));
    assert_null(strstr(launch.another, "SHOAL_RENDEZVOUS"));
}

static void open_mpi_on_one_host_meets_in_a_file(void **state)
{
    (void)state;
    shoali_launch launch = find(&empty, ENV("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77.1"));
    assert_int_equal(strncmp(launch.rendezvous, "file:///tmp/shoal-", 18), 0);
    assert_refused(&empty,
                   ENV("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=1", "PMIX_NAMESPACE=77.1"),
                   "SHOAL_RENDEZVOUS");
}

static void first_hosts(void **state)
{
    (void)state;
    static const struct {
        const char *list, *host;
    } cases[] = {{"a", "a"},
                 {"a,b", "a"},
                 {"node[003-007,9],x", "node003"},
                 {"r[1-2]n[3,4].org,y", "r1n3.org"},
                 {"n[5]", "n5"},
                 {"", NULL},
                 {",a", NULL},
                 {"a[1", NULL},
                 {"a]1", NULL},
                 {"a[[1]]", NULL},
                 {"muchtoolongforthebuffer", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char host[16];
        bool found = shoali_launch_first_host(cases[i].list, host, sizeof host);
        assert_int_equal(found, cases[i].host != NULL);
        if (found)
            assert_string_equal(host, cases[i].host);
    }
}

static void nonsense_is_named(void **state)
{
    (void)state;
    assert_refused(&empty, ENV("HOME=/"), "rank and size are unknown");
    assert_refused(&empty, ENV("SHOAL_RANK=1"), "SHOAL_WORLD_SIZE is not");
    assert_refused(&empty, ENV("WORLD_SIZE=1"), "RANK is not");
    assert_refused(&empty, ENV("RANK=x", "WORLD_SIZE=2"), "'x'");
    assert_refused(&empty, ENV("RANK=1 ", "WORLD_SIZE=2"), "'1 '");
    assert_refused(&empty, ENV("RANK=-1", "WORLD_SIZE=2"), "'-1'");
    assert_refused(&empty, ENV("RANK=2", "WORLD_SIZE=2"), "rank 2 of 2");
    assert_refused(&empty, ENV("RANK=0", "WORLD_SIZE=5000"), "rank 0 of 5000");
    assert_refused(&empty, ENV("RANK=0", "WORLD_SIZE=99999999999999999999"), "WORLD_SIZE");
    assert_refused(&empty, ENV("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=65535"),
                   "MASTER_PORT");
    assert_refused(&empty, ENV("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h"), "SHOAL_RENDEZVOUS");
    shoal_comm_desc desc = empty;
    desc.rank = 0;
    desc.world_size = 1;
    desc.servers = 1;
    assert_refused(&desc, ENV("A=b"), "no worker");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_descriptor_stands_above_all),
        CHECK_TEST(each_launcher_is_understood),
        CHECK_TEST(the_order_is_kept_and_said),
        CHECK_TEST(slurm_meets_on_its_first_host),
        CHECK_TEST(another_point_is_named_where_this_one_was),
        CHECK_TEST(open_mpi_on_one_host_meets_in_a_file),
        CHECK_TEST(first_hosts),
        CHECK_TEST(nonsense_is_named),
    };
    return CHECK_RUN(tests);
}
