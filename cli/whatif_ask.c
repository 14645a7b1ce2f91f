/* SPDX-License-Identifier: Apache-2.0 */
/* From two simulations and what was measured to a prediction and its interval. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "shoal/codec.h"
#include "whatif.h"

/* What is left open, as shares (docs/whatif.md says where they come from): of a step that is run
 * again; of the exchange where it goes the way that was measured, and by another collective or
 * protocol. */
#define AGAIN 0.02
#define EXCHANGE 0.05
#define OTHER_WAY 0.20
#define OTHER_PROTOCOL_STEP 0.03
enum { SCALE_MOST = 2 };

/* What the simulation does not explain of the measured step: it stays as it is, or grows with the
 * exchange. */
typedef struct pair {
    double stays_s, grows_s;
} pair;

static pair explain(const whatif_run *run, const whatif_change *change, const whatif_step *base,
                    const whatif_step *changed)
{
    if (change->sync != NULL && !run->together)
        return (pair){changed->step_s, changed->step_s}; /* it is of that protocol, not of links */
    const double rest_s = run->measured.step_s - base->step_s;
    const double waits_s = base->step_s - base->own_s, then_s = changed->step_s - changed->own_s;
    double grows_s = changed->step_s + rest_s;
    if (waits_s > 0) {
        const double scale = 1 + rest_s / waits_s;
        grows_s = changed->step_s + then_s * (fmin(SCALE_MOST, fmax(1.0 / SCALE_MOST, scale)) - 1);
    }
    return (pair){fmax(changed->own_s, changed->step_s + rest_s), fmax(changed->own_s, grows_s)};
}

/* Ranks that share processors compute more slowly when there are more of them. */
static double crowding_of(const whatif_run *run, uint32_t workers)
{
    const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (run->paced || !(run->lab || run->one_host) || workers == run->world.workers)
        return 1;
    return fmax(1, workers / cores) / fmax(1, run->world.workers / cores);
}

static void widen(const whatif_run *run, const whatif_change *change, double crowding,
                  whatif_answer *a)
{
    const double waits_s = a->changed.step_s - a->changed.own_s;
    const double again_s = run->error_s * a->step_s / run->measured.step_s + AGAIN * a->step_s;
    const bool other = change->sync != NULL || change->collective != NULL;
    double open_s = again_s + (other ? OTHER_WAY : EXCHANGE) * waits_s;
    if (change->sync != NULL)
        open_s += OTHER_PROTOCOL_STEP * a->step_s;
    const double less_s = a->changed.own_s * fmax(0, 1 - 1 / crowding);
    const double more_s = a->changed.own_s * fmax(0, 1 / crowding - 1);
    a->low_s = fmax(0, a->low_s - open_s - less_s);
    a->high_s += open_s + more_s;
}

static bool is_by_data(const char *spec)
{
    shoal_codec *codec = NULL;
    if (shoal_codec_open(spec, &codec) != SHOAL_OK)
        return false;
    const bool fixed = (shoal_codec_traits(codec) & SHOAL_CODEC_FIXED_RATE) != 0;
    shoal_codec_close(codec);
    return !fixed;
}

static void note_change(whatif_run *run, const whatif_change *change, const whatif_world *world,
                        double crowding)
{
    if (change->codec != NULL)
        whatif_note(run, "the time that coding takes is not in it, and what the codec costs in "
                         "accuracy or steps is not told");
    if (change->codec != NULL && is_by_data(world->codec))
        whatif_note(run, "how much %s sends depends on the gradients; this is by its usual rate",
                    world->codec);
    if (change->sync != NULL)
        whatif_note(run, "a step of another protocol need not bring as much as one of %s",
                    run->world.sync);
    if (crowding != 1)
        whatif_note(run,
                    "%u workers share this machine's processors: computing is taken %.3g times "
                    "as long, and the interval reaches to where it stays as it is",
                    world->workers, crowding);
    if (change->straggler != NULL && strcmp(change->straggler, "none") == 0 && !run->slowed &&
        run->one_host)
        whatif_note(run, "ranks on one host slow each other down: who is slow there may be so by "
                         "turns");
}

/* What the codec really sent, against what the simulation has of it. */
static int weigh(whatif_run *run, whatif_answer *a)
{
    const double ratio = a->base.sent_bytes > 0 ? run->measured.sent_bytes / a->base.sent_bytes : 1;
    if (!(ratio > 0.01 && ratio < 100) || fabs(ratio - 1) < 0.02)
        return CLI_OK;
    run->world.inflate = ratio;
    whatif_note(run,
                "the run sent %.3g times the bytes that its codec usually has, and so it does "
                "here for as long as codec and protocol are the same",
                ratio);
    return whatif_simulate(run, &run->world, &a->base);
}

static void conclude(whatif_run *run, const whatif_change *change, const whatif_world *world,
                     double crowding, whatif_answer *a)
{
    const pair both = explain(run, change, &a->base, &a->changed);
    a->workers = world->workers;
    a->step_s = (both.stays_s + both.grows_s) / 2;
    a->low_s = fmin(both.stays_s, both.grows_s);
    a->high_s = fmax(both.stays_s, both.grows_s);
    widen(run, change, crowding, a);
    note_change(run, change, world, crowding);
}

int whatif_ask(whatif_run *run, const whatif_change *change, whatif_answer *a)
{
    whatif_world world;
    *a = (whatif_answer){0};
    int code = whatif_apply(run, change, &world);
    const double crowding = code == CLI_OK ? crowding_of(run, world.workers) : 1;
    for (uint32_t i = 0; code == CLI_OK && i < world.workers; i++)
        world.compute_s[i] *= crowding;
    if (code == CLI_OK)
        code = whatif_simulate(run, &run->world, &a->base);
    if (code == CLI_OK)
        code = weigh(run, a);
    if (change->codec == NULL && change->sync == NULL)
        world.inflate = run->world.inflate;
    if (code == CLI_OK)
        code = whatif_simulate(run, &world, &a->changed);
    if (code == CLI_OK)
        conclude(run, change, &world, crowding, a);
    whatif_world_free(&world);
    return code;
}
