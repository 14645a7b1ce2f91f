/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric (OpenFabrics Interfaces) as the row libfabric needs it: one endpoint that is not
 * connected to anybody, tagged messages, completions, a descriptor to sleep on. The library is
 * loaded when the first endpoint is opened, so that nobody else needs it; built without its headers
 * there is none. One thread per endpoint. */
#ifndef SHOALI_TRANSPORT_OFI_H
#define SHOALI_TRANSPORT_OFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

enum { SHOALI_OFI_NAME_BYTES = 48, SHOALI_OFI_PROVIDER_BYTES = 16 };

typedef struct shoali_ofi shoali_ofi;

/* A send or receive under way: the provider's until it comes back by done(). First in a struct of
 * the caller's. */
typedef struct shoali_ofi_op {
    void *context[8]; /* FI_CONTEXT2: the provider's to write */
} shoali_ofi_op;

typedef struct shoali_ofi_done {
    shoali_ofi_op *op;
    bool failed, cancelled;
    size_t len_bytes; /* of what was received */
} shoali_ofi_done;

typedef struct shoali_ofi_memory {
    void *registration, *desc; /* NULL: the provider asks for none */
} shoali_ofi_memory;

typedef struct shoali_ofi_calls {
    /** provider: "tcp", "verbs" ...; domain: of it, NULL: its first; ip: numeric address to be
     * reached at, NULL: none. @return SHOAL_OK | ENOTSUP: nothing of that name here */
    shoal_status (*open)(const char *provider, const char *domain, const char *ip,
                         shoali_ofi **ofi_out);
    /** Whatever is under way is dropped: its memory is the caller's again, to take back and free
     * before close(). NULL does nothing. */
    void (*stop)(shoali_ofi *ofi);
    void (*close)(shoali_ofi *ofi);
    /** By which others find the endpoint. @return its length */
    size_t (*name)(const shoali_ofi *ofi, uint8_t out[SHOALI_OFI_NAME_BYTES]);
    shoal_status (*insert)(shoali_ofi *ofi, const uint8_t *name, uint64_t *peer_out);
    void (*remove)(shoali_ofi *ofi, uint64_t peer);
    shoal_status (*lend)(shoali_ofi *ofi, void *base, size_t len_bytes, shoali_ofi_memory *out);
    void (*take_back)(shoali_ofi_memory *memory);
    /** @return SHOAL_OK | PENDING: not now | EIO with the provider's words */
    shoal_status (*send)(shoali_ofi *ofi, uint64_t peer, uint64_t tag, const void *bytes,
                         size_t len_bytes, const shoali_ofi_memory *memory, shoali_ofi_op *op);
    shoal_status (*receive)(shoali_ofi *ofi, uint64_t tag, void *bytes, size_t len_bytes,
                            const shoali_ofi_memory *memory, shoali_ofi_op *op);
    void (*cancel)(shoali_ofi *ofi, shoali_ofi_op *op);
    /** What has ended, up to `most`; makes the provider work. */
    size_t (*done)(shoali_ofi *ofi, shoali_ofi_done *out, size_t most);
    /** Readable when done() has something to do; -1: this provider cannot tell. */
    int (*fd)(const shoali_ofi *ofi);
    /** Without this, fd may stay silent. False: call done() first. */
    bool (*may_sleep)(shoali_ofi *ofi);
    /** The i-th provider of unconnected endpoints with tags, each once: name and first domain.
     * @return false beyond the last */
    bool (*provider_at)(size_t i, char name[SHOALI_OFI_PROVIDER_BYTES], char domain[64]);
} shoali_ofi_calls;

/** Loads the library. NULL with the last error set (ENOTSUP): it is not here, or this Shoal was
 * built without it. */
const shoali_ofi_calls *shoali_ofi_load(void);

#endif
