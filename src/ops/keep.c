/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation finds in the store of what outlives operations (residual.h). */
#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "ops/inner.h"

bool shoali_op_feeds_back(const shoal_op *op)
{
    return op->extras.error_feedback &&
           (op->plan->push->error_feedback || op->plan->pull->error_feedback);
}

bool shoali_op_keeps(const shoal_op *op)
{
    return shoali_op_feeds_back(op) || (op->plan->push->traits & SHOAL_CODEC_TRANSFORM) != 0;
}

shoali_residual_store *shoali_ops_kept(shoali_ops *ops)
{
    if (ops->residuals == NULL)
        ops->residuals = shoali_residuals_create();
    return ops->residuals;
}

shoal_status shoali_keep_residuals(shoal_op *op)
{
    if (!shoali_op_feeds_back(op))
        return SHOAL_OK;
    shoali_residual_store *store = shoali_ops_kept(op->ops);
    if (store == NULL)
        return SHOAL_ENOMEM;
    op->residuals = shoali_arena_array(op->arena, op->plan->tensor_count, sizeof(float *));
    if (op->residuals == NULL)
        return SHOAL_ENOMEM;
    shoali_residuals_hold(store);
    for (uint32_t t = 0; t < op->plan->tensor_count; t++) {
        const shoal_tensor *tensor = &op->plan->tensors[t];
        op->residuals[t] = shoali_residuals_at(store, tensor->key, tensor->count);
        if (op->residuals[t] == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

void shoali_keep_release(shoal_op *op)
{
    if (op->residuals != NULL)
        shoali_residuals_release(op->ops->residuals);
    op->residuals = NULL;
}

static uint64_t hash_of(const shoal_op *op)
{
    uint64_t hash = shoali_mix(op->plan->push->hash, op->plan->tensor_count);
    for (uint32_t t = 0; t < op->plan->tensor_count; t++)
        hash = shoali_mix(shoali_mix(hash, op->plan->tensors[t].key), op->plan->tensors[t].count);
    return hash;
}

shoal_status shoali_keep_state(shoal_op *op)
{
    shoali_residual_store *store = shoali_ops_kept(op->ops);
    if (store == NULL)
        return SHOAL_ENOMEM;
    size_t bytes = op->plan->push->row->state_size(op->plan->push->params, op->plan->tensors,
                                                   op->plan->tensor_count);
    op->rounds.transform = shoali_residuals_state(store, hash_of(op), bytes);
    return op->rounds.transform != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_keep_reset(shoal_op *op)
{
    bool *agreed = shoali_residuals_agreed(op->ops->residuals, op->rounds.transform);
    const shoal_codec *codec = op->plan->push;
    if (codec->row->steps == NULL) {
        shoali_residuals_reset(op->ops->residuals, op->rounds.transform);
        return;
    }
    codec->row->steps->failed(codec->params, op->rounds.transform, op->plan->tensors,
                              op->plan->tensor_count);
    if (agreed != NULL)
        *agreed = false;
}
