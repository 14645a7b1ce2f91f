/* SPDX-License-Identifier: Apache-2.0 */
/* This host, as the job would use it: the interface that the library chooses, how the rendezvous'
 * name resolves here, what the kernel allows sockets, and what a thread gets of a core. */
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "doctor/doctor.h"
#include "transport/iface.h"
#include "transport/ktls.h"
#include "transport/line.h"
#include "wire/bytes.h"

enum { SLICES = 5, SLICE_US = 12000, CORE_TRIES = 3 };
static const double ALL_OF_A_CORE = 0.9;

/* ---------------------------------------------------------------- interface, kernel */

static void ask_interface(const char *name, shoali_facts *facts)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
        facts->mtu = (uint32_t)request.ifr_mtu;
    close(fd);
    facts->port_mbit = shoali_line_mbit(name);
}

/* The third number of tcp_rmem or tcp_wmem: up to which a socket's buffer grows by itself. */
static uint64_t buffer_limit(const char *path)
{
    char line[128], *at = line;
    uint64_t most = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    for (int i = 0; read && i < 3; i++)
        most = strtoull(at, &at, 10);
    return most;
}

/* The kernel's way to rank 0, and what the rendezvous' name is here. Connecting a datagram socket
 * sends nothing. */
static void look_at_rank_0(const char *host, const char *port, bool rank_0, shoali_facts *facts)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    shoali_ip ip = {0}, literal;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return; /* who meets will say so */
    if (list->ai_addrlen <= sizeof ip)
        memcpy(&ip, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    bool named = !shoali_ip_parse(host, &literal) && strcmp(host, "localhost") != 0;
    if (shoali_ip_is_loopback(&ip)) {
        char text[SHOALI_IP_TEXT_BYTES];
        shoali_ip_format(&ip, text);
        if (named && !rank_0)
            snprintf(facts->loopback_name, sizeof facts->loopback_name, "%s", text);
        return;
    }
    int fd = socket(ip.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    shoali_ip source = {0};
    socklen_t bytes = sizeof source;
    if (fd >= 0 && !rank_0 && connect(fd, &ip.any, shoali_ip_bytes(&ip)) == 0 &&
        getsockname(fd, &source.any, &bytes) == 0)
        shoali_ip_format(&source, facts->route);
    if (fd >= 0)
        close(fd);
}

shoal_status shoali_facts_find(const shoal_comm_desc *desc, const char *place,
                               const shoali_token *token, shoali_facts *facts_out)
{
    char host[256] = "", port[8] = "";
    shoali_iface_choice choice;
    cpu_set_t cores;
    *facts_out = (shoali_facts){.cores = 1};
    if (gethostname(facts_out->host, sizeof facts_out->host - 1) != 0)
        snprintf(facts_out->host, sizeof facts_out->host, "?");
    bool net = shoali_meet_parse(place, host, sizeof host, port, sizeof port);
    if (net)
        look_at_rank_0(host, port, desc->rank == 0, facts_out);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        facts_out->cores = (uint32_t)CPU_COUNT(&cores);
    facts_out->kernel_tls = shoali_ktls_here();
    facts_out->send_buffer_bytes = buffer_limit("/proc/sys/net/ipv4/tcp_wmem");
    facts_out->receive_buffer_bytes = buffer_limit("/proc/sys/net/ipv4/tcp_rmem");
    SHOALI_TRY(
        shoali_iface_choose(desc->interface, net ? host : NULL, token->len_bytes == 0, &choice));
    snprintf(facts_out->interface, sizeof facts_out->interface, "%s", choice.name);
    shoali_ip_format(&choice.ips[0], facts_out->ip);
    ask_interface(choice.name, facts_out);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- a core */

/* A chain of dependent operations: nothing but the core's frequency decides. */
static uint64_t churn(uint64_t state, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

static double try_core(double *speed)
{
    enum { ROUNDS = 4096 };
    static volatile uint64_t sink;
    uint64_t wall0_ns = shoali_now_ns(), cpu0_ns = shoali_thread_cpu_ns(), state = wall0_ns | 1;
    for (int i = 0; i < SLICES; i++) {
        uint64_t end_us = shoali_now_us() + SLICE_US, start_ns = shoali_thread_cpu_ns(), done = 0;
        while (shoali_now_us() < end_us) {
            state = churn(state, ROUNDS);
            done += ROUNDS;
        }
        uint64_t used_ns = shoali_thread_cpu_ns() - start_ns;
        double reached = used_ns > 0 ? (double)done * 1e9 / (double)used_ns : 0;
        *speed = reached > *speed ? reached : *speed;
    }
    sink = state;
    (void)sink;
    return (double)(shoali_thread_cpu_ns() - cpu0_ns) / (double)(shoali_now_ns() - wall0_ns + 1);
}

/* What lasts longer than three tries is a load; a process that woke up for a moment is none. */
void shoali_facts_core(double *share_out, double *speed_out)
{
    *share_out = *speed_out = 0;
    for (int i = 0; i < CORE_TRIES && *share_out < ALL_OF_A_CORE; i++) {
        double share = try_core(speed_out);
        *share_out = share > *share_out ? share : *share_out;
    }
}

/* ---------------------------------------------------------------- to others */

static void put_text(uint8_t **at, const char *text, size_t bytes)
{
    memset(*at, 0, bytes);
    memcpy(*at, text, strnlen(text, bytes - 1));
    *at += bytes;
}

/* Terminated and printable: it ends up on terminals. */
static void get_text(const uint8_t **at, char *text, size_t bytes)
{
    memcpy(text, *at, bytes);
    text[bytes - 1] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    *at += bytes;
}

#define KERNEL_TLS UINT32_C(0x80000000) /* above the number of cores */

size_t shoali_facts_encode(const shoali_facts *facts, uint8_t out[SHOALI_DOCTOR_FACTS_BYTES])
{
    uint8_t *at = out;
    put_text(&at, facts->host, sizeof facts->host);
    put_text(&at, facts->interface, sizeof facts->interface);
    put_text(&at, facts->ip, sizeof facts->ip);
    put_text(&at, facts->route, sizeof facts->route);
    put_text(&at, facts->loopback_name, sizeof facts->loopback_name);
    const uint64_t numbers[6] = {facts->port,
                                 facts->mtu,
                                 (uint64_t)facts->port_mbit << 32 |
                                     (facts->kernel_tls ? KERNEL_TLS : 0) | facts->cores,
                                 facts->send_buffer_bytes,
                                 facts->receive_buffer_bytes,
                                 facts->nonce};
    for (int i = 0; i < 6; i++, at += 8)
        shoali_put_u64(at, numbers[i]);
    return (size_t)(at - out);
}

bool shoali_facts_decode(const uint8_t *bytes, size_t len_bytes, shoali_facts *facts_out)
{
    shoali_ip ip;
    uint64_t numbers[6];
    if (len_bytes != SHOALI_DOCTOR_FACTS_BYTES)
        return false;
    get_text(&bytes, facts_out->host, sizeof facts_out->host);
    get_text(&bytes, facts_out->interface, sizeof facts_out->interface);
    get_text(&bytes, facts_out->ip, sizeof facts_out->ip);
    get_text(&bytes, facts_out->route, sizeof facts_out->route);
    get_text(&bytes, facts_out->loopback_name, sizeof facts_out->loopback_name);
    for (int i = 0; i < 6; i++, bytes += 8)
        numbers[i] = shoali_get_u64(bytes);
    facts_out->port = (uint32_t)numbers[0];
    facts_out->mtu = (uint32_t)numbers[1];
    facts_out->port_mbit = (uint32_t)(numbers[2] >> 32);
    facts_out->cores = (uint32_t)numbers[2] & ~KERNEL_TLS;
    facts_out->kernel_tls = ((uint32_t)numbers[2] & KERNEL_TLS) != 0;
    facts_out->send_buffer_bytes = numbers[3];
    facts_out->receive_buffer_bytes = numbers[4];
    facts_out->nonce = numbers[5];
    return numbers[0] >= 1 && numbers[0] <= 65535 && numbers[1] <= 1 << 20 &&
           shoali_ip_parse(facts_out->ip, &ip);
}
