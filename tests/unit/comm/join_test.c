/* SPDX-License-Identifier: Apache-2.0 */
/* Who may join, and who hears why not. */
#include "endpoint/endpoint.h"
#include "support/alone.h"
#include "support/check.h"

static void refused(const shoal_comm_desc *desc, const char *why)
{
    shoal_comm *comm = NULL;
    assert_status(shoal_comm_create(desc, &comm), SHOAL_EINVAL);
    assert_error_has(why);
    assert_null(comm);
}

static void settings_that_cannot_be_are_refused_before_anybody_is_met(void **state)
{
    (void)state;
    char name[80];
    shoal_comm_desc desc = alone_desc();
    desc.chunk_elems = (1 << 22) + 1;
    refused(&desc, "chunk_elems 4194305");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    desc = alone_desc();
    desc.job = name;
    refused(&desc, "longer than 63 bytes");
    desc = alone_desc();
    desc.transport = "pigeon";
    refused(&desc, "pigeon");
    desc = alone_desc();
    desc.world_size = 2;
    desc.servers = 1;
    desc.reform = true;
    refused(&desc, "dedicated servers cannot reform");
    desc = alone_desc();
    desc.aggregators = "127.0.0.1:1";
    desc.reform = true;
    refused(&desc, "aggregators cannot reform");
}

static void what_is_not_said_has_its_default(void **state)
{
    (void)state;
    shoal_comm *comm = alone_make();
    assert_int_equal(comm->peer_timeout_us, 2500 * 1000);
    assert_int_equal(comm->op_timeout_us, 300 * 1000 * 1000);
    assert_int_equal(comm->chunk_elems, 65536);
    assert_int_equal(comm->seed, 1);
    assert_string_equal(comm->job, "shoal");
    assert_true(comm->host[0] != '\0' && strcmp(comm->peers[0].host, comm->host) == 0);
    shoal_comm_destroy(comm);
}

static void two_that_meet_are_connected_both_ways(void **state)
{
    (void)state;
    pair p;
    pair_init(&p);
    pair_join(&p);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p.status[i], SHOAL_OK);
        const shoali_peer *other = &p.comm[i]->peers[1 - i];
        assert_true(p.comm[i]->me == i && other->up);
        assert_int_equal(other->incarnation, p.comm[1 - i]->incarnation);
        assert_string_equal(other->host, p.comm[1 - i]->host);
        assert_true(!other->near || other->near_up);
        assert_ptr_equal(other->data,
                         other->near ? &p.comm[i]->links.near : &p.comm[i]->links.control);
    }
    assert_int_not_equal(p.comm[0]->incarnation, p.comm[1]->incarnation);
    pair_free(&p);
}

/* Both hear of it, and neither is in. */
static void who_differs_in_what_must_be_the_same_is_refused(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        pair p;
        pair_init(&p);
        if (what == 0)
            p.desc[1].chunk_elems = 1024;
        else
            p.desc[1].seed = 2;
        pair_join(&p);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_not_equal(p.status[i], SHOAL_OK);
            assert_null(p.comm[i]);
            assert_true(p.error[i].text[0] != '\0');
        }
        assert_true(strstr(p.error[0].text, what == 0 ? "chunk" : "seed") != NULL ||
                    strstr(p.error[1].text, what == 0 ? "chunk" : "seed") != NULL);
        pair_free(&p);
    }
}

static void nobody_waits_longer_than_its_deadline(void **state)
{
    (void)state;
    pair p;
    pair_init(&p);
    p.desc[0].join_timeout_us = 50000;
    assert_status(shoal_comm_create(&p.desc[0], &p.comm[0]), SHOAL_ETIMEDOUT);
    assert_error_has("rank 1");
    assert_null(p.comm[0]);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(settings_that_cannot_be_are_refused_before_anybody_is_met),
        CHECK_TEST(what_is_not_said_has_its_default),
        CHECK_TEST(two_that_meet_are_connected_both_ways),
        CHECK_TEST(who_differs_in_what_must_be_the_same_is_refused),
        CHECK_TEST(nobody_waits_longer_than_its_deadline),
    };
    return CHECK_RUN(tests);
}
