/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/iface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/line.h"

/* ---------------------------------------------------------------- what there is */

static bool is_bridge(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/class/net/%s/bridge", name);
    return access(path, F_OK) == 0;
}

static bool usable(const struct ifaddrs *a)
{
    if (a->ifa_addr == NULL || strlen(a->ifa_name) >= SHOALI_IFACE_NAME_BYTES)
        return false;
    if (a->ifa_addr->sa_family == AF_INET)
        return true;
    if (a->ifa_addr->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *v6 = (const void *)a->ifa_addr;
    return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static uint8_t count_bits(const struct ifaddrs *a)
{
    const void *mask = a->ifa_netmask;
    const struct sockaddr_in *v4 = mask;
    const struct sockaddr_in6 *v6 = mask;
    uint32_t bits = 0;
    if (mask == NULL)
        return 0;
    if (a->ifa_addr->sa_family == AF_INET)
        return (uint8_t)__builtin_popcount(v4->sin_addr.s_addr);
    for (size_t i = 0; i < 16; i++)
        bits += (uint32_t)__builtin_popcount(v6->sin6_addr.s6_addr[i]);
    return (uint8_t)bits;
}

shoal_status shoali_iface_list(shoali_iface out[SHOALI_IFACE_LIST], size_t *count_out)
{
    struct ifaddrs *all;
    size_t count = 0;
    if (getifaddrs(&all) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot list the network interfaces");
    for (const struct ifaddrs *a = all; a != NULL && count < SHOALI_IFACE_LIST; a = a->ifa_next) {
        if (!usable(a))
            continue;
        shoali_iface *iface = &out[count++];
        *iface = (shoali_iface){.up = (a->ifa_flags & IFF_UP) != 0,
                                .loopback = (a->ifa_flags & IFF_LOOPBACK) != 0,
                                .bridge = is_bridge(a->ifa_name),
                                .subnet_bits = count_bits(a)};
        strcpy(iface->name, a->ifa_name);
        memcpy(&iface->ip, a->ifa_addr,
               a->ifa_addr->sa_family == AF_INET ? sizeof iface->ip.v4 : sizeof iface->ip.v6);
    }
    freeifaddrs(all);
    *count_out = count;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the rule */

static void add(const shoali_iface *iface, shoali_iface_choice *choice)
{
    if (choice->ip_count == SHOALI_ADDRESS_IPS)
        return;
    choice->ips[choice->ip_count] = iface->ip;
    choice->subnet_bits[choice->ip_count] = iface->subnet_bits;
    choice->wire[choice->ip_count++] = (uint8_t)choice->wires;
}

static void name(const shoali_iface *iface, shoali_iface_choice *choice)
{
    if (choice->wires > 0)
        return;
    memcpy(choice->name, iface->name, sizeof choice->name);
    choice->loopback = iface->loopback;
}

/* All addresses of the interface of list[at]; IPv4 first, since dual-stack hosts without IPv6
 * routes are common. */
static void take(const shoali_iface *list, size_t count, size_t at, shoali_iface_choice *choice)
{
    static const sa_family_t order[] = {AF_INET, AF_INET6};
    name(&list[at], choice);
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < count; i++)
            if (list[i].ip.any.sa_family == order[f] && strcmp(list[i].name, list[at].name) == 0)
                add(&list[i], choice);
    choice->wires++;
}

/* An address asked for, or the one on the way to the rendezvous: alone. */
static void take_one(const shoali_iface *iface, shoali_iface_choice *choice)
{
    name(iface, choice);
    add(iface, choice);
    choice->wires++;
}

/* The address by which an interface joins those chosen before: its first of IPv4, if it has one. */
static bool stands_for(const shoali_iface *list, size_t count, size_t at)
{
    size_t first = count;
    for (size_t i = count; i-- > 0;)
        if (strcmp(list[i].name, list[at].name) == 0 &&
            (first == count || list[i].ip.any.sa_family == AF_INET ||
             list[first].ip.any.sa_family != AF_INET))
            first = i;
    return first == at;
}

/* Everything else that may be a link to somebody. Bridges lead to containers and guests. */
static void take_others(const shoali_iface *list, size_t count, shoali_iface_choice *choice)
{
    for (size_t i = 0; i < count && !choice->loopback; i++)
        if (list[i].up && !list[i].loopback && !list[i].bridge &&
            strcmp(list[i].name, choice->name) != 0 && stands_for(list, count, i))
            take_one(&list[i], choice);
}

static shoal_status unknown(const shoali_iface *list, size_t count, const shoali_iface_wish *wish,
                            const char *item)
{
    char known[300] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof known - 1; i++) {
        char ip[SHOALI_IP_TEXT_BYTES];
        shoali_ip_format(&list[i].ip, ip);
        int wrote = snprintf(known + used, sizeof known - used, "%s%s (%s)", i > 0 ? ", " : "",
                             list[i].name, ip);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return shoali_fail(SHOAL_EINVAL,
                       "no interface or address '%.64s' (%s) that is up; there are: %s", item,
                       wish->wanted_from, known);
}

static shoal_status pick_item(const shoali_iface *list, size_t count, const shoali_iface_wish *wish,
                              const char *item, shoali_iface_choice *choice)
{
    shoali_ip ip;
    bool by_address = shoali_ip_parse(item, &ip);
    size_t at = 0;
    while (at < count && !(list[at].up && (by_address ? shoali_ip_equal(&list[at].ip, &ip)
                                                      : strcmp(list[at].name, item) == 0)))
        at++;
    if (at == count)
        return unknown(list, count, wish, item);
    if (list[at].loopback && wish->toward != NULL && !wish->here) {
        (void)shoali_fail(SHOAL_EINVAL, "%s '%.64s' is loopback, but the rendezvous %.64s is not",
                          wish->wanted_from, item, wish->toward);
        shoali_error_advice("Name the interface that leads to %.64s, or none at all.",
                            wish->toward);
        return SHOAL_EINVAL;
    }
    if (by_address)
        take_one(&list[at], choice);
    else
        take(list, count, at, choice);
    return SHOAL_OK;
}

static shoal_status pick_wanted(const shoali_iface *list, size_t count,
                                const shoali_iface_wish *wish, shoali_iface_choice *choice)
{
    char items[256], *rest = NULL;
    if ((size_t)snprintf(items, sizeof items, "%s", wish->wanted) >= sizeof items)
        return shoali_fail(SHOAL_EINVAL, "%s is longer than %zu characters", wish->wanted_from,
                           sizeof items - 1);
    for (char *item = strtok_r(items, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest))
        SHOALI_TRY(pick_item(list, count, wish, item, choice));
    if (choice->ip_count == 0)
        return unknown(list, count, wish, wish->wanted);
    snprintf(choice->why, sizeof choice->why, "%s asks for it", wish->wanted_from);
    return SHOAL_OK;
}

static bool pick_source(const shoali_iface *list, size_t count, const shoali_iface_wish *wish,
                        shoali_iface_choice *choice)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].loopback || !list[i].up || !shoali_ip_equal(&list[i].ip, wish->source))
            continue;
        take_one(&list[i], choice);
        snprintf(choice->why, sizeof choice->why, "it leads to the rendezvous %.64s", wish->toward);
        return true;
    }
    return false;
}

/* The first that is up; the kernel's order is the order of their making. */
static bool pick_first(const shoali_iface *list, size_t count, bool loopback, const char *why,
                       shoali_iface_choice *choice)
{
    for (int bridge = 0; bridge < 2; bridge++)
        for (size_t i = 0; i < count; i++) {
            if (!list[i].up || list[i].loopback != loopback || list[i].bridge != (bridge == 1))
                continue;
            take(list, count, i, choice);
            snprintf(choice->why, sizeof choice->why, "%s", why);
            return true;
        }
    return false;
}

static shoal_status pick_best(const shoali_iface *list, size_t count, const shoali_iface_wish *wish,
                              shoali_iface_choice *choice)
{
    if (wish->here && pick_first(list, count, true, "the rendezvous is on this host", choice))
        return SHOAL_OK;
    if (wish->source != NULL && pick_source(list, count, wish, choice))
        return SHOAL_OK;
    if (wish->no_token && wish->toward == NULL &&
        pick_first(list, count, true, "without a job token nothing else is allowed", choice))
        return SHOAL_OK;
    if (pick_first(list, count, false, "the first that is up; name another with --interface",
                   choice))
        return SHOAL_OK;
    if (wish->toward == NULL && pick_first(list, count, true, "there is no other", choice))
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_EINVAL, "no network interface is up that could reach other hosts");
    shoali_error_advice(
        "Bring one up, or use a rendezvous on 127.0.0.1 when all ranks run on this host.");
    return SHOAL_EINVAL;
}

shoal_status shoali_iface_pick(const shoali_iface *list, size_t count,
                               const shoali_iface_wish *wish, shoali_iface_choice *choice_out)
{
    shoali_iface_choice choice = {.ip_count = 0};
    if (wish->wanted != NULL) {
        SHOALI_TRY(pick_wanted(list, count, wish, &choice));
    } else {
        SHOALI_TRY(pick_best(list, count, wish, &choice));
        take_others(list, count, &choice);
    }
    *choice_out = choice;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the way to the rendezvous */

/* The kernel's choice of a source address; connecting a datagram socket sends nothing. */
static bool route_source(const shoali_ip *to, shoali_ip *source_out)
{
    int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    shoali_ip dial = *to, source = {0};
    socklen_t bytes = sizeof source;
    shoali_ip_set_port(&dial, 9); /* discard; any port but 0 */
    bool found = connect(fd, &dial.any, shoali_ip_bytes(&dial)) == 0 &&
                 getsockname(fd, &source.any, &bytes) == 0;
    close(fd);
    if (found)
        *source_out = source;
    return found;
}

static shoal_status resolve(const char *name, shoali_ip *ip_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(name, NULL, &hints, &found);
    if (error != 0)
        return shoali_fail(SHOAL_EINVAL, "cannot resolve the rendezvous host '%.128s': %s", name,
                           gai_strerror(error));
    memset(ip_out, 0, sizeof *ip_out);
    if (found->ai_addrlen <= sizeof *ip_out)
        memcpy(ip_out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return SHOAL_OK;
}

/* Many systems map their own host name to 127.0.1.1: a name that resolves to loopback means "this
 * host", and says nothing about where the others are. A literal loopback address, or "localhost",
 * does. */
static shoal_status look_toward(const char *toward, shoali_iface_wish *wish, shoali_ip *source)
{
    shoali_ip ip;
    bool literal = shoali_ip_parse(toward, &ip) || strcmp(toward, "localhost") == 0;
    if (!literal || strcmp(toward, "localhost") == 0)
        SHOALI_TRY(resolve(toward, &ip));
    wish->toward = toward;
    wish->here = literal && shoali_ip_is_loopback(&ip);
    if (!shoali_ip_is_loopback(&ip) && route_source(&ip, source))
        wish->source = source;
    return SHOAL_OK;
}

/* By the first address of each interface. */
static uint64_t line_of(const shoali_iface *list, size_t count, const shoali_iface_choice *choice)
{
    uint64_t sum = 0;
    uint32_t wires = 0;
    for (uint32_t i = 0; i < choice->ip_count && !choice->loopback; i++) {
        if (choice->wire[i] != wires)
            continue;
        wires++;
        for (size_t j = 0; j < count; j++)
            if (shoali_ip_equal(&list[j].ip, &choice->ips[i])) {
                const uint64_t one = shoali_line_bytes_s(list[j].name);
                if (one == 0)
                    return 0;
                sum += one;
                break;
            }
    }
    return sum;
}

shoal_status shoali_iface_choose(const char *wanted, const char *toward, bool no_token,
                                 shoali_iface_choice *choice_out)
{
    shoali_iface list[SHOALI_IFACE_LIST];
    shoali_iface_wish wish = {.wanted = wanted, .wanted_from = "--interface", .no_token = no_token};
    shoali_ip source;
    size_t count;
    if (wanted == NULL) {
        const char *named = getenv("SHOAL_INTERFACE");
        wish.wanted = named != NULL && named[0] != '\0' ? named : NULL;
        wish.wanted_from = "SHOAL_INTERFACE";
    }
    if (toward != NULL)
        SHOALI_TRY(look_toward(toward, &wish, &source));
    SHOALI_TRY(shoali_iface_list(list, &count));
    SHOALI_TRY(shoali_iface_pick(list, count, &wish, choice_out));
    choice_out->line_bytes_s = line_of(list, count, choice_out);
    char ip[SHOALI_IP_TEXT_BYTES];
    shoali_ip_format(&choice_out->ips[0], ip);
    shoali_log(INFO, "interface %s (%s): %s", choice_out->name, ip, choice_out->why);
    if (choice_out->wires > 1)
        shoali_log(INFO, "and %u more, used where they lead to another rank (SHOAL_INTERFACE)",
                   choice_out->wires - 1);
    return SHOAL_OK;
}
