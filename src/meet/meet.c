/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/meet.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static shoal_status differ(shoal_status status, const shoali_record *a, const shoali_record *b,
                           const char *what, uint64_t of_a, uint64_t of_b)
{
    status = shoali_fail(status, "rank %u (host %s) has %s %llu, rank %u (host %s) has %llu",
                         b->rank, b->host, what, (unsigned long long)of_b, a->rank, a->host,
                         (unsigned long long)of_a);
    shoali_error_about((int32_t)b->rank, b->host, "join", -1);
    return status;
}

shoal_status shoali_meet_agree(const shoali_record *a, const shoali_record *b)
{
    if (a->wire_version != b->wire_version || a->features != b->features) {
        shoal_status status = shoali_fail(
            SHOAL_EVERSION,
            "rank %u (host %s) runs Shoal %s (wire version %u, %s kinds), rank %u (host %s) "
            "Shoal %s (wire version %u)",
            b->rank, b->host, b->software, b->wire_version,
            a->features == b->features ? "the same" : "other", a->rank, a->host, a->software,
            a->wire_version);
        shoali_error_about((int32_t)b->rank, b->host, "join", -1);
        shoali_error_advice("Run the same version of Shoal on every rank.");
        return status;
    }
    if (a->world_size != b->world_size)
        return differ(SHOAL_EMISMATCH, a, b, "world size", a->world_size, b->world_size);
    if (a->workers != b->workers)
        return differ(SHOAL_EMISMATCH, a, b, "workers", a->workers, b->workers);
    if (a->seed != b->seed)
        return differ(SHOAL_EMISMATCH, a, b, "seed", a->seed, b->seed);
    if (a->chunk_elems != b->chunk_elems)
        return differ(SHOAL_EMISMATCH, a, b, "chunk_elems", a->chunk_elems, b->chunk_elems);
    if (strcmp(a->job, b->job) != 0)
        return shoali_fail(SHOAL_EMISMATCH,
                           "rank %u (host %s) belongs to job '%s', rank %u (host %s) to '%s'",
                           b->rank, b->host, b->job, a->rank, a->host, a->job);
    return SHOAL_OK;
}

shoal_status shoali_meet_cancelled(const atomic_bool *cancel)
{
    if (cancel == NULL || !atomic_load(cancel))
        return SHOAL_OK;
    return shoali_fail(SHOAL_ECANCELLED, "the join was given up");
}

bool shoali_meet_parse(const char *place, char *host_out, size_t host_bytes, char *port_out,
                       size_t port_bytes)
{
    if (strncmp(place, "tcp://", 6) != 0)
        return false;
    const char *host = place + 6, *colon = strrchr(host, ':');
    if (colon == NULL)
        return false;
    size_t length = (size_t)(colon - host);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length) != NULL) {
        return false; /* which of the colons starts the port? */
    }
    size_t digits = strspn(colon + 1, "0123456789");
    if (length == 0 || length >= host_bytes || digits == 0 || digits > 5 || digits >= port_bytes ||
        colon[1 + digits] != '\0')
        return false;
    memcpy(host_out, host, length);
    host_out[length] = '\0';
    memcpy(port_out, colon + 1, digits + 1);
    return true;
}

uint32_t shoali_meet_missing(const bool *in, uint32_t size, char *text_out, size_t text_bytes)
{
    enum { NAMED = 8 };
    uint32_t missing = 0, named = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        missing += !in[rank];
    size_t used = (size_t)snprintf(text_out, text_bytes, missing == 1 ? "rank" : "ranks");
    for (uint32_t rank = 0; rank < size && named < NAMED && used < text_bytes; rank++)
        if (!in[rank])
            used += (size_t)snprintf(text_out + used, text_bytes - used,
                                     named++ == 0 ? " %u" : ", %u", rank);
    if (missing > NAMED && used < text_bytes)
        snprintf(text_out + used, text_bytes - used, " and %u more", missing - NAMED);
    return missing;
}

shoal_status shoali_meet(const shoali_meeting *meeting, shoali_record *records_out)
{
    char host[256], port[8];
    if (strncmp(meeting->place, "file://", 7) == 0 && meeting->place[7] == '/')
        return shoali_meet_in_file(meeting, meeting->place + 7, records_out);
    if (!shoali_meet_parse(meeting->place, host, sizeof host, port, sizeof port)) {
        shoal_status status = shoali_fail(SHOAL_EINVAL, "'%.200s' is no meeting point",
                                          meeting->place);
        shoali_error_advice("Give tcp://HOST:PORT of rank 0's host, or file:///SHARED/PATH.");
        return status;
    }
    return meeting->mine->rank == 0 ? shoali_meet_serve(meeting, records_out)
                                    : shoali_meet_visit(meeting, records_out);
}
