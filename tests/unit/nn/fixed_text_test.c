/* SPDX-License-Identifier: Apache-2.0 */
/* Exported C is compiled as for a machine without an operating system, linked without any library
 * (anything undefined fails), and gives what the reference gives, word for word. */
#include "nn/fixed_text.h"

#include <dlfcn.h>

#include "base/rng.h"
#include "model/model_text.h"
#include "nn/nn.h"
#include "support/check.h"
#include "support/scratch_dir.h"

enum { FRAMES = 11, LAYERS = 5, MOST = 1 << 14 };

typedef struct text_case {
    shoal_shape input;
    const char *layers[LAYERS];
} text_case;

static const text_case cases[] = {
    {{24, 1, 1},
     {"circulant:out=40,block=8", "tanh", "circulant:out=20,block=4", "relu", "dense:out=5"}},
    {{1, FRAMES, 13},
     {"lstm:out=24,proj=11,peephole,kx=4,kr=8,ky=2,direction=both,merge=concat",
      "gru:out=16,k=4,direction=backward", "framewise:out=6,bias=off"}},
    {{1, FRAMES, 9},
     {"gru:out=32,k=16,direction=both", "lstm:out=8,gate=sigmoid", "framewise:out=6"}},
    {{4, 9, 8},
     {"circulant_conv:out=8,kernel=3,block=4,pad=1", "relu", "maxpool",
      "conv:out=3,kernel=2,stride=2", "avgpool:kernel=2,ceil=on"}},
};

static shoali_fixed_model *fixed_of(const text_case *c, uint32_t bits)
{
    shoali_model_text text = {.name = "case", .input = c->input, .layers = c->layers};
    shoal_model *model = NULL;
    shoali_net *net = NULL;
    shoali_fixed_model *fixed = NULL;
    float most[LAYERS + 1] = {3, 3, 3, 3, 3, 3};
    while (text.layer_count < LAYERS && c->layers[text.layer_count] != NULL)
        text.layer_count++;
    assert_ok(shoali_model_build("case", &text, false, &model));
    assert_ok(shoali_net_create(model, 1, 5, &net));
    for (size_t i = 0; i < shoali_net_count(net); i++) /* biases and peepholes, too */
        shoali_net_params(net)[i] += (float)(0.1 * shoali_rng_normal(check_seed(), 1, i));
    assert_ok(shoali_fixed_create(model, shoali_net_params(net), bits, most, &fixed));
    shoali_net_destroy(net);
    shoal_model_close(model);
    return fixed;
}

static void write_source(const char *name, const shoali_fixed_model *fixed, int what)
{
    FILE *to = fopen(scratch_path(name), "we");
    assert_non_null(to);
    if (what == 0)
        shoali_fixed_write_code(to, fixed, "tiny", "a net of a test", FRAMES);
    else if (what == 1)
        shoali_fixed_write_weights(to, fixed, "tiny");
    else
        fputs("#include \"tiny.h\"\n"
              "void reset(int32_t *words, int16_t *halves);\n"
              "void run(const int16_t *x, uint32_t frames, int16_t *y, int32_t *words, int16_t "
              "*halves);\n"
              "unsigned long long sizes(uint32_t frames, int words);\n"
              "void reset(int32_t *words, int16_t *halves) { tiny_reset(words, halves); }\n"
              "void run(const int16_t *x, uint32_t frames, int16_t *y, int32_t *words, int16_t "
              "*halves) { tiny_run(x, frames, y, words, halves); }\n"
              "unsigned long long sizes(uint32_t frames, int words) { return words ? "
              "tiny_WORDS(frames) : tiny_HALVES(frames) + 0 * (tiny_IN + tiny_OUT + tiny_BITS + "
              "tiny_IN_FRAC + tiny_OUT_FRAC + tiny_FRAMES); }\n",
              to);
    assert_int_equal(fclose(to), 0);
}

static void compile(const char *library)
{
    char command[2048];
    snprintf(command, sizeof command,
             "${CC:-cc} -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -ffreestanding -nostdlib "
             "-fno-tree-loop-distribute-patterns -fPIC -shared -Wl,--no-undefined -o %s %s",
             library, scratch_path("tiny.c"));
    if (system(command) != 0)
        fail_msg("it does not compile: %s", command);
}

typedef void reset_fn(int32_t *words, int16_t *halves);
typedef void run_fn(const int16_t *x, uint32_t frames, int16_t *y, int32_t *words, int16_t *halves);
typedef unsigned long long sizes_fn(uint32_t frames, int words);

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static void compare(void *library, const shoali_fixed_model *f, uint32_t frames)
{
    static int16_t x[MOST], got[MOST], want[MOST], halves[MOST];
    static int32_t words[MOST];
    reset_fn *reset = (reset_fn *)(uintptr_t)symbol(library, "reset");
    run_fn *run = (run_fn *)(uintptr_t)symbol(library, "run");
    sizes_fn *sizes = (sizes_fn *)(uintptr_t)symbol(library, "sizes");
    uint64_t need_words = 0, need_halves = 0;
    shoali_fixed_sizes(&f->net, frames, &need_words, &need_halves);
    assert_true(sizes(frames, 1) == need_words && sizes(frames, 0) == need_halves);
    assert_true(need_words <= MOST && need_halves <= MOST);
    for (uint64_t i = 0; i < frames * (uint64_t)f->in; i++)
        x[i] = (int16_t)shoali_fixed_sat(
            (int64_t)shoali_rng_below(check_seed(), 7, i, 1u << 16) - (1 << 15), f->net.bits);
    reset(words, halves);
    run(x, frames, got, words, halves);
    shoali_fixed_reset(&f->net, words, halves);
    shoali_fixed_run(&f->net, x, frames, want, words, halves);
    assert_memory_equal(got, want, frames * (size_t)f->out * sizeof *got);
    int differ = 0;
    for (uint32_t i = 1; i < frames * f->out; i++)
        differ += got[i] != got[0];
    assert_true(differ > 0); /* not all 0 or saturated */
}

static void exported_code_gives_the_same_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256], name[32];
        shoali_fixed_model *fixed = fixed_of(&cases[i], i % 2 == 0 ? 12 : 16);
        write_source("tiny.h", fixed, 0);
        write_source("tiny_weights.h", fixed, 1);
        write_source("tiny.c", fixed, 2);
        snprintf(name, sizeof name, "tiny%zu.so", i);
        snprintf(path, sizeof path, "%s", scratch_path(name));
        compile(path);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        compare(library, fixed, cases[i].input.channels == 1 ? FRAMES : 1);
        dlclose(library);
        shoali_fixed_destroy(fixed);
    }
}

static int set_up(void **state)
{
    (void)state;
    return scratch_dir_make() != NULL ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CHECK_TEST(exported_code_gives_the_same_words)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
