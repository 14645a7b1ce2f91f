/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/check.h"

uint16_t port_reserve(int *fd_out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *fd_out = fd;
    return ntohs(address.sin_port);
}

void place_reserve(const char *scheme, char *place, size_t place_bytes, int *fd_out)
{
    *fd_out = -1;
    if (strcmp(scheme, "tcp") == 0) {
        snprintf(place, place_bytes, "tcp://127.0.0.1:%u", port_reserve(fd_out));
        return;
    }
    char path[] = "/tmp/shoal-place-XXXXXX";
    assert_non_null(mkdtemp(path));
    snprintf(place, place_bytes, "file://%s/job", path);
}

void place_release(const char *place, int fd)
{
    if (fd >= 0)
        close(fd);
    if (strncmp(place, "file://", 7) != 0)
        return;
    char path[256];
    snprintf(path, sizeof path, "%s", place + 7);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}
