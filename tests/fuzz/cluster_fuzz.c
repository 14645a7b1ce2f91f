/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files: read or refused with a reason; what was read keeps its bounds and is read again
 * from what is written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/cluster_ways.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void check(const shoali_cluster *c)
{
    uint64_t workers = 0;
    for (uint32_t i = 0; i < c->host_count; i++) {
        if (c->hosts[i].first_worker != workers || c->hosts[i].accelerator >= c->accelerator_count)
            abort();
        workers += c->hosts[i].workers;
    }
    if (workers != c->workers || workers == 0 || workers > SHOALI_CLUSTER_WORKERS_MAX ||
        shoali_cluster_host_of(c, c->workers - 1) != c->host_count - 1)
        abort();
    for (uint32_t i = 0; i < c->accelerator_count; i++)
        if (!(shoali_efficiency_at(shoali_accelerator_table(&c->accelerators[i], "conv"), 1e6) > 0))
            abort();
    if (!(shoali_cluster_link(c, 0, c->host_count - 1).bytes_per_s > 0) ||
        !(shoali_cluster_slowdown(c, 0, 1) > 0))
        abort();
    (void)shoali_cluster_reachable(c, 0, c->host_count - 1, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_cluster *cluster = NULL;
    shoal_status status = shoali_cluster_parse("fuzz", (const char *)bytes, len_bytes, &cluster);
    if (status != SHOAL_OK) {
        if (cluster != NULL || shoal_last_error()->status != status)
            abort();
        return 0;
    }
    check(cluster);
    char *text = NULL;
    size_t text_len = 0;
    FILE *file = open_memstream(&text, &text_len);
    shoali_cluster *again = NULL;
    if (file == NULL)
        abort();
    shoali_cluster_print(cluster, file);
    fclose(file);
    if (shoali_cluster_parse("again", text, text_len, &again) != SHOAL_OK ||
        again->workers != cluster->workers)
        abort();
    free(text);
    shoali_cluster_close(again);
    shoali_cluster_close(cluster);
    return 0;
}
