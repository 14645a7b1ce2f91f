/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads meet over loopback and in a file, in good and in bad company. */
#include "support/check.h"
#include "support/ports.h"
#include "support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "comm/meet.h"
#include "comm/meet_net.h"
#include "comm/meet_stream.h"

enum { RANKS = 5 };

typedef struct guest {
    pthread_t thread;
    shoali_meeting meeting;
    shoali_record mine, records[RANKS];
    shoali_token token;
    shoal_status status;
    shoal_error error;
} guest;

typedef struct party {
    char place[256];
    int fd;
    uint32_t size;
    guest guests[RANKS];
} party;

static void *go(void *arg)
{
    guest *g = arg;
    g->status = shoali_meet(&g->meeting, g->records);
    shoali_error_get(&g->error);
    return NULL;
}

static void prepare(party *p, const char *scheme, uint32_t size, int64_t timeout_us)
{
    memset(p, 0, sizeof *p);
    place_reserve(scheme, p->place, sizeof p->place, &p->fd);
    p->size = size;
    uint64_t now_us = shoali_now_us();
    for (uint32_t i = 0; i < size; i++) {
        guest *g = &p->guests[i];
        g->mine = (shoali_record){.wire_version = 1,
                                  .rank = i,
                                  .world_size = size,
                                  .workers = size,
                                  .chunk_elems = 100,
                                  .seed = 7,
                                  .incarnation = 1000 + i,
                                  .software = "0.1",
                                  .job = "party"};
        snprintf(g->mine.host, sizeof g->mine.host, "h%u", i);
        snprintf(g->mine.address, sizeof g->mine.address, "address of %u", i);
        memcpy(g->token.bytes, "0123456789abcdef", 16);
        g->token.len_bytes = 16;
        g->meeting = (shoali_meeting){.place = p->place,
                                      .job = "party",
                                      .token = &g->token,
                                      .mine = &g->mine,
                                      .started_us = now_us,
                                      .deadline_us = now_us + (uint64_t)timeout_us};
    }
}

static void run(party *p, uint32_t absent)
{
    for (uint32_t i = 0; i < p->size; i++)
        if (i != absent)
            assert_int_equal(pthread_create(&p->guests[i].thread, NULL, go, &p->guests[i]), 0);
    for (uint32_t i = 0; i < p->size; i++)
        if (i != absent)
            assert_int_equal(pthread_join(p->guests[i].thread, NULL), 0);
    place_release(p->place, p->fd);
}

static void assert_all(const party *p, shoal_status status, const char *part)
{
    for (uint32_t i = 0; i < p->size; i++) {
        if (p->guests[i].status != status ||
            (part != NULL && strstr(p->guests[i].error.text, part) == NULL))
            fail_msg("rank %u: %s: %s", i, shoal_status_name(p->guests[i].status),
                     p->guests[i].error.text);
    }
}

static const char *const schemes[] = {"tcp", "file"};

static void everyone_leaves_with_everyones_record(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++)
        for (uint32_t size = 1; size <= RANKS; size++) {
            prepare(&p, schemes[s], size, 10 * 1000 * 1000);
            run(&p, RANKS);
            assert_all(&p, SHOAL_OK, NULL);
            for (uint32_t i = 0; i < size; i++)
                for (uint32_t k = 0; k < size; k++) {
                    assert_int_equal(p.guests[i].records[k].rank, k);
                    assert_string_equal(p.guests[i].records[k].address, p.guests[k].mine.address);
                }
        }
}

static void the_missing_are_named(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++)
        for (uint32_t absent = 1; absent < 4; absent += 2) {
            char who[32];
            snprintf(who, sizeof who, "rank %u of 4 did not join", absent);
            prepare(&p, schemes[s], 4, 400 * 1000);
            for (uint32_t i = 1; i < 4; i++)
                /* rank 0 is the first to give up */
                p.guests[i].meeting.deadline_us += 5 * 1000 * 1000;
            run(&p, absent);
            p.guests[absent].status = SHOAL_ETIMEDOUT;
            snprintf(p.guests[absent].error.text, sizeof p.guests[absent].error.text, "%s", who);
            assert_all(&p, SHOAL_ETIMEDOUT, who);
        }
}

/* Clocks start at different moments: whoever is done waiting before rank 0 is waits for its words,
 * and does not guess. */
static void the_words_of_rank_0_are_waited_for(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        prepare(&p, schemes[s], 4, 900 * 1000);
        for (uint32_t i = 1; i < 4; i++)
            p.guests[i].meeting.deadline_us -= 250 * 1000;
        run(&p, 3);
        assert_non_null(strstr(p.guests[0].error.text, "rank 3 of 4 did not join within 0.9 s"));
        for (uint32_t i = 1; i < 3; i++) {
            assert_int_equal(p.guests[i].status, SHOAL_ETIMEDOUT);
            assert_string_equal(p.guests[i].error.text, p.guests[0].error.text);
        }
    }
}

static void a_missing_store_is_named(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        prepare(&p, schemes[s], 3, 200 * 1000);
        run(&p, 0);
        p.guests[0].status = SHOAL_ETIMEDOUT;
        snprintf(p.guests[0].error.text, sizeof p.guests[0].error.text, "rank 0");
        assert_all(&p, SHOAL_ETIMEDOUT, "rank 0");
    }
}

static void disagreement_ends_it_for_all(void **state)
{
    (void)state;
    static party p;
    for (size_t s = 0; s < 2; s++) {
        prepare(&p, schemes[s], 3, 10 * 1000 * 1000);
        p.guests[2].mine.seed = 8;
        run(&p, RANKS);
        assert_all(&p, SHOAL_EMISMATCH, "rank 2 (host h2) has seed 8, rank 0 (host h0) has 7");
        prepare(&p, schemes[s], 3, 10 * 1000 * 1000);
        p.guests[1].mine.wire_version = 9;
        run(&p, RANKS);
        assert_all(&p, SHOAL_EVERSION, "wire version 9");
    }
}

static void a_wrong_token_is_turned_away(void **state)
{
    (void)state;
    static party p;
    prepare(&p, "tcp", 3, 600 * 1000);
    p.guests[2].token.bytes[3] ^= 1;
    for (uint32_t i = 1; i < 3; i++)
        p.guests[i].meeting.deadline_us += 5 * 1000 * 1000;
    run(&p, RANKS);
    assert_int_equal(p.guests[2].status, SHOAL_EAUTH);
    assert_non_null(strstr(p.guests[2].error.text, "token"));
    assert_int_equal(p.guests[0].status, SHOAL_ETIMEDOUT);
    assert_non_null(strstr(p.guests[0].error.text, "rank 2 of 3 did not join"));
    assert_non_null(strstr(p.guests[0].error.text, "wrong token"));
    assert_int_equal(p.guests[1].status, SHOAL_ETIMEDOUT);

    prepare(&p, "file", 2, 300 * 1000);
    p.guests[1].token.bytes[3] ^= 1;
    run(&p, RANKS);
    assert_all(&p, SHOAL_ETIMEDOUT, NULL);
    assert_non_null(strstr(p.guests[1].error.text, "another token"));
}

static void strangers_do_no_harm(void **state)
{
    (void)state;
    enum { STRANGERS = 12 };
    static party p;
    shoali_rng rng = {check_seed(), 5, 0};
    int fds[STRANGERS];
    prepare(&p, "tcp", 3, 10 * 1000 * 1000);
    assert_int_equal(pthread_create(&p.guests[0].thread, NULL, go, &p.guests[0]), 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)strtoul(strrchr(p.place, ':') + 1, NULL, 10));
    for (int i = 0; i < STRANGERS;) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fds[i], (struct sockaddr *)&to, sizeof to) != 0) {
            close(fds[i]); /* the store is not open yet */
            continue;
        }
        uint8_t noise[300];
        size_t length = shoali_rng_next(&rng) % sizeof noise;
        for (size_t k = 0; k < length; k++)
            noise[k] = (uint8_t)shoali_rng_next(&rng);
        assert_true(send(fds[i], noise, length, MSG_NOSIGNAL) >= 0);
        if (i % 3 == 0)
            shutdown(fds[i], SHUT_RDWR);
        i++;
    }
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(pthread_create(&p.guests[i].thread, NULL, go, &p.guests[i]), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_join(p.guests[i].thread, NULL), 0);
    assert_all(&p, SHOAL_OK, NULL);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    place_release(p.place, p.fd);
}

/* A thousand that connect and say nothing, and more all the time, delay nobody. */
static void silent_strangers_delay_nobody(void **state)
{
    (void)state;
    static party p;
    prepare(&p, "tcp", 3, 10 * 1000 * 1000);
    assert_int_equal(pthread_create(&p.guests[0].thread, NULL, go, &p.guests[0]), 0);
    const uint16_t port = (uint16_t)strtoul(strrchr(p.place, ':') + 1, NULL, 10);
    strangers *s = strangers_start(port, 1000);
    const uint64_t began_us = shoali_now_us();
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(pthread_create(&p.guests[i].thread, NULL, go, &p.guests[i]), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_join(p.guests[i].thread, NULL), 0);
    const uint64_t took_us = shoali_now_us() - began_us;
    strangers_stop(s);
    assert_all(&p, SHOAL_OK, NULL);
    if (took_us > 4 * 1000 * 1000)
        fail_msg("the join took %.1f s", (double)took_us * 1e-6);
    place_release(p.place, p.fd);
}

/* A rank 0 that holds the token and says what it likes of who is missing. */
static void *bad_host(void *arg)
{
    static const char text[] = "rank 1\x1b]0;owned\x07\x1b[2J";
    guest *g = arg;
    shoali_meet_stream stream;
    uint16_t kind;
    const uint8_t *body;
    size_t length;
    bool told = false;
    int listener = -1, fd = -1;
    g->status = shoali_meet_listen(&g->meeting, &listener);
    while (g->status == SHOAL_OK && fd < 0 && shoali_now_us() < g->meeting.deadline_us)
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        g->status = shoali_meet_stream_start(&stream, fd, false, &g->meeting);
    while (fd >= 0 && shoali_now_us() < g->meeting.deadline_us + 1000 * 1000 &&
           shoali_meet_stream_write(&stream) == SHOAL_OK) {
        shoal_status status = shoali_meet_stream_read(&stream, &kind, &body, &length);
        if (status != SHOAL_OK && status != SHOAL_PENDING)
            break; /* it has given up */
        told |= shoali_meet_stream_put(&stream, SHOALI_MESSAGE_waiting, text, sizeof text - 1);
    }
    close(fd);
    close(listener);
    return told ? arg : NULL;
}

static void what_rank_0_says_is_shown_without_its_escape_sequences(void **state)
{
    (void)state;
    static party p;
    void *told;
    prepare(&p, "tcp", 2, 1000 * 1000);
    assert_int_equal(pthread_create(&p.guests[0].thread, NULL, bad_host, &p.guests[0]), 0);
    assert_int_equal(pthread_create(&p.guests[1].thread, NULL, go, &p.guests[1]), 0);
    assert_int_equal(pthread_join(p.guests[1].thread, NULL), 0);
    assert_int_equal(pthread_join(p.guests[0].thread, &told), 0);
    assert_non_null(told);
    assert_int_equal(p.guests[1].status, SHOAL_ETIMEDOUT);
    assert_non_null(strstr(p.guests[1].error.text, "rank 1?]0;owned??[2J of 2 did not join"));
    place_release(p.place, p.fd);
}

static void left_over_files_do_not_count(void **state)
{
    (void)state;
    static party old, p;
    prepare(&old, "file", 3, 10 * 1000 * 1000);
    char kept[256];
    snprintf(kept, sizeof kept, "%s", old.place);
    prepare(&p, "file", 3, 10 * 1000 * 1000);
    /* an old job in the same place: its table stays, and one answer, too */
    for (uint32_t i = 0; i < 3; i++)
        old.guests[i].meeting.place = p.place;
    char place[256];
    snprintf(place, sizeof place, "%s", p.place);
    for (uint32_t i = 0; i < 3; i++) {
        old.guests[i].mine.incarnation += 50;
        assert_int_equal(pthread_create(&old.guests[i].thread, NULL, go, &old.guests[i]), 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_join(old.guests[i].thread, NULL), 0);
    assert_all(&old, SHOAL_OK, NULL);
    char stale[300], link_to[300];
    snprintf(stale, sizeof stale, "%s", place + 7);
    snprintf(link_to, sizeof link_to, "%s.1", place + 7);
    assert_int_equal(link(stale, link_to), 0);
    run(&p, RANKS);
    assert_all(&p, SHOAL_OK, NULL);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(p.guests[i].records[k].incarnation, 1000 + k);
    place_release(kept, old.fd);
}

static void places_are_checked(void **state)
{
    (void)state;
    static party p;
    static const char *const bad[] = {
        "",           "tcp://",         "tcp://a",     "tcp://a:",  "tcp://:1",   "tcp://a:b",
        "tcp://a:1x", "tcp://a:123456", "tcp://::1:9", "udp://a:1", "file://a/b", "/tmp/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        prepare(&p, "file", 2, 100 * 1000);
        p.guests[1].meeting.place = bad[i];
        assert_status(shoali_meet(&p.guests[1].meeting, p.guests[1].records), SHOAL_EINVAL);
        place_release(p.place, p.fd);
    }
    /* off loopback nothing starts without a token */
    prepare(&p, "file", 2, 100 * 1000);
    for (uint32_t rank = 0; rank < 2; rank++) {
        p.guests[rank].meeting.place = "tcp://192.0.2.1:9";
        p.guests[rank].token.len_bytes = 0;
        assert_status(shoali_meet(&p.guests[rank].meeting, p.guests[rank].records), SHOAL_EAUTH);
        assert_error_has("SHOAL_TOKEN_FILE");
    }
    place_release(p.place, p.fd);
    char host[64], port[8];
    assert_true(shoali_meet_parse("tcp://[fe80::1]:29400", host, sizeof host, port, sizeof port));
    assert_string_equal(host, "fe80::1");
    assert_string_equal(port, "29400");
}

static void ranks_are_listed_briefly(void **state)
{
    (void)state;
    bool in[32] = {false};
    char text[128];
    in[0] = true;
    assert_int_equal(shoali_meet_missing(in, 2, text, sizeof text), 1);
    assert_string_equal(text, "rank 1");
    assert_int_equal(shoali_meet_missing(in, 3, text, sizeof text), 2);
    assert_string_equal(text, "ranks 1, 2");
    assert_int_equal(shoali_meet_missing(in, 32, text, sizeof text), 31);
    assert_string_equal(text, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 23 more");
    assert_int_equal(shoali_meet_missing(in, 32, text, 12), 31); /* cut, not beyond */
    assert_int_equal(strlen(text), 11);
}

int main(void)
{
    shoali_log_set_level(SHOALI_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(everyone_leaves_with_everyones_record),
        CHECK_TEST(the_missing_are_named),
        CHECK_TEST(the_words_of_rank_0_are_waited_for),
        CHECK_TEST(a_missing_store_is_named),
        CHECK_TEST(disagreement_ends_it_for_all),
        CHECK_TEST(a_wrong_token_is_turned_away),
        CHECK_TEST(strangers_do_no_harm),
        CHECK_TEST(silent_strangers_delay_nobody),
        CHECK_TEST(what_rank_0_says_is_shown_without_its_escape_sequences),
        CHECK_TEST(left_over_files_do_not_count),
        CHECK_TEST(places_are_checked),
        CHECK_TEST(ranks_are_listed_briefly)};
    return CHECK_RUN(tests);
}
