/* SPDX-License-Identifier: Apache-2.0 */
/* How the library comes, and what it leaves alone: it is loaded late, runs on the calling thread,
 * and OpenMP is afterwards set as it was. */
#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/model_text.h"
#include "nn/nn.h"
#include "nn/onednn.h"
#include "support/check.h"

static const char *const layers[] = {"conv:out=32,kernel=3,pad=1", "relu",
                                     "conv:out=32,kernel=3,pad=1", "flatten", "dense:out=4"};

enum { BATCH = 4, IN = 32 * 32 };

static shoal_status train_once(const char *const *text_layers, uint32_t count)
{
    static float x[BATCH * IN];
    static const uint32_t labels[BATCH] = {0, 1, 2, 3};
    const shoali_model_text text = {
        .name = "n", .input = {1, 32, 32}, .layers = text_layers, .layer_count = count};
    shoal_model *model;
    shoali_net *net;
    shoali_loss loss;
    shoal_status status = shoali_model_build("n", &text, false, &model);
    if (status != SHOAL_OK)
        return status;
    status = shoali_net_create(model, BATCH, 1, &net);
    if (status == SHOAL_OK) {
        status = shoali_net_train(net, &(shoali_batch){x, labels, BATCH, 0, 1.0f, NULL}, NULL, NULL,
                                  &loss);
        shoali_net_destroy(net);
    }
    shoal_model_close(model);
    return status;
}

/* In a process of its own: it is looked for once in a process. */
static int child(int (*what)(void))
{
    const pid_t pid = fork();
    int ended = 0;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(what());
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128;
}

static bool is_here(void)
{
    return dlopen(SHOALI_ONEDNN_LIBRARY, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

static int without_files(void)
{
    const struct rlimit none = {3, 3};
    if (is_here() || setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 1;
    if (train_once(layers, 5) != SHOAL_ENOTSUP)
        return 2;
    return strstr(shoal_last_error()->text, SHOALI_ONEDNN_LIBRARY) != NULL ? 0 : 3;
}

static void a_net_without_it_is_refused_by_name(void **state)
{
    (void)state;
    assert_int_equal(child(without_files), 0);
}

static int products_alone(void)
{
    const struct rlimit none = {3, 3};
    if (is_here() || setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 1;
    return train_once(layers + 3, 2) == SHOAL_OK && !is_here() ? 0 : 2;
}

static void products_of_matrices_go_without_it(void **state)
{
    (void)state;
    assert_int_equal(child(products_alone), 0);
}

static int threads_now(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void it_runs_on_one_thread_and_leaves_openmp_as_it_was(void **state)
{
    (void)state;
    const shoali_onednn *d = shoali_onednn_load();
    assert_non_null(d);
    if (d->threads == NULL || d->set_threads == NULL) {
        skip(); /* built without OpenMP */
        return;
    }
    d->set_threads(3);
    assert_ok(train_once(layers + 3, 2)); /* OpenBLAS starts its own again after a fork */
    const int before = threads_now();
    assert_ok(train_once(layers, 5));
    assert_int_equal(threads_now(), before);
    assert_int_equal(d->threads(), 3);
}

static int in_a_child(void)
{
    return train_once(layers, 5) == SHOAL_OK ? 0 : 1;
}

static void a_fork_trains_on(void **state)
{
    (void)state;
    assert_ok(train_once(layers, 5));
    assert_int_equal(child(in_a_child), 0);
}

static void refusals_are_told_apart(void **state)
{
    (void)state;
    assert_ok(shoali_onednn_status(dnnl_success, "a thing"));
    assert_status(shoali_onednn_status(dnnl_out_of_memory, "a thing"), SHOAL_ENOMEM);
    assert_status(shoali_onednn_status(dnnl_unimplemented, "a thing"), SHOAL_ENOTSUP);
    assert_error_has("a thing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_net_without_it_is_refused_by_name), /* before it is here */
        CHECK_TEST(products_of_matrices_go_without_it),
        CHECK_TEST(it_runs_on_one_thread_and_leaves_openmp_as_it_was),
        CHECK_TEST(a_fork_trains_on),
        CHECK_TEST(refusals_are_told_apart),
    };
    return CHECK_RUN(tests);
}
