// SPDX-License-Identifier: Apache-2.0
// What yosys-smtbmc with z3 proves of the aligner, for all inputs. By induction, so for any number
// of cycles (of a packet up to 1023 bytes: the counters' width):
//
// - what waits never exceeds 33 bytes, and from 32 on nothing more is taken: no overflow;
// - as many bytes come out of the first packet as went in, in bursts that are full but for the
//   last, and the packet ends with its last byte: no burst is lost or doubled;
// - its end is out 6 moves after it was taken: two that drain, three stages and the output;
// - behind a packet nothing waits, so the next one finds what the first one found;
// - an offer stands until it is taken;
// - every byte of the first packet comes out at its place with its value (bytes of one bit, W = 1:
//   all bits of a byte go the same way).
//
// PART says which part is proven, 0 to 5. What the parts before it have proven is assumed.
`define F_HOLDS(part, what) \
    if (part == `PART) assert (what); else if (part < `PART) assume (what)

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
        if (`PART > 0) assume ((left >> f_left_len) == 16'd0 && (right >> f_right_len) == 16'd0);
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
    always_comb
        if (f_started && !rst) begin
            `F_HOLDS(0, !flush || (hold && fill >= 6'd1));
            `F_HOLDS(0, !hold || flush || fill >= 6'd32);
            `F_HOLDS(0, !(a_active && a_last) || a_emit);
            `F_HOLDS(0, !(b_active && b_last) || b_emit);
            `F_HOLDS(0, !f_a_ends || (a_count >= 6'd1 && a_count <= 6'd32));
            `F_HOLDS(0, !f_b_emits
                || (b_keep == f_mask(f_b_kept) && (b_last || f_b_kept == 6'd32)));
            `F_HOLDS(0, !m_tvalid || (m_tkeep == f_mask(f_kept) && (m_tlast || f_kept == 6'd32)));
            `F_HOLDS(0, !f_b_emits || (f_b_kept >= 6'd1 && f_b_kept <= 6'd32));
            `F_HOLDS(0, !m_tvalid || (f_kept >= 6'd1 && f_kept <= 6'd32));
            `F_HOLDS(0, !f_in_first || f_out_first);
            `F_HOLDS(0, !f_in_first || f_moves == 4'd0);
            if (f_in_first) `F_HOLDS(0, !f_m_ends && !f_b_ends && !f_a_ends && !flush);
            if (f_out_first) `F_HOLDS(0, f_in - f_out == f_rest);
            if (f_out_first && !f_in_first) begin
                `F_HOLDS(0, f_m_ends || f_b_ends || f_a_ends || flush);
                `F_HOLDS(0, f_moves
                    <= (f_m_ends ? 4'd4 : f_b_ends ? 4'd3 : f_a_ends ? 4'd2 : 4'd1));
                if (!f_m_ends && !f_b_ends && !f_a_ends && f_moves == 4'd1)
                    `F_HOLDS(0, fill <= 6'd1);
            end
        end

    always_ff @(posedge clk)
        if (f_started && !rst) begin
            `F_HOLDS(0, fill <= 6'd33);
            `F_HOLDS(0, fill < 6'd32 || hold);
            if ($past(!rst && go && active && out_last))
                `F_HOLDS(0, fill == 6'd0 && !flush && !hold);
            if (m_tvalid && f_out_first) begin
                `F_HOLDS(0, m_tlast || f_kept == 6'd32);
                if (m_tlast) `F_HOLDS(0, !f_in_first && f_out + {4'd0, f_kept} == f_in);
            end
            if (f_moves > 4'd6) `F_HOLDS(0, !f_out_first);
            if ($past(f_started && !rst && m_tvalid && !m_tready))
                `F_HOLDS(0, m_tvalid && $stable({m_tkeep, m_tlast}));
        end

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
        if (`PART > 0)
            assume (f_group
                == (valid && f_in_first && f_in_at < {4'd0, len} ? 34'd1 << f_in_at : 34'd0));
    end

    // Where it is, stage by stage, counted from the burst that the stage makes. A group lies behind
    // the bytes that waited as it came (f_.._fill), its tag word first; one of 0 bytes drains. What
    // waits in kept waits for the first group behind it.
    logic [5:0] f_a_fill, f_a_len, f_b_fill, f_b_len, f_waits;
    logic [6:0] f_a_total, f_b_total;
    logic [9:0] f_a_at, f_b_at;
    logic f_a_first, f_b_first;  // of the first packet
    always_ff @(posedge clk)
        if (go) begin
            f_a_fill <= fill;
            f_a_len <= hold ? 6'd0 : len;
            f_b_fill <= f_a_fill;
            f_b_len <= f_a_len;
        end
    always_comb begin
        f_a_total = {1'b0, f_a_fill} + {1'b0, f_a_len};
        f_b_total = {1'b0, f_b_fill} + {1'b0, f_b_len};
        f_b_first = f_out_first && !f_m_ends;
        f_a_first = f_b_first && !f_b_ends;
        f_b_at = f_out_at - f_m;
        f_a_at = f_b_at - f_b;
        f_waits = b_active ? f_b_fill : a_active ? f_a_fill : fill;
    end
    function automatic logic [5:0] f_left_over(input logic [6:0] total, input logic emit, is_last);
        f_left_over = is_last ? 6'd0 : 6'(emit ? total - 7'd32 : total);
    endfunction
    function automatic logic [31:0] f_ring(input logic first, input logic [9:0] at,
                                           input logic [5:0] behind, input logic [6:0] total);
        f_ring = first && at >= {4'd0, behind} + 10'd2 && at < {3'd0, total}
            ? 32'd1 << at[4:0] : 32'd0;
    endfunction
    function automatic logic [1:0] f_word(input logic first, input logic [9:0] at,
                                          input logic [5:0] behind);
        f_word = first && (at == {4'd0, behind} || at == {4'd0, behind} + 10'd1)
            ? 2'd1 << at[0] : 2'd0;
    endfunction
    function automatic logic f_group_fits(input logic drains, emits,
                                          input logic [5:0] behind, bytes);
        f_group_fits = drains ? behind <= 6'd33 && bytes == 6'd0 && emits
            : behind <= 6'd31 && bytes >= 6'd2 && bytes <= 6'd34;
    endfunction
    always_comb
        if (f_started && !rst) begin
            if (a_active) begin
                `F_HOLDS(1, fill == f_left_over(f_a_total, a_emit, a_last));
                `F_HOLDS(1, a_emit == (f_a_total >= 7'd32 || a_last));
                `F_HOLDS(1, !a_last || f_a_total <= 7'd32);
                `F_HOLDS(1, a_count == f_a_total[5:0] && a_fill == f_a_fill[4:0]);
                `F_HOLDS(1, f_group_fits(a_hold, a_emit, f_a_fill, f_a_len));
                if (!a_hold) `F_HOLDS(2, ring == f_ring(f_a_first, f_a_at, f_a_fill, f_a_total));
                if (!a_hold) `F_HOLDS(2, a_word == f_word(f_a_first, f_a_at, f_a_fill));
            end
            if (b_active) begin
                `F_HOLDS(1, (a_active ? f_a_fill : fill) == f_left_over(f_b_total, b_emit, b_last));
                `F_HOLDS(1, b_emit == (f_b_total >= 7'd32 || b_last));
                `F_HOLDS(1, !b_last || {1'b0, f_b_kept} == f_b_total);
                `F_HOLDS(1, f_group_fits(b_hold, b_emit, f_b_fill, f_b_len));
                `F_HOLDS(1, b_split == (f_b_fill[4:0] == 5'd31));
                for (int i = 0; i < 34; i++)
                    `F_HOLDS(1, b_passed[i] == (b_hold || i < {26'd0, f_b_fill} + 32'd2));
                if (!b_hold) `F_HOLDS(3, b_ring == f_ring(f_b_first, f_b_at, f_b_fill, f_b_total));
                if (!b_hold) `F_HOLDS(3, b_word == f_word(f_b_first, f_b_at, f_b_fill));
            end
            for (int i = 0; i < 32; i++)
                if (i < {26'd0, f_waits}) `F_HOLDS(4, kept[i] == (f_b_first && f_b_at == 10'(i)));
            if (f_waits == 6'd33) `F_HOLDS(4, spare == (f_b_first && f_b_at == 10'd32));
            if (m_tvalid)
                `F_HOLDS(5, (m_tdata & m_tkeep)
                    == (f_out_first && f_out_at < {4'd0, f_kept} ? 32'd1 << f_out_at : 32'd0));
        end
