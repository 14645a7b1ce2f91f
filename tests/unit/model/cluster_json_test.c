/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "model/cluster.h"

static const char full[] =
    "{\"name\": \"full\", \"cores\": 2, \"accelerators\": [{\"name\": \"gpu\", \"flops\": 312e12, "
    "\"vector_flops\": 78e12, \"memory\": 80e9, \"memory_rate\": \"2048GB/s\", \"host_rate\": "
    "\"32GB/s\", \"price\": 10000, "
    "\"spread\": 0.02, \"processing\": \"additive\", \"efficiency\": {\"matrix\": [[128e9, 0.95], "
    "[0, 0.1]], \"conv\": {\"smooth\": [[1e9, 0.8], [1e6, 0.2]]}}}, {\"name\": \"cpu\", \"flops\": "
    "1e11}], \"hosts\": [{\"count\": 3, \"accelerator\": \"cpu\", \"workers\": 4, \"nic\": "
    "\"1gbit\", \"latency_us\": 50, \"loss\": 0.001}, {\"accelerator\": \"gpu\", \"workers\": 4, "
    "\"nic\": \"1gbit\", \"nic_down\": \"2gbit\", \"inside\": \"5GB/s\", \"slowdown\": 1.5}], "
    "\"dimensions\": "
    "[{\"topology\": \"fc:4\", \"rate\": \"300GB/s\", \"latency_us\": 10, \"efficiency\": 0.65, "
    "\"efficiency_sharded\": 0.4, "
    "\"cost\": {\"link\": 4}}, {\"topology\": \"switch:4@31.25MB/s\", \"loss\": 0.01, \"cost\": "
    "{\"link\": 7.8, \"switch\": 18, \"nic\": 31.6}}], \"links\": [{\"from\": 0, \"to\": 3, "
    "\"rate\": \"5gbit\", \"latency_us\": 3, \"loss\": 0.5, \"spread\": 0.1}], \"stragglers\": "
    "[{\"worker\": 3, \"slowdown\": 4, \"from_s\": 1}, {\"slowdown\": 6, \"probability\": 0.25}], "
    "\"partitions\": [{\"hosts\": [0, 2], \"from_s\": 2, \"until_s\": 3}], \"codecs\": "
    "[{\"codec\": "
    "\"inceptionn:bound=2^-10\", \"encode_rate\": \"10GB/s\", \"decode_rate\": \"20GB/s\", "
    "\"ratio\": 3.5, \"spread\": 0.05}], \"profiles\": [{\"model\": \"lenet\", "
    "\"batch\": 64, \"compute_us\": 900, \"update_us\": 5, \"ready_us\": [300, 800.5]}], "
    "\"overhead\": {\"payload_share\": 0.95, \"cpu_s_per_gb\": 0.5, \"operation_us\": "
    "100, \"round_us\": 20, \"step_us\": 300, \"busy_share\": 0.15}}";

static shoali_cluster *parse(const char *text)
{
    shoali_cluster *cluster = NULL;
    assert_ok(shoali_cluster_parse("test.json", text, strlen(text), &cluster));
    return cluster;
}

static void everything_is_read(void **state)
{
    (void)state;
    shoali_cluster *c = parse(full);
    assert_string_equal(c->name, "full");
    assert_int_equal(c->cores, 2);
    assert_int_equal(c->workers, 16);
    assert_int_equal(c->host_count, 4);
    assert_int_equal(c->hosts[0].accelerator, 1);
    assert_int_equal(c->hosts[3].first_worker, 12);
    assert_true(c->hosts[3].down_bytes_per_s == 250e6 && c->hosts[3].slowdown == 1.5);
    assert_true(c->hosts[3].inside_bytes_per_s == 5e9 && c->hosts[0].inside_bytes_per_s == 32e9);
    assert_true(c->accelerators[0].host_bytes_per_s == 32e9);
    assert_true(c->accelerators[0].additive && c->accelerators[0].memory_bytes_per_s == 2048e9);
    assert_true(c->accelerators[1].vector_flops == 1e11);
    assert_true(isinf(c->accelerators[1].memory_bytes));
    assert_int_equal(c->accelerators[0].table_count, 2);
    assert_true(shoali_accelerator_table(&c->accelerators[0], "conv")->smooth);
    assert_true(c->dimensions[0].efficiency == 0.65 && c->dimensions[1].cost_nic == 31.6);
    assert_true(c->stragglers[1].worker == UINT32_MAX && isinf(c->stragglers[0].until_s));
    assert_true(c->partitions[0].hosts[1] == 2);
    assert_true(fabs(c->overhead.cpu_s_per_byte - 0.5e-9) < 1e-20);
    assert_ptr_equal(shoali_cluster_profile(c, "lenet", 32), &c->profiles[0]);
    assert_null(shoali_cluster_profile(c, "hdc", 64));
    assert_true(c->profiles[0].ready_s[1] == 800.5 / 1e6 && c->overhead.payload_share == 0.95);
    assert_string_equal(c->codecs[0].spec, "inceptionn:bound=2^-10");
    shoali_cluster_close(c);
}

static char *printed(const shoali_cluster *cluster)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    shoali_cluster_print(cluster, file);
    fclose(file);
    return text;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    static const char *const texts[] = {
        full, "{\"name\": \"l\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1}], "
              "\"dimensions\": \"ring:4, switch:2\"}"};
    for (size_t i = 0; i < 2; i++) {
        shoali_cluster *first = parse(texts[i]);
        char *text = printed(first);
        shoali_cluster *second = parse(text);
        char *again = printed(second);
        assert_string_equal(text, again);
        assert_int_equal(first->workers, second->workers);
        assert_true(second->hosts[0].latency_s == first->hosts[0].latency_s);
        free(text);
        free(again);
        shoali_cluster_close(first);
        shoali_cluster_close(second);
    }
}

static void errors_name_the_place(void **state)
{
    (void)state;
#define A "\"accelerators\": [{\"name\": \"a\", \"flops\": 1e9}]"
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"[]", "must be an object"},
        {"{\"name\": \"x\"}", "accelerators"},
        {"{\"name\": \"x\", " A "}", "how many workers"},
        {"{\"name\": \"x\", " A ", \"racks\": 1}", "unknown key \"racks\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{\"workers\": 0}]}", "hosts[0]: key \"workers\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}, {\"nic\": \"1g\"}]}", "hosts[1]: key \"nic\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{\"accelerator\": \"b\"}]}", "not among them"},
        {"{\"name\": \"x\", " A ", \"hosts\": [{\"count\": 1048576, \"workers\": 2}]}",
         "hosts[0]: with these"},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}], \"dimensions\": \"ring:4\"}", "join 4 workers"},
        {"{\"name\": \"x\", " A ", \"dimensions\": \"torus:4\"}", "torus"},
        {"{\"name\": \"x\", " A ", \"dimensions\": [{\"topology\": \"ring:4,ring:4\"}]}",
         "dimensions[0]: key \"topology\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}], \"links\": [{\"from\": 0, \"to\": 1, \"rate\": "
         "\"1gbit\"}]}",
         "links[0]: key \"to\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}], \"stragglers\": [{\"worker\": 1, \"slowdown\": "
         "2}]}",
         "stragglers[0]: key \"worker\""},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}], \"partitions\": [{\"hosts\": [1]}]}",
         "partitions[0]: \"hosts\""},
        {"{\"name\": \"x\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e9, \"efficiency\": "
         "{\"matrix\": [[1, 1], [1, 1]]}}], \"hosts\": [{}]}",
         "accelerators[0]: efficiency.matrix: entry 1"},
        {"{\"name\": \"x\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e9}, {\"name\": "
         "\"a\", \"flops\": 1e9}], \"hosts\": [{}]}",
         "are both"},
        {"{\"name\": \"x\", \"accelerators\": [{\"name\": \"a\", \"flops\": -1}], \"hosts\": [{}]}",
         "accelerators[0]: key \"flops\""},
        {"{\"name\": \"x\", " A ", \"hosts\": {}}", "\"hosts\" must be an array"},
        {"{\"name\": \"x\", " A ", \"hosts\": [{}], \"overhead\": {\"cpu\": 1}}", "unknown key"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoali_cluster *cluster = NULL;
        shoal_status status = shoali_cluster_parse("bad.json", bad[i].text, strlen(bad[i].text),
                                                   &cluster);
        assert_true(status == SHOAL_ECORRUPT || status == SHOAL_EINVAL);
        assert_error_has("bad.json: ");
        assert_error_has(bad[i].error);
        assert_null(cluster);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        shoali_cluster *cluster = NULL;
        shoali_alloc_fail_at(k);
        shoal_status status = shoali_cluster_parse("a.json", full, sizeof full - 1, &cluster);
        shoali_alloc_fail_at(0);
        if (status == SHOAL_OK) {
            shoali_cluster_close(cluster);
            return;
        }
        assert_int_equal(status, SHOAL_ENOMEM);
        assert_true(k < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(everything_is_read),
        CHECK_TEST(what_is_written_is_read_again),
        CHECK_TEST(errors_name_the_place),
        CHECK_TEST(every_allocation_may_fail),
    };
    return CHECK_RUN(tests);
}
