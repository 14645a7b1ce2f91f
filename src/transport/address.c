/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { IP_LIST_BYTES = 240, SHORT_LIST_BYTES = 120, MOST_RANK = 65535 };

/* ---------------------------------------------------------------- numeric addresses */

bool shoali_ip_parse(const char *text, shoali_ip *ip_out)
{
    shoali_ip ip = {0};
    if (inet_pton(AF_INET, text, &ip.v4.sin_addr) == 1)
        ip.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &ip.v6.sin6_addr) == 1)
        ip.any.sa_family = AF_INET6;
    else
        return false;
    *ip_out = ip;
    return true;
}

/* A socket that accepts both families shows an IPv4 peer as ::ffff:a.b.c.d. */
static shoali_ip plain(const shoali_ip *ip)
{
    shoali_ip v4 = {.v4 = {.sin_family = AF_INET}};
    if (ip->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&ip->v6.sin6_addr))
        return *ip;
    memcpy(&v4.v4.sin_addr, ip->v6.sin6_addr.s6_addr + 12, 4);
    v4.v4.sin_port = ip->v6.sin6_port;
    return v4;
}

void shoali_ip_format(const shoali_ip *ip, char out[SHOALI_IP_TEXT_BYTES])
{
    shoali_ip p = plain(ip);
    const void *bytes = p.any.sa_family == AF_INET ? (const void *)&p.v4.sin_addr
                                                   : (const void *)&p.v6.sin6_addr;
    if (inet_ntop(p.any.sa_family, bytes, out, SHOALI_IP_TEXT_BYTES) == NULL)
        snprintf(out, SHOALI_IP_TEXT_BYTES, "?");
}

void shoali_ip_set_port(shoali_ip *ip, uint16_t port)
{
    if (ip->any.sa_family == AF_INET)
        ip->v4.sin_port = htons(port);
    else
        ip->v6.sin6_port = htons(port);
}

uint16_t shoali_ip_port(const shoali_ip *ip)
{
    return ntohs(ip->any.sa_family == AF_INET ? ip->v4.sin_port : ip->v6.sin6_port);
}

socklen_t shoali_ip_bytes(const shoali_ip *ip)
{
    return ip->any.sa_family == AF_INET ? sizeof ip->v4 : sizeof ip->v6;
}

bool shoali_ip_is_loopback(const shoali_ip *ip)
{
    shoali_ip p = plain(ip);
    return p.any.sa_family == AF_INET ? ntohl(p.v4.sin_addr.s_addr) >> 24 == 127
                                      : IN6_IS_ADDR_LOOPBACK(&p.v6.sin6_addr);
}

bool shoali_ip_equal(const shoali_ip *a, const shoali_ip *b)
{
    shoali_ip x = plain(a), y = plain(b);
    if (x.any.sa_family != y.any.sa_family)
        return false;
    return x.any.sa_family == AF_INET ? x.v4.sin_addr.s_addr == y.v4.sin_addr.s_addr
                                      : IN6_ARE_ADDR_EQUAL(&x.v6.sin6_addr, &y.v6.sin6_addr);
}

bool shoali_ip_same_subnet(const shoali_ip *a, const shoali_ip *b, uint32_t bits)
{
    shoali_ip x = plain(a), y = plain(b);
    bool v4 = x.any.sa_family == AF_INET;
    const uint8_t *p = v4 ? (const uint8_t *)&x.v4.sin_addr : x.v6.sin6_addr.s6_addr;
    const uint8_t *q = v4 ? (const uint8_t *)&y.v4.sin_addr : y.v6.sin6_addr.s6_addr;
    if (x.any.sa_family != y.any.sa_family || bits > (v4 ? 32 : 128))
        return false;
    uint32_t rest = bits % 8;
    return memcmp(p, q, bits / 8) == 0 &&
           (rest == 0 || ((p[bits / 8] ^ q[bits / 8]) & (0xff00u >> rest) & 0xff) == 0);
}

bool shoali_ip_connect(int fd, const struct sockaddr *to, socklen_t to_bytes)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    shoali_ip own = {0}, there = {0};
    socklen_t own_bytes = sizeof own;
    if (connect(fd, to, to_bytes) != 0 && errno != EINPROGRESS)
        return false;
    memcpy(&there, to, to_bytes < sizeof there ? to_bytes : sizeof there);
    if (getsockname(fd, &own.any, &own_bytes) != 0 || !shoali_ip_equal(&own, &there) ||
        shoali_ip_port(&own) != shoali_ip_port(&there))
        return true;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    errno = ECONNREFUSED;
    return false;
}

/* ---------------------------------------------------------------- this host */

static shoal_status read_boot_id(char *out, size_t out_bytes)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot open %s", path);
    bool read = fgets(out, (int)out_bytes, file) != NULL;
    fclose(file);
    if (!read)
        return shoali_fail(SHOAL_ESYSTEM, "cannot read %s", path);
    out[strcspn(out, "\n")] = '\0';
    return SHOAL_OK;
}

shoal_status shoali_address_local(shoali_address *address_out)
{
    shoali_address address = {0};
    struct stat netns;
    if (gethostname(address.host, sizeof address.host - 1) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot read the host name");
    for (char *c = address.host; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_'; /* the text is split at spaces */
    SHOALI_TRY(read_boot_id(address.boot, sizeof address.boot));
    if (stat("/proc/self/ns/net", &netns) != 0)
        return shoali_fail_os(SHOAL_ESYSTEM, errno, "cannot read /proc/self/ns/net");
    address.netns = netns.st_ino;
    *address_out = address;
    return SHOAL_OK;
}

bool shoali_address_same_host(const shoali_address *a, const shoali_address *b)
{
    return a->netns == b->netns && a->netns != 0 && strcmp(a->boot, b->boot) == 0 &&
           a->boot[0] != '\0';
}

/* ---------------------------------------------------------------- which of several */

bool shoali_address_share(const shoali_address *a, uint32_t i, const shoali_address *b, uint32_t j)
{
    uint32_t bits = a->subnet_bits[i] > b->subnet_bits[j] ? a->subnet_bits[i] : b->subnet_bits[j];
    return a->subnet_bits[i] != 0 && b->subnet_bits[j] != 0 &&
           shoali_ip_same_subnet(&a->ips[i], &b->ips[j], bits);
}

static void move(shoali_address *a, uint32_t from, uint32_t to)
{
    const shoali_ip ip = a->ips[from];
    const uint8_t bits = a->subnet_bits[from];
    for (uint32_t i = from; i > to; i--) {
        a->ips[i] = a->ips[i - 1];
        a->subnet_bits[i] = a->subnet_bits[i - 1];
    }
    a->ips[to] = ip;
    a->subnet_bits[to] = bits;
}

void shoali_address_prefer(shoali_address *address, uint32_t i)
{
    move(address, i, 0);
}

static bool has(const shoali_address *a, const shoali_ip *ip)
{
    for (uint32_t i = 0; i < a->ip_count; i++)
        if (shoali_ip_equal(&a->ips[i], ip))
            return true;
    return false;
}

/* All of them are kept where none would be left: then something else is wrong, and connecting
 * tells. */
static void forget_own(const shoali_address *mine, shoali_address *theirs)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < theirs->ip_count; i++)
        if (!has(mine, &theirs->ips[i]))
            move(theirs, i, kept++);
    theirs->ip_count = kept > 0 ? kept : theirs->ip_count;
}

uint32_t shoali_address_choose(const shoali_address *mine, shoali_address *theirs)
{
    uint32_t links = 0;
    uint64_t used = 0; /* wires */
    if (shoali_address_same_host(mine, theirs))
        return 1;
    forget_own(mine, theirs);
    for (uint32_t i = 0; i < theirs->ip_count; i++)
        for (uint32_t own = 0; own < mine->ip_count; own++) {
            uint64_t wire = UINT64_C(1) << (mine->wires[own] & 63);
            if ((used & wire) != 0 || !shoali_address_share(mine, own, theirs, i))
                continue;
            used |= wire;
            move(theirs, i, links++);
            break;
        }
    return links;
}

uint64_t shoali_address_wires(const shoali_address *mine, const shoali_address *theirs)
{
    uint64_t wires = 0;
    for (uint32_t own = 0; own < mine->ip_count && !shoali_address_same_host(mine, theirs); own++)
        for (uint32_t i = 0; i < theirs->ip_count; i++)
            if (shoali_address_share(mine, own, theirs, i))
                wires |= UINT64_C(1) << (mine->wires[own] & 63);
    return wires != 0 ? wires : UINT64_MAX;
}

/* ---------------------------------------------------------------- text */

/* What does not fit is left out: eight addresses of IPv4 do, or six of IPv6; beside an endpoint of
 * libfabric half as many. */
static void format_ips(const shoali_address *a, char out[IP_LIST_BYTES])
{
    size_t used = 0, most = a->fabric[0] != '\0' ? SHORT_LIST_BYTES : IP_LIST_BYTES;
    out[0] = '\0';
    for (uint32_t i = 0; i < a->ip_count; i++) {
        char ip[SHOALI_IP_TEXT_BYTES], bits[8] = "";
        shoali_ip_format(&a->ips[i], ip);
        if (a->subnet_bits[i] != 0)
            snprintf(bits, sizeof bits, "/%u", a->subnet_bits[i]);
        if (used + strlen(ip) + strlen(bits) + 2 > most)
            return;
        used += (size_t)snprintf(out + used, most - used, "%s%s%s", i > 0 ? "," : "", ip, bits);
    }
}

void shoali_address_format(const shoali_address *a, char out[SHOALI_ADDRESS_BYTES])
{
    char ips[IP_LIST_BYTES], via[SHOALI_IP_TEXT_BYTES + 32] = "", relay[16] = "", pid[48] = "";
    if (a->unix_name[0] != '\0') {
        snprintf(out, SHOALI_ADDRESS_BYTES, "host=%s unix=%s boot=%s netns=%" PRIu64, a->host,
                 a->unix_name, a->boot, a->netns);
        return;
    }
    format_ips(a, ips);
    if (a->relay_port != 0)
        snprintf(relay, sizeof relay, " relay=%u", a->relay_port);
    if (a->via.any.sa_family != 0) {
        char ip[SHOALI_IP_TEXT_BYTES];
        shoali_ip_format(&a->via, ip);
        snprintf(via, sizeof via, " via=%u,%s,%u", a->via_rank, ip, shoali_ip_port(&a->via));
    }
    if (a->pid != 0)
        snprintf(pid, sizeof pid, " pid=%" PRIu64 ",%" PRIu64, a->pid, a->pid_space);
    snprintf(out, SHOALI_ADDRESS_BYTES,
             "host=%s port=%u ip=%s boot=%s netns=%" PRIu64 "%s%s%s%s%s%s%s", a->host, a->port, ips,
             a->boot, a->netns, relay, pid, a->launch[0] != '\0' ? " launch=" : "", a->launch,
             a->fabric[0] != '\0' ? " fabric=" : "", a->fabric, via);
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value > max)
        return false;
    *out = value;
    return true;
}

/* "10.0.0.3/24" or "10.0.0.3". */
static bool parse_ip(char *item, shoali_ip *ip_out, uint8_t *bits_out)
{
    char *slash = strchr(item, '/');
    uint64_t bits = 0;
    if (slash != NULL)
        *slash = '\0';
    if (!shoali_ip_parse(item, ip_out))
        return false;
    *ip_out = plain(ip_out);
    const uint64_t most = ip_out->any.sa_family == AF_INET ? 32 : 128;
    if (slash != NULL && (!parse_number(slash + 1, most, &bits) || bits == 0))
        return false;
    *bits_out = (uint8_t)bits;
    return true;
}

static bool parse_ips(char *list, shoali_address *a)
{
    char *rest = NULL;
    for (char *item = strtok_r(list, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest)) {
        if (a->ip_count == SHOALI_ADDRESS_IPS ||
            !parse_ip(item, &a->ips[a->ip_count], &a->subnet_bits[a->ip_count]))
            return false;
        for (uint32_t i = 0; i < a->ip_count; i++)
            a->wires[a->ip_count] += a->ips[i].any.sa_family == a->ips[a->ip_count].any.sa_family;
        a->ip_count++;
    }
    return a->ip_count > 0;
}

/* "RANK,IP,PORT" */
static bool parse_via(char *text, shoali_address *a)
{
    uint64_t rank, port;
    char *rest = NULL, *first = strtok_r(text, ",", &rest), *ip = strtok_r(NULL, ",", &rest);
    if (ip == NULL || rest == NULL || !parse_number(first, MOST_RANK, &rank) ||
        !shoali_ip_parse(ip, &a->via) || !parse_number(rest, UINT16_MAX, &port) || port == 0)
        return false;
    a->via = plain(&a->via);
    a->via_rank = (uint32_t)rank;
    shoali_ip_set_port(&a->via, (uint16_t)port);
    return true;
}

/* "PID,NAMESPACE" */
static bool parse_process(char *text, shoali_address *a)
{
    char *rest = NULL, *pid = strtok_r(text, ",", &rest);
    return pid != NULL && rest != NULL && parse_number(pid, INT32_MAX, &a->pid) && a->pid != 0 &&
           parse_number(rest, UINT64_MAX, &a->pid_space);
}

static bool copy_text(const char *text, char *out, size_t out_bytes)
{
    size_t len = strlen(text);
    if (len == 0 || len >= out_bytes)
        return false;
    memcpy(out, text, len + 1);
    return true;
}

static bool parse_item(const char *key, char *value, shoali_address *a)
{
    uint64_t number;
    if (strcmp(key, "host") == 0)
        return copy_text(value, a->host, sizeof a->host);
    if (strcmp(key, "boot") == 0)
        return copy_text(value, a->boot, sizeof a->boot);
    if (strcmp(key, "unix") == 0)
        return copy_text(value, a->unix_name, sizeof a->unix_name);
    if (strcmp(key, "netns") == 0)
        return parse_number(value, UINT64_MAX, &a->netns);
    if (strcmp(key, "ip") == 0)
        return parse_ips(value, a);
    if (strcmp(key, "via") == 0)
        return parse_via(value, a);
    if (strcmp(key, "pid") == 0)
        return parse_process(value, a);
    if (strcmp(key, "launch") == 0)
        return copy_text(value, a->launch, sizeof a->launch);
    if (strcmp(key, "fabric") == 0)
        return copy_text(value, a->fabric, sizeof a->fabric);
    if (strcmp(key, "relay") == 0 && parse_number(value, UINT16_MAX, &number)) {
        a->relay_port = (uint16_t)number;
        return a->relay_port != 0;
    }
    if (strcmp(key, "port") == 0 && parse_number(value, UINT16_MAX, &number)) {
        a->port = (uint16_t)number;
        return a->port != 0;
    }
    return false;
}

shoal_status shoali_address_parse(const char *text, shoali_address *address_out)
{
    char copy[SHOALI_ADDRESS_BYTES];
    shoali_address a = {0};
    if (!copy_text(text, copy, sizeof copy))
        return shoali_fail(SHOAL_EINVAL, "address of %zu bytes, at most %d", strlen(text),
                           SHOALI_ADDRESS_BYTES - 1);
    char *rest = NULL;
    for (char *item = strtok_r(copy, " ", &rest); item != NULL; item = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(item, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || !parse_item(item, value, &a))
            return shoali_fail(SHOAL_EINVAL, "address '%.200s': wrong part '%.64s'", text, item);
    }
    if (a.unix_name[0] == '\0' && (a.ip_count == 0 || a.port == 0))
        return shoali_fail(SHOAL_EINVAL, "address '%.200s' has no ip and port", text);
    for (uint32_t i = 0; i < a.ip_count; i++)
        shoali_ip_set_port(&a.ips[i], a.port);
    *address_out = a;
    return SHOAL_OK;
}
