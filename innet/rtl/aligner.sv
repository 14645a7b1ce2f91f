// SPDX-License-Identifier: Apache-2.0
// Groups of 2 to 34 bytes to full bursts of 32; what does not fill one waits for the next group.
//
//   cycle      0        1                       2                3
//   group      [ in ]
//   stage a             [ halves turned by 0..3 ]
//   stage b                                     [ the ring ]
//   out                                                          [ burst, if 32 bytes are there ]
//
// The ring is the payload of a group on the 32 byte lanes where it belongs, wrapped around: above
// the fill level it completes this burst, below it begins the next. The tag word goes to the lanes
// fill and fill+1.
//
// A group may complete two bursts, and the last one of a packet may leave a rest behind: then `hold`
// is high in the next cycle and the input waits while a burst leaves without one. At most 34 bytes
// come per group, so incompressible data hold once per 16 groups: 17 bursts for 16.
//
// Everything moves when go is high: the output is empty or taken. Fill level and what leaves are
// decided as a group enters; the data follow.
module aligner #(
    parameter int W = 8  // bits of a byte; the proof takes 1, as all bits of a byte go one way
) (
    input logic clk,
    input logic rst,
    output logic go,
    output logic hold,            // a group is taken when go && !hold
    input logic [2*W-1:0] word,   // group_pack.sv has the fields of a group
    input logic [16*W-1:0] left,
    input logic [16*W-1:0] right,
    input logic [4:0] right_at,
    input logic [5:0] len,
    input logic valid,
    input logic last,             // of a packet
    output logic [32*W-1:0] m_tdata,
    output logic [31:0] m_tkeep,
    output logic m_tvalid,
    output logic m_tlast,
    input logic m_tready
);
    assign go = !m_tvalid || m_tready;

    // ------------------------------------------------------------ what leaves when

    logic [5:0] fill;  // bytes that wait before this cycle's group, 0 .. 33
    logic flush;       // they end a packet
    logic active, ends, full, out_last, more;
    logic [6:0] total;  // 0 .. 65
    always_comb begin
        active = hold || valid;
        ends = hold ? flush : valid && last;
        total = {1'b0, fill} + (hold ? 7'd0 : {1'b0, len});
        full = total[6:5] != 2'd0;
        out_last = ends && !total[6] && (!total[5] || total[4:0] == 5'd0);
        more = ends && !out_last;
    end

    always_ff @(posedge clk)
        if (rst) begin
            fill <= 6'd0;
            flush <= 1'b0;
            hold <= 1'b0;
        end else if (go && active) begin
            fill <= out_last ? 6'd0 : {total[6], total[4:0]};  // without the burst that leaves
            flush <= more;
            hold <= more || total[6];
        end

    // ------------------------------------------------------------ stage a

    logic [4:0] left_to, right_to;  // lanes of their first bytes
    logic [17*W-1:0] left_1, right_1;  // by 0 or 1 byte
    always_comb begin
        left_to = fill[4:0] + 5'd2;
        right_to = fill[4:0] + right_at;
        left_1 = left_to[0] ? {left, {W{1'b0}}} : {{W{1'b0}}, left};
        right_1 = right_to[0] ? {right, {W{1'b0}}} : {{W{1'b0}}, right};
    end

    logic a_active, a_emit, a_last, a_hold;
    logic [4:0] a_fill;
    logic [5:0] a_count;
    logic [2:0] a_left_to, a_right_to;  // times 4
    logic [19*W-1:0] a_left, a_right;
    logic [2*W-1:0] a_word;
    always_ff @(posedge clk)
        if (rst) a_active <= 1'b0;
        else if (go) begin
            a_active <= active;
            a_emit <= active && (full || ends);
            a_last <= out_last;
            a_hold <= hold;
            a_fill <= fill[4:0];
            a_count <= total[5:0];
            a_left_to <= left_to[4:2];
            a_right_to <= right_to[4:2];
            a_left <= left_to[1] ? {left_1, {2*W{1'b0}}} : {{2*W{1'b0}}, left_1};
            a_right <= right_to[1] ? {right_1, {2*W{1'b0}}} : {{2*W{1'b0}}, right_1};
            a_word <= fill[0] ? {word[W-1:0], word[2*W-1:W]} : word;  // lanes 2i+1 and 2i
        end

    // ------------------------------------------------------------ stage b

    logic [23*W-1:0] left_4, right_4;    // by 0 or 4 more
    logic [31*W-1:0] left_12, right_12;  // by 0 or 8 more; then half of the ring or not
    logic [32*W-1:0] ring;
    logic [33:0] passed;                 // lane i is below fill + 2
    always_comb begin
        left_4 = a_left_to[0] ? {a_left, {4*W{1'b0}}} : {{4*W{1'b0}}, a_left};
        right_4 = a_right_to[0] ? {a_right, {4*W{1'b0}}} : {{4*W{1'b0}}, a_right};
        left_12 = a_left_to[1] ? {left_4, {8*W{1'b0}}} : {{8*W{1'b0}}, left_4};
        right_12 = a_right_to[1] ? {right_4, {8*W{1'b0}}} : {{8*W{1'b0}}, right_4};
        ring = (a_left_to[2] ? {left_12[16*W-1:0], {W{1'b0}}, left_12[31*W-1:16*W]}
                : {{W{1'b0}}, left_12})
            | (a_right_to[2] ? {right_12[16*W-1:0], {W{1'b0}}, right_12[31*W-1:16*W]}
                : {{W{1'b0}}, right_12});
        for (int i = 0; i < 34; i++) passed[i] = a_hold || i < {27'd0, a_fill} + 32'd2;
    end

    logic b_active, b_emit, b_last, b_hold, b_split;
    logic [31:0] b_keep;
    logic [33:0] b_passed;
    logic [32*W-1:0] b_ring;
    logic [2*W-1:0] b_word;
    always_ff @(posedge clk)
        if (rst) b_active <= 1'b0;
        else if (go) begin
            b_active <= a_active;
            b_emit <= a_emit;
            b_last <= a_last;
            b_hold <= a_hold;
            b_split <= a_fill == 5'd31;  // the tag word's second byte is in the next burst
            for (int i = 0; i < 32; i++) b_keep[i] <= !a_last || i < {26'd0, a_count};
            b_passed <= passed;
            b_ring <= ring;
            b_word <= a_word;
        end

    // ------------------------------------------------------------ output

    logic [32*W-1:0] kept, burst, next;  // burst: kept, then the tag word, then the ring
    logic [W-1:0] spare;              // byte 32 of what waits
    always_comb begin
        for (int i = 0; i < 32; i++) begin
            burst[W*i+:W] = b_passed[i+2] ? kept[W*i+:W] : b_passed[i] ? b_word[W*(i%2)+:W]
                : b_ring[W*i+:W];
            next[W*i+:W] = b_emit ? b_ring[W*i+:W] : burst[W*i+:W];
        end
        if (b_emit && b_split) next[W-1:0] = b_word[W-1:0];
        if (b_hold) next[W-1:0] = spare;
    end

    always_ff @(posedge clk)
        if (go) begin
            if (b_active) begin
                kept <= next;
                spare <= b_ring[W-1:0];
            end
            m_tdata <= burst;
            m_tkeep <= b_keep;
            m_tlast <= b_last;
        end

    always_ff @(posedge clk)
        if (rst) m_tvalid <= 1'b0;
        else if (go) m_tvalid <= b_active && b_emit;

`ifdef FORMAL
    `include "test/aligner_formal.svh"
`endif
endmodule
