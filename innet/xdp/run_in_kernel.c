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
#include <bpf/libbpf.h>

enum {
    FRAME = 2048,
    HEADERS = sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr)
};

/* As in switchml.bpf.c: the lock's word, and one to align what follows. */
struct locked_cell {
    uint32_t lock, unused;
    struct slots_cell cell;
};

static struct bpf_object *object;
static uint64_t last_key;

static int silent(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

const char *run_in_kernel_open(const char *path)
{
    static char why[128];
    libbpf_set_print(silent);
    object = bpf_object__open(path);
    if (object == NULL)
        return "the object cannot be opened";
    const int error = bpf_object__load(object);
    if (error == 0)
        return NULL;
    run_in_kernel_close();
    strncpy(why, strerror(-error), sizeof why - 1);
    if (error == -EPERM || error == -EACCES)
        return "loading programs into the kernel is not allowed here";
    return why;
}

void run_in_kernel_close(void)
{
    bpf_object__close(object);
    object = NULL;
}

static int map(const char *name)
{
    return bpf_object__find_map_fd_by_name(object, name);
}

int run_in_kernel_job(uint64_t key, const struct slots_job *job, const struct slots_cell *cells)
{
    const uint64_t wire = (uint64_t)htonl((uint32_t)key) << 32 | htonl((uint32_t)(key >> 32));
    if (last_key != 0)
        (void)bpf_map_delete_elem(map("jobs"), &last_key);
    last_key = wire;
    for (uint32_t i = 0; i < job->slots; i++) {
        const struct locked_cell cell = {.cell = cells[i]};
        const uint32_t number = job->first_cell + i;
        if (bpf_map_update_elem(map("cells"), &number, &cell, BPF_ANY) != 0)
            return 0;
    }
    return bpf_map_update_elem(map("jobs"), &wire, job, BPF_ANY) == 0;
}

static size_t frame_of(const uint8_t *packet, size_t bytes, uint8_t *frame)
{
    const struct ethhdr eth = {.h_dest = {2}, .h_source = {4}, .h_proto = htons(ETH_P_IP)};
    const struct iphdr ip = {.version = 4,
                             .ihl = 5,
                             .ttl = 64,
                             .protocol = IPPROTO_UDP,
                             .tot_len = htons((uint16_t)(bytes + 28)),
                             .saddr = htonl(0x0a4d0001),
                             .daddr = htonl(0x0a4d0002)};
    const struct udphdr udp = {
        .source = htons(1000), .dest = htons(2000), .len = htons((uint16_t)(bytes + 8))};
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
    const struct bpf_program *program = bpf_object__find_program_by_name(object, "shoal_switchml");
    if (bpf_prog_test_run_opts(bpf_program__fd(program), &run) != 0 || run.data_size_out < HEADERS)
        abort();
    *bytes = run.data_size_out - HEADERS;
    memcpy(packet, out + HEADERS, *bytes);
    const uint8_t now = packet[2] & 15;
    if (now != SHOALI_PACKET_RESULT && now != SHOALI_PACKET_STATE)
        return SLOTS_DROP;
    return kind == SHOALI_PACKET_PROBE ? SLOTS_ANSWER : SLOTS_SEND;
}
