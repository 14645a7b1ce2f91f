/* SPDX-License-Identifier: Apache-2.0 */
/* SwitchML in the kernel: packets of lossy aggregation (src/wire/packet.h) are summed where they
 * enter a switch port, and the last one of a round leaves as the result to every worker. At each
 * port's ingress, by tc: results pass through the ports' queues and shapers then, which XDP's
 * redirects go around.
 *
 * What it does not know (another key, IPv6, fragments, larger blocks) goes on to where it was sent:
 * the daemon in user space. Maps: `jobs` by key, `cells` by number, `ports` by job and worker. */
#include "slots.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { JOBS = 16, CELLS = 2048, HEADERS = 14 + 20 + 8 };

struct locked_cell {
    struct bpf_spin_lock lock;
    uint32_t unused;
    struct slots_cell cell;
};

/** Where a worker is, as a packet to it says. */
struct port {
    uint32_t ifindex;
    uint32_t ip; /* network order, as the next two */
    uint16_t udp;
    uint8_t mac[6];
};

struct port_key {
    uint64_t key;
    uint32_t worker, zero;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, JOBS);
    __type(key, uint64_t); /* as in the packet: network order */
    __type(value, struct slots_job);
} jobs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, CELLS);
    __type(key, uint32_t);
    __type(value, struct locked_cell);
} cells SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, JOBS *SLOTS_WORKERS);
    __type(key, struct port_key);
    __type(value, struct port);
} ports SEC(".maps");

struct heads {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    struct shoali_packet_wire packet;
} __attribute__((packed));

/* A packet of ours, whole and without IP options; 0: not ours. */
static __always_inline struct heads *heads_of(void *data, void *end, uint32_t *count_out)
{
    struct heads *h = data;
    if ((void *)(h + 1) > end)
        return 0;
    if (h->eth.h_proto != bpf_htons(ETH_P_IP) || h->ip.version != 4 || h->ip.ihl != 5 ||
        h->ip.protocol != IPPROTO_UDP || (h->ip.frag_off & bpf_htons(0x3fff)) != 0 ||
        h->packet.magic != bpf_htons(SHOALI_PACKET_MAGIC) ||
        h->packet.version_kind >> 4 != SHOALI_PACKET_VERSION)
        return 0;
    const uint32_t length = bpf_ntohs(h->udp.len);
    if (length < 8 + SHOALI_PACKET_BYTES || (length & 3) != 0)
        return 0;
    *count_out = (length - 8 - SHOALI_PACKET_BYTES) / 4;
    return h;
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

/* Towards a worker, from where it sends to. UDP without a checksum: keys and rounds tell. */
static __always_inline void address(struct heads *h, const struct port *to, uint32_t from_ip,
                                    uint16_t from_port, uint32_t bytes)
{
    __builtin_memcpy(h->eth.h_dest, to->mac, 6);
    h->ip.saddr = from_ip;
    h->ip.daddr = to->ip;
    h->ip.ttl = 64;
    h->ip.tot_len = bpf_htons((uint16_t)(28 + bytes));
    h->udp.source = from_port;
    h->udp.dest = to->udp;
    h->udp.len = bpf_htons((uint16_t)(8 + bytes));
    h->udp.check = 0;
    checksum(&h->ip);
}

/* Under the lock: take the packet; its head becomes its answer's. */
static __always_inline int take(struct slots_job *job, struct locked_cell *locked, struct heads *h,
                                void *end, uint32_t count, struct slots_body *body)
{
    uint32_t add;
    uint32_t *values = (uint32_t *)(h + 1);
    bpf_spin_lock(&locked->lock);
    int verdict = slots_begin(job, &locked->cell, &h->packet, count, &add, body);
    if (verdict == SLOTS_SEND) {
        const uint32_t half = locked->cell.round & 1;
        for (uint32_t i = 0; i < SLOTS_VALUES; i++) {
            if (add == 0 || i >= count || (void *)(values + i + 1) > end)
                break;
            const uint32_t value = bpf_ntohl(values[i]);
            if (half)
                locked->cell.values[1][i] = add == 2 ? locked->cell.values[1][i] + value : value;
            else
                locked->cell.values[0][i] = add == 2 ? locked->cell.values[0][i] + value : value;
        }
        verdict = slots_end(job, &locked->cell, &h->packet, body);
    }
    bpf_spin_unlock(&locked->lock);
    return verdict;
}

static __always_inline void write_body(const struct slots_job *job,
                                       const struct locked_cell *locked,
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
    for (uint32_t i = 0; i < SLOTS_VALUES; i++) {
        if (i >= body->values || (void *)(values + i + 1) > end)
            break;
        values[i] = bpf_htonl(body->half ? locked->cell.values[1][i] : locked->cell.values[0][i]);
    }
}

static __always_inline uint32_t body_bytes(const struct slots_body *body)
{
    return body->missing ? SHOALI_PACKET_MISSING_BYTES : 4 * body->values;
}

/* ------------------------------------------------------------------ tc */

SEC("tc")
int shoal_switchml(struct __sk_buff *skb)
{
    uint32_t count = 0;
    if (bpf_skb_pull_data(skb, skb->len) != 0)
        return TC_ACT_OK;
    struct heads *h = heads_of((void *)(long)skb->data, (void *)(long)skb->data_end, &count);
    if (h == 0)
        return TC_ACT_OK;
    struct port_key who = {.key = key_of(h), .worker = h->packet.worker};
    struct slots_job *job = bpf_map_lookup_elem(&jobs, &who.key);
    const uint32_t slot = bpf_ntohs(h->packet.slot);
    if (job == 0 || slot >= job->slots || job->block > SLOTS_VALUES)
        return TC_ACT_OK;
    const uint32_t number = job->first_cell + slot;
    struct locked_cell *locked = bpf_map_lookup_elem(&cells, &number);
    if (locked == 0)
        return TC_ACT_OK;
    const uint32_t from_ip = h->ip.daddr;
    const uint16_t from_port = h->udp.dest;
    struct slots_body body = {0};
    __sync_fetch_and_add(&job->packets, 1);
    const int verdict = take(job, locked, h, (void *)(long)skb->data_end, count, &body);
    if (verdict == SLOTS_DROP)
        return TC_ACT_SHOT;
    const uint32_t bytes = SHOALI_PACKET_BYTES + body_bytes(&body);
    if (bpf_skb_change_tail(skb, HEADERS + bytes, 0) != 0 ||
        bpf_skb_pull_data(skb, HEADERS + bytes) != 0)
        return TC_ACT_SHOT;
    h = (void *)(long)skb->data;
    if ((void *)(h + 1) > (void *)(long)skb->data_end)
        return TC_ACT_SHOT;
    write_body(job, locked, &body, h, (void *)(long)skb->data_end);
    for (uint32_t w = 0; w < SLOTS_WORKERS; w++) {
        if (w >= job->workers)
            break;
        if (verdict == SLOTS_ANSWER && w != who.worker)
            continue;
        struct port_key to = {.key = who.key, .worker = w};
        const struct port *port = bpf_map_lookup_elem(&ports, &to);
        if (port == 0)
            continue;
        h = (void *)(long)skb->data;
        if ((void *)(h + 1) > (void *)(long)skb->data_end)
            return TC_ACT_SHOT;
        address(h, port, from_ip, from_port, bytes);
        bpf_clone_redirect(skb, port->ifindex, 0);
    }
    return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "GPL";
