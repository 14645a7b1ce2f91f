/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/error.h"
#include "ops/inner.h"

shoal_status shoali_ops_init(shoali_ops *ops)
{
    ops->open_last = &ops->open;
    ops->peers = shoali_alloc_array(ops->size, sizeof *ops->peers);
    ops->scratch = shoali_scratch_create();
    if (ops->peers == NULL || ops->scratch == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_notes_init(&ops->notes, ops->size));
    return shoali_recent_init(&ops->recent);
}

void shoali_ops_free(shoali_ops *ops, shoal_status gone)
{
    shoali_serve_free(ops);
    shoali_gauge_free(ops);
    shoali_plans_free(ops, gone);
    shoali_notes_free(&ops->notes);
    shoali_recent_free(&ops->recent);
    shoali_numbers_free(&ops->numbers);
    shoali_residuals_free(ops->residuals);
    shoali_scratch_destroy(ops->scratch);
    shoali_free(ops->slots);
    shoali_free(ops->peers);
    *ops = (shoali_ops){0};
}
