// SPDX-License-Identifier: Apache-2.0
// What yosys-smtbmc with z3 proves of the aligner, for all inputs. By induction, so for any number of
// cycles (of a packet up to 1023 bytes: the counters' width):
//
// - what waits never exceeds 33 bytes, and from 32 on nothing more is taken: no overflow;
// - as many bytes come out of the first packet as went in, in bursts that are full but for the last,
//   and the packet ends with its last byte: no burst is lost or doubled;
// - its end is out 6 moves after it was taken: two that drain, three stages and the output;
// - behind a packet nothing waits, so the next one finds what the first one found;
// - an offer stands until it is taken;
//
// With FORMAL_DATA, from reset to the depth of step.sh, with bytes of one bit (W = 1: all bits of a
// byte go the same way):
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
    // Bytes of the bursts in stage b and in the output: m_tkeep is asserted to have so many.
    logic [5:0] f_b_kept, f_kept;
    always_ff @(posedge clk)
        if (go) begin
            f_b_kept <= a_last ? a_count : 6'd32;
            f_kept <= f_b_kept;
        end
    function automatic logic [31:0] f_mask(input logic [5:0] count);
        for (int i = 0; i < 32; i++) f_mask[i] = i < {26'd0, count};
    endfunction

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
            if (go && !f_in_first && !(&f_moves)) f_moves <= f_moves + 4'd1;
            if (m_tvalid && m_tready && f_out_first) begin
                f_out <= f_out + {4'd0, f_kept};
                f_out_first <= !m_tlast;
            end
        end

    // Where bytes are: M in the output, B and A in the stages' bursts, the rest waits. Each of them
    // may end a packet. What follows for them at every moment makes the proof inductive.
    logic f_m_ends, f_b_emits, f_b_ends, f_a_emits, f_a_ends;
    logic [9:0] f_m, f_b, f_a, f_rest;
    always_comb begin
        f_m_ends = m_tvalid && m_tlast;
        f_b_emits = b_active && b_emit;
        f_b_ends = f_b_emits && b_last;
        f_a_emits = a_active && a_emit;
        f_a_ends = f_a_emits && a_last;
        f_m = m_tvalid ? {4'd0, f_kept} : 10'd0;
        f_b = f_b_emits ? {4'd0, f_b_kept} : 10'd0;
        f_a = !f_a_emits ? 10'd0 : a_last ? {4'd0, a_count} : 10'd32;
        f_rest = f_m;
        if (!f_m_ends) f_rest = f_rest + f_b;
        if (!f_m_ends && !f_b_ends) f_rest = f_rest + f_a;
        if (!f_m_ends && !f_b_ends && !f_a_ends) f_rest = f_rest + {4'd0, fill};
    end
    always_ff @(posedge clk)
        if (f_started && !rst) begin
            assert (!flush || (hold && fill >= 6'd1));
            assert (!hold || flush || fill >= 6'd32);
            assert (!(a_active && a_last) || a_emit);
            assert (!(b_active && b_last) || b_emit);
            assert (!f_a_ends || (a_count >= 6'd1 && a_count <= 6'd32));
            assert (!f_b_emits || (b_keep == f_mask(f_b_kept) && (b_last || f_b_kept == 6'd32)));
            assert (!m_tvalid || (m_tkeep == f_mask(f_kept) && (m_tlast || f_kept == 6'd32)));
            assert (!f_b_emits || (f_b_kept >= 6'd1 && f_b_kept <= 6'd32));
            assert (!m_tvalid || (f_kept >= 6'd1 && f_kept <= 6'd32));
            assert (!f_in_first || f_out_first);
            assert (!f_in_first || f_moves == 4'd0);
            if (f_in_first) assert (!f_m_ends && !f_b_ends && !f_a_ends && !flush);
            if (f_out_first) assert (f_in - f_out == f_rest);
            if (f_out_first && !f_in_first) begin
                assert (f_m_ends || f_b_ends || f_a_ends || flush);
                assert (f_moves <= (f_m_ends ? 4'd4 : f_b_ends ? 4'd3 : f_a_ends ? 4'd2 : 4'd1));
                if (!f_m_ends && !f_b_ends && !f_a_ends && f_moves == 4'd1) assert (fill <= 6'd1);
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
    // One byte is coloured: the f_index-th of the first packet, any one, is 1 and all others are 0.
    // The module only chooses among bytes, by what never looks at them, and takes the OR of such
    // choices; so what holds for each byte alone holds for all of them at once.
    (* anyconst *) logic [9:0] f_index;
    logic [33:0] f_group;
    logic [9:0] f_in_at, f_out_at;
    always_comb begin
        f_group = {16'd0, left, word} | (34'(right) << right_at);
        f_in_at = f_index - f_in;
        f_out_at = f_index - f_out;
        assume (f_group == (valid && f_in_first && f_in_at < {4'd0, len} ? 34'd1 << f_in_at : 34'd0));
    end
    always_ff @(posedge clk)
        if (f_started && !rst && m_tvalid)
            assert ((m_tdata & m_tkeep)
                == (f_out_first && f_out_at < {4'd0, f_kept} ? 32'd1 << f_out_at : 32'd0));
`endif
