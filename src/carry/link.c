/* SPDX-License-Identifier: Apache-2.0 */
/* The transports of a communicator: one that carries control frames and reaches everyone, and
 * beside it one for the data of ranks on the same host. A peer may send by either: data is told
 * apart by slots alone. */
#include "carry/link.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "meet/meet.h"
#include "transport/iface.h"

enum { NEAR_MOST = 32 /* members that all share memory with each other */ };

static const char near_name[] = "shm"; /* and the key of the control transport that refuses it */

static uint64_t clock_us(void *ctx)
{
    (void)ctx;
    return shoali_now_us();
}

/* ------------------------------------------------------------------ opening */

void shoali_links_init(shoali_transports *links, shoal_comm *comm)
{
    links->control.comm = links->near.comm = comm;
}

static shoal_status watch(shoal_comm *comm, const shoali_link *link)
{
    int fd = link->row->fd(link->state);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && epoll_ctl(comm->loop.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return shoali_fail(SHOAL_ESYSTEM, "cannot watch the transport %s", link->row->name);
    return SHOAL_OK;
}

/* For tests: something that does harm in front of the transport. */
static shoal_status put_fault_before(shoali_link *link, const char *spec)
{
    const shoali_transport_row *row = &shoali_transport_fault;
    link->fault = shoali_alloc(sizeof *link->fault);
    if (link->fault == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_spec_parse("fault", spec, &row->schema, link->fault));
    link->fault->inner = link->kind;
    link->fault->inner_params = link->params;
    link->row = row;
    return SHOAL_OK;
}

static shoal_status open_link(shoali_link *link, const char *spec, const char *fault,
                              const shoali_transport_args *args,
                              const shoali_transport_events *events)
{
    shoali_transport_args own = *args;
    shoali_transport_events ours = *events;
    ours.ctx = link;
    link->row = link->kind;
    link->params = shoali_alloc(link->kind->schema.params_size);
    if (link->params == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_spec_parse("transport", spec, &link->kind->schema, link->params));
    if (fault != NULL && fault[0] != '\0')
        SHOALI_TRY(put_fault_before(link, fault));
    link->state = shoali_alloc(link->row->state_size);
    if (link->state == NULL)
        return SHOAL_ENOMEM;
    own.params = link->fault != NULL ? (const void *)link->fault : link->params;
    SHOALI_TRY(link->row->open(link->state, &own, &ours));
    link->open = true;
    return watch(link->comm, link);
}

/* Does the control transport's key allow the near one? */
static bool wants_near(const shoali_link *control)
{
    const shoali_schema *schema = &control->kind->schema;
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->keys[i].name, near_name) == 0 && schema->keys[i].kind == SHOALI_KEY_FLAG)
            return *(const bool *)((const char *)control->params + schema->keys[i].offset);
    return false;
}

static const shoali_transport_row *near_row(void)
{
    for (size_t i = 0; i < shoali_transport_count(); i++)
        if (strcmp(shoali_transport_row_at(i)->name, near_name) == 0)
            return shoali_transport_row_at(i);
    return NULL;
}

/* The launcher names the network namespace that it made for a rank: a variable that was left behind
 * in some environment, or carried to another host, names one in which this process is not. */
static bool in_lab(void)
{
    const char *lab = shoali_getenv(NULL, "SHOAL_LAB");
    char here[64];
    ssize_t length = readlink("/proc/self/ns/net", here, sizeof here - 1);
    if (lab == NULL || length <= 0)
        return false;
    here[length] = '\0';
    return strcmp(lab, here) == 0;
}

shoal_status shoali_links_open(shoal_comm *comm, const shoal_comm_desc *desc, uint64_t incarnation,
                               const shoali_transport_events *events)
{
    char host[256] = "", port[8];
    const char *spec = desc->transport != NULL ? desc->transport : "tcp";
    const char *fault = comm->service != NULL ? NULL
                        : desc->fault != NULL ? desc->fault
                                              : shoali_getenv(NULL, "SHOAL_FAULT");
    shoali_transport_args args = {
        .me = comm->me,
        .size = comm->size,
        .incarnation = incarnation,
        .job = comm->job,
        .token = comm->token.bytes,
        .token_bytes = comm->token.len_bytes,
        .lab = in_lab(),
        .interface = desc->interface,
        .deadline_us = comm->peer_timeout_us,
        .join_us = comm->join_timeout_us,
        .now_us = clock_us,
    };
    if (shoali_meet_parse(comm->launch.rendezvous, host, sizeof host, port, sizeof port))
        args.toward = host;
    comm->links.control.kind = shoali_transport_find(spec);
    if (comm->links.control.kind == NULL)
        return SHOAL_EINVAL;
    if ((comm->links.control.kind->traits & SHOALI_TRANSPORT_CONTROL) == 0)
        return shoali_fail(SHOAL_EINVAL, "the transport %s carries no control frames",
                           comm->links.control.kind->name);
    SHOALI_TRY(open_link(&comm->links.control, spec, fault, &args, events));
    comm->links.near.kind = wants_near(&comm->links.control) ? near_row() : NULL;
    if (comm->links.near.kind != NULL &&
        open_link(&comm->links.near, near_name, fault, &args, events) != SHOAL_OK)
        shoali_log(WARN, "no %s: %s", near_name, shoal_last_error()->text);
    return SHOAL_OK;
}

shoal_status shoali_links_check(const shoal_comm_desc *desc)
{
    const char *spec = desc->transport != NULL ? desc->transport : "tcp";
    const shoali_transport_row *row = shoali_transport_find(spec);
    if (row == NULL)
        return SHOAL_EINVAL;
    void *params = shoali_alloc(row->schema.params_size);
    if (params == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_spec_parse("transport", spec, &row->schema, params);
    shoali_free(params);
    shoali_iface_choice choice;
    if (status == SHOAL_OK && desc->interface != NULL)
        status = shoali_iface_choose(desc->interface, NULL, true, &choice);
    return status;
}

/* Where many ranks share a host, each would map two rings with each: only those between which the
 * schedules of many ranks move data (at distances that are powers of two) do. The others' data goes
 * by the control transport. */
static bool is_near_enough(const shoal_comm *comm, uint32_t endpoint)
{
    const uint32_t forth = comm->me > endpoint ? comm->me - endpoint : endpoint - comm->me;
    const uint32_t back = comm->size - forth;
    return comm->size <= NEAR_MOST || (forth & (forth - 1)) == 0 || (back & (back - 1)) == 0;
}

shoal_status shoali_links_add(shoal_comm *comm, uint32_t endpoint, const char *address,
                              const char *near_address)
{
    shoali_peer *peer = &comm->peers[endpoint];
    peer->data = &comm->links.control;
    SHOALI_TRY(comm->links.control.row->add_peer(comm->links.control.state, endpoint, address));
    if (!comm->links.near.open || near_address[0] == '\0' || !is_near_enough(comm, endpoint))
        return SHOAL_OK;
    shoal_status status = comm->links.near.row->add_peer(comm->links.near.state, endpoint,
                                                         near_address);
    if (status == SHOAL_OK)
        peer->near = true;
    else if (status != SHOAL_ENOTSUP)
        shoali_log(WARN, "no %s to rank %u: %s", near_name, endpoint, shoal_last_error()->text);
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ use and end */

void shoali_control(shoal_comm *comm, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes)
{
    shoal_status status = comm->links.control.row->control(comm->links.control.state, endpoint,
                                                           kind, bytes, len_bytes);
    if (status != SHOAL_OK && status != SHOAL_EPEER) /* EPEER: its end is known or will be */
        shoali_peer_gone(comm, endpoint, SHOAL_EPEER, shoal_last_error()->text);
}

void shoali_links_drop(shoal_comm *comm, uint32_t endpoint, bool polite)
{
    if (comm->links.near.open && comm->peers[endpoint].near)
        comm->links.near.row->drop_peer(comm->links.near.state, endpoint, polite);
    if (comm->links.control.open)
        comm->links.control.row->drop_peer(comm->links.control.state, endpoint, polite);
}

static void close_link(shoali_link *link)
{
    if (link->open)
        link->row->close(link->state);
    link->open = false;
    shoali_free(link->state);
    shoali_free(link->params);
    shoali_free(link->fault);
    link->state = link->params = link->fault = NULL;
}

void shoali_links_close(shoali_transports *links)
{
    close_link(&links->near);
    close_link(&links->control);
}

void shoali_links_forked(shoali_transports *links)
{
    if (links->near.open)
        links->near.row->forked(links->near.state);
    if (links->control.open)
        links->control.row->forked(links->control.state);
}
