/* SPDX-License-Identifier: Apache-2.0 */
/* The status socket of one rank, which is served by hand and has a clock of its own. */
#include "support/check.h"
#include "support/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

static watched job;

static int begin(void **state)
{
    (void)state;
    watched_begin(&job, "night shift#3", 0xab);
    return 0;
}

static int end(void **state)
{
    (void)state;
    watched_end(&job);
    return 0;
}

static int call_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static int call(void)
{
    int fd = call_at(watched_path(&job));
    assert_true(fd >= 0);
    return fd;
}

static void ask(int fd)
{
    uint8_t question[SHOALI_STATUS_ASK_BYTES];
    shoali_status_ask_encode(question);
    assert_int_equal(send(fd, question, sizeof question, MSG_NOSIGNAL), sizeof question);
}

/* What has come so far, and whether that is all: -1, it goes on. */
static ssize_t take(int fd, uint8_t *bytes, size_t capacity)
{
    size_t got = 0;
    for (;;) {
        ssize_t more = recv(fd, bytes + got, capacity - got, MSG_DONTWAIT);
        if (more < 0)
            return errno == EAGAIN ? -1 : (ssize_t)got;
        if (more == 0)
            return (ssize_t)got;
        got += (size_t)more;
    }
}

static void assert_hung_up(int fd)
{
    uint8_t byte;
    assert_int_equal(take(fd, &byte, 1), 0);
    close(fd);
}

static void assert_held(int fd)
{
    uint8_t byte;
    assert_int_equal(take(fd, &byte, 1), -1);
}

static void assert_answered(int fd)
{
    uint8_t bytes[8192];
    shoal_watch *watch;
    const char *name;
    uint32_t by;
    double age_s;
    ssize_t got = take(fd, bytes, sizeof bytes);
    assert_true(got > 0);
    assert_ok(shoali_watch_read(bytes, (size_t)got, &watch));
    shoal_watch_job(watch, &name, &by, &age_s);
    assert_string_equal(name, "night shift");
    assert_int_equal(by, 1);
    assert_int_equal((int)(age_s * 1000 + 0.5), 2500);
    assert_int_equal(shoal_watch_ranks(watch), WATCHED_RANKS);
    assert_string_equal(watch->rows[2].host, "h2");
    assert_int_equal(watch->rows[2].last_seen_us, 200);
    assert_string_equal(shoal_watch_notes(watch), job.notes);
    shoal_watch_close(watch);
    close(fd);
}

static void whoever_asks_is_told(void **state)
{
    (void)state;
    struct epoll_event event;
    job.now_us += 2500000;
    snprintf(job.notes, sizeof job.notes, "a link is off, for 3 s\n");
    assert_int_equal(epoll_wait(job.epoll_fd, &event, 1, 0), 0);
    int fd = call();
    assert_int_equal(epoll_wait(job.epoll_fd, &event, 1, 0), 1); /* the thread wakes up */
    shoali_watch_serve(job.watch);
    assert_int_equal(epoll_wait(job.epoll_fd, &event, 1, 0), 0);
    ask(fd);
    assert_int_equal(epoll_wait(job.epoll_fd, &event, 1, 0), 1);
    shoali_watch_serve(job.watch);
    assert_answered(fd);
    job.notes[0] = '\0';
    fd = call();
    ask(fd);
    shoali_watch_serve(job.watch);
    assert_answered(fd);
}

static void a_question_may_come_in_pieces(void **state)
{
    (void)state;
    uint8_t question[SHOALI_STATUS_ASK_BYTES];
    int fd = call();
    job.now_us += 2500000;
    shoali_status_ask_encode(question);
    for (size_t i = 0; i < sizeof question; i++) {
        shoali_watch_serve(job.watch);
        assert_held(fd);
        assert_int_equal(send(fd, question + i, 1, MSG_NOSIGNAL), 1);
    }
    shoali_watch_serve(job.watch);
    assert_answered(fd);
}

static void nonsense_and_silence_are_hung_up_on(void **state)
{
    (void)state;
    int silent = call(), babbler = call(), gone = call();
    assert_int_equal(send(babbler, "GET / HT", 8, MSG_NOSIGNAL), 8);
    close(gone);
    shoali_watch_serve(job.watch);
    assert_hung_up(babbler);
    job.now_us += 999999;
    shoali_watch_serve(job.watch);
    assert_held(silent);
    job.now_us += 1;
    shoali_watch_serve(job.watch);
    assert_hung_up(silent);
    for (int i = 0; i < SHOALI_WATCH_CLIENTS; i++)
        assert_int_equal(job.watch->clients[i].fd, -1);
}

static void the_oldest_makes_room(void **state)
{
    (void)state;
    int fds[SHOALI_WATCH_CLIENTS + 1];
    for (int i = 0; i <= SHOALI_WATCH_CLIENTS; i++) {
        fds[i] = call();
        job.now_us += 100;
        shoali_watch_serve(job.watch);
    }
    assert_hung_up(fds[0]);
    for (int i = 1; i <= SHOALI_WATCH_CLIENTS; i++) {
        assert_held(fds[i]);
        close(fds[i]);
    }
}

static void its_name_says_whose_it_is_and_goes_with_it(void **state)
{
    (void)state;
    char path[SHOALI_WATCH_PATH_BYTES];
    shoali_watch_name name;
    snprintf(path, sizeof path, "%s", watched_path(&job));
    assert_int_equal(strncmp(path, job.folder, strlen(job.folder)), 0);
    assert_true(shoali_watch_name_parse(strrchr(path, '/') + 1, &name));
    assert_string_equal(name.job, "night_shift");
    assert_int_equal(name.number, 0xab);
    assert_int_equal(name.rank, 1);
    /* a forked child hangs up, and the parent's name stays */
    int fd = call();
    shoali_watch_serve(job.watch);
    shoali_watch_forked(job.watch);
    assert_hung_up(fd);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(call_at(path), -1);
    shoali_watch_serve(job.watch); /* nothing to serve any more */
    shoali_watch_serve_close(job.watch);
    assert_int_equal(access(path, F_OK), -1);
}

static void leave_socket(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", job.folder, name);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    close(fd);
}

static bool is_there(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", job.folder, name);
    return access(path, F_OK) == 0;
}

static void remove_one(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", job.folder, name);
    assert_int_equal(unlink(path), 0);
}

/* Sockets of the killed go; what is being made now, who lives, and other files stay. */
static void what_the_killed_left_is_swept(void **state)
{
    (void)state;
    static const char *const others[] = {".0.12345678", "file"};
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[200], mine[SHOALI_WATCH_PATH_BYTES];
    snprintf(mine, sizeof mine, "%s", watched_path(&job));
    leave_socket("night.000000ab.0.00000001");
    leave_socket(".2.00000002");
    leave_socket(others[0]);
    snprintf(path, sizeof path, "%s/%s", job.folder, ".2.00000002");
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    snprintf(path, sizeof path, "%s/%s", job.folder, others[1]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    shoali_watch *second;
    assert_ok(shoali_watch_open(&(shoali_watch_desc){.me = 0,
                                                     .ranks = 1,
                                                     .size = 1,
                                                     .job = "second",
                                                     .rendezvous = "",
                                                     .epoll_fd = job.epoll_fd,
                                                     .now_us = &job.now_us},
                                &second));
    assert_false(is_there("night.000000ab.0.00000001"));
    assert_false(is_there(".2.00000002"));
    assert_int_equal(access(mine, F_OK), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(is_there(others[i]));
        remove_one(others[i]);
    }
    shoali_watch_close(second);
}

/* A job runs all the same. */
static void in_a_folder_that_others_see_there_is_no_socket(void **state)
{
    (void)state;
    char folder[SHOALI_WATCH_PATH_BYTES];
    shoali_watch *second;
    assert_true(shoali_watch_folder(folder, sizeof folder));
    assert_string_equal(folder, job.folder);
    assert_false(shoali_watch_folder(folder, 8));
    assert_int_equal(chmod(job.folder, 0755), 0);
    assert_false(shoali_watch_folder(folder, sizeof folder));
    assert_ok(shoali_watch_open(&(shoali_watch_desc){.me = 0,
                                                     .ranks = 1,
                                                     .size = 1,
                                                     .job = "second",
                                                     .rendezvous = "",
                                                     .epoll_fd = job.epoll_fd,
                                                     .now_us = &job.now_us},
                                &second));
    assert_int_equal(second->listener, -1);
    shoali_watch_serve(second);
    shoali_watch_close(second);
    assert_int_equal(chmod(job.folder, 0700), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {TEST(whoever_asks_is_told),
                                       TEST(a_question_may_come_in_pieces),
                                       TEST(nonsense_and_silence_are_hung_up_on),
                                       TEST(the_oldest_makes_room),
                                       TEST(its_name_says_whose_it_is_and_goes_with_it),
                                       TEST(what_the_killed_left_is_swept),
                                       TEST(in_a_folder_that_others_see_there_is_no_socket)};
    return CHECK_RUN(tests);
}
