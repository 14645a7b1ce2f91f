/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport reaches whom, and what becomes of a peer that cannot be told something. */
#include "carry/link.h"

#include "support/check.h"
#include "support/fake_comm.h"
#include "wire/messages.h"

static fake_wire wire, near_wire;
static fake_wire *near_state = &near_wire;

static shoal_comm *make(uint32_t me, uint32_t size)
{
    shoal_comm *comm = fake_comm_make(me, size, &wire);
    memset(&near_wire, 0, sizeof near_wire);
    comm->links.near = comm->links.control;
    comm->links.near.state = &near_state;
    return comm;
}

static void what_cannot_be_opened_is_refused_by_one_alone_too(void **state)
{
    (void)state;
    shoal_comm_desc desc = SHOAL_COMM_DESC_INIT;
    assert_ok(shoali_links_check(&desc));
    desc.transport = "pigeon";
    assert_status(shoali_links_check(&desc), SHOAL_EINVAL);
    assert_error_has("pigeon");
    desc.transport = "tcp:colour=red";
    assert_status(shoali_links_check(&desc), SHOAL_EINVAL);
    assert_error_has("colour");
    desc.transport = NULL;
    desc.interface = "no-such-interface";
    assert_int_not_equal(shoali_links_check(&desc), SHOAL_OK);
    assert_error_has("no-such-interface");
}

static void few_of_a_host_all_share_memory(void **state)
{
    (void)state;
    shoal_comm *comm = make(3, 32);
    for (uint32_t i = 0; i < 32; i++)
        if (i != 3)
            assert_ok(shoali_links_add(comm, i, "address", "near"));
    assert_true(wire.adds == 31 && near_wire.adds == 31);
    assert_true(comm->peers[20].near && comm->peers[20].data == &comm->links.control);
    fake_comm_free(comm);
}

/* Of many only those at distances that are powers of two, either way round. */
static void of_many_those_share_memory_that_schedules_pair(void **state)
{
    enum { ME = 5, MANY = 100 };
    (void)state;
    shoal_comm *comm = make(ME, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        bool paired = false;
        for (uint32_t d = 1; d < MANY; d *= 2)
            paired = paired || (ME + d) % MANY == i || (i + d) % MANY == ME;
        if (i != ME)
            assert_ok(shoali_links_add(comm, i, "address", "near"));
        assert_int_equal(comm->peers[i].near, paired);
    }
    assert_int_equal(wire.adds, MANY - 1);
    fake_comm_free(comm);
}

static void who_has_no_near_address_or_cannot_be_reached_so_goes_by_the_other(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 4);
    assert_ok(shoali_links_add(comm, 1, "address", ""));
    assert_int_equal(near_wire.adds, 0);
    near_wire.answer = SHOAL_ENOTSUP;
    assert_ok(shoali_links_add(comm, 2, "address", "near"));
    assert_true(near_wire.adds == 1 && !comm->peers[2].near);
    wire.answer = SHOAL_EAUTH;
    assert_status(shoali_links_add(comm, 3, "address", "near"), SHOAL_EAUTH);
    fake_comm_free(comm);
}

/* That the connection has ended is known, or will be; any other failure is a loss. */
static void who_cannot_be_told_is_lost(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 3);
    shoali_control(comm, 1, SHOALI_MESSAGE_protocol, "x", 1);
    wire.answer = SHOAL_EPEER;
    shoali_control(comm, 1, SHOALI_MESSAGE_protocol, "x", 1);
    assert_false(comm->peers[1].gone);
    wire.answer = SHOAL_ENOMEM;
    shoali_control(comm, 1, SHOALI_MESSAGE_protocol, "x", 1);
    assert_true(comm->peers[1].gone && comm->peers[1].gone_status == SHOAL_EPEER);
    assert_false(comm->peers[2].gone);
    fake_comm_free(comm);
}

static void both_forget_whom_they_had(void **state)
{
    (void)state;
    shoal_comm *comm = make(0, 3);
    comm->peers[1].near = true;
    shoali_links_drop(comm, 1, false);
    shoali_links_drop(comm, 2, false);
    assert_true(wire.drops == 2 && near_wire.drops == 1 && near_wire.dropped == 1);
    fake_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_cannot_be_opened_is_refused_by_one_alone_too),
        CHECK_TEST(few_of_a_host_all_share_memory),
        CHECK_TEST(of_many_those_share_memory_that_schedules_pair),
        CHECK_TEST(who_has_no_near_address_or_cannot_be_reached_so_goes_by_the_other),
        CHECK_TEST(who_cannot_be_told_is_lost),
        CHECK_TEST(both_forget_whom_they_had),
    };
    return CHECK_RUN(tests);
}
