/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "shoal/predict.h"

enum { WIDTH = 64, LENGTH = 32, HEADS = 8, BLOCKS = 3, FF = 128, EXPERTS = 8, MET = 2 };

static void near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g, expected %.9g within %g", got, want, relative);
}

static void write_file(char *path, const char *text)
{
    int fd = mkstemps(path, 5);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Blocks of 4 W^2 + 2 W FF, or a mixture of as many as FF says; norms and router beside them. */
static void write_model(char *path, bool mixture)
{
    char text[600], block[120];
    snprintf(block, sizeof block, "transformer:heads=%d,ff=%d%s", HEADS, FF,
             mixture ? ",experts=8,active=2" : "");
    snprintf(
        text, sizeof text,
        "{\"name\": \"m\", \"input\": [1, %d, 1], \"layers\": [\"embedding:vocab=10,width=%d\","
        " \"%s\", \"%s\", \"%s\"]}",
        LENGTH, WIDTH, block, block, block);
    write_file(path, text);
}

/* Hosts at rate bytes per second; arithmetic at 1 TFLOP/s. */
static void write_cluster(char *path, uint32_t hosts, uint32_t inside, double rate)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12, "
             "\"vector_flops\": 1e20}], \"hosts\": [{\"count\": %u, \"workers\": %u, \"nic\": "
             "\"%.0fB/s\", \"latency_us\": 0}]}",
             hosts, inside, rate);
    write_file(path, text);
}

/* Parameters of a tensor group's member, experts' apart, as transformer.c splits them. */
static double dense_params(uint32_t tensor, bool mixture)
{
    double block = 4.0 * WIDTH * WIDTH / tensor + 2 * 2.0 * WIDTH;
    block += mixture ? WIDTH * EXPERTS : 2.0 * WIDTH * FF / tensor;
    return BLOCKS * block;
}

static double expert_params(uint32_t tensor, uint32_t group)
{
    return BLOCKS * 2.0 * WIDTH * FF * EXPERTS / tensor / group;
}

/* Section 7: 2, 2 and 3 times the weights per step, by (n - 1) / n; stage 2 scatters and stage 3
 * scatters and gathers for each microbatch. */
static void volumes(void **state)
{
    (void)state;
    static const uint32_t times[4][2] = {{2, 2}, {2, 2}, {2, 5}, {3, 12}}; /* 1, 4 microbatches */
    char model[] = "/tmp/shoal-zero-XXXXXX.json", cluster[] = "/tmp/shoal-zeroc-XXXXXX.json";
    write_model(model, false);
    write_cluster(cluster, 8, 1, 1e9);
    for (uint32_t stage = 0; stage < 4; stage++)
        for (int many = 0; many < 2; many++) {
            shoal_prediction p = SHOAL_PREDICTION_INIT;
            shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
            d.model = model;
            d.cluster = cluster;
            d.batch = 4;
            d.microbatch = many ? 1 : 4;
            d.zero = stage;
            assert_ok(shoal_predict(&d, &p));
            near(p.sent_bytes, times[stage][many] * 2 * dense_params(1, false) * 7 / 8, 1e-3);
        }
    unlink(model);
    unlink(cluster);
}

/* Three equal blocks, x an exchange of one, nine in all. A fast link hides all but the first
 * gather, that of the last block for its way back (asked for as the scores begin, which take no
 * time), and the last scatter: 3 x. On a slow one computation shows at most once beside nine. */
static void gathers_are_hidden(void **state)
{
    (void)state;
    char model[] = "/tmp/shoal-zero-XXXXXX.json";
    write_model(model, false);
    for (int slow = 0; slow < 2; slow++) {
        char cluster[] = "/tmp/shoal-zeroc-XXXXXX.json";
        double rate = slow ? 1e6 : 1e12;
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
        write_cluster(cluster, 4, 1, rate);
        d.model = model;
        d.cluster = cluster;
        d.zero = 3;
        d.no_head = true;
        assert_ok(shoal_predict(&d, &p));
        double x = 2 * dense_params(1, false) / BLOCKS * 3 / 4 / rate;
        double compute = p.forward_s + p.backward_s;
        assert_true(slow ? compute < x : compute / BLOCKS > 10 * x);
        if (!slow)
            near(p.exposed_s, 3 * x, 1e-3);
        else
            assert_true(p.exposed_s + compute >= 9 * x * (1 - 1e-3) &&
                        p.exposed_s + compute <= 9 * x + compute);
        near(p.exposed_s + p.hidden_s, 9 * x, 1e-3);
        d.no_overlap = true;
        assert_ok(shoal_predict(&d, &p));
        near(p.exposed_s, 9 * x, 1e-3);
        unlink(cluster);
    }
    unlink(model);
}

/* ---------------------------------------------------------------- whatever the layout */

typedef struct layout {
    uint32_t hosts, inside, tensor, data, zero, experts, runs;
    bool mixture;
} layout;

/* Bytes that must leave the busiest host, of groups of `size` workers `stride` apart that fill the
 * cluster: each host's sum of `each` bytes less the part that stays, once per group; or, all to
 * all, each member's. */
static double must_leave(const layout *l, uint32_t stride, uint32_t size, double each, bool to_all)
{
    double most = 0;
    for (uint32_t host = 0; host < l->hosts; host++) {
        double bytes = 0;
        for (uint32_t first = 0; first < l->hosts * l->inside; first++) {
            uint32_t here = 0;
            if (first / stride % size != 0)
                continue;
            for (uint32_t m = 0; m < size; m++)
                here += (first + m * stride) / l->inside == host;
            if (here > 0)
                bytes += each * (size - here) / size * (to_all ? here : 1);
        }
        most = fmax(most, bytes);
    }
    return most;
}

static bool draw(uint64_t seed, uint64_t i, layout *l)
{
    uint64_t at = 16 * i;
    *l = (layout){.hosts = 1u << shoali_mix(seed, at) % 4,
                  .inside = 1u << shoali_mix(seed, at + 1) % 4,
                  .tensor = 1u << shoali_mix(seed, at + 2) % 4,
                  .zero = (uint32_t)(shoali_mix(seed, at + 3) % 4),
                  .experts = 1u << shoali_mix(seed, at + 4) % 4,
                  .runs = 1 + (uint32_t)(shoali_mix(seed, at + 5) % 3),
                  .mixture = shoali_mix(seed, at + 6) % 2 == 0};
    uint32_t workers = l->hosts * l->inside;
    if (workers % l->tensor != 0 || workers / l->tensor < 2)
        return false;
    l->data = workers / l->tensor;
    if (!l->mixture || l->data % l->experts != 0)
        l->experts = 1;
    return true;
}

/* How often weights' worth of bytes are exchanged per step: halves of an all-reduce. */
static uint32_t halves(const layout *l)
{
    static const uint32_t once[] = {2, 2, 1, 0}, each[] = {0, 0, 1, 3};
    return once[l->zero] + each[l->zero] * l->runs;
}

static void compare(const layout *l, const char *model, const char *cluster)
{
    shoal_prediction p = SHOAL_PREDICTION_INIT;
    shoal_predict_desc d = SHOAL_PREDICT_DESC_INIT;
    d.model = model;
    d.cluster = cluster;
    d.tensor = l->tensor;
    d.batch = l->runs;
    d.microbatch = 1;
    d.zero = l->zero;
    d.experts = l->experts;
    d.no_overlap = true;
    d.flash = l->runs == 2;
    assert_ok(shoal_predict(&d, &p));
    double dense = 2 * dense_params(l->tensor, l->mixture), mine = l->data / l->experts;
    double experts = l->mixture ? 2 * expert_params(l->tensor, l->experts) : 0;
    double sent = dense * (l->data - 1) / l->data + experts * (mine - 1) / mine;
    near(p.sent_bytes, halves(l) * sent, 5e-3);
    double least = must_leave(l, l->tensor, l->data, dense, false);
    if (mine > 1)
        least += must_leave(l, l->tensor * l->experts, (uint32_t)mine, experts, false);
    if (p.exposed_s < halves(l) * least / 1e6 * (1 - 5e-3))
        fail_msg("%u hosts x %u, tensor %u, zero %u, experts %u: %.6g s, but %.6g must pass",
                 l->hosts, l->inside, l->tensor, l->zero, l->experts, p.exposed_s,
                 halves(l) * least / 1e6);
    double tokens = 2.0 * LENGTH * MET * WIDTH / l->tensor;
    least = must_leave(l, l->tensor, l->experts, tokens, true) * 4 * BLOCKS * l->runs / 1e6;
    if (l->experts > 1 && p.experts_s < least * (1 - 1e-9))
        fail_msg("%u hosts x %u, tensor %u, experts %u: tokens %.6g s, but %.6g must pass",
                 l->hosts, l->inside, l->tensor, l->experts, p.experts_s, least);
    assert_true((p.experts_s > 0) == (l->experts > 1));
}

static void no_nic_is_beaten(void **state)
{
    (void)state;
    char models[2][30] = {"/tmp/shoal-zero-XXXXXX.json", "/tmp/shoal-zero-XXXXXX.json"};
    uint64_t seed = check_seed();
    uint32_t compared = 0;
    write_model(models[0], false);
    write_model(models[1], true);
    for (uint64_t i = 0; i < 500; i++) {
        char cluster[] = "/tmp/shoal-zeroc-XXXXXX.json";
        layout l;
        if (!draw(seed, i, &l))
            continue;
        write_cluster(cluster, l.hosts, l.inside, 1e6);
        compare(&l, models[l.mixture], cluster);
        unlink(cluster);
        compared++;
    }
    assert_true(compared > 250);
    unlink(models[0]);
    unlink(models[1]);
}

/* ---------------------------------------------------------------- what does not go together */

static void refused_by_name(void **state)
{
    (void)state;
    static const struct {
        shoal_predict_desc desc;
        const char *first, *second;
    } bad[] = {
        {{.zero = 4}, "zero 4", "0 .. 3"},
        {{.zero = 1, .sync = "local_sgd"}, "zero 1", "sync local_sgd"},
        {{.zero = 2, .codec = "fp16"}, "zero 2", "codec fp16"},
        {{.zero = 1, .collective = "worker_aggregator"}, "zero 1", "worker_aggregator"},
        {{.zero = 3, .pipeline = 2}, "zero 3", "pipeline 2"},
        {{.experts = 2}, "experts 2", "none"},
        {{.flash = true, .recompute = SHOAL_RECOMPUTE_SELECTIVE}, "selective", "flash"},
        {{.sequence = true}, "sequence", "tensor"},
    };
    char model[] = "/tmp/shoal-zero-XXXXXX.json", cluster[] = "/tmp/shoal-zeroc-XXXXXX.json";
    write_model(model, false);
    write_cluster(cluster, 4, 1, 1e9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_prediction p = SHOAL_PREDICTION_INIT;
        shoal_predict_desc d = bad[i].desc;
        d.size = sizeof d;
        d.model = model;
        d.cluster = cluster;
        assert_status(shoal_predict(&d, &p), SHOAL_EINVAL);
        assert_error_has(bad[i].first);
        assert_error_has(bad[i].second);
    }
    unlink(model);
    unlink(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(volumes),
        CHECK_TEST(gathers_are_hidden),
        CHECK_TEST(no_nic_is_beaten),
        CHECK_TEST(refused_by_name),
    };
    return CHECK_RUN(tests);
}
