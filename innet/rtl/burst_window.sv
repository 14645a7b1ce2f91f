// SPDX-License-Identifier: Apache-2.0
// Bursts of a coded packet to one group of up to 34 bytes per cycle.
//
//   cycle     0      1           2                   3              4
//   s_tdata   [ in ]
//   coming           [ bytes announced by each byte ]
//   next                         [ for each byte: where the group behind it begins ]
//   here                                             [ the same ]
//   at                           [ pointer ]
//   group                                                           [ window moved by 0 .. 31 ]
//
// Where the next group begins depends on the tags of this one: a loop that must close in one cycle.
// So for each of the 32 places where a group may begin, the beginning of its successor is computed
// as a burst passes by, and the loop is a choice among ready pointers.
//
// Nothing but the pointer waits for that choice. A burst that the pointer enters is in `next`
// (in_next) and moves on to `here` a cycle later, whatever the pointer does then: it finds its burst
// there, or the following one in `next`. So the bursts' clock enables and s_taken come from
// registers. The window is cut a cycle behind the pointer, when its burst is in `here` in any case.
//
// Places count from the last byte of the burst before (0), so that a tag word always ends in the
// burst to which its place belongs; a packet begins at place 1. A group reaches at most 64 bytes
// beyond, into the following burst. A successor at 32 and more lies in that one, one at 64 in the
// one after.
//
// A packet's end is checked: its groups must end exactly where its bytes do, else `bad` comes with
// its final group; and it gets its final group even if it ends early, so that nothing ever waits.
module burst_window (
    input logic clk,
    input logic rst,
    input logic go,
    input logic [255:0] s_tdata,
    input logic [5:0] s_bytes,      // 1 .. 32; less than 32 in the last burst only
    input logic [13:0] s_floats,    // of the decoded packet, at least 1; read with its first burst
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_taken,
    output logic [15:0] word,       // tag word of a group
    output logic odd,               // its payloads begin at byte 1 of payloads, else at 0
    output logic [263:0] payloads,  // anything may follow the last one
    output logic valid,
    output logic final_group,       // of its packet
    output logic [2:0] final_tail,  // floats in it, 0 for 8
    output logic bad                // with the final group
);
    // ------------------------------------------------------------ coming: announced bytes

    // Bytes that the four tags in one byte announce.
    function automatic logic [4:0] announced(input logic [7:0] t);
        announced = {2'd0, t[1:0] == 2'd3, t[1:0] == 2'd2, t[1:0] == 2'd1}
            + {2'd0, t[3:2] == 2'd3, t[3:2] == 2'd2, t[3:2] == 2'd1}
            + {2'd0, t[5:4] == 2'd3, t[5:4] == 2'd2, t[5:4] == 2'd1}
            + {2'd0, t[7:6] == 2'd3, t[7:6] == 2'd2, t[7:6] == 2'd1};
    endfunction

    logic in_next, coming_valid, next_valid, next_moves;
    assign next_moves = go && (in_next || !next_valid);  // and is what was coming then
    assign s_taken = next_moves || (go && !coming_valid);

    logic [255:0] coming_data;
    logic [159:0] coming_size;  // 32 x 5 bits
    logic [5:0] coming_bytes;
    logic [13:0] coming_floats;
    logic coming_last, coming_first, fresh;  // fresh: the next burst to come begins a packet
    always_ff @(posedge clk)
        if (rst) begin
            coming_valid <= 1'b0;
            fresh <= 1'b1;
        end else if (s_taken) begin
            coming_valid <= s_tvalid;
            fresh <= s_tvalid ? s_tlast : fresh;
        end
    always_ff @(posedge clk)
        if (s_taken) begin
            coming_data <= s_tdata;
            coming_bytes <= s_bytes;
            coming_last <= s_tlast;
            coming_first <= fresh;
            coming_floats <= s_floats - 14'd1;
            for (int i = 0; i < 32; i++) coming_size[5*i+:5] <= announced(s_tdata[8*i+:8]);
        end

    // ------------------------------------------------------------ next, here: successors

    logic [255:0] next_data, here_data;
    logic [7:0] before_data;    // the last byte of the burst before `here`
    logic [4:0] size_before;    // what the last byte of the burst before the coming one announces
    // 7 x 32 bits: where the next group begins, bit 5 instead whether that is >= 32
    logic [223:0] successors, next_successors, here_successors;
    logic [5:0] next_bytes, here_bytes;
    logic next_last, next_first, here_last;
    logic [10:0] next_left;     // of a packet's first burst
    logic [2:0] next_tail;
    logic [6:0] behind;
    always_comb
        for (int i = 0; i < 32; i++) begin
            behind = {2'd0, i == 0 ? size_before : coming_size[5*((i+31)%32)+:5]}
                + {2'd0, coming_size[5*i+:5]} + 7'(i + 2);
            for (int b = 0; b < 7; b++) successors[32*b+i] = b == 5 ? |behind[6:5] : behind[b];
        end

    always_ff @(posedge clk)
        if (rst) next_valid <= 1'b0;
        else if (next_moves) next_valid <= coming_valid;
    always_ff @(posedge clk)
        if (next_moves) begin
            next_data <= coming_data;
            if (coming_valid) size_before <= coming_size[159:155];
            next_last <= coming_last;
            next_first <= coming_first;
            next_bytes <= coming_bytes;
            next_left <= coming_floats[13:3];
            next_tail <= coming_floats[2:0] + 3'd1;
            next_successors <= successors;
        end
    always_ff @(posedge clk)
        if (go && in_next && next_valid) begin
            before_data <= here_data[255:248];
            here_data <= next_data;
            here_last <= next_last;
            here_bytes <= next_bytes;
            here_successors <= next_successors;
        end

    // ------------------------------------------------------------ the pointer

    logic [4:0] at;
    logic skip;              // the group begins one burst later still
    logic drain;             // the packet's groups are done, but not its bursts
    logic there, following;  // the pointer's burst, and the one behind it
    logic last, following_last, at_final, fire, crosses, ended, done, leaves;
    logic [6:0] to;
    always_comb begin
        there = next_valid || !in_next;
        following = in_next ? coming_valid : next_valid;
        last = in_next ? next_last : here_last;
        following_last = in_next ? coming_last : next_last;
        for (int b = 0; b < 7; b++)
            to[b] = 1'({next_successors[32*b+:32], here_successors[32*b+:32]} >> {in_next, at});
        crosses = to[5];
        to[5] = crosses && !to[6];
        fire = there && (following || last) && !skip && !drain;
        ended = last ? crosses : following_last && to[6];
        done = at_final || ended;
        leaves = fire ? crosses || (last && at_final) : there && (skip || drain);
    end

    always_ff @(posedge clk)
        if (rst) begin
            at <= 5'd1;
            in_next <= 1'b1;
            skip <= 1'b0;
            drain <= 1'b0;
        end else if (go) begin
            if (fire) at <= to[4:0];
            if (fire && done || drain) at <= 5'd1;
            in_next <= leaves || !there;
            skip <= fire && to[6] && !done;
            drain <= fire ? done && !last : drain && !(there && last);
        end

    logic begins, was_final;
    logic [10:0] left, left_then;  // groups behind this one
    logic [2:0] tail, tail_then;
    assign begins = in_next && next_first;
    assign left = begins ? next_left : left_then;
    assign tail = begins ? next_tail : tail_then;
    assign at_final = begins ? next_left == 11'd0 : was_final;
    always_ff @(posedge clk)
        if (go && there) begin
            left_then <= left - {10'd0, fire};
            was_final <= fire ? left == 11'd1 : at_final;
            tail_then <= tail;
        end

    // ------------------------------------------------------------ the group

    logic a_valid, a_done, a_short, exact;
    logic [4:0] a_at;
    logic [2:0] a_tail;
    logic [6:0] a_to;
    always_ff @(posedge clk)
        if (rst) a_valid <= 1'b0;
        else if (go) a_valid <= fire;
    always_ff @(posedge clk)
        if (go) begin
            a_done <= done;
            a_short <= !at_final;
            a_at <= at;
            a_tail <= tail;
            a_to <= to;
        end

    logic [519:0] bytes;
    logic [391:0] by_16;
    logic [327:0] by_8;
    logic [295:0] by_4;
    logic [279:0] by_2;
    always_comb begin
        bytes = {next_data, here_data, before_data};
        by_16 = a_at[4] ? bytes[519:128] : bytes[391:0];
        by_8 = a_at[3] ? by_16[391:64] : by_16[327:0];
        by_4 = a_at[2] ? by_8[327:32] : by_8[295:0];
        by_2 = a_at[1] ? by_4[295:16] : by_4[279:0];
        exact = here_last ? a_to == {1'b0, here_bytes} + 7'd1
            : next_valid && next_last && a_to == {1'b0, next_bytes} + 7'd33;
    end

    always_ff @(posedge clk)
        if (rst) valid <= 1'b0;
        else if (go) valid <= a_valid;
    always_ff @(posedge clk)
        if (go) begin
            word <= a_at[0] ? by_2[23:8] : by_2[15:0];
            odd <= a_at[0];
            payloads <= by_2[279:16];
            final_group <= a_done;
            final_tail <= a_tail;
            bad <= a_done && (a_short || !exact);
        end
endmodule
