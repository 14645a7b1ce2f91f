/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/line.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const double MOST_BITS = 1e15;

uint64_t shoali_line_limit(uint32_t mbit, const char *lab)
{
    const double given = lab != NULL ? strtod(lab, NULL) : 0;
    double bits = 1e6 * mbit;
    if (given > 0 && given < MOST_BITS && (!(bits > 0) || given < bits))
        bits = given;
    return (uint64_t)(bits / 8);
}

/* By ethtool's question, as /sys shows the interfaces of whoever mounted it. */
uint32_t shoali_line_mbit(const char *interface)
{
    struct ethtool_cmd settings = {.cmd = ETHTOOL_GSET};
    struct ifreq question = {0};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    strncpy(question.ifr_name, interface, sizeof question.ifr_name - 1);
    question.ifr_data = (void *)&settings;
    const bool told = ioctl(fd, SIOCETHTOOL, &question) == 0;
    close(fd);
    /* ethtool_cmd_speed() shifts into the sign where the speed is not known */
    const uint32_t mbit = told ? (uint32_t)settings.speed_hi << 16 | settings.speed : 0;
    return mbit == UINT32_MAX ? 0 : mbit;
}

uint64_t shoali_line_bytes_s(const char *interface)
{
    return shoali_line_limit(shoali_line_mbit(interface), getenv("SHOAL_LINE_RATE"));
}
