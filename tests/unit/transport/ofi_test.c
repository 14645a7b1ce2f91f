/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric behind its calls: two endpoints of one process, by the providers that any host has. */
#include "transport/ofi.h"

#include <signal.h>

#include "base/clock.h"
#include "support/check.h"

enum { DEADLINE_US = 60000000 };

static const char *const providers[] = {"tcp", "shm"};

typedef struct ends {
    const shoali_ofi_calls *ofi;
    shoali_ofi *a, *b;
    uint64_t b_of_a; /* b, as a knows it */
    shoali_ofi_memory memory;
} ends;

/* Built without libfabric, or on a host without it: then that is all there is to see. */
static const shoali_ofi_calls *calls_or_skip(void)
{
    const shoali_ofi_calls *ofi = shoali_ofi_load();
    if (ofi == NULL) {
        assert_int_equal(shoal_last_error()->status, SHOAL_ENOTSUP);
        assert_error_has("libfabric");
        print_message("%s\n", shoal_last_error()->text);
        skip();
    }
    return ofi;
}

static void open_ends(ends *e, const char *provider)
{
    uint8_t name[SHOALI_OFI_NAME_BYTES] = {0}, other[SHOALI_OFI_NAME_BYTES] = {0};
    *e = (ends){.ofi = calls_or_skip()};
    assert_ok(e->ofi->open(provider, NULL, "127.0.0.1", &e->a));
    assert_ok(e->ofi->open(provider, NULL, "127.0.0.1", &e->b));
    size_t len = e->ofi->name(e->a, other);
    assert_int_equal(e->ofi->name(e->b, name), len);
    assert_true(len > 0 && memcmp(name, other, len) != 0);
    assert_ok(e->ofi->insert(e->a, name, &e->b_of_a));
}

static void close_ends(ends *e)
{
    e->ofi->stop(e->a);
    e->ofi->stop(e->b);
    e->ofi->close(e->a);
    e->ofi->close(e->b);
}

/* What comes first at either end; makes both work. */
static shoali_ofi_done next(ends *e)
{
    shoali_ofi_done done;
    uint64_t end_us = shoali_now_us() + DEADLINE_US;
    while (e->ofi->done(e->a, &done, 1) == 0 && e->ofi->done(e->b, &done, 1) == 0)
        assert_true(shoali_now_us() < end_us);
    return done;
}

static void a_message_goes_where_its_tag_is_wanted(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        ends e;
        static char words[] = "by its tag", other[32], got[32];
        shoali_ofi_op sent, wanted, unwanted;
        open_ends(&e, providers[p]);
        assert_ok(e.ofi->lend(e.a, words, sizeof words, &e.memory));
        assert_ok(e.ofi->receive(e.b, 4, other, sizeof other, &e.memory, &unwanted));
        assert_ok(e.ofi->receive(e.b, 6, got, sizeof got, &e.memory, &wanted));
        shoal_status status = SHOAL_PENDING;
        uint64_t end_us = shoali_now_us() + DEADLINE_US;
        while (status == SHOAL_PENDING) { /* the first message makes the connection */
            shoali_ofi_done none;
            assert_true(shoali_now_us() < end_us);
            assert_true(e.ofi->done(e.a, &none, 1) == 0 && e.ofi->done(e.b, &none, 1) == 0);
            status = e.ofi->send(e.a, e.b_of_a, 6, words, sizeof words, &e.memory, &sent);
        }
        assert_ok(status);
        for (int i = 0; i < 2; i++) {
            shoali_ofi_done done = next(&e);
            assert_true(!done.failed && (done.op == &sent || done.op == &wanted));
            assert_true(done.op == &sent || done.len_bytes == sizeof words);
        }
        assert_string_equal(got, words);
        e.ofi->cancel(e.b, &unwanted);
        shoali_ofi_done done = next(&e);
        assert_true(done.op == &unwanted && done.failed && done.cancelled);
        e.ofi->take_back(&e.memory);
        close_ends(&e);
    }
}

static void an_endpoint_that_sleeps_can_be_waited_for(void **state)
{
    (void)state;
    ends e;
    open_ends(&e, "tcp");
    assert_true(e.ofi->fd(e.a) >= 0);
    assert_true(e.ofi->may_sleep(e.a));
    close_ends(&e);
    open_ends(&e, "shm"); /* 1.17 cannot; a later one may */
    assert_true(e.ofi->fd(e.a) >= -1);
    close_ends(&e);
}

static void an_unknown_provider_is_refused_by_name(void **state)
{
    (void)state;
    shoali_ofi *none = NULL;
    const shoali_ofi_calls *ofi = calls_or_skip();
    assert_status(ofi->open("carrier-pigeon", NULL, NULL, &none), SHOAL_ENOTSUP);
    assert_error_has("carrier-pigeon");
    assert_status(ofi->open("tcp", "nosuch0", NULL, &none), SHOAL_ENOTSUP);
    assert_error_has("nosuch0");
    assert_null(none);
    ofi->stop(NULL);
    ofi->close(NULL);
}

static void on_term(int number)
{
    (void)number;
}

/* The provider shm puts handlers of its own before those of the program. */
static void signals_stay_as_they_were(void **state)
{
    (void)state;
    ends e;
    struct sigaction mine = {.sa_handler = on_term}, seen, before;
    (void)calls_or_skip();
    assert_int_equal(sigaction(SIGTERM, &mine, &before), 0);
    open_ends(&e, "shm");
    close_ends(&e);
    assert_int_equal(sigaction(SIGTERM, NULL, &seen), 0);
    assert_ptr_equal(seen.sa_handler, on_term);
    assert_int_equal(sigaction(SIGINT, NULL, &seen), 0);
    assert_ptr_equal(seen.sa_handler, SIG_DFL);
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
}

static void providers_are_listed_once(void **state)
{
    (void)state;
    char name[SHOALI_OFI_PROVIDER_BYTES], domain[64], first[SHOALI_OFI_PROVIDER_BYTES] = "";
    size_t tcp = 0, count = 0;
    const shoali_ofi_calls *ofi = calls_or_skip();
    for (; ofi->provider_at(count, name, domain); count++) {
        assert_true(strcmp(name, first) != 0 && strchr(name, ';') == NULL);
        if (count == 0)
            snprintf(first, sizeof first, "%s", name);
        tcp += strcmp(name, "tcp") == 0;
        assert_true(domain[0] != '\0');
    }
    assert_int_equal(tcp, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_message_goes_where_its_tag_is_wanted),
        CHECK_TEST(an_endpoint_that_sleeps_can_be_waited_for),
        CHECK_TEST(an_unknown_provider_is_refused_by_name),
        CHECK_TEST(signals_stay_as_they_were),
        CHECK_TEST(providers_are_listed_once),
    };
    return CHECK_RUN(tests);
}
