/* SPDX-License-Identifier: Apache-2.0 */
/* auto:error=E. The error of a sum is relative and squared: |exact - delivered|^2 / |exact|^2.
 * exact is what the ranks wanted to be summed, in float32: their gradients and, with error
 * feedback, what earlier exchanges still owe; so a codec with feedback is held to what it goes on
 * to owe. Candidates are measured on the sample that travels in them anyway. From then on every
 * `every`-th step is: its exchange waits for the end of the backward pass, blocks spread over all
 * parameters (other ones each time) travel once more as float32, and both sums are compared. Ranks
 * agree on the largest error. Beyond the bound all that was wanted is summed as float32, so that
 * this step's update is exact and nothing is owed, and the next rung of the ladder is in use. */
#include "worker/codec_choice_parts.h"
#include "worker/together.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "driver/driver.h"

enum { BLOCK = 256, ALL_UP_TO = 1 << 16 /* parameters: fewer are compared all */ };

shoal_status shoali_bound_create(shoal_train *train, const shoali_auto_spec *asked)
{
    shoali_codec_bound *bound = &train->choice->bound;
    bound->last = (double)NAN;
    if (!(asked->error > 0) || train->choice->made)
        return SHOAL_OK;
    const size_t count = train->param_count, part = count / SHOALI_CHOICE_SAMPLE;
    bound->most = asked->error;
    bound->every = (uint64_t)asked->every;
    bound->exact_room = (count < ALL_UP_TO ? count : part + BLOCK) + train->tensor_count;
    bound->want = shoali_alloc_array(count, sizeof *bound->want);
    bound->exact = shoali_alloc_array(bound->exact_room, sizeof *bound->exact);
    return bound->want != NULL && bound->exact != NULL
               ? SHOAL_OK
               : shoali_fail(SHOAL_ENOMEM, "no memory to check codec auto's bound");
}

void shoali_bound_destroy(shoali_codec_bound *bound)
{
    shoali_free(bound->want);
    shoali_free(bound->exact);
}

/* ---------------------------------------------------------------- errors */

typedef struct squares {
    double off, all;
} squares;

static void compare(squares *s, const float *exact, const float *got, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double off = (double)exact[i] - (double)got[i];
        s->off += off * off;
        s->all += (double)exact[i] * (double)exact[i];
    }
}

static double quotient(const squares *s)
{
    return s->off > 0 ? s->off / s->all : s->off;
}

shoal_status shoali_bound_sample(shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    size_t used = 0;
    for (uint32_t b = 0; b < choice->bucket_count; b++) {
        const shoali_choice_bucket *from = &choice->buckets[b];
        memcpy(choice->bound.exact + used, choice->copy + from->offset,
               from->packed * sizeof(float));
        used += from->packed;
    }
    return shoali_train_reduce(train, choice->bound.exact, used, SHOAL_SUM,
                               "codec auto: exact sample");
}

double shoali_bound_sample_error(const shoali_codec_choice *choice)
{
    squares s = {0};
    size_t used = 0;
    for (uint32_t b = 0; b < choice->bucket_count; b++) {
        const shoali_choice_bucket *from = &choice->buckets[b];
        compare(&s, choice->bound.exact + used, choice->copy + from->offset, from->packed);
        used += from->packed;
    }
    return quotient(&s);
}

/* ---------------------------------------------------------------- the ladder */

void shoali_bound_ladder(shoali_codec_choice *choice)
{
    shoali_codec_bound *bound = &choice->bound;
    uint32_t at = choice->chosen;
    bound->rungs = bound->rung = 0;
    bound->ladder[bound->rungs++] = at;
    while (!choice->candidates[at].lossless && bound->rungs < SHOALI_CHOICE_MOST) {
        at = shoali_choose_finer(choice->candidates, choice->count, at);
        bound->ladder[bound->rungs++] = at;
    }
}

const char *shoali_choice_ladder(const shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    size_t bytes = 1, used = 0;
    if (choice == NULL || !(choice->bound.most > 0) || !choice->made)
        return NULL;
    const shoali_codec_bound *bound = &choice->bound;
    for (uint32_t r = bound->rung; r < bound->rungs; r++)
        bytes += strlen(choice->candidates[bound->ladder[r]].spec) + 1;
    char *text = shoali_arena_alloc(choice->arena, bytes);
    for (uint32_t r = bound->rung; r < bound->rungs && text != NULL; r++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", r > bound->rung ? "+" : "",
                                 choice->candidates[bound->ladder[r]].spec);
    return text;
}

static bool find(const shoali_codec_choice *choice, const char *spec, size_t length,
                 uint32_t *index_out)
{
    for (uint32_t i = 0; i < choice->count; i++) {
        if (strlen(choice->candidates[i].spec) != length ||
            strncmp(choice->candidates[i].spec, spec, length) != 0)
            continue;
        *index_out = i;
        return true;
    }
    return false;
}

/* Rungs that are no candidates any more are left out; the last one is always without losses. */
static void read_ladder(shoali_codec_choice *choice, const char *text)
{
    shoali_codec_bound *bound = &choice->bound;
    uint32_t at = choice->chosen;
    bound->ladder[0] = at;
    bound->rungs = 1;
    bound->rung = 0;
    while (text != NULL && *text != '\0') {
        const size_t length = strcspn(text, "+");
        if (find(choice, text, length, &at) && at != choice->chosen &&
            bound->rungs + 1 < SHOALI_CHOICE_MOST)
            bound->ladder[bound->rungs++] = at;
        text += length + (text[length] == '+');
    }
    if (!choice->candidates[bound->ladder[bound->rungs - 1]].lossless)
        bound->ladder[bound->rungs++] = 0;
}

void shoali_choice_resume(shoal_train *train, const char *spec, const char *ladder)
{
    shoali_codec_choice *choice = train->choice;
    uint32_t found;
    if (choice == NULL || spec == NULL || !find(choice, spec, strlen(spec), &found))
        return;
    choice->chosen = found;
    choice->made = true;
    read_ladder(choice, ladder);
    shoali_log(INFO, "codec auto: the checkpoint's choice, %s", spec);
}

/* ---------------------------------------------------------------- while training */

bool shoali_bound_due(const shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    return choice != NULL && choice->made && choice->bound.most > 0 &&
           !choice->candidates[choice->chosen].lossless &&
           (train->step + 1) % choice->bound.every == 0;
}

shoal_status shoali_bound_begin(shoal_train *train)
{
    const shoali_codec_choice *choice = train->choice;
    train->choice->bound.checking = true;
    memcpy(choice->bound.want, train->grads, train->param_count * sizeof *train->grads);
    return shoali_comm_add_owed(train->comm, choice->candidates[choice->chosen].spec,
                                train->tensors, train->tensor_count, choice->bound.want);
}

/* Blocks of the parameters that this check looks at: all of few, else one of SAMPLE, other ones
 * each time. Into `exact`, or compared with it. */
static size_t walk(const shoal_train *train, const float *from, squares *into)
{
    const shoali_codec_bound *bound = &train->choice->bound;
    const size_t count = train->param_count, stride = count < ALL_UP_TO ? 1 : SHOALI_CHOICE_SAMPLE;
    size_t used = 0;
    for (size_t b = train->step / bound->every % stride; b * BLOCK < count; b += stride) {
        const size_t at = b * BLOCK, n = count - at < BLOCK ? count - at : BLOCK;
        if (into != NULL)
            compare(into, bound->exact + used, from + at, n);
        else
            memcpy(bound->exact + used, from + at, n * sizeof *from);
        used += n;
    }
    return used;
}

/* This step's update becomes exact, what was owed included, and the next rung is in use. */
static shoal_status fall(shoal_train *train)
{
    shoali_codec_choice *choice = train->choice;
    shoali_codec_bound *bound = &choice->bound;
    shoal_train_codec_fall *told = &bound->falls[bound->fall_count++];
    const char *from = choice->candidates[choice->chosen].spec;
    SHOALI_TRY(shoali_train_reduce(train, bound->want, train->param_count, SHOAL_SUM,
                                   "codec auto: exact sum"));
    memcpy(train->grads, bound->want, train->param_count * sizeof *train->grads);
    shoali_comm_forget_residuals(train->comm);
    choice->chosen = bound->ladder[++bound->rung];
    *told = (shoal_train_codec_fall){.size = sizeof *told,
                                     .from = from,
                                     .to = choice->candidates[choice->chosen].spec,
                                     .step = train->step + 1,
                                     .error = bound->last};
    SHOALI_TRY(shoali_sync_set_codec(train->sync, told->to));
    char text[256];
    snprintf(text, sizeof text,
             "codec auto: %.64s lost %.3g of the gradient's square in step %llu, beyond error=%g: "
             "%.64s from the next step on",
             told->from, told->error, (unsigned long long)told->step, bound->most, told->to);
    shoali_comm_note(train->comm, text);
    if (train->rank == train->members.ranks[0])
        shoali_log(WARN, "%s", text);
    return SHOAL_OK;
}

shoal_status shoali_choice_check(shoal_train *train, shoali_bound_found *found_out)
{
    *found_out = SHOALI_BOUND_UNCHECKED;
    shoali_codec_choice *choice = train->choice;
    if (choice == NULL || !choice->bound.checking)
        return SHOAL_OK;
    shoali_codec_bound *bound = &choice->bound;
    squares s = {0};
    bound->checking = false;
    const size_t count = walk(train, bound->want, NULL);
    SHOALI_TRY(
        shoali_train_reduce(train, bound->exact, count, SHOAL_SUM, "codec auto: exact sample"));
    (void)walk(train, train->grads, &s);
    float error = (float)quotient(&s);
    error = isnan(error) ? INFINITY : error;
    SHOALI_TRY(shoali_train_reduce(train, &error, 1, SHOAL_MAX, "codec auto: error"));
    bound->last = (double)error;
    bound->checks++;
    const bool broken = !(bound->last <= bound->most);
    *found_out = broken ? SHOALI_BOUND_BROKEN : SHOALI_BOUND_HELD;
    return broken ? fall(train) : SHOAL_OK;
}

/* ---------------------------------------------------------------- what is told */

bool shoal_train_codec_bound(const shoal_train *train, shoal_train_codec_check *check_out)
{
    const shoali_codec_choice *choice = train->choice;
    if (choice == NULL || !(choice->bound.most > 0) || check_out->size != sizeof *check_out)
        return false;
    *check_out = (shoal_train_codec_check){.size = sizeof *check_out,
                                           .most = choice->bound.most,
                                           .every = choice->bound.every,
                                           .checks = choice->bound.checks,
                                           .last = choice->bound.last};
    return true;
}

bool shoal_train_codec_fell(const shoal_train *train, uint32_t i, shoal_train_codec_fall *fall_out)
{
    const shoali_codec_choice *choice = train->choice;
    if (choice == NULL || i >= choice->bound.fall_count || fall_out->size != sizeof *fall_out)
        return false;
    *fall_out = choice->bound.falls[i];
    return true;
}
