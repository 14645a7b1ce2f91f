/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does to frames, in software, with the library's codec: another implementation to
 * compare it with, which makes checksums anew where the engine changes them. */
#ifndef SHOALI_RTL_NIC_SOFT_H
#define SHOALI_RTL_NIC_SOFT_H

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "golden.h"

using Frame = std::vector<uint8_t>;

enum { ETH = 14, IP = 20, NIC_DEPTH = 512, NIC_FLOWS = 16 };

struct NicSettings {
    uint32_t k = 10;
    int strict = 1;
    uint8_t tos = 0x28;
    uint32_t skip = 168;
};

inline uint32_t be16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}
inline uint32_t be32(const uint8_t *at)
{
    return be16(at) << 16 | be16(at + 2);
}
inline void put16(uint8_t *at, uint32_t x)
{
    at[0] = (uint8_t)(x >> 8);
    at[1] = (uint8_t)x;
}

inline uint32_t sum16(const uint8_t *at, size_t bytes, uint32_t from)
{
    uint64_t sum = from;
    for (size_t i = 0; i < bytes; i++)
        sum += (uint32_t)at[i] << (i % 2 == 0 ? 8 : 0);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint32_t)sum;
}

/** Marked: IPv4 without options, TCP, whole, with the ToS; as long as it says. */
inline bool is_marked(const Frame &f, uint8_t tos)
{
    return f.size() >= 54 && be16(&f[12]) == 0x0800 && f[14] == 0x45 && (f[15] & 0xfc) == tos &&
           f[23] == 6 && (be16(&f[20]) & 0x3fff) == 0 && f[46] >> 4 >= 5;
}
inline size_t head_bytes(const Frame &f)
{
    return ETH + IP + 4 * (size_t)(f[46] >> 4);
}
inline bool has_data(const Frame &f)
{
    return (f[47] & 0x22) == 0 && f.size() == be16(&f[16]) + (size_t)ETH &&
           f.size() > head_bytes(f);
}

/** Sums over IP header and TCP with its pseudo header; 0xffff in both: checksums are right. */
inline uint32_t ip_sum(const Frame &f)
{
    return sum16(&f[ETH], IP, 0);
}
inline uint32_t tcp_sum(const Frame &f)
{
    uint32_t bytes = be16(&f[16]) - IP;
    return sum16(&f[ETH + IP], bytes, sum16(&f[26], 8, 6 + bytes));
}
/** Checksum fields such that the sums become ip and tcp (0xffff: right; anything else is an error
 * that was there before). */
inline void make_sums(Frame *f, uint32_t ip = 0xffff, uint32_t tcp = 0xffff)
{
    put16(&(*f)[24], 0);
    uint32_t x = sum16(nullptr, 0, ip + (~ip_sum(*f) & 0xffff));
    put16(&(*f)[24], x == 0xffff ? 0 : x);
    put16(&(*f)[50], 0);
    x = sum16(nullptr, 0, tcp + (~tcp_sum(*f) & 0xffff));
    put16(&(*f)[50], x == 0xffff ? 0 : x);
}

/** New payload behind the old header. */
inline Frame rebuilt(const Frame &f, const uint8_t *payload, size_t bytes, uint32_t urgent)
{
    Frame out(f.begin(), f.begin() + (long)head_bytes(f));
    out.insert(out.end(), payload, payload + bytes);
    put16(&out[16], (uint32_t)out.size() - ETH);
    put16(&out[52], urgent);
    make_sums(&out, ip_sum(f), tcp_sum(f));
    return out;
}

struct SoftNic {
    struct Flow {
        uint32_t base, age;
        bool wrapped;
        uint32_t counts[6]; // packets, bytes before and after, floats as BYTE, WORD, RAW
    };
    NicSettings set;
    std::map<std::vector<uint8_t>, Flow> flows;
    uint32_t born = 0;

    void begin(const std::vector<uint8_t> &key, uint32_t seq)
    {
        auto same = flows.find(key);
        if (same == flows.end() && flows.size() == NIC_FLOWS) {
            auto oldest = flows.begin();
            for (auto it = flows.begin(); it != flows.end(); ++it)
                if (it->second.age < oldest->second.age)
                    oldest = it;
            flows.erase(oldest);
        }
        uint32_t age = same != flows.end() ? same->second.age : born++;
        flows[key] = {seq + 1, age, false, {}};
    }

    void count(Flow *flow, const std::vector<float> &floats, size_t used)
    {
        flow->counts[0]++;
        flow->counts[1] += (uint32_t)(4 * floats.size());
        flow->counts[2] += (uint32_t)used;
        for (float x : floats) {
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            uint32_t tag = golden_code(set.k, set.strict, bits).tag;
            if (tag != 0)
                flow->counts[2 + tag]++;
        }
    }

    /** From the host to the link. */
    Frame code(const Frame &f)
    {
        if (!is_marked(f, set.tos))
            return f;
        std::vector<uint8_t> key(f.begin() + 26, f.begin() + 38);
        if ((f[47] & 2) != 0) {
            begin(key, be32(&f[38]));
            return f;
        }
        auto flow = flows.find(key);
        if (!has_data(f) || flow == flows.end())
            return f;
        uint32_t offset = be32(&f[38]) - flow->second.base;
        bool wrapped = flow->second.wrapped;
        flow->second.wrapped |= offset >> 31 != 0;
        size_t head = head_bytes(f), bytes = f.size() - head;
        if (be16(&f[52]) != 0 || bytes % 4 != 0 || offset % 4 != 0 ||
            (!wrapped && offset < set.skip))
            return f;
        std::vector<float> floats(bytes / 4);
        memcpy(floats.data(), &f[head], bytes);
        std::vector<uint8_t> coded(floats.size() * 5 + 2);
        size_t used = golden_encode(set.k, set.strict, floats.data(), floats.size(), coded.data());
        count(&flow->second, floats, used);
        return rebuilt(f, coded.data(), used, (uint32_t)floats.size());
    }

    /** From the link to the host; empty: corrupt. */
    Frame decode(const Frame &f)
    {
        if (!is_marked(f, set.tos) || !has_data(f) || be16(&f[52]) == 0 || be16(&f[52]) >= 16384)
            return f;
        size_t head = head_bytes(f), bytes = f.size() - head;
        std::vector<float> floats(be16(&f[52]));
        if (golden_decode(set.k, set.strict, &f[head], bytes, floats.data(), floats.size()) !=
            bytes)
            return {};
        return rebuilt(f, (const uint8_t *)floats.data(), 4 * floats.size(), 0);
    }
};

#endif
