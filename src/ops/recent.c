/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recent.h"

#include "base/arena.h"
#include "base/error.h"

shoal_status shoali_recent_init(shoali_recent *recent)
{
    *recent = (shoali_recent){.all = shoali_alloc_array(SHOALI_RECENT_KEPT, sizeof *recent->all)};
    return recent->all != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_recent_free(shoali_recent *recent)
{
    shoali_free(recent->all);
    recent->all = NULL;
}

void shoali_recent_add(shoali_recent *recent, const shoali_finished *finished)
{
    shoali_finished *place = &recent->all[recent->next];
    recent->next = (recent->next + 1) % SHOALI_RECENT_KEPT;
    *place = *finished;
    place->used = true;
}

const shoali_finished *shoali_recent_find(const shoali_recent *recent, const shoali_wire_id *id)
{
    for (uint32_t i = 0; i < SHOALI_RECENT_KEPT; i++)
        if (recent->all[i].used && shoali_same_id(&recent->all[i].id, id))
            return &recent->all[i];
    return NULL;
}
