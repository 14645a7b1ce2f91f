/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of TCP and their options; also for rooms that speak over streams of their own. */
#ifndef SHOALI_TRANSPORT_TCP_SOCKET_H
#define SHOALI_TRANSPORT_TCP_SOCKET_H

#include <stdbool.h>

#include "shoal/status.h"
#include "transport/address.h"

/* tcp_socket.c: descriptors and their options. All return -1 with the last error set. */
int shoali_tcp_listen(const shoali_ip *ip, uint16_t port, shoali_ip *bound_out);
int shoali_tcp_dial(const shoali_ip *ip, uint8_t tos, int64_t deadline_us);
int shoali_tcp_accept(int listener, int64_t deadline_us, bool *none_out);
/** Up to `want` bytes. @return SHOAL_OK | PENDING: nothing there now | EPEER */
SHOAL_MUST_USE shoal_status shoali_tcp_receive(int fd, uint8_t *bytes, size_t want,
                                               size_t *got_out);
shoal_status shoali_tcp_set_tos(int fd, uint8_t tos);
/** tcp_info.c: add what the peer has acknowledged, and for how long there was something to send. */
void shoali_tcp_count(int fd, uint64_t *acked_bytes_add, uint64_t *busy_us_add);
/** Bytes that the kernel holds for the connection and that are not acknowledged. */
uint64_t shoali_tcp_unacked(int fd);
/** tcp_info.c: since anything came by it, acknowledgements of keepalive probes too. */
uint64_t shoali_tcp_silent_us(int fd);
/** Both ends of the connection are on this host, in this network namespace. */
bool shoali_tcp_is_local(int fd);
/** For a connection just made: no congestion control that paces when both ends are here. */
void shoali_tcp_tune_local(int fd);
/** In a job of more endpoints than SHOALI_TCP_PROBED: no probes, when both ends are here. */
void shoali_tcp_probe_less(int fd);
/** ETIMEDOUT when the error says that nothing comes through, else EPEER. */
shoal_status shoali_tcp_status_of(int os_error);

#endif
