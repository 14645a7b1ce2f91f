/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ofi.h"

#include <pthread.h>

#include "base/arena.h"
#include "base/error.h"

#ifndef SHOAL_LIBFABRIC

const shoali_ofi_calls *shoali_ofi_load(void)
{
    (void)shoali_fail(SHOAL_ENOTSUP, "this Shoal was built without libfabric");
    shoali_error_advice("Install libfabric-dev and build again, or use --transport tcp.");
    return NULL;
}

#else

#include <dlfcn.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { WISH_BYTES = 96 };
static const char library_name[] = "libfabric.so.1";

/* What the library exports; everything else are calls through its objects. */
static struct library {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                   struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
    const char *wrong; /* NULL: all is here */
} library;

struct shoali_ofi {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd; /* -1: none */
    uint64_t next_key;
};

/* ---------------------------------------------------------------- signals */

/* The provider shm, and libraries of others that come along, put handlers of their own before the
 * program's. A library leaves those alone. */
static const int signals[] = {SIGBUS, SIGSEGV, SIGTERM, SIGINT};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static void keep_signals(struct sigaction kept[SIGNALS])
{
    for (size_t i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], NULL, &kept[i]);
}

static void restore_signals(const struct sigaction kept[SIGNALS])
{
    for (size_t i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &kept[i], NULL);
}

/* ---------------------------------------------------------------- opening */

/* As little as possible: no order of messages, memory registered where the provider asks for it. */
static struct fi_info *make_hints(void)
{
    struct fi_info *hints = library.dupinfo(NULL);
    if (hints == NULL)
        return NULL;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    return hints;
}

static bool is_internet(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
           info->addr_format == FI_SOCKADDR_IN6;
}

/* Endpoints that have no internet address take one for a name, the same for all. */
static int find(const char *provider, const char *domain, const char *ip, struct fi_info **out)
{
    struct sigaction kept[SIGNALS];
    char names[2][WISH_BYTES];
    struct fi_info *hints = make_hints();
    if (hints == NULL)
        return -FI_ENOMEM;
    snprintf(names[0], WISH_BYTES, "%s", provider != NULL ? provider : "");
    snprintf(names[1], WISH_BYTES, "%s", domain != NULL ? domain : "");
    hints->fabric_attr->prov_name = provider != NULL ? names[0] : NULL;
    hints->domain_attr->name = domain != NULL ? names[1] : NULL;
    keep_signals(kept);
    int result = library.getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, out);
    if (result == 0 && ip != NULL && is_internet(*out)) {
        library.freeinfo(*out);
        *out = NULL;
        result = library.getinfo(FI_VERSION(1, 14), ip, NULL, FI_SOURCE, hints, out);
    }
    restore_signals(kept);
    hints->fabric_attr->prov_name = hints->domain_attr->name = NULL; /* ours, not to be freed */
    library.freeinfo(hints);
    return result;
}

static shoal_status refuse(int result, const char *what)
{
    return shoali_fail(SHOAL_EIO, "libfabric cannot %s: %s", what, library.strerror(-result));
}

static int open_queue(shoali_ofi *ofi)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    int result = fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
    if (result == 0)
        return fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->fd);
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
}

static shoal_status open_all(shoali_ofi *ofi)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    int result = library.fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);
    if (result != 0)
        return refuse(result, "open the fabric");
    if ((result = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL)) != 0)
        return refuse(result, "open its domain");
    if ((result = fi_av_open(ofi->domain, &av, &ofi->av, NULL)) != 0)
        return refuse(result, "make a table of addresses");
    if ((result = open_queue(ofi)) != 0)
        return refuse(result, "make a queue of completions");
    if ((result = fi_endpoint(ofi->domain, ofi->info, &ofi->ep, NULL)) != 0)
        return refuse(result, "make an endpoint");
    if ((result = fi_ep_bind(ofi->ep, &ofi->av->fid, 0)) != 0 ||
        (result = fi_ep_bind(ofi->ep, &ofi->cq->fid, FI_TRANSMIT | FI_RECV)) != 0 ||
        (result = fi_enable(ofi->ep)) != 0)
        return refuse(result, "enable the endpoint");
    return SHOAL_OK;
}

static void close_one(void *object)
{
    if (object != NULL)
        (void)fi_close((struct fid *)object); /* each object of libfabric begins with its fid */
}

static void ofi_stop(shoali_ofi *ofi)
{
    if (ofi == NULL)
        return;
    close_one(ofi->ep);
    ofi->ep = NULL;
}

static void ofi_close(shoali_ofi *ofi)
{
    if (ofi == NULL)
        return;
    ofi_stop(ofi);
    close_one(ofi->cq);
    close_one(ofi->av);
    close_one(ofi->domain);
    close_one(ofi->fabric);
    library.freeinfo(ofi->info);
    shoali_free(ofi);
}

static shoal_status ofi_open(const char *provider, const char *domain, const char *ip,
                             shoali_ofi **ofi_out)
{
    struct sigaction kept[SIGNALS];
    shoali_ofi *ofi = shoali_alloc(sizeof *ofi);
    if (ofi == NULL)
        return SHOAL_ENOMEM;
    ofi->fd = -1;
    struct fi_info *all = NULL, *one;
    int result = find(provider, domain, ip, &all);
    one = all; /* a provider may take no notice of a wish for a domain */
    while (one != NULL && domain != NULL && strcmp(one->domain_attr->name, domain) != 0)
        one = one->next;
    ofi->info = one != NULL ? library.dupinfo(one) : NULL;
    if (all != NULL)
        library.freeinfo(all);
    if (ofi->info == NULL) {
        shoali_free(ofi);
        (void)shoali_fail(SHOAL_ENOTSUP,
                          "libfabric has no provider '%s'%s%s for unconnected endpoints with tags "
                          "on this host: %s",
                          provider, domain != NULL ? " with the domain " : "",
                          domain != NULL ? domain : "",
                          library.strerror(result != 0 ? -result : FI_ENODATA));
        shoali_error_advice("shoal doctor lists the providers that are here.");
        return SHOAL_ENOTSUP;
    }
    keep_signals(kept);
    shoal_status status = open_all(ofi);
    restore_signals(kept);
    if (status == SHOAL_OK)
        *ofi_out = ofi;
    else
        ofi_close(ofi);
    return status;
}

/* ---------------------------------------------------------------- names and memory */

static size_t ofi_name(const shoali_ofi *ofi, uint8_t out[SHOALI_OFI_NAME_BYTES])
{
    size_t len = SHOALI_OFI_NAME_BYTES;
    return fi_getname(&ofi->ep->fid, out, &len) == 0 ? len : 0;
}

static shoal_status ofi_insert(shoali_ofi *ofi, const uint8_t *name, uint64_t *peer_out)
{
    fi_addr_t peer;
    if (fi_av_insert(ofi->av, name, 1, &peer, 0, NULL) != 1)
        return shoali_fail(SHOAL_EIO, "libfabric does not take its address");
    *peer_out = peer;
    return SHOAL_OK;
}

static void ofi_remove(shoali_ofi *ofi, uint64_t peer)
{
    fi_addr_t address = peer;
    (void)fi_av_remove(ofi->av, &address, 1, 0);
}

static shoal_status ofi_lend(shoali_ofi *ofi, void *base, size_t len_bytes, shoali_ofi_memory *out)
{
    struct fid_mr *mr;
    *out = (shoali_ofi_memory){NULL, NULL};
    if ((ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
        return SHOAL_OK;
    int result = fi_mr_reg(ofi->domain, base, len_bytes, FI_SEND | FI_RECV, 0, ofi->next_key++, 0,
                           &mr, NULL);
    if (result != 0)
        return refuse(result, "register memory");
    *out = (shoali_ofi_memory){mr, fi_mr_desc(mr)};
    return SHOAL_OK;
}

static void ofi_take_back(shoali_ofi_memory *memory)
{
    close_one(memory->registration);
    *memory = (shoali_ofi_memory){NULL, NULL};
}

/* ---------------------------------------------------------------- messages */

static shoal_status status_of(ssize_t result, const char *what)
{
    if (result == 0)
        return SHOAL_OK;
    return result == -FI_EAGAIN ? SHOAL_PENDING : refuse((int)result, what);
}

static shoal_status ofi_send(shoali_ofi *ofi, uint64_t peer, uint64_t tag, const void *bytes,
                             size_t len_bytes, const shoali_ofi_memory *memory, shoali_ofi_op *op)
{
    return status_of(fi_tsend(ofi->ep, bytes, len_bytes, memory->desc, peer, tag, op), "send");
}

static shoal_status ofi_receive(shoali_ofi *ofi, uint64_t tag, void *bytes, size_t len_bytes,
                                const shoali_ofi_memory *memory, shoali_ofi_op *op)
{
    return status_of(fi_trecv(ofi->ep, bytes, len_bytes, memory->desc, FI_ADDR_UNSPEC, tag, 0, op),
                     "receive");
}

static void ofi_cancel(shoali_ofi *ofi, shoali_ofi_op *op)
{
    (void)fi_cancel(&ofi->ep->fid, op);
}

/* An operation that failed stands at the head of the queue, alone. */
static size_t read_failed(shoali_ofi *ofi, shoali_ofi_done *out)
{
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(ofi->cq, &error, 0) != 1 || error.op_context == NULL)
        return 0;
    *out = (shoali_ofi_done){
        .op = error.op_context, .failed = true, .cancelled = error.err == FI_ECANCELED};
    return 1;
}

static size_t ofi_done(shoali_ofi *ofi, shoali_ofi_done *out, size_t most)
{
    struct fi_cq_msg_entry entries[16];
    size_t want = most < 16 ? most : 16;
    ssize_t got = fi_cq_read(ofi->cq, entries, want);
    if (got == -FI_EAVAIL)
        return read_failed(ofi, out);
    for (ssize_t i = 0; i < got; i++)
        out[i] = (shoali_ofi_done){.op = entries[i].op_context, .len_bytes = entries[i].len};
    return got > 0 ? (size_t)got : 0;
}

static int ofi_fd(const shoali_ofi *ofi)
{
    return ofi->fd;
}

static bool ofi_may_sleep(shoali_ofi *ofi)
{
    struct fid *queue = &ofi->cq->fid;
    return ofi->fd < 0 || fi_trywait(ofi->fabric, &queue, 1) == 0;
}

/* ---------------------------------------------------------------- what is here */

/* "tcp;ofi_rxm" is tcp with what makes its endpoints unconnected. */
static void short_name(const struct fi_info *info, char name[SHOALI_OFI_PROVIDER_BYTES])
{
    size_t len = strcspn(info->fabric_attr->prov_name, ";");
    if (len >= SHOALI_OFI_PROVIDER_BYTES)
        len = SHOALI_OFI_PROVIDER_BYTES - 1;
    memcpy(name, info->fabric_attr->prov_name, len);
    name[len] = '\0';
}

static bool is_first(const struct fi_info *all, const struct fi_info *one, const char *name)
{
    for (; all != one; all = all->next) {
        char other[SHOALI_OFI_PROVIDER_BYTES];
        short_name(all, other);
        if (strcmp(other, name) == 0)
            return false;
    }
    return true;
}

static bool ofi_provider_at(size_t i, char name[SHOALI_OFI_PROVIDER_BYTES], char domain[64])
{
    struct fi_info *all = NULL, *one;
    if (find(NULL, NULL, NULL, &all) != 0)
        return false;
    for (one = all; one != NULL; one = one->next) {
        short_name(one, name);
        if (is_first(all, one, name) && i-- == 0)
            break;
    }
    if (one != NULL) {
        strncpy(domain, one->domain_attr->name, 63);
        domain[63] = '\0';
    }
    library.freeinfo(all);
    return one != NULL;
}

/* ---------------------------------------------------------------- the library */

static const shoali_ofi_calls calls = {
    .open = ofi_open,
    .stop = ofi_stop,
    .close = ofi_close,
    .name = ofi_name,
    .insert = ofi_insert,
    .remove = ofi_remove,
    .lend = ofi_lend,
    .take_back = ofi_take_back,
    .send = ofi_send,
    .receive = ofi_receive,
    .cancel = ofi_cancel,
    .done = ofi_done,
    .fd = ofi_fd,
    .may_sleep = ofi_may_sleep,
    .provider_at = ofi_provider_at,
};

static void load(void)
{
    struct sigaction kept[SIGNALS];
    keep_signals(kept);
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    restore_signals(kept);
    library.wrong = handle == NULL ? "is not installed" : NULL;
    const struct {
        void **at;
        const char *symbol;
    } wanted[] = {{(void **)&library.getinfo, "fi_getinfo"},
                  {(void **)&library.freeinfo, "fi_freeinfo"},
                  {(void **)&library.dupinfo, "fi_dupinfo"},
                  {(void **)&library.fabric, "fi_fabric"},
                  {(void **)&library.strerror, "fi_strerror"}};
    for (size_t i = 0; handle != NULL && i < sizeof wanted / sizeof wanted[0]; i++)
        if ((*wanted[i].at = dlsym(handle, wanted[i].symbol)) == NULL)
            library.wrong = "lacks a call that Shoal needs";
}

const shoali_ofi_calls *shoali_ofi_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    if (library.wrong == NULL)
        return &calls;
    (void)shoali_fail(SHOAL_ENOTSUP, "%s %s here", library_name, library.wrong);
    shoali_error_advice("Install libfabric1, or use --transport tcp.");
    return NULL;
}

#endif
