/* SPDX-License-Identifier: Apache-2.0 */
/* On the host of rank 0: ports for a job that another host is about to start here. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "hosts.h"

/* A socket that is bound and never listens keeps a port from everybody who asks for any; whoever
 * allows the address to be used again, as rank 0 does, can listen there. An own choice is free for
 * both versions of IP; a given port is only tried. */
static int bound(uint16_t port, uint16_t *port_out)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr *address = (struct sockaddr *)&six;
    socklen_t length = sizeof six;
    int on = 1, off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) { /* a host without IPv6 */
        address = (struct sockaddr *)&four;
        length = sizeof four;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (port != 0) /* connections of an earlier job that are closing do not count */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, length) == 0 && (port == 0 || listen(fd, 1) == 0) &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        getsockname(fd, address, &length) == 0) {
        *port_out = ntohs(address == (struct sockaddr *)&six ? six.sin6_port : four.sin_port);
        return fd;
    }
    close(fd);
    return -1;
}

int hosts_hold_ports(uint16_t port)
{
    uint16_t ports[2];
    int fds[2];
    char word;
    for (uint16_t i = 0; i < 2; i++) {
        fds[i] = bound(port == 0 ? 0 : port + i, &ports[i]);
        if (fds[i] < 0) {
            printf("shoal-host taken %u\n", port == 0 ? 0u : port + i);
            return CLI_FAILED;
        }
    }
    for (uint16_t i = 0; i < 2 && port != 0; i++)
        close(fds[i]);
    printf("shoal-host ports %u %u\n", ports[0], ports[1]);
    fflush(stdout);
    while (port == 0 && read(STDIN_FILENO, &word, 1) > 0)
        ;
    return CLI_OK;
}
