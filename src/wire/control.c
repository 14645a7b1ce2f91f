/* SPDX-License-Identifier: Apache-2.0 */
/* Every body has one length, so a decoder checks that first and then walks a cursor that cannot
 * leave it. */
#include "wire/control.h"

#include <string.h>

#include "base/printable.h"
#include "wire/bytes.h"

static void put_u32(uint8_t **at, uint32_t value)
{
    shoali_put_u32(*at, value);
    *at += 4;
}

static void put_u64(uint8_t **at, uint64_t value)
{
    shoali_put_u64(*at, value);
    *at += 8;
}

/* size is the field's; the last byte stays 0. */
static void put_text(uint8_t **at, const char *text, size_t size)
{
    size_t length = strnlen(text, size - 1);
    memcpy(*at, text, length);
    memset(*at + length, 0, size - length);
    *at += size;
}

static void put_id(uint8_t **at, const shoali_wire_id *id)
{
    put_u64(at, id->group);
    put_u64(at, id->sequence);
    put_u32(at, id->round);
    put_u32(at, 0);
}

static uint32_t get_u32(const uint8_t **at)
{
    uint32_t value = shoali_get_u32(*at);
    *at += 4;
    return value;
}

static uint64_t get_u64(const uint8_t **at)
{
    uint64_t value = shoali_get_u64(*at);
    *at += 8;
    return value;
}

/* Texts come from others and go to terminals: no escape sequences, no line breaks. */
static void get_text(const uint8_t **at, char *text_out, size_t size)
{
    memcpy(text_out, *at, size);
    text_out[size - 1] = '\0';
    shoali_make_printable(text_out);
    *at += size;
}

static bool get_id(const uint8_t **at, shoali_wire_id *id_out)
{
    id_out->group = get_u64(at);
    id_out->sequence = get_u64(at);
    id_out->round = get_u32(at);
    return get_u32(at) == 0;
}

static void put_float(uint8_t **at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u32(at, bits);
}

static float get_float(const uint8_t **at)
{
    const uint32_t bits = get_u32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_progress(uint8_t **at, const shoali_progress *progress)
{
    put_u64(at, progress->step);
    put_u32(at, progress->epoch);
    put_float(at, progress->loss);
    put_float(at, progress->accuracy);
}

static void get_progress(const uint8_t **at, shoali_progress *progress_out)
{
    progress_out->step = get_u64(at);
    progress_out->epoch = get_u32(at);
    progress_out->loss = get_float(at);
    progress_out->accuracy = get_float(at);
}

size_t shoali_ready_encode(const shoali_ready *message, uint8_t out[SHOALI_READY_BYTES])
{
    uint8_t *at = out;
    put_id(&at, &message->id);
    put_u64(&at, message->epoch);
    put_u64(&at, message->count);
    put_u64(&at, message->hash);
    put_u32(&at, message->dtype);
    put_u32(&at, message->slot);
    put_text(&at, message->text, sizeof message->text);
    return SHOALI_READY_BYTES;
}

bool shoali_ready_decode(const uint8_t *bytes, size_t len_bytes, shoali_ready *message_out)
{
    if (len_bytes != SHOALI_READY_BYTES || !get_id(&bytes, &message_out->id))
        return false;
    message_out->epoch = get_u64(&bytes);
    message_out->count = get_u64(&bytes);
    message_out->hash = get_u64(&bytes);
    message_out->dtype = get_u32(&bytes);
    message_out->slot = get_u32(&bytes);
    get_text(&bytes, message_out->text, sizeof message_out->text);
    return true;
}

size_t shoali_abort_encode(const shoali_abort *message, uint8_t out[SHOALI_ABORT_BYTES])
{
    uint8_t *at = out;
    put_id(&at, &message->id);
    put_u32(&at, message->status);
    put_u32(&at, message->culprit);
    put_text(&at, message->text, sizeof message->text);
    return SHOALI_ABORT_BYTES;
}

bool shoali_abort_decode(const uint8_t *bytes, size_t len_bytes, shoali_abort *message_out)
{
    if (len_bytes != SHOALI_ABORT_BYTES || !get_id(&bytes, &message_out->id))
        return false;
    message_out->status = get_u32(&bytes);
    message_out->culprit = get_u32(&bytes);
    get_text(&bytes, message_out->text, sizeof message_out->text);
    return message_out->status >= 10 && message_out->status < 100;
}

size_t shoali_ask_encode(const shoali_ask *message, uint8_t out[SHOALI_ASK_BYTES])
{
    put_id(&out, message);
    return SHOALI_ASK_BYTES;
}

bool shoali_ask_decode(const uint8_t *bytes, size_t len_bytes, shoali_ask *message_out)
{
    return len_bytes == SHOALI_ASK_BYTES && get_id(&bytes, message_out);
}

size_t shoali_answer_encode(const shoali_answer *message, uint8_t out[SHOALI_ANSWER_BYTES])
{
    uint8_t *at = out;
    put_id(&at, &message->id);
    put_u32(&at, message->state);
    put_u64(&at, message->since_us);
    return SHOALI_ANSWER_BYTES;
}

bool shoali_answer_decode(const uint8_t *bytes, size_t len_bytes, shoali_answer *message_out)
{
    if (len_bytes != SHOALI_ANSWER_BYTES || !get_id(&bytes, &message_out->id))
        return false;
    message_out->state = get_u32(&bytes);
    message_out->since_us = get_u64(&bytes);
    return message_out->state < SHOALI_ANSWER_STATES;
}

size_t shoali_heartbeat_encode(const shoali_heartbeat *message, uint8_t out[SHOALI_HEARTBEAT_BYTES])
{
    uint8_t *at = out;
    put_u32(&at, message->busy);
    put_u64(&at, message->for_us);
    put_text(&at, message->text, sizeof message->text);
    put_u64(&at, message->ended);
    put_u64(&at, message->idle_us);
    put_u64(&at, message->sends_bytes_s);
    put_u64(&at, message->receives_bytes_s);
    put_u64(&at, message->to_you_bytes_s);
    for (int i = 0; i < SHOALI_FARES; i++)
        put_u64(&at, message->fares[i]);
    put_progress(&at, &message->progress);
    return SHOALI_HEARTBEAT_BYTES;
}

bool shoali_heartbeat_decode(const uint8_t *bytes, size_t len_bytes, shoali_heartbeat *message_out)
{
    if (len_bytes != SHOALI_HEARTBEAT_BYTES)
        return false;
    message_out->busy = get_u32(&bytes);
    message_out->for_us = get_u64(&bytes);
    get_text(&bytes, message_out->text, sizeof message_out->text);
    message_out->ended = get_u64(&bytes);
    message_out->idle_us = get_u64(&bytes);
    message_out->sends_bytes_s = get_u64(&bytes);
    message_out->receives_bytes_s = get_u64(&bytes);
    message_out->to_you_bytes_s = get_u64(&bytes);
    for (int i = 0; i < SHOALI_FARES; i++)
        message_out->fares[i] = get_u64(&bytes);
    get_progress(&bytes, &message_out->progress);
    return message_out->busy <= 1;
}

size_t shoali_flow_head_encode(const shoali_flow_head *message, uint8_t out[SHOALI_FLOW_HEAD_BYTES])
{
    uint8_t *at = out;
    put_id(&at, &message->id);
    shoali_put_u16(at, message->kind);
    return SHOALI_FLOW_HEAD_BYTES;
}

bool shoali_flow_head_decode(const uint8_t *bytes, size_t len_bytes, shoali_flow_head *message_out)
{
    if (len_bytes < SHOALI_FLOW_HEAD_BYTES || !get_id(&bytes, &message_out->id))
        return false;
    message_out->kind = shoali_get_u16(bytes);
    return true;
}

size_t shoali_datagram_encode(const shoali_datagram_place *message,
                              uint8_t out[SHOALI_DATAGRAM_BYTES])
{
    uint8_t *at = out;
    put_u32(&at, message->port);
    put_u32(&at, message->len_bytes);
    put_text(&at, message->ip, sizeof message->ip);
    return SHOALI_DATAGRAM_BYTES;
}

bool shoali_datagram_decode(const uint8_t *bytes, size_t len_bytes,
                            shoali_datagram_place *message_out)
{
    if (len_bytes != SHOALI_DATAGRAM_BYTES)
        return false;
    const uint32_t port = get_u32(&bytes);
    message_out->port = (uint16_t)port;
    message_out->len_bytes = get_u32(&bytes);
    get_text(&bytes, message_out->ip, sizeof message_out->ip);
    return port > 0 && port <= UINT16_MAX;
}

size_t shoali_serve_encode(const shoali_serve *message, uint8_t out[SHOALI_SERVE_BYTES])
{
    uint8_t *at = out;
    put_id(&at, &message->id);
    put_u64(&at, message->count);
    put_u64(&at, message->hash);
    put_u64(&at, message->timeout_us);
    put_u32(&at, message->contributors);
    put_u32(&at, message->member_count);
    put_text(&at, message->collective, sizeof message->collective);
    return SHOALI_SERVE_BYTES;
}

bool shoali_serve_decode(const uint8_t *bytes, size_t len_bytes, shoali_serve *message_out)
{
    if (len_bytes < SHOALI_SERVE_BYTES || !get_id(&bytes, &message_out->id))
        return false;
    message_out->count = get_u64(&bytes);
    message_out->hash = get_u64(&bytes);
    message_out->timeout_us = get_u64(&bytes);
    message_out->contributors = get_u32(&bytes);
    message_out->member_count = get_u32(&bytes);
    get_text(&bytes, message_out->collective, sizeof message_out->collective);
    const size_t list_bytes = len_bytes - SHOALI_SERVE_BYTES;
    return message_out->contributors >= 1 &&
           message_out->contributors < message_out->member_count &&
           (list_bytes == 0 || list_bytes == (size_t)message_out->member_count * 4);
}

size_t shoali_invite_encode(const shoali_invite *message, uint8_t out[SHOALI_INVITE_BYTES])
{
    uint8_t *at = out;
    put_u32(&at, message->ranks);
    put_u32(&at, message->workers);
    put_u32(&at, message->aggregators);
    put_u32(&at, message->index);
    put_u32(&at, message->chunk_elems);
    put_u64(&at, message->seed);
    put_u64(&at, message->join_timeout_us);
    put_u64(&at, message->peer_timeout_us);
    put_text(&at, message->job, sizeof message->job);
    put_text(&at, message->place, sizeof message->place);
    put_text(&at, message->transport, sizeof message->transport);
    return SHOALI_INVITE_BYTES;
}

bool shoali_invite_decode(const uint8_t *bytes, size_t len_bytes, shoali_invite *message_out)
{
    if (len_bytes != SHOALI_INVITE_BYTES)
        return false;
    message_out->ranks = get_u32(&bytes);
    message_out->workers = get_u32(&bytes);
    message_out->aggregators = get_u32(&bytes);
    message_out->index = get_u32(&bytes);
    message_out->chunk_elems = get_u32(&bytes);
    message_out->seed = get_u64(&bytes);
    message_out->join_timeout_us = get_u64(&bytes);
    message_out->peer_timeout_us = get_u64(&bytes);
    get_text(&bytes, message_out->job, sizeof message_out->job);
    get_text(&bytes, message_out->place, sizeof message_out->place);
    get_text(&bytes, message_out->transport, sizeof message_out->transport);
    return message_out->workers >= 1 && message_out->workers <= message_out->ranks &&
           message_out->index < message_out->aggregators && message_out->ranks <= 1u << 20 &&
           message_out->aggregators <= 1u << 12;
}

size_t shoali_record_encode(const shoali_record *message, uint8_t out[SHOALI_RECORD_BYTES])
{
    uint8_t *at = out;
    put_u32(&at, message->wire_version);
    put_u32(&at, message->rank);
    put_u32(&at, message->world_size);
    put_u32(&at, message->workers);
    put_u32(&at, message->chunk_elems);
    put_u64(&at, message->features);
    put_u64(&at, message->seed);
    put_u64(&at, message->incarnation);
    put_text(&at, message->software, sizeof message->software);
    put_text(&at, message->job, sizeof message->job);
    put_text(&at, message->host, sizeof message->host);
    put_text(&at, message->address, sizeof message->address);
    put_text(&at, message->near_address, sizeof message->near_address);
    return SHOALI_RECORD_BYTES;
}

bool shoali_record_decode(const uint8_t *bytes, size_t len_bytes, shoali_record *message_out)
{
    if (len_bytes != SHOALI_RECORD_BYTES)
        return false;
    message_out->wire_version = get_u32(&bytes);
    message_out->rank = get_u32(&bytes);
    message_out->world_size = get_u32(&bytes);
    message_out->workers = get_u32(&bytes);
    message_out->chunk_elems = get_u32(&bytes);
    message_out->features = get_u64(&bytes);
    message_out->seed = get_u64(&bytes);
    message_out->incarnation = get_u64(&bytes);
    get_text(&bytes, message_out->software, sizeof message_out->software);
    get_text(&bytes, message_out->job, sizeof message_out->job);
    get_text(&bytes, message_out->host, sizeof message_out->host);
    get_text(&bytes, message_out->address, sizeof message_out->address);
    get_text(&bytes, message_out->near_address, sizeof message_out->near_address);
    return message_out->world_size >= 1 && message_out->rank < message_out->world_size &&
           message_out->workers >= 1 && message_out->workers <= message_out->world_size;
}

/* ---------------------------------------------------------------- the status socket */

static const uint8_t status_magic[4] = {'S', 'H', 'S', 'T'};

size_t shoali_status_ask_encode(uint8_t out[SHOALI_STATUS_ASK_BYTES])
{
    memcpy(out, status_magic, sizeof status_magic);
    shoali_put_u32(out + 4, SHOALI_STATUS_VERSION);
    return SHOALI_STATUS_ASK_BYTES;
}

bool shoali_status_ask_decode(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes == SHOALI_STATUS_ASK_BYTES &&
           memcmp(bytes, status_magic, sizeof status_magic) == 0 &&
           shoali_get_u32(bytes + 4) == SHOALI_STATUS_VERSION;
}

size_t shoali_status_head_encode(const shoali_status_head *head,
                                 uint8_t out[SHOALI_STATUS_HEAD_BYTES])
{
    uint8_t *at = out + shoali_status_ask_encode(out);
    put_u32(&at, head->rank);
    put_u32(&at, head->ranks);
    put_u64(&at, head->epoch);
    put_u64(&at, head->age_us);
    put_text(&at, head->job, sizeof head->job);
    return SHOALI_STATUS_HEAD_BYTES;
}

bool shoali_status_head_decode(const uint8_t *bytes, size_t len_bytes, shoali_status_head *head_out)
{
    if (len_bytes != SHOALI_STATUS_HEAD_BYTES ||
        !shoali_status_ask_decode(bytes, SHOALI_STATUS_ASK_BYTES))
        return false;
    bytes += SHOALI_STATUS_ASK_BYTES;
    head_out->rank = get_u32(&bytes);
    head_out->ranks = get_u32(&bytes);
    head_out->epoch = get_u64(&bytes);
    head_out->age_us = get_u64(&bytes);
    get_text(&bytes, head_out->job, sizeof head_out->job);
    return head_out->ranks > 0 && head_out->ranks <= SHOALI_STATUS_MAX_RANKS &&
           head_out->rank < head_out->ranks;
}

size_t shoali_status_row_encode(const shoali_status_row *row, uint8_t out[SHOALI_STATUS_ROW_BYTES])
{
    uint8_t *at = out;
    put_u32(&at, row->state);
    put_u32(&at, row->cause);
    put_u32(&at, row->busy);
    put_u32(&at, row->last_permille);
    put_u64(&at, row->for_us);
    put_u64(&at, row->last_seen_us);
    put_u64(&at, row->ended);
    put_u64(&at, row->compute_us);
    put_u64(&at, row->caused_us);
    put_u64(&at, row->slow_for_us);
    put_u64(&at, row->sends_bytes_s);
    put_u64(&at, row->receives_bytes_s);
    put_text(&at, row->host, sizeof row->host);
    put_text(&at, row->text, sizeof row->text);
    put_u64(&at, row->data_us);
    put_u64(&at, row->disk_us);
    put_u64(&at, row->paused_us);
    put_u64(&at, row->samples_milli);
    put_progress(&at, &row->progress);
    return SHOALI_STATUS_ROW_BYTES;
}

bool shoali_status_row_decode(const uint8_t *bytes, size_t len_bytes, shoali_status_row *row_out)
{
    if (len_bytes != SHOALI_STATUS_ROW_BYTES)
        return false;
    row_out->state = get_u32(&bytes);
    row_out->cause = get_u32(&bytes);
    row_out->busy = get_u32(&bytes);
    row_out->last_permille = get_u32(&bytes);
    row_out->for_us = get_u64(&bytes);
    row_out->last_seen_us = get_u64(&bytes);
    row_out->ended = get_u64(&bytes);
    row_out->compute_us = get_u64(&bytes);
    row_out->caused_us = get_u64(&bytes);
    row_out->slow_for_us = get_u64(&bytes);
    row_out->sends_bytes_s = get_u64(&bytes);
    row_out->receives_bytes_s = get_u64(&bytes);
    get_text(&bytes, row_out->host, sizeof row_out->host);
    get_text(&bytes, row_out->text, sizeof row_out->text);
    row_out->data_us = get_u64(&bytes);
    row_out->disk_us = get_u64(&bytes);
    row_out->paused_us = get_u64(&bytes);
    row_out->samples_milli = get_u64(&bytes);
    get_progress(&bytes, &row_out->progress);
    return row_out->state < SHOALI_RANK_STATES && row_out->cause < SHOALI_STATUS_CAUSES &&
           row_out->busy <= 1 && row_out->last_permille <= 1000;
}
