/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting in a shared file. PATH may be left over from an earlier job, so each job makes a nonce:
 *
 *   rank 0   writes CALL(nonce) to PATH; reads PATH.i of all others, until all answer the nonce
 *   rank i   reads CALL, writes ANSWER(nonce, record) to PATH.i
 *   rank 0   writes TABLE(nonce, all records) to PATH, or END(nonce, status and text)
 *   rank i   takes a TABLE or END only with the nonce that it answered; removes PATH.i
 *
 * A file is written beside its place and renamed there, so nobody reads half of it, and ends with
 * an HMAC under the job's token. On NFS a new file may stay unseen for as long as directories are
 * cached (30 s and more). */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "meet/stream.h"
#include "wire/bytes.h"

enum {
    POLL_MS = 10,
    FAREWELL_US = 2 * 1000 * 1000,
    MAGIC = 0x31544d53 /* "SMT1" */,
    NONCE_BYTES = 16,
    MAC_BYTES = 32,
    HEAD_BYTES = 12 + NONCE_BYTES
};
enum { CALL, ANSWER, TABLE, END };

typedef struct file_meeting {
    const shoali_meeting *meeting;
    const char *path;
    uint32_t size, rank;
    uint8_t nonce[NONCE_BYTES];
    bool called;    /* rank > 0: nonce is rank 0's */
    bool *in;       /* rank 0: by rank */
    uint8_t *bytes; /* of one file */
    size_t capacity, len_bytes;
    char strange[200]; /* why the last file was not believed */
} file_meeting;

static shoal_status mac_of(const file_meeting *f, size_t len_bytes, uint8_t mac_out[MAC_BYTES])
{
    const shoali_token *token = f->meeting->token;
    unsigned mac_bytes = 0;
    if (HMAC(EVP_sha256(), token->bytes, (int)token->len_bytes, f->bytes, len_bytes, mac_out,
             &mac_bytes) == NULL ||
        mac_bytes != MAC_BYTES)
        return shoali_fail(SHOAL_ESYSTEM, "libcrypto could not compute an HMAC");
    return SHOAL_OK;
}

static void path_of(const file_meeting *f, uint32_t rank, char *out, size_t out_bytes)
{
    if (rank == 0)
        snprintf(out, out_bytes, "%s", f->path);
    else
        snprintf(out, out_bytes, "%s.%u", f->path, rank);
}

/* Write what lies in bytes behind a head of this kind; body_bytes after the head are there
 * already. */
static shoal_status publish(file_meeting *f, uint32_t kind, size_t body_bytes)
{
    char path[SHOALI_RENDEZVOUS_BYTES + 16], fresh[SHOALI_RENDEZVOUS_BYTES + 48];
    path_of(f, f->rank, path, sizeof path);
    snprintf(fresh, sizeof fresh, "%s.%u.%llx", f->path, f->rank,
             (unsigned long long)f->meeting->mine->incarnation);
    shoali_put_u32(f->bytes, MAGIC);
    shoali_put_u32(f->bytes + 4, kind);
    shoali_put_u32(f->bytes + 8, (uint32_t)body_bytes);
    memcpy(f->bytes + 12, f->nonce, NONCE_BYTES);
    size_t length = HEAD_BYTES + body_bytes;
    SHOALI_TRY(mac_of(f, length, f->bytes + length));
    length += MAC_BYTES;
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot write the rendezvous file %s", fresh);
    ssize_t wrote = write(fd, f->bytes, length);
    int error = wrote < 0 ? errno : ENOSPC;
    if (close(fd) != 0 || wrote != (ssize_t)length || rename(fresh, path) != 0) {
        error = wrote == (ssize_t)length ? errno : error;
        unlink(fresh);
        return shoali_fail_os(SHOAL_EIO, error, "cannot write the rendezvous file %s", path);
    }
    return SHOAL_OK;
}

/* A whole file of rank's into bytes. False: not there, or not to be believed (then strange says
 * why). */
static bool fetch(file_meeting *f, uint32_t rank, uint32_t *kind_out, size_t *body_bytes_out)
{
    char path[SHOALI_RENDEZVOUS_BYTES + 16];
    struct stat about;
    uint8_t mac[MAC_BYTES];
    path_of(f, rank, path, sizeof path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            snprintf(f->strange, sizeof f->strange, "%.100s: %s", path, strerror(errno));
        return false;
    }
    bool known = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
    ssize_t got = known ? read(fd, f->bytes, f->capacity) : -1;
    close(fd);
    if (!known) {
        snprintf(f->strange, sizeof f->strange, "%.150s is not a file of this user", path);
        return false;
    }
    if (got < HEAD_BYTES + MAC_BYTES || shoali_get_u32(f->bytes) != MAGIC ||
        shoali_get_u32(f->bytes + 8) != (size_t)got - HEAD_BYTES - MAC_BYTES) {
        snprintf(f->strange, sizeof f->strange, "%.150s holds something else", path);
        return false;
    }
    *kind_out = shoali_get_u32(f->bytes + 4);
    *body_bytes_out = (size_t)got - HEAD_BYTES - MAC_BYTES;
    if (mac_of(f, (size_t)got - MAC_BYTES, mac) != SHOAL_OK ||
        CRYPTO_memcmp(mac, f->bytes + got - MAC_BYTES, MAC_BYTES) != 0) {
        snprintf(f->strange, sizeof f->strange, "%.150s was written with another token", path);
        return false;
    }
    return true;
}

static shoal_status missing(const file_meeting *f, const bool *in)
{
    const shoali_meeting *m = f->meeting;
    char who[160];
    uint64_t now_us = shoali_now_us();
    shoali_meet_missing(in, f->size, who, sizeof who);
    shoal_status status = shoali_fail(SHOAL_ETIMEDOUT,
                                      "%s of %u did not join within %.3g s; last seen: %s", who,
                                      f->size, (double)(m->deadline_us - m->started_us) * 1e-6,
                                      f->strange[0] != '\0' ? f->strange : "never");
    shoali_error_about(-1, NULL, "join", (int64_t)(now_us - m->started_us));
    shoali_error_advice("Look at the output of these ranks, and whether all see %.100s.", f->path);
    return status;
}

/* Rank 0: the answer of one rank. PENDING: not there yet. */
static shoal_status take_answer(file_meeting *f, uint32_t rank, shoali_record *record_out)
{
    uint32_t kind;
    size_t body_bytes;
    shoali_record record;
    if (!fetch(f, rank, &kind, &body_bytes) || kind != ANSWER ||
        memcmp(f->bytes + 12, f->nonce, NONCE_BYTES) != 0 ||
        !shoali_record_decode(f->bytes + HEAD_BYTES, body_bytes, &record))
        return SHOAL_PENDING;
    SHOALI_TRY(shoali_meet_agree(f->meeting->mine, &record));
    if (record.rank != rank)
        return SHOAL_PENDING;
    *record_out = record;
    return SHOAL_OK;
}

static shoal_status collect(file_meeting *f, shoali_record *records)
{
    for (;;) {
        uint32_t present = 1;
        for (uint32_t rank = 1; rank < f->size; rank++) {
            if (!f->in[rank]) {
                shoal_status status = take_answer(f, rank, &records[rank]);
                if (status != SHOAL_OK && status != SHOAL_PENDING)
                    return status;
                f->in[rank] = status == SHOAL_OK;
            }
            present += f->in[rank];
        }
        if (present == f->size)
            return SHOAL_OK;
        if (shoali_now_us() >= f->meeting->deadline_us)
            return missing(f, f->in);
        (void)poll(NULL, 0, POLL_MS);
    }
}

/* Two ranks disagree: give the others a moment to answer the call, for who has answered hears the
 * end. */
static void await_answers(file_meeting *f, shoali_record *records)
{
    const uint64_t until_us = shoali_now_us() + FAREWELL_US;
    const uint32_t awaited = f->meeting->refusal != NULL ? f->meeting->ranks : f->size;
    for (uint32_t present = 0; present < awaited && shoali_now_us() < until_us;) {
        present = 1;
        for (uint32_t rank = 1; rank < awaited; rank++) {
            f->in[rank] = f->in[rank] || take_answer(f, rank, &records[rank]) != SHOAL_PENDING;
            present += f->in[rank];
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

static shoal_status lead(file_meeting *f, shoali_record *records)
{
    SHOALI_TRY(shoali_random(f->nonce, sizeof f->nonce));
    SHOALI_TRY(publish(f, CALL, 0));
    records[0] = *f->meeting->mine;
    f->in[0] = true;
    const shoal_error *refusal = f->meeting->refusal;
    shoal_status status = refusal != NULL ? shoali_error_set(refusal) : collect(f, records);
    if (status == SHOAL_OK) {
        for (uint32_t rank = 0; rank < f->size; rank++)
            shoali_record_encode(&records[rank],
                                 f->bytes + HEAD_BYTES + (size_t)rank * SHOALI_RECORD_BYTES);
        return publish(f, TABLE, (size_t)f->size * SHOALI_RECORD_BYTES);
    }
    shoal_error why;
    shoali_error_get(&why);
    if (status != SHOAL_ETIMEDOUT || refusal != NULL)
        await_answers(f, records);
    shoali_abort end = {.status = (uint32_t)status,
                        .culprit = why.rank >= 0 ? (uint32_t)why.rank : SHOALI_NOBODY};
    snprintf(end.text, sizeof end.text, "%.380s", why.text);
    (void)publish(f, END, shoali_abort_encode(&end, f->bytes + HEAD_BYTES));
    return shoali_error_set(&why);
}

static shoal_status take_table(file_meeting *f, size_t body_bytes, shoali_record *records)
{
    const uint8_t *at = f->bytes + HEAD_BYTES;
    if (body_bytes != (size_t)f->size * SHOALI_RECORD_BYTES)
        return shoali_fail(SHOAL_ECORRUPT, "the table in %s has the wrong length", f->path);
    for (uint32_t rank = 0; rank < f->size; rank++, at += SHOALI_RECORD_BYTES) {
        if (!shoali_record_decode(at, SHOALI_RECORD_BYTES, &records[rank]) ||
            records[rank].rank != rank)
            return shoali_fail(SHOAL_ECORRUPT, "the table in %s is unreadable", f->path);
        SHOALI_TRY(shoali_meet_agree(&records[rank], f->meeting->mine));
    }
    if (records[f->rank].incarnation != f->meeting->mine->incarnation)
        return shoali_fail(SHOAL_EINVAL, "another process is rank %u of this job", f->rank);
    return SHOAL_OK;
}

/* Rank i: what rank 0 has written. PENDING: go on. */
static shoal_status follow_once(file_meeting *f, shoali_record *records)
{
    uint32_t kind;
    size_t body_bytes;
    shoali_abort end;
    if (!fetch(f, 0, &kind, &body_bytes))
        return SHOAL_PENDING;
    bool known = f->called && memcmp(f->bytes + 12, f->nonce, NONCE_BYTES) == 0;
    if (kind == CALL && !known) {
        f->called = true;
        memcpy(f->nonce, f->bytes + 12, NONCE_BYTES);
        SHOALI_TRY(
            publish(f, ANSWER, shoali_record_encode(f->meeting->mine, f->bytes + HEAD_BYTES)));
    } else if (kind == TABLE && known) {
        return take_table(f, body_bytes, records);
    } else if (kind == END && known &&
               shoali_abort_decode(f->bytes + HEAD_BYTES, body_bytes, &end)) {
        shoal_status status = shoali_fail((shoal_status)end.status, "%s", end.text);
        shoali_error_about(end.culprit == SHOALI_NOBODY ? -1 : (int32_t)end.culprit, NULL, "join",
                           (int64_t)(shoali_now_us() - f->meeting->started_us));
        return status;
    }
    return SHOAL_PENDING;
}

static shoal_status follow(file_meeting *f, shoali_record *records)
{
    for (;;) {
        shoal_status status = follow_once(f, records);
        if (status != SHOAL_PENDING)
            return status;
        SHOALI_TRY(shoali_meet_cancelled(f->meeting->cancel));
        /* rank 0 knows best who is missing, and says so at its own deadline */
        if (shoali_now_us() >= f->meeting->deadline_us + (f->called ? SHOALI_MEET_VERDICT_US : 0))
            break;
        (void)poll(NULL, 0, POLL_MS);
    }
    /* who has answered a call can be seen */
    f->in[0] = f->called;
    for (uint32_t rank = 1; rank < f->size; rank++) {
        char path[SHOALI_RENDEZVOUS_BYTES + 16];
        path_of(f, rank, path, sizeof path);
        f->in[rank] = !f->called || rank == f->rank || access(path, F_OK) == 0;
    }
    return missing(f, f->in);
}

shoal_status shoali_meet_in_file(const shoali_meeting *meeting, const char *path,
                                 shoali_record *records_out)
{
    const shoali_record *mine = meeting->mine;
    file_meeting f = {
        .meeting = meeting, .path = path, .size = mine->world_size, .rank = mine->rank};
    f.capacity = HEAD_BYTES + (size_t)f.size * SHOALI_RECORD_BYTES + MAC_BYTES +
                 1; /* + 1: longer ones show */
    f.bytes = shoali_alloc(f.capacity);
    f.in = shoali_alloc_array(f.size, sizeof *f.in);
    shoal_status status = SHOAL_ENOMEM;
    if (f.bytes != NULL && f.in != NULL)
        status = f.rank == 0 ? lead(&f, records_out) : follow(&f, records_out);
    if (f.rank > 0 && f.called) {
        char own[SHOALI_RENDEZVOUS_BYTES + 16];
        path_of(&f, f.rank, own, sizeof own);
        unlink(own);
    }
    shoali_free(f.bytes);
    shoali_free(f.in);
    return status;
}
