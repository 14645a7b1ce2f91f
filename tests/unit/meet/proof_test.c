/* SPDX-License-Identifier: Apache-2.0 */
/* What proves that a process has ended: the kernel that ran it, and its launcher's word; nothing
 * else. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meet/proof.h"
#include "support/check.h"
#include "support/scratch_dir.h"

static shoali_address self(void)
{
    shoali_address address;
    assert_ok(shoali_address_local(&address));
    shoali_proof_self(&address);
    assert_int_equal(address.pid, getpid());
    assert_true(address.pid_space > 0);
    return address;
}

/* A child that waits for its end; its address as it would have said it itself. */
static pid_t start_child(shoali_address *theirs_out)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        shoali_address mine;
        bool told = shoali_address_local(&mine) == SHOAL_OK;
        shoali_proof_self(&mine);
        told = told && write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine;
        while (told)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], theirs_out, sizeof *theirs_out), sizeof *theirs_out);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void the_kernel_knows_who_has_ended(void **state)
{
    (void)state;
    siginfo_t ended;
    shoali_address theirs;
    const shoali_address mine = self();
    pid_t pid = start_child(&theirs);
    assert_false(shoali_proof_by_kernel(&mine, &theirs));
    kill(pid, SIGSTOP);
    assert_false(shoali_proof_by_kernel(&mine, &theirs)); /* it stands still, and may go on */
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_true(shoali_proof_by_kernel(&mine, &theirs)); /* nobody has asked for its code yet */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(shoali_proof_by_kernel(&mine, &theirs));
}

/* What another kernel, or another PID namespace, calls by this number is somebody else. */
static void other_kernels_prove_nothing(void **state)
{
    (void)state;
    shoali_address theirs, changed;
    const shoali_address mine = self();
    pid_t pid = start_child(&theirs);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    changed = theirs;
    changed.boot[0] ^= 1;
    assert_false(shoali_proof_by_kernel(&mine, &changed));
    changed = theirs;
    changed.pid_space++;
    assert_false(shoali_proof_by_kernel(&mine, &changed));
    changed = theirs;
    changed.pid = 0;
    assert_false(shoali_proof_by_kernel(&mine, &changed));
    changed = mine;
    changed.boot[0] = '\0';
    assert_false(shoali_proof_by_kernel(&changed, &theirs));
}

static void the_launcher_names_whom_it_saw_end(void **state)
{
    (void)state;
    const char *path = scratch_path("ended");
    shoali_address theirs = {.host = "elsewhere"};
    uint64_t at_us = 7;
    shoali_proof_name("9f2c11d0.12", &theirs);
    assert_string_equal(theirs.launch, "9f2c11d0.12");
    assert_false(shoali_proof_by_launcher(&theirs, path, &at_us)); /* no such file yet */
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("9f2c11d0.1\n9f2c11d0.123\n\nother.12\n9f2c11d0.12", file); /* the last not whole yet */
    fflush(file);
    assert_false(shoali_proof_by_launcher(&theirs, path, &at_us));
    fputs("\n", file);
    fclose(file);
    assert_true(shoali_proof_by_launcher(&theirs, path, &at_us));
    assert_int_equal(at_us, 0); /* no moment is told */
    shoali_proof_name("9f2c11d0.13", &theirs);
    file = fopen(path, "ae");
    assert_non_null(file);
    fputs("9f2c11d0.3 17\n9f2c11d0.13 1234567\n9f2c11d0.14 x\n", file);
    fclose(file);
    assert_true(shoali_proof_by_launcher(&theirs, path, &at_us));
    assert_int_equal(at_us, 1234567);
    shoali_proof_name("9f2c11d0.14", &theirs);
    assert_true(shoali_proof_by_launcher(&theirs, path, &at_us));
    assert_int_equal(at_us, 0);
    shoali_proof_name("9f2c11d0.15", &theirs); /* the moment of others is not this one's */
    file = fopen(path, "ae");
    assert_non_null(file);
    fputs("9f2c11d0.16 1234568\n", file);
    fclose(file);
    assert_false(shoali_proof_by_launcher(&theirs, path, &at_us));
    assert_int_equal(at_us, 0);
    theirs.launch[0] = '\0';
    assert_false(shoali_proof_by_launcher(&theirs, path, &at_us));
}

static void names_that_no_address_can_carry_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a b", "a=b", "a\n",
                                      "0123456789012345678901234567890123456789"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shoali_address address = {.port = 1};
        shoali_proof_name(bad[i], &address);
        assert_string_equal(address.launch, "");
    }
    shoali_address address = {.port = 1};
    shoali_proof_name(NULL, &address);
    assert_string_equal(address.launch, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_kernel_knows_who_has_ended),
        CHECK_TEST(other_kernels_prove_nothing),
        cmocka_unit_test_setup_teardown(the_launcher_names_whom_it_saw_end, scratch_set_up,
                                        scratch_tear_down),
        CHECK_TEST(names_that_no_address_can_carry_are_none),
    };
    return CHECK_RUN(tests);
}
