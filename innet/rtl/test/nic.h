/* SPDX-License-Identifier: Apache-2.0 */
/* The verilated engine as something that takes and gives frames: test bench and co-simulation. */
#ifndef SHOALI_RTL_NIC_H
#define SHOALI_RTL_NIC_H

#include "Vnic_engine.h"
#include "nic_soft.h"
#include "stream.h"

/** One direction. */
struct NicPort {
    Source in;
    Sink out;
    Frame getting;
    std::deque<Frame> got;

    explicit NicPort(uint64_t seed) : in(seed), out(seed + 1)
    {
    }
    void put(const Frame &f)
    {
        cut_bursts(f.data(), f.size(), 0, &in.queue);
    }
    void take(const Burst &b)
    {
        out.broken += b.keep == 0; // a beat must bring something
        getting.insert(getting.end(), b.data, b.data + b.bytes());
        if (!b.last)
            return;
        got.push_back(getting);
        getting.clear();
    }
};

struct Nic {
    Vnic_engine top;
    NicPort tx, rx;
    uint64_t cycles = 0;

    explicit Nic(uint64_t seed) : tx(seed), rx(seed + 2)
    {
        top.rst = 1;
        for (int i = 0; i < 4; i++)
            edge();
        top.rst = 0;
        top.s_bready = top.s_rready = 1;
    }

    void edge()
    {
        clock_edge(&top, &cycles);
    }

    void cycle()
    {
        const Burst *t = tx.in.offer(), *r = rx.in.offer();
        top.tx_s_tvalid = t != nullptr;
        if (t != nullptr) {
            memcpy(&top.tx_s_tdata[0], t->data, BURST_BYTES);
            top.tx_s_tkeep = t->keep;
            top.tx_s_tlast = t->last;
        }
        top.rx_s_tvalid = r != nullptr;
        if (r != nullptr) {
            memcpy(&top.rx_s_tdata[0], r->data, BURST_BYTES);
            top.rx_s_tkeep = r->keep;
            top.rx_s_tlast = r->last;
        }
        top.tx_m_tready = tx.out.choose();
        top.rx_m_tready = rx.out.choose();
        top.eval();
        bool t_ready = top.tx_s_tready, r_ready = top.rx_s_tready;
        Burst tb, rb;
        memcpy(tb.data, &top.tx_m_tdata[0], BURST_BYTES);
        tb.keep = top.tx_m_tkeep;
        tb.last = top.tx_m_tlast;
        memcpy(rb.data, &top.rx_m_tdata[0], BURST_BYTES);
        rb.keep = top.rx_m_tkeep;
        rb.last = top.rx_m_tlast;
        bool t_moved = tx.out.see(top.tx_m_tvalid, tb), r_moved = rx.out.see(top.rx_m_tvalid, rb);
        edge();
        tx.in.taken(t_ready);
        rx.in.taken(r_ready);
        if (t_moved)
            tx.take(tb);
        if (r_moved)
            rx.take(rb);
    }

    void write(uint32_t address, uint32_t value)
    {
        top.s_awaddr = (uint16_t)address;
        top.s_wdata = value;
        top.s_awvalid = top.s_wvalid = 1;
        for (bool done = false; !done; cycle()) {
            top.eval();
            done = top.s_awready;
        }
        top.s_awvalid = top.s_wvalid = 0;
    }
    uint32_t read(uint32_t address)
    {
        top.s_araddr = (uint16_t)address;
        top.s_arvalid = 1;
        for (bool done = false; !done; cycle()) {
            top.eval();
            done = top.s_arready;
        }
        top.s_arvalid = 0;
        while (!top.s_rvalid)
            cycle();
        uint32_t value = top.s_rdata;
        cycle();
        return value;
    }
    void set(const NicSettings &s)
    {
        write(0x04, (s.k - 6) / 2);
        write(0x08, (uint32_t)s.strict);
        write(0x0c, s.tos);
        write(0x10, s.skip);
    }
};

#endif
