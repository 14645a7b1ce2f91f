/* SPDX-License-Identifier: Apache-2.0 */
/* One member's decisions, each by itself; tests/sim/member_faults_test.c lets whole jobs of them
 * live. */
#include "member/member.h"

#include "support/check.h"

enum { SIZE = 5, TIMEOUT = 1000 * 1000 };

typedef struct place {
    shoali_member m;
    uint8_t states[SIZE];
    uint64_t identity[SIZE], said_us[SIZE];
    shoali_guest guest[SIZE];
    shoali_proposal doubts[SIZE][SHOALI_DOUBTS];
    const shoali_guest *members[SIZE];
    shoali_guests guests;
} place;

/* Rank `me` of five in epoch 3; all others are there, and have come to its door. */
static void take_place(place *p, uint32_t me)
{
    memset(p, 0, sizeof *p);
    p->m = (shoali_member){.me = me,
                           .size = SIZE,
                           .epoch = 3,
                           .tried = 3,
                           .done = 70,
                           .peer_timeout_us = TIMEOUT,
                           .states = p->states,
                           .identity = p->identity,
                           .said_us = p->said_us};
    p->guests = (shoali_guests){.members = p->members, .room = SIZE};
    for (uint32_t i = 0; i < SIZE; i++) {
        p->identity[i] = 100 + i;
        p->guest[i] = (shoali_guest){
            .come = {.epoch = 3, .tried = 3, .done = 70, .incarnation = 100 + i, .rank = i},
            .doubts = p->doubts[i]};
        p->members[i] = i != me ? &p->guest[i] : NULL;
    }
}

static void lose(place *p, uint32_t rank, shoali_member_state how)
{
    p->states[rank] = (uint8_t)how;
    p->members[rank] = NULL;
}

/* Rank `rank` brings: it has agreed to go on with these by this leader. */
static void doubt(place *p, uint32_t rank, uint32_t leader, uint8_t stays, uint32_t newcomers)
{
    shoali_proposal *d = &p->doubts[rank][p->guest[rank].come.doubts++];
    *d = (shoali_proposal){
        .epoch = 4, .leader = 100 + leader, .size = SIZE, .newcomers = newcomers, .stays = {stays}};
}

/* The same of this one. */
static void doubt_too(place *p, uint32_t leader, uint8_t stays, uint32_t newcomers)
{
    p->m.doubts[p->m.doubt_count++] = (shoali_proposal){
        .epoch = 4, .leader = 100 + leader, .size = SIZE, .newcomers = newcomers, .stays = {stays}};
}

static shoali_lead leads(place *p)
{
    return shoali_member_lead(&p->m, &p->guests, 5000);
}

static void the_lowest_that_is_there_leads(void **state)
{
    (void)state;
    place p;
    take_place(&p, 2);
    assert_int_equal(shoali_member_candidate(&p.m, 0), 0);
    p.states[0] = SHOALI_MEMBER_SILENT;
    assert_int_equal(shoali_member_candidate(&p.m, 0), 1);
    assert_false(shoali_member_stays(&p.m, 0));
    p.states[1] = SHOALI_MEMBER_DEAD;
    assert_int_equal(shoali_member_candidate(&p.m, 0), 2);
    p.states[0] = SHOALI_MEMBER_ASTRAY;
    assert_int_equal(shoali_member_candidate(&p.m, 0), 0);
    assert_int_equal(shoali_member_candidate(&p.m, 1), 2);
    assert_true(shoali_member_stays(&p.m, 0));
}

static void it_waits_for_all_that_are_there(void **state)
{
    (void)state;
    place p;
    take_place(&p, 0);
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    p.members[3] = NULL;
    assert_int_equal(leads(&p), SHOALI_LEAD_WAIT);
    p.states[3] = SHOALI_MEMBER_SILENT;
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    p.states[3] = SHOALI_MEMBER_ASTRAY; /* for a while */
    assert_int_equal(leads(&p), SHOALI_LEAD_WAIT);
    assert_int_equal(shoali_member_lead(&p.m, &p.guests, 5000 + TIMEOUT + 1), SHOALI_LEAD_PROPOSE);
}

static void a_minority_does_not_propose(void **state)
{
    (void)state;
    place p;
    take_place(&p, 2);
    lose(&p, 0, SHOALI_MEMBER_SILENT);
    lose(&p, 1, SHOALI_MEMBER_SILENT);
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    lose(&p, 3, SHOALI_MEMBER_SILENT);
    assert_int_equal(leads(&p), SHOALI_LEAD_MINORITY);
    p.states[3] = SHOALI_MEMBER_DEAD; /* two of four, without the lowest */
    assert_int_equal(leads(&p), SHOALI_LEAD_MINORITY);
    p.states[0] = SHOALI_MEMBER_DEAD;
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    p.states[0] = SHOALI_MEMBER_DYING; /* it may have gone on with rank 1 */
    assert_int_equal(leads(&p), SHOALI_LEAD_MINORITY);
    p.states[1] = SHOALI_MEMBER_DYING; /* nobody is left to have gone on */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
}

/* Ranks 0 and 1 are out of reach; ranks 2, 3 and 4 would be a quorum. */
static void cut_off(place *p)
{
    take_place(p, 2);
    lose(p, 0, SHOALI_MEMBER_SILENT);
    lose(p, 1, SHOALI_MEMBER_SILENT);
}

static void what_others_may_have_gone_on_by_stops_it(void **state)
{
    (void)state;
    place p;
    cut_off(&p);
    doubt(&p, 3, 0, 0x0b, 0); /* 0, 1 and 3: two of the three are elsewhere */
    assert_int_equal(leads(&p), SHOALI_LEAD_DOUBT);
    cut_off(&p);
    doubt(&p, 3, 0, 0x1d, 0); /* 0, 2, 3 and 4: 0 alone cannot go on by it */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    cut_off(&p);
    doubt(&p, 3, 0, 0x0d, 2); /* 0, 2, 3 and two newcomers, who may be with 0 */
    doubt_too(&p, 0, 0x0d, 2);
    assert_int_equal(leads(&p), SHOALI_LEAD_DOUBT);
    cut_off(&p);
    doubt(&p, 4, 3, 0x1b, 2); /* its leader has come: it has not said GO */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    cut_off(&p);
    doubt_too(&p, 0, 0x07, 0); /* its own doubt */
    assert_int_equal(leads(&p), SHOALI_LEAD_DOUBT);
}

/* Ranks 0 and 4 are out of reach, and two more of their doubt are here: half of it, with its
 * lowest, may have gone on. The last rank counts as any other. */
static void half_with_the_lowest_stops_it(void **state)
{
    (void)state;
    place p;
    take_place(&p, 1);
    lose(&p, 0, SHOALI_MEMBER_SILENT);
    lose(&p, 4, SHOALI_MEMBER_SILENT);
    doubt_too(&p, 0, 0x1b, 0); /* 0, 1, 3 and 4 */
    doubt(&p, 3, 0, 0x1b, 0);
    assert_int_equal(leads(&p), SHOALI_LEAD_DOUBT);
    p.states[4] = SHOALI_MEMBER_LEFT; /* with goodbye: 0 is one of three, and cannot have */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
}

/* An epoch begins when all of its members are READY. */
static void what_somebody_has_not_been_ready_for_has_not_begun(void **state)
{
    (void)state;
    place p;
    cut_off(&p);
    doubt(&p, 3, 0, 0x0d, 2); /* this one is in it, and has no such doubt */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    cut_off(&p);
    doubt_too(&p, 0, 0x1d, 4);
    doubt(&p, 3, 0, 0x1d, 4);
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE); /* 4 has not */
    doubt(&p, 4, 0, 0x1d, 4);
    assert_int_equal(leads(&p), SHOALI_LEAD_DOUBT);
    p.doubts[4][0].epoch = 5; /* another one of that leader's */
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
    p.doubts[4][0].epoch = 4;
    lose(&p, 4, SHOALI_MEMBER_SILENT); /* it may be anywhere */
    assert_int_equal(leads(&p), SHOALI_LEAD_MINORITY);
}

static void who_was_not_ready_has_no_doubt(void **state)
{
    (void)state;
    place p;
    shoali_proposal proposal = {.epoch = 4, .leader = 100, .size = SIZE, .stays = {0x0d}};
    take_place(&p, 2);
    assert_true(shoali_member_agree(&p.m, &proposal));
    shoali_member_failed(&p.m, &(shoali_proposal){.epoch = 4, .leader = 101}, 8000);
    assert_int_equal(p.m.doubt_count, 1); /* another one's */
    shoali_member_failed(&p.m, &proposal, 8000);
    assert_int_equal(p.m.doubt_count, 0);
    assert_int_equal(p.m.tried, 4); /* the next one is a later one all the same */
    proposal.epoch = 5;
    assert_true(shoali_member_agree(&p.m, &proposal));
    shoali_member_failed(&p.m, NULL, 9000);
    assert_int_equal(p.m.doubt_count, 1);
}

static void who_is_behind_comes_as_a_newcomer(void **state)
{
    (void)state;
    place p;
    take_place(&p, 2);
    lose(&p, 0, SHOALI_MEMBER_MOVED);
    assert_true(shoali_member_is_behind(&p.m));
    assert_int_equal(leads(&p), SHOALI_LEAD_GIVE_WAY);
    /* by a proposal that leads nowhere without this one: 0 alone of four */
    p.m.doubts[p.m.doubt_count++] = (shoali_proposal){
        .epoch = 4, .leader = 100, .size = SIZE, .stays = {0x1d}};
    assert_false(shoali_member_is_behind(&p.m));
    assert_int_equal(leads(&p), SHOALI_LEAD_PROPOSE);
}

static void a_proposal_counts_steps_and_epochs_of_all(void **state)
{
    (void)state;
    place p;
    shoali_proposal proposal;
    shoali_admit at;
    take_place(&p, 0);
    lose(&p, 1, SHOALI_MEMBER_DEAD);
    p.guest[2].come.tried = 9;
    p.guest[3].come.done = 71;
    p.guest[4].come.done = 69;
    p.guests.newcomers = 3;
    shoali_member_propose(&p.m, &p.guests, &proposal, &at);
    assert_int_equal(proposal.epoch, 10);
    assert_int_equal(at.epoch, 10);
    assert_int_equal(proposal.stays[0], 0x1d);
    assert_int_equal(proposal.newcomers, 1); /* there is room for five */
    assert_int_equal(at.size, 5);
    assert_int_equal(at.done_min, 69);
    assert_int_equal(at.done_max, 71);
    assert_int_equal(at.done_rank, 2); /* 0, 2 and then 3 */
    assert_int_equal(proposal.certain, 1);
    lose(&p, 1, SHOALI_MEMBER_SILENT);
    shoali_member_propose(&p.m, &p.guests, &proposal, &at);
    assert_int_equal(proposal.certain, 0);
}

static void it_agrees_to_what_comes_after_all_before(void **state)
{
    (void)state;
    place p;
    take_place(&p, 2);
    shoali_proposal proposal = {.epoch = 3, .leader = 100, .size = SIZE, .stays = {0x07}};
    assert_false(shoali_member_agree(&p.m, &proposal)); /* it is in epoch 3 */
    proposal.epoch = 5;
    assert_true(shoali_member_agree(&p.m, &proposal));
    assert_false(shoali_member_agree(&p.m, &proposal)); /* twice */
    proposal.epoch = 6;
    proposal.stays[0] = 0x03;
    assert_false(shoali_member_agree(&p.m, &proposal)); /* without this one */
    proposal.stays[0] = 0x1f;
    assert_true(shoali_member_agree(&p.m, &proposal));
    assert_int_equal(p.m.doubt_count, 1); /* the leader has given up what it said before */
    for (uint32_t i = 1; i < SHOALI_DOUBTS; i++) {
        proposal.leader++;
        proposal.epoch++;
        assert_true(shoali_member_agree(&p.m, &proposal));
    }
    proposal.leader++;
    proposal.epoch++;
    assert_false(shoali_member_agree(&p.m, &proposal)); /* it keeps no more, so it agrees no more */
}

static void who_leaves_somebody_out_is_quiet_first(void **state)
{
    (void)state;
    place p;
    take_place(&p, 2);
    p.said_us[0] = 7000;
    p.said_us[3] = 9000;
    shoali_proposal proposal = {.size = SIZE, .stays = {0x1e}};
    assert_int_equal(shoali_member_ready_us(&p.m, &proposal), 7000 + TIMEOUT / 10 * 4);
    proposal.certain = 1;
    assert_int_equal(shoali_member_ready_us(&p.m, &proposal), 0);
    proposal.certain = 0;
    shoali_member_failed(&p.m, NULL, 8000);
    assert_int_equal(shoali_member_ready_us(&p.m, &proposal), 8000 + TIMEOUT / 10 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_lowest_that_is_there_leads),
        CHECK_TEST(it_waits_for_all_that_are_there),
        CHECK_TEST(a_minority_does_not_propose),
        CHECK_TEST(what_others_may_have_gone_on_by_stops_it),
        CHECK_TEST(half_with_the_lowest_stops_it),
        CHECK_TEST(what_somebody_has_not_been_ready_for_has_not_begun),
        CHECK_TEST(who_was_not_ready_has_no_doubt),
        CHECK_TEST(who_is_behind_comes_as_a_newcomer),
        CHECK_TEST(a_proposal_counts_steps_and_epochs_of_all),
        CHECK_TEST(it_agrees_to_what_comes_after_all_before),
        CHECK_TEST(who_leaves_somebody_out_is_quiet_first),
    };
    return CHECK_RUN(tests);
}
