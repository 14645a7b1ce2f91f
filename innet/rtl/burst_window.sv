// SPDX-License-Identifier: Apache-2.0
// Bursts of a coded packet to one group of up to 34 bytes per cycle.
//
//   cycle     0      1           2                   3              4
//   s_tdata   [ in ]
//   next             [ burst b+1, bytes announced by each byte ]
//   here                         [ burst b, for each byte: where the group behind it begins ]
//   at                           [ pointer ]
//   stage a                                          [ window moved by 0, 8, 16, 24 ]
//   group                                                           [ by 0 .. 6 ]
//
// Where the next group begins depends on the tags of this one: a loop that must close in one cycle.
// So for each of the 32 places where a group may begin, the beginning of its successor is computed
// as a burst passes by, and the loop is a choice among 32 ready pointers.
//
// Places count from the last byte of the burst before (0), so that a tag word always ends in the
// burst to which its place belongs; a packet begins at place 1. A group reaches at most 64 bytes
// beyond, into `next`. A successor at 32 and more lies in the next burst, one at 64 in the one after.
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
    // ------------------------------------------------------------ next: announced bytes

    // Bytes that the four tags in one byte announce.
    function automatic logic [4:0] announced(input logic [7:0] t);
        announced = {2'd0, t[1:0] == 2'd3, t[1:0] == 2'd2, t[1:0] == 2'd1}
            + {2'd0, t[3:2] == 2'd3, t[3:2] == 2'd2, t[3:2] == 2'd1}
            + {2'd0, t[5:4] == 2'd3, t[5:4] == 2'd2, t[5:4] == 2'd1}
            + {2'd0, t[7:6] == 2'd3, t[7:6] == 2'd2, t[7:6] == 2'd1};
    endfunction

    logic advance, here_valid, next_valid, next_last, next_first, move;
    logic [255:0] next_data;
    logic [159:0] next_size;  // 32 x 5 bits
    logic [5:0] next_bytes;
    logic [13:0] next_floats;
    assign move = go && next_valid && (!here_valid || advance);
    assign s_taken = go && (!next_valid || move);

    logic fresh;  // the next burst to come begins a packet
    always_ff @(posedge clk)
        if (rst) begin
            next_valid <= 1'b0;
            fresh <= 1'b1;
        end else if (s_taken) begin
            next_valid <= s_tvalid;
            if (s_tvalid) fresh <= s_tlast;
        end
    always_ff @(posedge clk)
        if (s_taken) begin
            next_data <= s_tdata;
            next_bytes <= s_bytes;
            next_last <= s_tlast;
            next_first <= fresh;
            next_floats <= s_floats;
            for (int i = 0; i < 32; i++) next_size[5*i+:5] <= announced(s_tdata[8*i+:8]);
        end

    // ------------------------------------------------------------ here: successors

    logic [255:0] here_data;
    logic [7:0] before_data;    // the last byte of the burst before
    logic [4:0] here_size;      // what the last byte announces
    logic [255:0] successor;    // 32 x 8 bits: where the next group begins, and whether that is >= 32
    logic [255:0] planes;       // the same as 8 x 32 bits
    logic here_last;
    logic [5:0] here_bytes;
    logic [255:0] successors;
    logic [6:0] behind;
    always_comb
        for (int i = 0; i < 32; i++) begin
            behind = {2'd0, i == 0 ? here_size : next_size[5*((i+31)%32)+:5]}
                + {2'd0, next_size[5*i+:5]} + 7'(i + 2);
            successors[8*i+:8] = {behind[6:5] != 2'd0, behind};
        end

    always_ff @(posedge clk)
        if (rst) here_valid <= 1'b0;
        else if (go && (!here_valid || advance)) here_valid <= next_valid;
    always_ff @(posedge clk)
        if (move) begin
            before_data <= here_data[255:248];
            here_data <= next_data;
            here_size <= next_size[159:155];
            here_last <= next_last;
            here_bytes <= next_bytes;
            successor <= successors;
        end

    // ------------------------------------------------------------ the pointer

    logic [4:0] at;
    logic skip;             // the group begins one burst later still
    logic drain;            // its groups are done, but not its bursts
    logic [10:0] left;      // groups behind this one
    logic [2:0] tail;
    logic fire, ended, done;
    logic at_final;         // left is 0
    logic crosses;          // to >= 32: of all, the bursts wait for this bit
    logic [6:0] to;
    always_comb begin
        for (int i = 0; i < 32; i++)
            for (int b = 0; b < 8; b++) planes[32*b+i] = successor[8*i+b];
        for (int b = 0; b < 7; b++) to[b] = 1'(planes[32*b+:32] >> at);
        crosses = 1'(planes[255:224] >> at);
        fire = here_valid && (next_valid || here_last) && !skip && !drain;
        ended = here_last ? crosses : next_last && to[6];
        done = fire && (at_final || ended);
        advance = (here_valid && (skip || drain)) || (fire && here_last && at_final)
            || (fire && crosses);
    end

    always_ff @(posedge clk)
        if (rst) begin
            at <= 5'd1;
            skip <= 1'b0;
            drain <= 1'b0;
        end else if (go) begin
            if (fire) at <= to[4:0];
            if (fire && done || drain) at <= 5'd1;
            skip <= fire && to[6] && !done;
            if (fire) drain <= done && !here_last;
            else if (here_valid && here_last) drain <= 1'b0;
        end

    logic [10:0] groups;
    assign groups = next_floats[13:3] + {10'd0, |next_floats[2:0]};
    always_ff @(posedge clk)
        if (go) begin
            if (fire) begin
                left <= left - 11'd1;
                at_final <= left == 11'd1;
            end
            if (move && next_first) begin
                left <= groups - 11'd1;
                at_final <= groups == 11'd1;
                tail <= next_floats[2:0];
            end
        end

    // ------------------------------------------------------------ the group

    logic [519:0] bytes;
    logic [391:0] by_16;
    logic [327:0] by_8, a_window;
    always_comb begin
        bytes = {next_data, here_data, before_data};
        by_16 = at[4] ? bytes[519:128] : bytes[391:0];
        by_8 = at[3] ? by_16[391:64] : by_16[327:0];
    end

    logic a_valid, a_done, a_short, a_here_last, a_next_last;
    logic [2:0] a_at, a_tail;
    logic [6:0] a_to;
    logic [5:0] a_here_bytes, a_next_bytes;
    always_ff @(posedge clk)
        if (rst) a_valid <= 1'b0;
        else if (go) a_valid <= fire;
    always_ff @(posedge clk)
        if (go) begin
            a_window <= by_8;
            a_done <= done;
            a_short <= !at_final;
            a_at <= at[2:0];
            a_tail <= tail;
            a_to <= to;
            a_here_last <= here_last;
            a_next_last <= next_valid && next_last;
            a_here_bytes <= here_bytes;
            a_next_bytes <= next_bytes;
        end

    logic exact;
    logic [295:0] by_4;
    logic [279:0] by_2;
    always_comb begin
        exact = a_here_last ? a_to == {1'b0, a_here_bytes} + 7'd1
            : a_next_last && a_to == {1'b0, a_next_bytes} + 7'd33;
        by_4 = a_at[2] ? a_window[327:32] : a_window[295:0];
        by_2 = a_at[1] ? by_4[295:16] : by_4[279:0];
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
