/* SPDX-License-Identifier: Apache-2.0 */
/* What evaluation says about sequences: frames that are right, symbols, edits; and CTC where it is
 * easy to say. Losses and their slopes: net_test.c. */
#include "support/check.h"

#include <math.h>

#include "model/model_text.h"
#include "nn/sequence_loss.h"

enum { FRAMES = 6, CLASSES = 4 };

typedef struct bench {
    shoal_arena *arena;
    shoal_model *model;
    shoali_sequence_work *work;
} bench;

static void open_bench(bench *b, bool ctc)
{
    static const char *const layers[] = {"framewise:out=4", "ctc"};
    const shoali_model_text text = {"m",         NULL, {1, FRAMES, 3}, SHOALI_INIT_HE, layers,
                                    ctc ? 2 : 1, 0,    false,          false};
    b->arena = shoali_arena_create(4096);
    assert_ok(shoali_model_build("m", &text, false, &b->model));
    assert_ok(shoali_sequence_work_create(b->arena, b->model, &b->work));
}

static void close_bench(bench *b)
{
    shoal_model_close(b->model);
    shoali_arena_destroy(b->arena);
}

/* Scores that speak for one class per frame. */
static void speak(const uint32_t *classes, float sure, float *scores_out)
{
    for (size_t t = 0; t < FRAMES; t++)
        for (size_t c = 0; c < CLASSES; c++)
            scores_out[t * CLASSES + c] = c == classes[t] ? sure : 0.0f;
}

static void runs_are_compared(void **state)
{
    static const struct {
        uint32_t said[FRAMES], heard[FRAMES], length, right, symbols, edits;
    } rows[] = {
        {{1, 1, 2, 2, 0, 3}, {1, 1, 2, 2, 0, 3}, 6, 6, 3, 0},
        {{1, 1, 2, 2, 0, 3}, {1, 2, 2, 2, 0, 3}, 6, 5, 3, 0}, /* a border is no error */
        {{1, 1, 2, 2, 0, 3}, {1, 3, 1, 2, 0, 3}, 6, 4, 3, 2}, /* two insertions */
        {{1, 1, 2, 2, 0, 3}, {0, 0, 0, 0, 0, 0}, 6, 1, 3, 3}, /* three deletions */
        {{1, 1, 2, 2, 0, 3}, {1, 1, 3, 3, 3, 3}, 6, 3, 3, 1}, /* one deletion */
        {{1, 0, 1, 0, 0, 0}, {1, 1, 1, 0, 3, 3}, 3, 2, 2, 1}, /* behind the end: not read */
        {{0, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 0}, 6, 5, 0, 1},
    };
    bench b;
    (void)state;
    open_bench(&b, false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float scores[FRAMES * CLASSES];
        shoali_loss loss = {0};
        const shoali_batch batch = {
            .labels = rows[i].said, .count = 1, .weight = 1, .lengths = &rows[i].length};
        speak(rows[i].heard, 5, scores);
        shoali_sequence_loss(b.work, scores, &batch, 0, NULL, &loss);
        assert_int_equal(loss.labels, rows[i].length);
        assert_int_equal(loss.correct, rows[i].right);
        assert_int_equal(loss.symbols, rows[i].symbols);
        assert_int_equal(loss.edits, rows[i].edits);
    }
    close_bench(&b);
}

/* Where each frame is certain CTC is certain, too; where nothing is, all paths count alike. */
static void ctc_counts_paths(void **state)
{
    static const uint32_t said[FRAMES] = {1, 1, 0, 1, 2, 2};
    bench b;
    float scores[FRAMES * CLASSES];
    const shoali_batch batch = {.labels = said, .count = 1, .weight = 1};
    (void)state;
    open_bench(&b, true);
    shoali_loss loss = {0};
    speak(said, 60, scores);
    shoali_sequence_loss(b.work, scores, &batch, 0, NULL, &loss);
    assert_true(fabs(loss.sum) < 1e-9);
    loss = (shoali_loss){0};
    speak(said, 0, scores);
    shoali_sequence_loss(b.work, scores, &batch, 0, NULL, &loss);
    /* 1 1 2 with a blank between the ones in six frames: 3 symbols and 1 needed blank are 4 runs;
     * optional blanks in 3 more places; ways to fill 6 frames with runs of at least one frame:
     * sum over j of C(3, j) C(5, 3 + j) */
    double ways = 1 * 10 + 3 * 5 + 3 * 1;
    assert_true(fabs(loss.sum * FRAMES + log(ways) - FRAMES * log(CLASSES)) < 1e-9);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(runs_are_compared),
        CHECK_TEST(ctc_counts_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
