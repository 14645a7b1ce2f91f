/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/handshake.h"

#include <openssl/crypto.h>
#include <string.h>

#include "base/error.h"

static void put_out(shoali_handshake *h, const void *bytes, size_t len_bytes)
{
    memcpy(h->out + h->out_len, bytes, len_bytes);
    h->out_len += len_bytes;
}

static void send_hello(shoali_handshake *h)
{
    shoali_hello_encode(&h->self, h->hello_sent);
    put_out(h, h->hello_sent, sizeof h->hello_sent);
}

void shoali_handshake_start(shoali_handshake *h, bool dialler, const shoali_hello *self,
                            const uint8_t *token, size_t token_bytes)
{
    *h = (shoali_handshake){.self = *self,
                            .dialler = dialler,
                            .token = token,
                            .token_bytes = token_bytes,
                            .in_want = SHOALI_PREFIX_BYTES};
    if (dialler)
        send_hello(h);
}

size_t shoali_handshake_want(const shoali_handshake *h)
{
    return h->in_want - h->in_len;
}

void shoali_handshake_refuse(shoali_handshake *h, shoal_status status, const char *text)
{
    shoali_refusal_encode(status, text, h->out);
    h->out_len = SHOALI_REFUSAL_BYTES;
}

/* Both ends learn of a failed check: this one by the last error, the other by text. */
static shoal_status refuse(shoali_handshake *h, shoal_status status, const char *text)
{
    shoali_handshake_refuse(h, status, text);
    return status;
}

static shoal_status mac(const shoali_handshake *h, bool from_dialler,
                        uint8_t mac_out[SHOALI_MAC_BYTES])
{
    const uint8_t *dialler = h->dialler ? h->hello_sent : h->hello_got;
    const uint8_t *listener = h->dialler ? h->hello_got : h->hello_sent;
    return shoali_proof(h->token, h->token_bytes, from_dialler, dialler, listener, mac_out);
}

static shoal_status send_proof(shoali_handshake *h)
{
    uint8_t own[SHOALI_MAC_BYTES], message[SHOALI_PROOF_BYTES];
    SHOALI_TRY(mac(h, h->dialler, own));
    shoali_proof_encode(own, message);
    put_out(h, message, sizeof message);
    return SHOAL_OK;
}

/* Whether this is a later epoch, "NAME#3", of the caller's job. */
static bool is_later_epoch(const char *own, const char *callers)
{
    const size_t length = strlen(callers);
    return strncmp(own, callers, length) == 0 && own[length] == '#';
}

static shoal_status check_job(shoali_handshake *h)
{
    if (strcmp(h->peer.job, h->self.job) == 0)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_EAUTH, "a process of job '%.64s' called, this is job '%.64s'",
                      h->peer.job, h->self.job);
    if (h->dialler || !is_later_epoch(h->self.job, h->peer.job))
        return refuse(h, SHOAL_EAUTH, "this endpoint belongs to another job");
    shoali_handshake_refuse(h, SHOAL_EEPOCH, "the job runs already, and its members change now");
    return SHOAL_EAUTH;
}

static shoal_status check_hello(shoali_handshake *h)
{
    if ((h->peer.features & ~(uint32_t)SHOALI_HELLO_FEATURES) != 0) {
        (void)shoali_fail(SHOAL_EVERSION, "endpoint %u needs features %#x, this build knows %#x",
                          h->peer.endpoint, h->peer.features, SHOALI_HELLO_FEATURES);
        return refuse(h, SHOAL_EVERSION,
                      "needs a feature that this build lacks: run the same version everywhere");
    }
    SHOALI_TRY(check_job(h));
    if (h->peer.target != h->self.endpoint || (h->dialler && h->peer.endpoint != h->self.target)) {
        (void)shoali_fail(SHOAL_EAUTH, "endpoint %u called for endpoint %u, this is endpoint %u",
                          h->peer.endpoint, h->peer.target, h->self.endpoint);
        return refuse(h, SHOAL_EAUTH, "another endpoint lives at this address");
    }
    return SHOAL_OK;
}

static shoal_status on_hello(shoali_handshake *h)
{
    memcpy(h->hello_got, h->in, sizeof h->hello_got);
    SHOALI_TRY(shoali_hello_decode(h->in, &h->peer));
    h->greeted = true;
    SHOALI_TRY(check_hello(h));
    if (h->dialler)
        return SHOAL_PENDING;
    h->self.target = h->peer.endpoint;
    h->self.purpose = h->peer.purpose;
    h->self.tos = h->peer.tos;
    h->self.lane = h->peer.lane;
    send_hello(h);
    SHOALI_TRY(send_proof(h));
    return SHOAL_PENDING;
}

static shoal_status on_proof(shoali_handshake *h)
{
    uint8_t expected[SHOALI_MAC_BYTES];
    SHOALI_TRY(mac(h, !h->dialler, expected));
    if (CRYPTO_memcmp(expected, h->in + SHOALI_PREFIX_BYTES, sizeof expected) != 0) {
        (void)shoali_fail(SHOAL_EAUTH, "endpoint %u does not hold the token of job '%.64s'",
                          h->peer.endpoint, h->self.job);
        shoali_error_advice("Give every process of the job the same token (SHOAL_TOKEN_FILE).");
        return refuse(h, SHOAL_EAUTH, "wrong token");
    }
    if (h->dialler)
        SHOALI_TRY(send_proof(h));
    h->done = true;
    return SHOAL_OK;
}

static shoal_status on_refusal(const shoali_handshake *h)
{
    char text[SHOALI_REFUSAL_TEXT_BYTES];
    shoal_status status = shoali_refusal_decode(h->in, text);
    if (h->dialler)
        return shoali_fail(status, "endpoint %u refused this one: %s", h->self.target, text);
    return shoali_fail(status, "a caller refused this endpoint: %s", text);
}

static shoal_status on_prefix(shoali_handshake *h)
{
    shoal_status status = shoali_prefix_decode(h->in, &h->in_type, &h->in_want);
    if (status == SHOAL_EVERSION)
        return refuse(h, status,
                      "speaks another protocol version: run the same version of Shoal everywhere");
    SHOALI_TRY(status);
    shoali_hello_type expected = h->greeted ? SHOALI_TYPE_PROOF : SHOALI_TYPE_HELLO;
    if (h->in_type != expected && h->in_type != SHOALI_TYPE_REFUSAL)
        return shoali_fail(SHOAL_ECORRUPT, "opening message %d out of turn", (int)h->in_type);
    return SHOAL_PENDING;
}

static shoal_status on_message(shoali_handshake *h)
{
    h->in_len = 0;
    h->in_want = SHOALI_PREFIX_BYTES;
    switch (h->in_type) {
    case SHOALI_TYPE_HELLO:
        return on_hello(h);
    case SHOALI_TYPE_PROOF:
        return on_proof(h);
    default:
        return on_refusal(h);
    }
}

shoal_status shoali_handshake_feed(shoali_handshake *h, const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes > shoali_handshake_want(h) || h->done)
        return shoali_fail(SHOAL_EINTERNAL, "more bytes than the handshake asked for");
    memcpy(h->in + h->in_len, bytes, len_bytes);
    h->in_len += len_bytes;
    if (h->in_len < h->in_want)
        return SHOAL_PENDING;
    return h->in_want == SHOALI_PREFIX_BYTES ? on_prefix(h) : on_message(h);
}
