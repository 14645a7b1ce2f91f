/* SPDX-License-Identifier: Apache-2.0 */
/* Asking status sockets: jobs whose ranks are served by a thread, or stand still. */
#include "support/check.h"
#include "support/watched.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { LONG_US = 60 * 1000 * 1000, SHORT_US = 100 * 1000, LONG_AGO_S = 1000000 };

static watched job;
static shoali_watch *other; /* another job in the same folder */
static pthread_t thread;
static atomic_bool served;
static atomic_bool over;

/* The progress thread of both. */
static void *serve(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        struct pollfd wait = {.fd = job.epoll_fd, .events = POLLIN};
        (void)poll(&wait, 1, 5);
        if (!atomic_load(&served))
            continue;
        shoali_watch_serve(job.watch);
        shoali_watch_serve(other);
    }
    return NULL;
}

static int begin(void **state)
{
    (void)state;
    watched_begin(&job, "night", 7);
    other = NULL;
    served = true;
    over = false;
    return 0;
}

static void made_at(const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void start(const char *name)
{
    shoali_watch_desc desc = job.watch->desc;
    desc.number = 8;
    desc.job = name;
    desc.rendezvous = "";
    if (name != NULL)
        assert_ok(shoali_watch_open(&desc, &other));
    if (name != NULL)
        made_at(other->path, LONG_AGO_S); /* it has been running for longer */
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int end(void **state)
{
    (void)state;
    shoali_watch_close(other);
    watched_end(&job);
    return 0;
}

static void assert_job(const char *place, const char *expected)
{
    shoal_watch *watch;
    const char *name;
    uint32_t by;
    double age_s;
    assert_ok(shoal_watch_ask(place, LONG_US, &watch));
    shoal_watch_job(watch, &name, &by, &age_s);
    assert_string_equal(name, expected);
    assert_int_equal(by, 1);
    shoal_watch_close(watch);
}

static void the_only_job_needs_no_name(void **state)
{
    (void)state;
    start(NULL);
    assert_job(NULL, "night");
    assert_job("", "night");
    assert_job("night", "night");
    assert_job("1", "night");
    assert_job(watched_path(&job), "night");
    stop();
}

static void of_several_one_is_chosen_by_name_or_number(void **state)
{
    (void)state;
    shoal_watch *watch = NULL;
    start("day");
    assert_status(shoal_watch_ask(NULL, LONG_US, &watch), SHOAL_EINVAL);
    assert_error_has("several jobs run here: 1 (day), 2 (night)"); /* the longest first */
    assert_job("day", "day");
    assert_job("night", "night");
    assert_job("1", "day");
    assert_job("2", "night");
    static const char *const nobody[] = {"0", "3", "dusk", "1x", "1000"};
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        assert_status(shoal_watch_ask(nobody[i], LONG_US, &watch), SHOAL_EINVAL);
        assert_error_has(nobody[i]);
    }
    stop();
}

/* Two jobs of one name: their numbers tell them apart. */
static void jobs_of_one_name_are_several(void **state)
{
    (void)state;
    shoal_watch *watch = NULL;
    start("night");
    assert_status(shoal_watch_ask("night", LONG_US, &watch), SHOAL_EINVAL);
    assert_error_has("several jobs run here: 1 (night), 2 (night)");
    stop();
}

static void all_are_listed_by_age(void **state)
{
    (void)state;
    shoal_watch *watch;
    const char *name;
    uint32_t by;
    double age_s;
    start("day");
    assert_ok(shoal_watch_all(LONG_US, &watch));
    shoal_watch_job(watch, &name, &by, &age_s);
    assert_string_equal(name, "day");
    const shoal_watch *next = shoal_watch_next(watch);
    assert_non_null(next);
    shoal_watch_job(next, &name, &by, &age_s);
    assert_string_equal(name, "night");
    assert_null(shoal_watch_next(next));
    shoal_watch_close(watch);
    stop();
}

/* Its kernel takes the question, and nobody answers. */
static void a_job_that_stands_still_is_said_to(void **state)
{
    (void)state;
    shoal_watch *watch;
    served = false;
    start(NULL);
    assert_status(shoal_watch_ask("night", SHORT_US, &watch), SHOAL_ETIMEDOUT);
    assert_error_has("1 rank of the job asked, and none answers");
    assert_ok(shoal_watch_all(SHORT_US, &watch));
    assert_int_equal(shoal_watch_ranks(watch), 0);
    shoal_watch_close(watch);
    stop();
}

/* The socket of another rank of the first job, which takes questions and never answers. */
static int mute_socket(struct sockaddr_un *at)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(at->sun_path, sizeof at->sun_path, "%s/night.00000007.3.00000001", job.folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

/* Two jobs started at once keep their places, whichever rank answers and whatever its age. */
static void places_do_not_depend_on_who_answers(void **state)
{
    (void)state;
    struct sockaddr_un at;
    shoal_watch *watch;
    const int fd = mute_socket(&at);
    start("night");
    made_at(at.sun_path, LONG_AGO_S - 1); /* before the other job; who answers came after it */
    for (int older = 0; older <= 1; older++) {
        other->started_us = older ? job.watch->started_us - 1000000
                                  : job.watch->started_us + 1000000;
        for (uint32_t place = 1; place <= 2; place++) {
            assert_ok(shoal_watch_ask(place == 1 ? "1" : "2", LONG_US, &watch));
            assert_int_equal(watch->number, place == 1 ? 7 : 8);
            shoal_watch_close(watch);
        }
    }
    stop();
    close(fd);
    assert_int_equal(unlink(at.sun_path), 0);
}

/* A rank that hangs up is not waited for, and its job's other ones are heard. */
static void one_answer_of_a_job_is_enough(void **state)
{
    (void)state;
    struct sockaddr_un at;
    const int fd = mute_socket(&at);
    start(NULL);
    assert_job("night", "night");
    stop();
    close(fd);
    assert_int_equal(unlink(at.sun_path), 0);
}

static void the_killed_are_not_asked_again(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/dusk.00000009.0.00000001", job.folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    shoal_watch *watch;
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    assert_status(shoal_watch_ask("dusk", LONG_US, &watch), SHOAL_EINVAL);
    assert_int_equal(access(at.sun_path, F_OK), -1);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    shoal_watch *watch;
    assert_status(shoal_watch_ask("night", 0, &watch), SHOAL_EINVAL);
    assert_status(shoal_watch_ask("night", LONG_US, NULL), SHOAL_EINVAL);
    assert_status(shoal_watch_all(-1, &watch), SHOAL_EINVAL);
    assert_status(shoal_watch_ask("/no/such/socket", LONG_US, &watch), SHOAL_EINVAL);
    assert_error_has("nobody answers at /no/such/socket");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {TEST(the_only_job_needs_no_name),
                                       TEST(of_several_one_is_chosen_by_name_or_number),
                                       TEST(jobs_of_one_name_are_several),
                                       TEST(all_are_listed_by_age),
                                       TEST(a_job_that_stands_still_is_said_to),
                                       TEST(one_answer_of_a_job_is_enough),
                                       TEST(the_killed_are_not_asked_again),
                                       TEST(places_do_not_depend_on_who_answers),
                                       TEST(nonsense_is_refused)};
    return CHECK_RUN(tests);
}
