/* SPDX-License-Identifier: Apache-2.0 */
/* SwitchML in the kernel: packets of lossy aggregation (src/wire/packet.h) are summed where they
 * enter a switch port, and the last one of a round leaves as the result to every worker. At each
 * port's ingress, by tcx: results pass through the ports' queues and shapers then, which XDP's
 * redirects go around.
 *
 * What it does not know (another key, IPv6, fragments, larger blocks) goes on to where it was sent:
 * the daemon in user space (src/aggregator/in_kernel.c), which writes the maps. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "slots.h"

enum { HEADERS = 14 + 20 + 8 };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, SHOALI_KERNEL_JOBS);
    __type(key, uint64_t); /* as in the packet: network order */
    __type(value, shoali_kernel_job);
} jobs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, SHOALI_KERNEL_CELLS);
    __type(key, uint32_t);
    __type(value, shoali_kernel_cell);
} cells SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, SHOALI_KERNEL_JOBS *SHOALI_KERNEL_WORKERS);
    __type(key, shoali_kernel_port_key);
    __type(value, shoali_kernel_port);
} ports SEC(".maps");

struct heads {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    struct shoali_packet_wire packet;
} __attribute__((packed));

/* A packet of ours, whole and without IP options; 0: not ours. Large packets of others are left
 * where they lie. */
static __always_inline struct heads *heads_of(struct __sk_buff *skb, uint32_t *count_out)
{
    if (skb->protocol != bpf_htons(ETH_P_IP) || skb->len < sizeof(struct heads))
        return 0;
    struct heads *h = (void *)(long)skb->data;
    if ((void *)(h + 1) > (void *)(long)skb->data_end) {
        if (bpf_skb_pull_data(skb, sizeof(struct heads)) != 0)
            return 0;
        h = (void *)(long)skb->data;
        if ((void *)(h + 1) > (void *)(long)skb->data_end)
            return 0;
    }
    if (h->eth.h_proto != bpf_htons(ETH_P_IP) || h->ip.version != 4 || h->ip.ihl != 5 ||
        h->ip.protocol != IPPROTO_UDP || (h->ip.frag_off & bpf_htons(0x3fff)) != 0 ||
        h->packet.magic != bpf_htons(SHOALI_PACKET_MAGIC) ||
        h->packet.version_kind >> 4 != SHOALI_PACKET_VERSION)
        return 0;
    const uint32_t length = bpf_ntohs(h->udp.len);
    if (length < 8 + SHOALI_PACKET_BYTES || (length & 3) != 0)
        return 0;
    *count_out = (length - 8 - SHOALI_PACKET_BYTES) / 4;
    if (bpf_skb_pull_data(skb, skb->len) != 0)
        return 0;
    h = (void *)(long)skb->data;
    return (void *)(h + 1) > (void *)(long)skb->data_end ? 0 : h;
}

/* Does a packet come from where its worker said that it is? What else there is to know of the way
 * back stands in it. */
static __always_inline int is_from(shoali_kernel_port *port, const struct heads *h,
                                   uint32_t ifindex)
{
    if (port->ip != h->ip.saddr || port->udp != h->udp.source)
        return 0;
    if (port->ifindex != ifindex) {
        __builtin_memcpy(port->mac, h->eth.h_source, 6);
        port->ifindex = ifindex;
    }
    return 1;
}

static __always_inline uint64_t key_of(const struct heads *h)
{
    uint64_t key;
    __builtin_memcpy(&key, h->packet.key, sizeof key);
    return key;
}

static __always_inline void checksum(struct iphdr *ip)
{
    const uint16_t *words = (const uint16_t *)ip;
    uint32_t sum = 0;
    ip->check = 0;
#pragma unroll
    for (int i = 0; i < 10; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    ip->check = (uint16_t)~sum;
}

/* Whose place a result takes: the daemon's, to which the packet was sent. */
struct origin {
    uint32_t ip;
    uint16_t udp;
    uint8_t mac[6];
};

/* Towards a worker. UDP without a checksum: keys and rounds tell. */
static __always_inline void address(struct heads *h, const shoali_kernel_port *to,
                                    const struct origin *from, uint32_t bytes)
{
    __builtin_memcpy(h->eth.h_dest, to->mac, 6);
    __builtin_memcpy(h->eth.h_source, from->mac, 6);
    h->ip.saddr = from->ip;
    h->ip.daddr = to->ip;
    h->ip.ttl = 64;
    h->ip.tot_len = bpf_htons((uint16_t)(28 + bytes));
    h->udp.source = from->udp;
    h->udp.dest = to->udp;
    h->udp.len = bpf_htons((uint16_t)(8 + bytes));
    h->udp.check = 0;
    checksum(&h->ip);
}

/* Under the lock: take the packet; its head becomes its answer's. */
static __always_inline int take(shoali_kernel_job *job, shoali_kernel_cell *cell, struct heads *h,
                                void *end, uint32_t count, struct slots_body *body)
{
    uint32_t add;
    uint32_t *values = (uint32_t *)(h + 1);
    bpf_spin_lock(&cell->lock);
    int verdict = slots_begin(job, cell, &h->packet, count, &add, body);
    if (verdict == SLOTS_SEND) {
        const uint32_t half = cell->round & 1;
        for (uint32_t i = 0; i < SHOALI_KERNEL_VALUES; i++) {
            if (add == 0 || i >= count || (void *)(values + i + 1) > end)
                break;
            const uint32_t value = bpf_ntohl(values[i]);
            if (half)
                cell->values[1][i] = add == 2 ? cell->values[1][i] + value : value;
            else
                cell->values[0][i] = add == 2 ? cell->values[0][i] + value : value;
        }
        verdict = slots_end(job, cell, &h->packet, body);
    }
    bpf_spin_unlock(&cell->lock);
    return verdict;
}

static __always_inline void write_body(const shoali_kernel_job *job, const shoali_kernel_cell *cell,
                                       const struct slots_body *body, struct heads *h, void *end)
{
    uint32_t *values = (uint32_t *)(h + 1);
    uint8_t *bytes = (uint8_t *)(h + 1);
    if (body->missing) {
        for (uint32_t i = 0; i < SHOALI_PACKET_MISSING_BYTES; i++) {
            if ((void *)(bytes + i + 1) > end)
                break;
            bytes[i] = slots_missing_byte(job, body, i);
        }
        return;
    }
    for (uint32_t i = 0; i < SHOALI_KERNEL_VALUES; i++) {
        if (i >= body->values || (void *)(values + i + 1) > end)
            break;
        values[i] = bpf_htonl(body->half ? cell->values[1][i] : cell->values[0][i]);
    }
}

static __always_inline uint32_t body_bytes(const struct slots_body *body)
{
    return body->missing ? SHOALI_PACKET_MISSING_BYTES : 4 * body->values;
}

/* ------------------------------------------------------------------ tcx */

/* To all workers, or back to one: copies, and the packet itself as the last one. */
static __always_inline int send(struct __sk_buff *skb, const shoali_kernel_job *job,
                                shoali_kernel_port_key who, int verdict, const struct origin *from,
                                uint32_t bytes)
{
    const uint32_t asks = who.worker;
    const uint32_t last = verdict == SLOTS_ANSWER ? asks : job->workers - 1;
    for (uint32_t w = 0; w < SHOALI_KERNEL_WORKERS; w++) {
        if (w > last)
            break;
        if (verdict == SLOTS_ANSWER && w != asks)
            continue;
        who.worker = w;
        const shoali_kernel_port *port = bpf_map_lookup_elem(&ports, &who);
        struct heads *h = (void *)(long)skb->data;
        if (port == 0 || (void *)(h + 1) > (void *)(long)skb->data_end)
            return TC_ACT_SHOT;
        address(h, port, from, bytes);
        if (w == last)
            return (int)bpf_redirect(port->ifindex, 0);
        bpf_clone_redirect(skb, port->ifindex, 0);
    }
    return TC_ACT_SHOT;
}

SEC("tc")
int shoal_switchml(struct __sk_buff *skb)
{
    uint32_t count = 0;
    struct heads *h = heads_of(skb, &count);
    if (h == 0)
        return TC_ACT_UNSPEC;
    const shoali_kernel_port_key who = {.key = key_of(h), .worker = h->packet.worker};
    shoali_kernel_job *job = bpf_map_lookup_elem(&jobs, &who.key);
    const uint32_t slot = bpf_ntohs(h->packet.slot);
    if (job == 0 || slot >= job->slots || job->block > SHOALI_KERNEL_VALUES)
        return TC_ACT_UNSPEC;
    const uint32_t number = job->first_cell + slot;
    shoali_kernel_cell *cell = bpf_map_lookup_elem(&cells, &number);
    shoali_kernel_port *port = bpf_map_lookup_elem(&ports, &who);
    if (cell == 0 || port == 0 || !is_from(port, h, skb->ifindex))
        return TC_ACT_UNSPEC;
    struct origin from = {.ip = h->ip.daddr, .udp = h->udp.dest};
    __builtin_memcpy(from.mac, h->eth.h_dest, 6);
    struct slots_body body = {0};
    __sync_fetch_and_add(&job->packets, 1);
    __sync_fetch_and_add(&job->received_bytes, SHOALI_PACKET_BYTES + 4 * count);
    const int verdict = take(job, cell, h, (void *)(long)skb->data_end, count, &body);
    if (verdict == SLOTS_DROP)
        return TC_ACT_SHOT;
    const uint32_t bytes = SHOALI_PACKET_BYTES + body_bytes(&body);
    __sync_fetch_and_add(&job->sent_bytes, verdict == SLOTS_ANSWER ? bytes : job->workers * bytes);
    if (bpf_skb_change_tail(skb, HEADERS + bytes, 0) != 0 ||
        bpf_skb_pull_data(skb, HEADERS + bytes) != 0)
        return TC_ACT_SHOT;
    h = (void *)(long)skb->data;
    if ((void *)(h + 1) > (void *)(long)skb->data_end)
        return TC_ACT_SHOT;
    write_body(job, cell, &body, h, (void *)(long)skb->data_end);
    return send(skb, job, who, verdict, &from, bytes);
}

char LICENSE[] SEC("license") = "GPL";
