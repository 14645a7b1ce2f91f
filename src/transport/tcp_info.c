/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel counts of a connection. A file of its own: the kernel's header, which knows these
 * fields, excludes the C library's. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "transport/tcp.h"

uint64_t shoali_tcp_silent_us(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return UINT64_MAX;
    uint32_t ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                                     : info.tcpi_last_data_recv;
    return (uint64_t)ms * 1000;
}

void shoali_tcp_count(int fd, uint64_t *acked_bytes_add, uint64_t *busy_us_add)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time)
        return; /* a kernel older than 4.10 */
    *acked_bytes_add += info.tcpi_bytes_acked;
    *busy_us_add += info.tcpi_busy_time;
}
