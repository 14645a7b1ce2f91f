/* SPDX-License-Identifier: Apache-2.0 */
/* The row libfabric. Structure in libfabric.h. */
#include "transport/libfabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"

enum { DONE_PER_CALL = 16, CALLS_PER_TURN = 64, DEFAULT_JOIN_US = 30000000 };

extern const shoali_transport_row shoali_transport_tcp;

#define AT(field) offsetof(shoali_lf_params, field)
static const shoali_key keys[] = {
    {"provider", SHOALI_KEY_TEXT, AT(provider), 0, 0, NULL, "tcp",
     "libfabric's: tcp, shm, verbs, efa ... (shoal doctor lists those that are here)"},
    {"domain", SHOALI_KEY_TEXT, AT(domain), 0, 0, NULL, "any",
     "of the provider, e.g. an adapter's name; any: its first for the interface"},
    {"fragment_bytes", SHOALI_KEY_INT, AT(fragment_bytes), 4096, 1 << 20, NULL, "16000",
     "a message of libfabric carries so many bytes of frames"},
    {"window", SHOALI_KEY_INT, AT(window), 2, SHOALI_LF_MAX_WINDOW, NULL, "32",
     "fragments on their way to a peer, a power of two; twice as many buffers for each"},
    {"port", SHOALI_KEY_INT, AT(port), 0, 65535, NULL, "0",
     "of the control connections (TCP) to listen on; 0: the kernel's choice"},
    {"plain", SHOALI_KEY_FLAG, AT(plain), 0, 0, NULL, "off",
     "data between hosts may go unencrypted: libfabric has no encryption"},
    {"shm", SHOALI_KEY_FLAG, AT(shm), 0, 0, NULL, "off",
     "Shoal's own shared memory between ranks of one host, instead of the provider"},
};

/* ---------------------------------------------------------------- peers */

void shoali_lf_peer_fail(shoali_lf *lf, uint32_t peer, shoal_status why, const char *what)
{
    shoali_lf_peer *p = &lf->peers[peer];
    shoali_lf_state before = p->state;
    char text[320 + SHOALI_HOST_BYTES];
    snprintf(text, sizeof text, "rank %u (%s), libfabric (%.16s): %.200s", peer, p->address.host,
             lf->params.provider, what);
    if (before != SHOALI_LF_NONE)
        p->state = SHOALI_LF_DOWN;
    if (p->link != NULL)
        shoali_lf_link_kill(p->link, why == SHOAL_OK ? SHOAL_EPEER : why);
    lf->inner->drop_peer(lf->inner_state, peer, false);
    if (before == SHOALI_LF_JOINING || before == SHOALI_LF_UP)
        lf->events.peer_down(lf->events.ctx, peer, why, text);
}

static void drop(shoali_lf *lf, uint32_t peer, bool polite)
{
    shoali_lf_peer *p = &lf->peers[peer];
    p->state = SHOALI_LF_NONE;
    lf->inner->drop_peer(lf->inner_state, peer, polite);
    if (p->link != NULL)
        shoali_lf_link_kill(p->link, SHOAL_ECANCELLED);
}

static void read_completions(shoali_lf *lf)
{
    shoali_ofi_done done[DONE_PER_CALL];
    size_t got = 1;
    for (int i = 0; i < CALLS_PER_TURN && got > 0; i++) {
        got = lf->ofi->done(lf->endpoint, done, DONE_PER_CALL);
        for (size_t k = 0; k < got; k++)
            shoali_lf_slot_done((shoali_lf_slot *)(void *)done[k].op, &done[k]);
    }
}

/* ---------------------------------------------------------------- events of the control rows */

static uint8_t *on_place(void *ctx, uint32_t peer, const shoal_data *head)
{
    (void)ctx, (void)peer, (void)head;
    return NULL; /* data does not come this way */
}

static void on_frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                      size_t count)
{
    (void)ctx, (void)peer, (void)heads, (void)bodies, (void)count;
}

static void on_unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    (void)ctx, (void)peer, (void)head, (void)body;
}

static void on_sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    (void)ctx, (void)peer, (void)cookie, (void)status;
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes,
                       size_t len_bytes)
{
    shoali_lf *lf = ctx;
    if (lf->peers[peer].link == NULL)
        return;
    if (kind == SHOALI_MESSAGE_fabric)
        shoali_lf_link_message(lf->peers[peer].link, bytes, len_bytes);
    else if (lf->peers[peer].link->up)
        lf->events.control(lf->events.ctx, peer, kind, bytes, len_bytes);
}

static void on_peer_up(void *ctx, uint32_t peer)
{
    shoali_lf *lf = ctx;
    shoal_status status = shoali_lf_link_create(lf, peer);
    if (status != SHOAL_OK)
        shoali_lf_peer_fail(lf, peer, status, shoal_last_error()->text);
    lf->wake_us = 0;
}

/* What it sent before its goodbye has come: it waited for our word of that. */
static void on_peer_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    shoali_lf *lf = ctx;
    shoali_lf_peer *p = &lf->peers[peer];
    shoali_lf_state before = p->state;
    bool torn = p->link != NULL && p->link->in.in_body;
    if (before == SHOALI_LF_NONE || before == SHOALI_LF_DOWN)
        return;
    p->state = SHOALI_LF_DOWN;
    if (p->link != NULL)
        shoali_lf_link_kill(p->link, why == SHOAL_OK ? SHOAL_EPEER : why);
    lf->events.peer_down(lf->events.ctx, peer, why == SHOAL_OK && torn ? SHOAL_EPEER : why, text);
}

static void on_link_down(void *ctx, uint32_t peer, bool lost, const char *text)
{
    shoali_lf *lf = ctx;
    if (lf->events.link_down != NULL)
        lf->events.link_down(lf->events.ctx, peer, lost, text);
}

/* ---------------------------------------------------------------- open and close */

static shoal_status open_inner(shoali_lf *lf)
{
    char spec[32];
    const shoali_transport_events events = {.ctx = lf,
                                            .place = on_place,
                                            .frames = on_frames,
                                            .unplace = on_unplace,
                                            .sent = on_sent,
                                            .control = on_control,
                                            .peer_up = on_peer_up,
                                            .peer_down = on_peer_down,
                                            .link_down = on_link_down};
    shoali_transport_args args = lf->args;
    lf->inner = &shoali_transport_tcp;
    lf->inner_params = shoali_alloc(lf->inner->schema.params_size);
    lf->inner_state = shoali_alloc(lf->inner->state_size);
    if (lf->inner_params == NULL || lf->inner_state == NULL)
        return SHOAL_ENOMEM;
    snprintf(spec, sizeof spec, "tcp:port=%lld", (long long)lf->params.port);
    shoal_status status = shoali_spec_parse("transport", spec, &lf->inner->schema,
                                            lf->inner_params);
    args.params = lf->inner_params;
    if (status == SHOAL_OK)
        status = lf->inner->open(lf->inner_state, &args, &events);
    if (status != SHOAL_OK) {
        shoali_free(lf->inner_state);
        lf->inner_state = NULL;
    }
    return status;
}

/* The name of the endpoint, in the address of the control connections. */
static shoal_status describe(shoali_lf *lf)
{
    uint8_t name[SHOALI_OFI_NAME_BYTES];
    char hex[2 * SHOALI_OFI_NAME_BYTES + 1] = "";
    size_t len = lf->ofi->name(lf->endpoint, name);
    if (len == 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "libfabric: the provider '%.16s' has addresses of more "
                           "than %d bytes",
                           lf->params.provider, SHOALI_OFI_NAME_BYTES);
    for (size_t i = 0; i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", name[i]);
    snprintf(lf->address.fabric, sizeof lf->address.fabric, "%.16s,%s%s%s", lf->params.provider,
             hex, lf->bell >= 0 ? "," : "", lf->bell_name);
    return SHOAL_OK;
}

static shoal_status watch(shoali_lf *lf, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (fd >= 0 && epoll_ctl(lf->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot watch a descriptor of libfabric");
    return SHOAL_OK;
}

static shoal_status try_open(shoali_lf *lf)
{
    char text[SHOALI_ADDRESS_BYTES], ip[SHOALI_IP_TEXT_BYTES];
    const char *domain = strcmp(lf->params.domain, "any") == 0 ? NULL : lf->params.domain;
    const int64_t window = lf->params.window;
    if ((window & (window - 1)) != 0) /* else slots would jump where numbers begin anew */
        return shoali_fail(SHOAL_EINVAL, "libfabric: window=%lld is no power of two",
                           (long long)window);
    lf->ofi = shoali_ofi_load();
    if (lf->ofi == NULL)
        return SHOAL_ENOTSUP;
    lf->peers = shoali_alloc_array(lf->args.size, sizeof *lf->peers);
    if (lf->peers == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(open_inner(lf));
    lf->inner->address(lf->inner_state, text);
    SHOALI_TRY(shoali_address_parse(text, &lf->address));
    shoali_ip_format(&lf->address.ips[0], ip);
    SHOALI_TRY(lf->ofi->open(lf->params.provider, domain, ip, &lf->endpoint));
    lf->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (lf->epoll < 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot create an epoll descriptor");
    if (lf->ofi->fd(lf->endpoint) < 0)
        SHOALI_TRY(shoali_lf_bell_open(lf));
    SHOALI_TRY(watch(lf, lf->inner->fd(lf->inner_state)));
    SHOALI_TRY(watch(lf, lf->ofi->fd(lf->endpoint)));
    SHOALI_TRY(watch(lf, lf->bell));
    return describe(lf);
}

static void lf_forked(void *state)
{
    shoali_lf *lf = state;
    if (lf->inner_state != NULL)
        lf->inner->forked(lf->inner_state);
    if (lf->epoll >= 0)
        close(lf->epoll);
    if (lf->bell >= 0)
        close(lf->bell);
    lf->epoll = lf->bell = -1;
}

static void lf_close(void *state)
{
    shoali_lf *lf = state;
    for (uint32_t peer = 0; lf->inner_state != NULL && peer < lf->args.size; peer++)
        drop(lf, peer, true);
    if (lf->inner_state != NULL)
        lf->inner->close(lf->inner_state);
    if (lf->ofi != NULL) {
        lf->ofi->stop(lf->endpoint);
        shoali_lf_link_free_dead(lf, true);
        lf->ofi->close(lf->endpoint);
    }
    if (lf->epoll >= 0)
        close(lf->epoll);
    if (lf->bell >= 0)
        close(lf->bell);
    shoali_free(lf->inner_state);
    shoali_free(lf->inner_params);
    shoali_free(lf->peers);
    *lf = (shoali_lf){.epoll = -1, .bell = -1};
}

static shoal_status lf_open(void *state, const shoali_transport_args *args,
                            const shoali_transport_events *events)
{
    shoali_lf *lf = state;
    *lf = (shoali_lf){.args = *args,
                      .events = *events,
                      .params = *(const shoali_lf_params *)args->params,
                      .epoll = -1,
                      .bell = -1,
                      .wake_us = UINT64_MAX};
    if (args->join_us <= 0)
        lf->args.join_us = DEFAULT_JOIN_US;
    shoal_status status = try_open(lf);
    if (status != SHOAL_OK) {
        shoal_error error;
        shoali_error_get(&error);
        lf_close(lf);
        return shoali_error_set(&error);
    }
    lf->args.interface = lf->args.toward = lf->args.job = NULL; /* borrowed for open alone */
    lf->args.token = NULL;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- addresses */

static void lf_address(const void *state, char out[SHOALI_ADDRESS_BYTES])
{
    const shoali_lf *lf = state;
    shoali_address_format(&lf->address, out);
}

static bool read_hex(const char *text, size_t len, uint8_t out[SHOALI_OFI_NAME_BYTES])
{
    if (len == 0 || len % 2 != 0 || len > 2 * (size_t)SHOALI_OFI_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, text[i]);
        if (at == NULL)
            return false;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (at - digits));
    }
    return true;
}

static shoal_status read_fabric(const shoali_lf *lf, uint32_t peer, shoali_lf_peer *p)
{
    const char *text = p->address.fabric, *rest = strchr(text, ',');
    size_t provider_len = strcspn(text, ","), hex_len = rest != NULL ? strcspn(rest + 1, ",") : 0;
    size_t mine = strlen(lf->params.provider) < 16 ? strlen(lf->params.provider) : 16;
    if (rest == NULL)
        return shoali_fail(SHOAL_EINVAL, "rank %u has another transport than libfabric", peer);
    if (provider_len != mine || strncmp(text, lf->params.provider, mine) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "rank %u has libfabric's provider '%.*s', and this rank '%.16s'", peer,
                           (int)provider_len, text, lf->params.provider);
    memset(p->name, 0, sizeof p->name);
    if (!read_hex(rest + 1, hex_len, p->name))
        return shoali_fail(SHOAL_EINVAL, "rank %u: '%.140s' is no endpoint of libfabric", peer,
                           text);
    rest += 1 + hex_len;
    snprintf(p->bell, sizeof p->bell, "%.63s", *rest == ',' ? rest + 1 : "");
    return SHOAL_OK;
}

/* No encryption, and a bell that is heard on one host alone. */
static shoal_status check_reach(const shoali_lf *lf, uint32_t peer, const shoali_address *to)
{
    if (shoali_address_same_host(to, &lf->address))
        return SHOAL_OK;
    if (lf->bell >= 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "libfabric's provider '%.16s' reaches ranks of one host alone, and rank "
                           "%u is elsewhere (%s)",
                           lf->params.provider, peer, to->host);
    if (lf->params.plain || lf->args.lab)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_EAUTH,
                      "rank %u runs on another host (%s), and libfabric does not encrypt", peer,
                      to->host);
    shoali_error_advice("On a network that nobody else reads: --transport "
                        "libfabric:provider=%.16s,plain. Else --transport tcp (docs/security.md).",
                        lf->params.provider);
    return SHOAL_EAUTH;
}

static shoal_status lf_add_peer(void *state, uint32_t peer, const char *address)
{
    shoali_lf *lf = state;
    if (peer >= lf->args.size || peer == lf->args.me || lf->peers[peer].state != SHOALI_LF_NONE)
        return shoali_fail(SHOAL_EINVAL, "endpoint %u cannot be added", peer);
    shoali_lf_peer *p = &lf->peers[peer];
    SHOALI_TRY(shoali_address_parse(address, &p->address));
    SHOALI_TRY(read_fabric(lf, peer, p));
    SHOALI_TRY(check_reach(lf, peer, &p->address));
    SHOALI_TRY(lf->inner->add_peer(lf->inner_state, peer, address));
    p->state = SHOALI_LF_JOINING;
    memset(&p->stats, 0, sizeof p->stats);
    return SHOAL_OK;
}

static void lf_drop_peer(void *state, uint32_t peer, bool polite)
{
    shoali_lf *lf = state;
    if (peer < lf->args.size)
        drop(lf, peer, polite);
}

static void lf_peer_stats(const void *state, uint32_t peer, shoal_peer_stats *add)
{
    const shoali_lf *lf = state;
    const shoali_lf_peer *p = &lf->peers[peer];
    const shoal_peer_stats *s = &p->stats;
    lf->inner->peer_stats(lf->inner_state, peer, add);
    snprintf(add->transport, sizeof add->transport, "libfabric");
    add->sent_frames += s->sent_frames;
    add->sent_payload_bytes += s->sent_payload_bytes;
    add->sent_wire_bytes += s->sent_wire_bytes;
    add->received_frames += s->received_frames;
    add->received_payload_bytes += s->received_payload_bytes;
    add->received_wire_bytes += s->received_wire_bytes;
    add->dropped_frames += s->dropped_frames;
    uint64_t now_us = lf->args.now_us(lf->args.now_ctx);
    uint64_t seen_us = now_us > p->last_seen_us ? now_us - p->last_seen_us : 0;
    if (seen_us < add->last_seen_us)
        add->last_seen_us = seen_us;
    if (p->link == NULL)
        return;
    add->acked_bytes += p->link->acked_bytes;
    add->busy_us += p->link->busy_us;
    if (p->link->busy_since_us != 0 && now_us > p->link->busy_since_us)
        add->busy_us += now_us - p->link->busy_since_us;
}

static void lf_links(const void *state, uint32_t peer, char out[SHOALI_LINKS_TEXT_BYTES])
{
    const shoali_lf *lf = state;
    lf->inner->links(lf->inner_state, peer, out);
}

/* ---------------------------------------------------------------- sending */

static shoal_status lf_send(void *state, uint32_t peer, uint8_t tos, const shoal_data *head,
                            const void *body, uint64_t cookie)
{
    shoali_lf *lf = state;
    (void)tos; /* a provider has no such thing */
    if (peer >= lf->args.size || lf->peers[peer].state != SHOALI_LF_UP)
        return shoali_fail(SHOAL_EPEER, "no connection to rank %u", peer);
    if (head->len_bytes > SHOALI_FRAME_MAX_BODY_BYTES)
        return shoali_fail(SHOAL_EINVAL, "frame of %u bytes, at most %d", head->len_bytes,
                           SHOALI_FRAME_MAX_BODY_BYTES);
    SHOALI_TRY(shoali_outbox_put(&lf->peers[peer].link->box, &lf->args, false, head, body, cookie));
    lf->more = true;
    return SHOAL_OK;
}

static shoal_status lf_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                               size_t len_bytes)
{
    shoali_lf *lf = state;
    if (peer >= lf->args.size || lf->peers[peer].state != SHOALI_LF_UP)
        return shoali_fail(SHOAL_EPEER, "no connection to rank %u", peer);
    if (kind == SHOALI_MESSAGE_fabric)
        return shoali_fail(SHOAL_EINVAL, "control frame of kind %u", kind);
    return lf->inner->control(lf->inner_state, peer, kind, bytes, len_bytes);
}

/* ---------------------------------------------------------------- progress */

static void check_timers(shoali_lf_link *link)
{
    shoali_lf *lf = link->lf;
    if (link->failed && link->failed_us <= lf->now_us)
        shoali_lf_peer_fail(lf, link->peer, SHOAL_EPEER, link->failed_text);
    else if (!link->up && link->give_up_us <= lf->now_us)
        shoali_lf_peer_fail(lf, link->peer, SHOAL_ETIMEDOUT,
                            "its control connection stands, but nothing comes by the provider");
}

static uint64_t pump(shoali_lf *lf, uint32_t peer)
{
    shoali_lf_link *link = lf->peers[peer].link;
    if (link == NULL)
        return UINT64_MAX;
    shoali_lf_link_pump_in(link);
    if (!link->dead)
        shoali_lf_link_pump_out(link);
    if (!link->dead)
        check_timers(link);
    return link->dead ? UINT64_MAX : shoali_lf_link_wake_us(link);
}

static void lf_progress(void *state, uint64_t now_us)
{
    shoali_lf *lf = state;
    lf->now_us = now_us;
    shoali_lf_bell_clear(lf);
    read_completions(lf);
    lf->inner->progress(lf->inner_state, now_us);
    lf->more = false;
    lf->wake_us = UINT64_MAX;
    for (uint32_t peer = 0; peer < lf->args.size; peer++) {
        uint64_t wake_us = pump(lf, peer);
        lf->wake_us = wake_us < lf->wake_us ? wake_us : lf->wake_us;
    }
    shoali_lf_link_free_dead(lf, false);
    if (!lf->ofi->may_sleep(lf->endpoint))
        lf->more = true;
}

static uint64_t lf_next_wake_us(const void *state)
{
    const shoali_lf *lf = state;
    if (lf->more)
        return 0;
    uint64_t inner_us = lf->inner->next_wake_us(lf->inner_state);
    return inner_us < lf->wake_us ? inner_us : lf->wake_us;
}

static int lf_fd(const void *state)
{
    const shoali_lf *lf = state;
    return lf->epoll;
}

const shoali_transport_row shoali_transport_libfabric = {
    .name = "libfabric",
    .about = "data by a provider of libfabric (verbs, EFA, tcp, shm ...), control by tcp",
    .traits = SHOALI_TRANSPORT_STREAM | SHOALI_TRANSPORT_CONTROL,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(shoali_lf_params)},
    .state_size = sizeof(shoali_lf),
    .open = lf_open,
    .address = lf_address,
    .add_peer = lf_add_peer,
    .send = lf_send,
    .control = lf_control,
    .fd = lf_fd,
    .progress = lf_progress,
    .next_wake_us = lf_next_wake_us,
    .drop_peer = lf_drop_peer,
    .peer_stats = lf_peer_stats,
    .links = lf_links,
    .close = lf_close,
    .forked = lf_forked,
};
