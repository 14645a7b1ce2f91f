/* SPDX-License-Identifier: Apache-2.0 */
#include "run_in_kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "aggregator/in_kernel.h"
#include "base/error.h"

enum {
    FRAME = 2048,
    HEADERS = sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr),
    FROM_IP = 0x0a4d0001,
    FROM_PORT = 1000
};

static shoali_in_kernel *kernel;
static shoali_kernel_sum last;

const char *run_in_kernel_open(const char *path)
{
    return shoali_in_kernel_open(path, "", &kernel) == SHOAL_OK ? NULL : shoal_last_error()->text;
}

void run_in_kernel_close(void)
{
    shoali_in_kernel_close(kernel);
    kernel = NULL;
}

bool run_in_kernel_share(const shoali_slot_share *share)
{
    shoali_ip workers[SHOALI_KERNEL_WORKERS];
    for (uint32_t w = 0; w < SHOALI_KERNEL_WORKERS; w++)
        workers[w].v4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(FROM_PORT), .sin_addr.s_addr = htonl(FROM_IP)};
    if (last.workers > 0)
        shoali_in_kernel_end(kernel, &last);
    return shoali_in_kernel_begin(kernel, share, workers, &last) == SHOAL_OK;
}

static size_t frame_of(const uint8_t *packet, size_t bytes, uint8_t *frame)
{
    const struct ethhdr eth = {.h_dest = {2}, .h_source = {4}, .h_proto = htons(ETH_P_IP)};
    const struct iphdr ip = {.version = 4,
                             .ihl = 5,
                             .ttl = 64,
                             .protocol = IPPROTO_UDP,
                             .tot_len = htons((uint16_t)(bytes + 28)),
                             .saddr = htonl(FROM_IP),
                             .daddr = htonl(0x0a4d0002)};
    const struct udphdr udp = {
        .source = htons(FROM_PORT), .dest = htons(2000), .len = htons((uint16_t)(bytes + 8))};
    memcpy(frame, &eth, sizeof eth);
    memcpy(frame + sizeof eth, &ip, sizeof ip);
    memcpy(frame + sizeof eth + sizeof ip, &udp, sizeof udp);
    memcpy(frame + HEADERS, packet, bytes);
    return HEADERS + bytes;
}

enum slots_verdict run_in_kernel(uint8_t *packet, size_t *bytes)
{
    static uint8_t in[FRAME], out[FRAME];
    const uint8_t kind = packet[2] & 15;
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = in, .data_out = out,
                .data_size_in = (uint32_t)frame_of(packet, *bytes, in), .data_size_out = FRAME);
    if (bpf_prog_test_run_opts(shoali_in_kernel_program(kernel), &run) != 0 ||
        run.data_size_out < HEADERS)
        abort();
    *bytes = run.data_size_out - HEADERS;
    memcpy(packet, out + HEADERS, *bytes);
    const uint8_t now = packet[2] & 15;
    if (now != SHOALI_PACKET_RESULT && now != SHOALI_PACKET_STATE)
        return SLOTS_DROP;
    return kind == SHOALI_PACKET_PROBE ? SLOTS_ANSWER : SLOTS_SEND;
}
