/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "plan/partition.h"
#include "support/check.h"

static void a_saved_plan_is_the_same_plan(void **state)
{
    char folder[] = "/tmp/shoal-plan-XXXXXX", path[64];
    static const char *const models[] = {"sfc", "lenet", "vgg-a", "resnet-50", "gpt-3"};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.json", folder);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
        shoal_partition *p, *again;
        desc.model = models[i];
        desc.levels = (uint32_t)i;
        desc.mode = i % 2 == 0 ? SHOAL_PARTITION_FIGURE : SHOAL_PARTITION_TABLE2;
        desc.method = SHOAL_PARTITION_GREEDY;
        assert_ok(shoal_partition_create(&desc, &p));
        assert_ok(shoal_partition_save(p, path));
        assert_ok(shoal_partition_open(path, &again));
        assert_string_equal(again->model, p->model);
        assert_int_equal(again->layer_count, p->layer_count);
        assert_int_equal(again->mode, p->mode);
        assert_int_equal(again->method, p->method);
        assert_int_equal(again->batch, 256);
        for (uint32_t l = 0; l < p->layer_count; l++)
            assert_int_equal(again->layers[l].mask, p->layers[l].mask);
        shoal_partition_destroy(p);
        shoal_partition_destroy(again);
    }
    unlink(path);
    assert_status(shoal_partition_open(path, (shoal_partition *[1]){NULL}), SHOAL_EIO);
    rmdir(folder);
}

#define HEAD "{\"format\":\"shoal-plan-1\",\"model\":\"mlp-small\",\"batch\":8,\"levels\":1,"
#define WAYS "\"mode\":\"figure\",\"method\":\"given\","
#define LAYER(n, w, p) "{\"name\":\"dense" n "\",\"weights\":" w ",\"plan\":\"" p "\"}"
#define TWO LAYER("1", "200704", "d") "," LAYER("2", "32768", "m")

static void bad_files_get_a_reason(void **state)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"", "p.json"},
        {"[]", "object"},
        {"{}", "no plan file"},
        {"{\"format\":\"shoal-plan-2\"}", "no plan file"},
        {"{\"format\":\"shoal-plan-1\"}", "model"},
        {HEAD "\"mode\":\"fig\"}", "\"fig\""},
        {HEAD "\"mode\":\"figure\",\"method\":\"luck\"}", "\"luck\""},
        {HEAD WAYS "\"elements\":0}", "layers"},
        {HEAD WAYS "\"layers\":[" TWO "],\"elements\":0}", "array of 3"},
        {HEAD WAYS "\"layers\":[" TWO "," LAYER("4", "1280", "d") "],\"elements\":0}",
         "stands where"},
        {HEAD WAYS "\"layers\":[" TWO "," LAYER("3", "1281", "d") "],\"elements\":0}", "with 1280"},
        {HEAD WAYS "\"layers\":[" TWO "," LAYER("3", "1280", "x") "],\"elements\":0}",
         "1 letters d or m"},
        {HEAD WAYS "\"layers\":[" TWO "," LAYER("3", "1280", "dd") "],\"elements\":0}",
         "1 letters d or m"},
        {HEAD WAYS "\"layers\":[" TWO "," LAYER("3", "1280", "d") "],\"elements\":7}",
         "moves 408064"},
        {"{\"format\":\"shoal-plan-1\",\"model\":\"none\",\"batch\":8,\"levels\":1," WAYS
         "\"elements\":0}",
         "none"},
        {"{\"format\":\"shoal-plan-1\",\"model\":\"lenet\",\"batch\":0,\"levels\":1," WAYS
         "\"elements\":0}",
         "batch"},
        {"{\"format\":\"shoal-plan-1\",\"model\":\"lenet\",\"batch\":8,\"levels\":17," WAYS
         "\"elements\":0}",
         "levels"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shoal_partition *p = NULL;
        shoal_status status = shoali_partition_parse("p.json", bad[i].json, strlen(bad[i].json),
                                                     &p);
        if (status != SHOAL_ECORRUPT && status != SHOAL_EINVAL)
            fail_msg("%s gave %s", bad[i].json, shoal_status_name(status));
        assert_null(p);
        assert_error_has(bad[i].says);
        assert_error_has("p.json");
    }
}

/* By hand: dense1 by data 2 * 200704, then B F = 8 * 256 enters dense2, which is 2 * 8 * 128 by
 * model, then dense3 by data 2 * 1280. */
static void a_good_file(void **state)
{
    const char *json = HEAD WAYS "\"layers\":[" TWO
                                 "," LAYER("3", "1280", "d") "],"
                                                             "\"elements\":408064}";
    shoal_partition *p = NULL;
    (void)state;
    assert_int_equal(2 * 200704 + 8 * 256 + 2 * 8 * 128 + 2 * 1280, 408064);
    assert_ok(shoali_partition_parse("p.json", json, strlen(json), &p));
    assert_int_equal(p->layers[1].mask, 1);
    assert_int_equal(shoali_partition_bias_elements(p), 2 * (256 + 10));
    assert_int_equal(shoali_partition_executed(p), 408064 + 2 * (256 + 10));
    shoal_partition_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_saved_plan_is_the_same_plan),
        CHECK_TEST(bad_files_get_a_reason),
        CHECK_TEST(a_good_file),
    };
    return CHECK_RUN(tests);
}
