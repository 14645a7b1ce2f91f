/* SPDX-License-Identifier: Apache-2.0 */
/* What workers tell each other besides gradients: losses, counts, hashes. Small identity
 * all-reduces. */
#include "base/error.h"
#include "comm/comm.h"
#include "worker/together.h"

bool shoali_train_exchanges(const shoal_train *train)
{
    return train->comm != NULL && train->workers > 1 &&
           (!train->desc.no_exchange || train->hybrid != NULL);
}

shoal_status shoali_train_reduce(shoal_train *train, float *values, size_t count, shoal_reduce how,
                                 const char *label)
{
    if (!shoali_train_exchanges(train))
        return SHOAL_OK;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = values;
    desc.count = count;
    desc.reduce = how;
    desc.members = train->members.ranks;
    desc.member_count = train->members.count;
    desc.label = label;
    return shoali_comm_run(train->comm, &desc, NULL);
}

shoal_status shoali_train_meet(shoal_train *train, float *values, size_t count, shoal_reduce how,
                               const char *label)
{
    if (train->comm == NULL)
        return SHOAL_OK;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = values;
    desc.count = count;
    desc.reduce = how;
    desc.label = label;
    return shoali_comm_run(train->comm, &desc, NULL);
}

shoal_status shoali_train_sum(shoal_train *train, double *values, size_t count, const char *label)
{
    enum { MOST = 16 };
    float parts[3 * MOST];
    if (count > MOST)
        return shoali_fail(SHOAL_EINTERNAL, "more than %d values in one sum", MOST);
    for (size_t i = 0; i < count; i++) {
        double rest = values[i];
        for (size_t j = 0; j < 3; j++) {
            parts[3 * i + j] = (float)rest;
            rest -= (double)parts[3 * i + j];
        }
    }
    SHOALI_TRY(shoali_train_reduce(train, parts, 3 * count, SHOAL_SUM, label));
    for (size_t i = 0; i < count; i++)
        values[i] = (double)parts[3 * i] + (double)parts[3 * i + 1] + (double)parts[3 * i + 2];
    return SHOAL_OK;
}

void shoali_hash_parts(uint64_t hash, float parts_out[SHOALI_HASH_PARTS])
{
    for (size_t i = 0; i < SHOALI_HASH_PARTS; i += 2) {
        parts_out[i] = (float)(hash >> (8 * i) & 0xffff);
        parts_out[i + 1] = -parts_out[i];
    }
}

bool shoali_hashes_agree(const float most[SHOALI_HASH_PARTS])
{
    for (size_t i = 0; i < SHOALI_HASH_PARTS; i += 2)
        if (most[i] != -most[i + 1])
            return false;
    return true;
}
