/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation that is asked while it runs (shoal_sim_serve). It runs until it has been asked
 * enough, on a thread of its own. */
#include "support/check.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/sim.h"
#include "shoal/watch.h"
#include "support/scratch_dir.h"
#include "wire/control.h"

typedef struct served {
    shoal_sim *sim;
    _Atomic bool enough;
    shoal_status status;
    pthread_t thread;
} served;

static int begin(void **state)
{
    if (scratch_set_up(state) != 0 || mkdir(scratch_path("run"), 0700) != 0)
        return -1;
    return setenv("SHOAL_STATUS_DIR", scratch_path("run"), 1) + unsetenv("SHOAL_JOB");
}

static shoal_sim *make(const char *compute, const char *network, const char *faults, double seconds)
{
    static const shoal_tensor small = {.key = 1, .count = 100000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    desc.tensors = &small;
    desc.tensor_count = 1;
    desc.compute = compute;
    desc.network = network;
    desc.faults = faults;
    desc.iterations = 40;
    desc.until_s = seconds;
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

static void stop_when_asked(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    const served *s = ctx;
    (void)endpoint, (void)event;
    if (atomic_load(&s->enough))
        shoali_sim_break(sim, shoali_fail(SHOAL_ECANCELLED, "enough"));
}

static void *run(void *ctx)
{
    served *s = ctx;
    s->status = shoal_sim_run(s->sim);
    return NULL;
}

static void start(served *s, shoal_sim *sim, const char *job)
{
    *s = (served){.sim = sim};
    assert_ok(shoal_sim_serve(sim, job));
    sim->test.on_event = stop_when_asked;
    sim->test.ctx = s;
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void stop(served *s)
{
    atomic_store(&s->enough, true);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    assert_int_equal(s->status, SHOAL_ECANCELLED);
    shoal_watch *watch = NULL;
    assert_status(shoal_watch_ask(NULL, 1000000, &watch), SHOAL_EINVAL); /* it is over */
    shoal_sim_destroy(s->sim);
}

/* The answer in which a rank is in a state, and has a cause; the caller closes it. */
static shoal_watch *ask_until(const char *job, uint32_t rank, const char *state, const char *cause,
                              shoal_watch_rank_state *r)
{
    for (int asked = 0;; asked++) { /* a hundred times a second at most */
        shoal_watch *watch = NULL;
        assert_in_range(asked, 0, 3000);
        assert_ok(shoal_watch_ask(job, 60000000, &watch));
        *r = (shoal_watch_rank_state){.size = sizeof *r};
        assert_ok(shoal_watch_rank(watch, rank, r));
        if (strcmp(r->state, state) == 0 && strcmp(r->cause, cause) == 0)
            return watch;
        shoal_watch_close(watch);
    }
}

static void who_is_slow_is_named_in_virtual_time(void **state)
{
    (void)state;
    served s;
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch_rank_state r;
    start(&s, make("fixed:ms=10,jitter=0.02,slow=2:3x", "links:rate=1gbit,hosts=4", NULL, 1e8),
          "night");
    shoal_watch *watch = ask_until("night", 2, "running", "compute", &r);
    shoal_watch_job(watch, &job, &by, &age_s);
    assert_string_equal(job, "night");
    assert_int_equal(shoal_watch_ranks(watch), 4);
    assert_non_null(strstr(shoal_watch_notes(watch), "times are virtual"));
    assert_string_equal(r.host, "host 2");
    assert_true(fabs(r.compute_ms - 30) < 2 && fabs(r.caused_ms - 20) < 2);
    assert_true(fabs(r.sends_bytes_s - 125e6) < 1 && fabs(r.receives_bytes_s - 125e6) < 1);
    /* 30 ms of computing and, of 400 kB, 1.5 times as much over each link, and some latency. */
    assert_true(fabs((double)r.ended * 0.035 / age_s - 1) < 0.02);
    assert_int_equal(r.step, r.ended);
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(shoal_watch_rank(watch, i, &r));
        assert_string_equal(r.state, "running");
        assert_string_equal(r.cause, i == 2 ? "compute" : "");
    }
    shoal_watch_close(watch);
    stop(&s);
}

static void whose_link_is_slow_is_named(void **state)
{
    (void)state;
    served s;
    shoal_watch_rank_state r;
    start(&s, make("fixed:ms=10,jitter=0.02", "links:rate=100mbit,hosts=4,slow=1:8x", NULL, 1e8),
          NULL);
    shoal_watch *watch = ask_until(NULL, 1, "running", "network", &r);
    assert_true(fabs(r.sends_bytes_s - 12.5e6 / 8) < 1);
    shoal_watch_close(watch);
    stop(&s);
}

static void who_is_gone_is_dead(void **state)
{
    (void)state;
    served s;
    shoal_watch_rank_state r;
    start(&s, make("fixed:ms=10", "links:rate=1gbit,hosts=4", "plan:die=3@0.5,reform", 1e8), NULL);
    shoal_watch *watch = ask_until(NULL, 3, "dead", "", &r);
    const uint64_t done = r.ended;
    assert_in_range(done, 30, 50);
    assert_ok(shoal_watch_rank(watch, 0, &r));
    assert_true(r.ended >= done);
    shoal_watch_close(watch);
    stop(&s);
}

static void healthy_ones_are_not_named(void **state)
{
    (void)state;
    served s;
    shoal_watch_rank_state r;
    start(&s, make("fixed:ms=10,jitter=0.05", "links:rate=1gbit,hosts=4", NULL, 1e8), NULL);
    for (uint64_t ended = 0; ended < 20000; ended = r.ended) {
        shoal_watch *watch = ask_until(NULL, 0, "running", "", &r);
        for (uint32_t i = 1; i < 4; i++) {
            assert_ok(shoal_watch_rank(watch, i, &r));
            assert_string_equal(r.cause, "");
        }
        shoal_watch_close(watch);
    }
    stop(&s);
}

static int call(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    DIR *dir = opendir(getenv("SHOAL_STATUS_DIR"));
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (e->d_type == DT_SOCK)
            snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", getenv("SHOAL_STATUS_DIR"),
                     e->d_name);
    closedir(dir);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static double age(void)
{
    const char *job;
    uint32_t by;
    double age_s;
    shoal_watch_rank_state r;
    shoal_watch *watch = ask_until(NULL, 0, "running", "", &r);
    shoal_watch_job(watch, &job, &by, &age_s);
    shoal_watch_close(watch);
    return age_s;
}

/* A caller has a second of its own clock, in which many of the simulation's may pass. */
static void callers_have_real_time(void **state)
{
    (void)state;
    served s;
    uint8_t bytes[SHOALI_STATUS_ASK_BYTES];
    start(&s, make("fixed:ms=1000", "links:rate=1gbit,hosts=4", NULL, 1e8), NULL);
    for (int tries = 0;; tries++) { /* the machine may be busy for so long */
        assert_in_range(tries, 0, 50);
        const int fd = call();
        for (const double from_s = age(); age() < from_s + 5;)
            continue;
        shoali_status_ask_encode(bytes);
        const bool sent = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes;
        const bool told = sent && recv(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
        close(fd);
        if (told)
            break;
    }
    stop(&s);
}

static void results_are_the_same(void **state)
{
    (void)state;
    uint64_t hash[2];
    for (int asked = 0; asked < 2; asked++) {
        shoal_sim_results r = {.size = sizeof r};
        shoal_sim *sim = make("fixed:ms=10,jitter=0.05", NULL, NULL, 0);
        if (asked)
            assert_ok(shoal_sim_serve(sim, "x"));
        assert_ok(shoal_sim_run(sim));
        assert_ok(shoal_sim_results_get(sim, &r));
        hash[asked] = r.log_hash;
        assert_status(shoal_sim_serve(sim, "x"), SHOAL_EINVAL); /* it has run */
        shoal_sim_destroy(sim);
    }
    assert_int_equal(hash[0], hash[1]);
}

static void once_and_not_without_a_simulation(void **state)
{
    (void)state;
    shoal_sim *sim = make(NULL, NULL, NULL, 0);
    assert_status(shoal_sim_serve(NULL, NULL), SHOAL_EINVAL);
    assert_ok(shoal_sim_serve(sim, NULL));
    assert_status(shoal_sim_serve(sim, NULL), SHOAL_EINVAL);
    shoal_sim_destroy(sim); /* which never ran */
    shoal_watch *watch = NULL;
    assert_status(shoal_watch_ask(NULL, 1000000, &watch), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_is_slow_is_named_in_virtual_time),
        CHECK_TEST(whose_link_is_slow_is_named),
        CHECK_TEST(who_is_gone_is_dead),
        CHECK_TEST(healthy_ones_are_not_named),
        CHECK_TEST(callers_have_real_time),
        CHECK_TEST(results_are_the_same),
        CHECK_TEST(once_and_not_without_a_simulation),
    };
    return cmocka_run_group_tests(tests, begin, scratch_tear_down);
}
