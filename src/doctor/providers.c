/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "shoal/doctor.h"
#include "transport/ofi.h"

_Static_assert(sizeof((shoal_provider *)0)->name == SHOALI_OFI_PROVIDER_BYTES, "the same names");

bool shoal_provider_at(size_t i, shoal_provider *provider_out)
{
    if (provider_out == NULL || provider_out->size != sizeof *provider_out) {
        (void)shoali_fail(SHOAL_EINVAL, "shoal_provider_at: size is not that of shoal_provider");
        return false;
    }
    const shoali_ofi_calls *ofi = shoali_ofi_load();
    return ofi != NULL && ofi->provider_at(i, provider_out->name, provider_out->domain);
}
