// SPDX-License-Identifier: Apache-2.0
// What yosys-smtbmc with z3 proves of the aligner, for all inputs, from reset on. Depths are those
// of step.sh: z3 needs minutes for 8 cycles, and did not finish 20.
//
// - what waits never exceeds 33 bytes, and from 32 on nothing more is taken: no overflow;
// - as many bytes come out of the first packet as went in, in bursts that are full but for the last,
//   and the packet ends with its last byte: no burst is lost or doubled;
// - its end is out 6 moves after it was taken: two that drain, three stages and the output;
// - behind a packet nothing waits, so the next one finds what the first one found;
// - an offer stands until it is taken;
//
// With FORMAL_DATA, which takes longer, with bytes of one bit (W = 1: all bits of a byte go the same
// way):
// - every byte of the first packet (f_index is any) comes out at its place with its value.

    logic f_started = 1'b0;
    always_ff @(posedge clk) f_started <= 1'b1;
    always_comb assume (rst == !f_started);

    // What group_pack promises: lengths, zeros behind the ends, and it waits when told to.
    logic [4:0] f_left_len, f_right_len;
    always_comb begin
        f_left_len = right_at - 5'd2;
        f_right_len = 5'(len - {1'b0, right_at});
        assume (right_at >= 5'd2 && right_at <= 5'd18);
        assume (len >= {1'b0, right_at} && len <= {1'b0, right_at} + 6'd16);
`ifdef FORMAL_DATA
        assume ((left >> f_left_len) == 16'd0);
        assume ((right >> f_right_len) == 16'd0);
`endif
    end
    always_ff @(posedge clk)
        if (f_started && !$past(rst) && $past(!go || hold))
            assume ($stable({word, left, right, right_at, len, valid, last}));

    logic f_in_first, f_out_first;
    logic [9:0] f_in, f_out;
    logic [3:0] f_moves;
    logic [5:0] f_kept;
    always_comb begin
        f_kept = 6'd0;
        for (int i = 0; i < 32; i++) f_kept = f_kept + {5'd0, m_tkeep[i]};
    end

    always_ff @(posedge clk)
        if (rst) begin
            f_in_first <= 1'b1;
            f_out_first <= 1'b1;
            f_in <= 10'd0;
            f_out <= 10'd0;
            f_moves <= 4'd0;
        end else begin
            if (go && !hold && valid && f_in_first) begin
                f_in <= f_in + {4'd0, len};
                f_in_first <= !last;
            end
            if (go && !f_in_first) f_moves <= f_moves + 4'd1;
            if (m_tvalid && m_tready && f_out_first) begin
                f_out <= f_out + {4'd0, f_kept};
                f_out_first <= !m_tlast;
            end
        end

    always_ff @(posedge clk)
        if (f_started && !rst) begin
            assert (fill <= 6'd33);
            assert (fill < 6'd32 || hold);
            if ($past(!rst && go && active && out_last)) assert (fill == 6'd0 && !flush && !hold);
            if (m_tvalid && f_out_first) begin
                assert (m_tlast || f_kept == 6'd32);
                if (m_tlast) assert (!f_in_first && f_out + {4'd0, f_kept} == f_in);
            end
            if (f_moves > 4'd6) assert (!f_out_first);
            if ($past(f_started && !rst && m_tvalid && !m_tready))
                assert (m_tvalid && $stable({m_tkeep, m_tlast}));
        end

`ifdef FORMAL_DATA
    logic [33:0] f_group;
    assign f_group = {16'd0, left, word} | (34'(right) << right_at);

    (* anyconst *) logic [7:0] f_index;
    logic f_seen, f_value;
    logic [9:0] f_in_at, f_out_at;
    assign f_in_at = {2'd0, f_index} - f_in;
    assign f_out_at = {2'd0, f_index} - f_out;
    always_ff @(posedge clk)
        if (rst) f_seen <= 1'b0;
        else if (go && !hold && valid && f_in_first && f_in_at < {4'd0, len}) begin
            f_seen <= 1'b1;
            f_value <= f_group[f_in_at[5:0]];
        end
    always_ff @(posedge clk)
        if (f_started && !rst && m_tvalid && f_out_first && f_out_at < {4'd0, f_kept}) begin
            assert (f_seen);
            assert (m_tdata[f_out_at[4:0]] == f_value);
        end
`endif
