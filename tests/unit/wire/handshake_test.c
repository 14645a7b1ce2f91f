/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/rng.h"
#include "wire/handshake.h"

static const uint8_t token[] = "secret of this job";

static shoali_hello hello_of(uint32_t endpoint, uint32_t target)
{
    shoali_hello hello = {
        .endpoint = endpoint, .target = target, .incarnation = endpoint, .job = "job"};
    for (int i = 0; i < SHOALI_NONCE_BYTES; i++)
        hello.nonce[i] = (uint8_t)(endpoint * 50 + (uint32_t)i);
    return hello;
}

typedef struct pair {
    shoali_handshake dialler, listener;
    shoal_status dialled, listened; /* how far each got; PENDING at first */
    char dialler_text[512], listener_text[512];
    uint8_t seen[1024]; /* all that went over the wire, dialler to listener */
    size_t seen_bytes;
} pair;

static void start(pair *p, const shoali_hello *dialler, const shoali_hello *listener,
                  const uint8_t *other_token, size_t other_bytes)
{
    memset(p, 0, sizeof *p);
    p->dialled = p->listened = SHOAL_PENDING;
    shoali_handshake_start(&p->dialler, true, dialler, other_token, other_bytes);
    shoali_handshake_start(&p->listener, false, listener, token, sizeof token);
}

/* Move what `from` has to say to `to`, in pieces of at most `piece` bytes. */
static void carry(shoali_handshake *from, shoali_handshake *to, shoal_status *status,
                  char text[512], size_t piece, pair *p)
{
    uint8_t bytes[sizeof from->out];
    size_t len = from->out_len, at = 0;
    memcpy(bytes, from->out, len);
    from->out_len = 0;
    if (from == &p->dialler) {
        memcpy(p->seen + p->seen_bytes, bytes, len);
        p->seen_bytes += len;
    }
    while (at < len && *status == SHOAL_PENDING) {
        size_t take = shoali_handshake_want(to);
        take = take < piece ? take : piece;
        take = take < len - at ? take : len - at;
        *status = shoali_handshake_feed(to, bytes + at, take);
        at += take;
        if (*status != SHOAL_OK && *status != SHOAL_PENDING)
            snprintf(text, 512, "%s", shoal_last_error()->text);
    }
}

static void run(pair *p, size_t piece)
{
    for (int turn = 0; turn < 4; turn++) {
        carry(&p->dialler, &p->listener, &p->listened, p->listener_text, piece, p);
        carry(&p->listener, &p->dialler, &p->dialled, p->dialler_text, piece, p);
    }
}

static void both_prove_themselves_whatever_the_pieces(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    dialler.purpose = SHOALI_PURPOSE_DATA;
    dialler.tos = 0x28;
    dialler.lane = 3;
    for (size_t piece = 1; piece <= 200; piece += 13) {
        pair p;
        start(&p, &dialler, &listener, token, sizeof token);
        run(&p, piece);
        assert_int_equal(p.dialled, SHOAL_OK);
        assert_int_equal(p.listened, SHOAL_OK);
        assert_true(p.dialler.done && p.listener.done);
        assert_int_equal(p.listener.peer.endpoint, 5);
        assert_int_equal(p.listener.peer.tos, 0x28);
        assert_int_equal(p.dialler.peer.endpoint, 2);
        assert_int_equal(p.dialler.peer.lane, 3);
        assert_int_equal(p.seen_bytes, SHOALI_HELLO_BYTES + SHOALI_PROOF_BYTES);
    }
}

/* Both ends fail with `status`, and their texts say why. */
static void expect_refusal(pair *p, shoal_status status, const char *dialler_says,
                           const char *listener_says)
{
    run(p, 1000);
    assert_int_equal(p->dialled, status);
    assert_int_equal(p->listened, status);
    assert_non_null(strstr(p->dialler_text, dialler_says));
    assert_non_null(strstr(p->listener_text, listener_says));
    assert_false(p->dialler.done || p->listener.done);
}

static void a_wrong_token_is_refused_at_both_ends(void **state)
{
    (void)state;
    static const uint8_t wrong[] = "secret of that job";
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    start(&p, &dialler, &listener, wrong, sizeof wrong);
    expect_refusal(&p, SHOAL_EAUTH, "does not hold the token", "wrong token");
    start(&p, &dialler, &listener, NULL, 0);
    expect_refusal(&p, SHOAL_EAUTH, "does not hold the token", "wrong token");
}

static void another_job_or_endpoint_is_refused_at_both_ends(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    strcpy(dialler.job, "another");
    start(&p, &dialler, &listener, token, sizeof token);
    expect_refusal(&p, SHOAL_EAUTH, "belongs to another job", "job 'another' called");
    dialler = hello_of(5, 3);
    start(&p, &dialler, &listener, token, sizeof token);
    expect_refusal(&p, SHOAL_EAUTH, "another endpoint lives", "for endpoint 3, this is endpoint 2");
}

/* Who comes for "job" while "job#2" meets has found the right place, at the wrong time. */
static void a_later_epoch_of_the_job_says_so(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    snprintf(listener.job, sizeof listener.job, "%.20s#2", dialler.job);
    start(&p, &dialler, &listener, token, sizeof token);
    run(&p, 1000);
    assert_int_equal(p.dialled, SHOAL_EEPOCH);
    assert_int_equal(p.listened, SHOAL_EAUTH);
    assert_non_null(strstr(p.dialler_text, "the job runs already"));
    strcpy(dialler.job, listener.job); /* the other way round it is a stranger */
    listener = hello_of(2, 0);
    start(&p, &dialler, &listener, token, sizeof token);
    expect_refusal(&p, SHOAL_EAUTH, "belongs to another job", "#2' called");
}

static void a_needed_feature_that_is_unknown_is_refused(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    dialler.features = 1u << 31;
    start(&p, &dialler, &listener, token, sizeof token);
    expect_refusal(&p, SHOAL_EVERSION, "needs a feature", "needs features 0x80000000");
}

static void another_version_is_refused_at_both_ends(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    start(&p, &dialler, &listener, token, sizeof token);
    p.dialler.out[4] = 2;
    expect_refusal(&p, SHOAL_EVERSION, "another protocol version",
                   "speaks protocol version 2, this one 1");
}

/* Whoever recorded a whole opening and sends it again meets a fresh nonce. */
static void a_replay_is_refused(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair first, second;
    start(&first, &dialler, &listener, token, sizeof token);
    run(&first, 1000);
    assert_int_equal(first.listened, SHOAL_OK);
    listener.nonce[0] ^= 1;
    start(&second, &dialler, &listener, token, sizeof token);
    size_t at = 0;
    shoal_status status = SHOAL_PENDING;
    while (status == SHOAL_PENDING && at < first.seen_bytes) {
        size_t take = shoali_handshake_want(&second.listener);
        status = shoali_handshake_feed(&second.listener, first.seen + at, take);
        second.listener.out_len = 0;
        at += take;
    }
    assert_int_equal(status, SHOAL_EAUTH);
    assert_false(second.listener.done);
}

/* A listener cannot be made to prove itself to itself: its own proof sent back is not a
 * dialler's. */
static void a_reflected_proof_is_refused(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    start(&p, &dialler, &listener, token, sizeof token);
    carry(&p.dialler, &p.listener, &p.listened, p.listener_text, 1000, &p);
    assert_int_equal(p.listener.out_len, SHOALI_HELLO_BYTES + SHOALI_PROOF_BYTES);
    uint8_t reflected[SHOALI_PROOF_BYTES];
    memcpy(reflected, p.listener.out + SHOALI_HELLO_BYTES, sizeof reflected);
    p.listener.out_len = 0;
    assert_status(shoali_handshake_feed(&p.listener, reflected, SHOALI_PREFIX_BYTES),
                  SHOAL_PENDING);
    assert_status(shoali_handshake_feed(&p.listener, reflected + SHOALI_PREFIX_BYTES,
                                        SHOALI_PROOF_BYTES - SHOALI_PREFIX_BYTES),
                  SHOAL_EAUTH);
}

static void every_flipped_bit_ends_the_opening(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    for (size_t bit = 0; bit < 8 * SHOALI_HELLO_BYTES; bit++) {
        pair p;
        start(&p, &dialler, &listener, token, sizeof token);
        p.dialler.out[bit / 8] ^= (uint8_t)(1 << bit % 8);
        run(&p, 1000);
        assert_false(p.dialler.done);
        assert_false(p.listener.done);
    }
}

static void messages_out_of_turn_are_refused(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    uint8_t proof[SHOALI_PROOF_BYTES], mac[SHOALI_MAC_BYTES] = {0};
    pair p;
    shoali_proof_encode(mac, proof);
    start(&p, &dialler, &listener, token, sizeof token);
    assert_status(shoali_handshake_feed(&p.listener, proof, SHOALI_PREFIX_BYTES), SHOAL_ECORRUPT);
    assert_status(shoali_handshake_feed(&p.dialler, proof, SHOALI_PREFIX_BYTES), SHOAL_ECORRUPT);
}

static void a_caller_may_refuse_for_its_own_reason(void **state)
{
    (void)state;
    shoali_hello dialler = hello_of(5, 2), listener = hello_of(2, 0);
    pair p;
    start(&p, &dialler, &listener, token, sizeof token);
    carry(&p.dialler, &p.listener, &p.listened, p.listener_text, 1000, &p);
    shoali_handshake_refuse(&p.listener, SHOAL_EPEER, "full house");
    carry(&p.listener, &p.dialler, &p.dialled, p.dialler_text, 1000, &p);
    assert_int_equal(p.dialled, SHOAL_EPEER);
    assert_non_null(strstr(p.dialler_text, "full house"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(both_prove_themselves_whatever_the_pieces),
        CHECK_TEST(a_wrong_token_is_refused_at_both_ends),
        CHECK_TEST(another_job_or_endpoint_is_refused_at_both_ends),
        CHECK_TEST(a_later_epoch_of_the_job_says_so),
        CHECK_TEST(a_needed_feature_that_is_unknown_is_refused),
        CHECK_TEST(another_version_is_refused_at_both_ends),
        CHECK_TEST(a_replay_is_refused),
        CHECK_TEST(a_reflected_proof_is_refused),
        CHECK_TEST(every_flipped_bit_ends_the_opening),
        CHECK_TEST(messages_out_of_turn_are_refused),
        CHECK_TEST(a_caller_may_refuse_for_its_own_reason),
    };
    return CHECK_RUN(tests);
}
