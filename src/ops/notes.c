/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/notes.h"

#include "base/arena.h"
#include "base/error.h"
#include "ops/recent.h"

shoal_status shoali_notes_init(shoali_notes *notes, uint32_t size)
{
    *notes = (shoali_notes){.count_of = shoali_alloc_array(size, sizeof *notes->count_of)};
    return notes->count_of != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void free_list(shoali_note *note)
{
    while (note != NULL) {
        shoali_note *next = note->next;
        shoali_free(note);
        note = next;
    }
}

void shoali_notes_free(shoali_notes *notes)
{
    free_list(notes->first);
    free_list(notes->free);
    shoali_free(notes->count_of);
    *notes = (shoali_notes){0};
}

/* Out of the list, onto that of those to use again. */
static void take(shoali_notes *notes, shoali_note **link)
{
    shoali_note *note = *link;
    *link = note->next;
    notes->count_of[note->endpoint]--;
    note->next = notes->free;
    notes->free = note;
}

shoal_status shoali_notes_add(shoali_notes *notes, uint32_t endpoint, const shoali_ready *ready,
                              const shoali_abort *abort)
{
    shoali_note *note = notes->free;
    if (notes->count_of[endpoint] >= SHOALI_NOTES_PER_PEER)
        return shoali_fail(SHOAL_EPEER, "it runs more operations than this rank can remember");
    if (note != NULL)
        notes->free = note->next;
    else if ((note = shoali_alloc(sizeof *note)) == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory to remember what it sent");
    shoali_note **link = &notes->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = note;
    note->next = NULL;
    note->endpoint = endpoint;
    note->is_abort = abort != NULL;
    if (abort != NULL)
        note->abort = *abort;
    else
        note->ready = *ready;
    notes->count_of[endpoint]++;
    return SHOAL_OK;
}

bool shoali_notes_take_ready(shoali_notes *notes, shoali_note ***at, const shoali_wire_id *id,
                             uint32_t *endpoint_out, shoali_ready *ready_out)
{
    shoali_note **link = *at != NULL ? *at : &notes->first;
    while (*link != NULL && ((*link)->is_abort || !shoali_same_id(&(*link)->ready.id, id)))
        link = &(*link)->next;
    *at = link;
    if (*link == NULL)
        return false;
    *endpoint_out = (*link)->endpoint;
    *ready_out = (*link)->ready;
    take(notes, link);
    return true;
}

bool shoali_notes_take_abort(shoali_notes *notes, const shoali_wire_id *id, uint32_t *endpoint_out,
                             shoali_abort *abort_out)
{
    shoali_note **link = &notes->first;
    while (*link != NULL && !((*link)->is_abort && shoali_same_id(&(*link)->abort.id, id)))
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    *endpoint_out = (*link)->endpoint;
    *abort_out = (*link)->abort;
    take(notes, link);
    return true;
}

void shoali_notes_forget(shoali_notes *notes, uint32_t endpoint)
{
    for (shoali_note **link = &notes->first; *link != NULL;) {
        if ((*link)->endpoint == endpoint)
            take(notes, link);
        else
            link = &(*link)->next;
    }
}
