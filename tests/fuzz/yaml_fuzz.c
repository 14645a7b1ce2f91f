/* SPDX-License-Identifier: Apache-2.0 */
/* YAML, and LIBRA's three files in it: read or refused with a reason. The first byte chooses. */
#include <stdint.h>
#include <stdlib.h>

#include "model/import.h"
#include "model/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void check_network(const shoali_libra_network *net)
{
    if (net->count == 0 || net->count > SHOALI_CLUSTER_DIMENSIONS_MAX)
        abort();
    for (uint32_t d = 0; d < net->count; d++) {
        if (net->dimension[d].size < 2)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_libra_network net = {.count = 2,
                                .dimension = {{.topology = SHOALI_TOPOLOGY_RING, .size = 4},
                                              {.topology = SHOALI_TOPOLOGY_SWITCH, .size = 8}},
                                .cost_class = {"InterNode", "InterPod"}};
    shoali_communicator groups;
    json_t *json = NULL;
    shoal_status status;
    if (len_bytes == 0)
        return 0;
    const char *text = (const char *)bytes + 1;
    size_t len = len_bytes - 1;
    switch (bytes[0] % 4) {
    case 0:
        status = shoali_yaml_parse("fuzz", text, len, &json);
        json_decref(json);
        break;
    case 1:
        status = shoali_libra_network_parse("fuzz", text, len, &net);
        if (status == SHOAL_OK)
            check_network(&net);
        break;
    case 2:
        status = shoali_libra_cost_parse("fuzz", text, len, &net);
        break;
    default:
        status = shoali_libra_communicator_parse("fuzz", text, len, net.dimension, 2, &groups);
    }
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    return 0;
}
