// SPDX-License-Identifier: Apache-2.0
// One float to its class and payload: src/codec/inceptionn.h, prescale 2^0, in two cycles.
//
//   cycle        0            1                  2
//   x         [ float ]
//   stage a                [ exponent classes, magnitude shifted by 8, 4 and 2 ]
//   stage b                                    [ tag, payload ]
//
// The payload stands in the order of the stream, first byte in bits 7:0, with zeros behind its end,
// so that packing is shifting and OR. Both stages move when go is high.
//
// A float below 1 and from 2^-k on has the exponent e = 127-k .. 126. Its 24-bit significand, as
// fixed point, is shifted right by 127-e; the 15 bits below 2^0 that remain are {1,m} >> (126-e).
// `bound` is 0, 1, 2 for k = 6, 8, 10; 3 counts as 2.
module lane_compress (
    input logic clk,
    input logic go,
    input logic [1:0] bound,
    input logic strict,
    input logic present,  // else it counts as ZERO
    input logic [31:0] x,
    output logic [1:0] tag,
    output logic [31:0] payload
);
    // Stage a. 126-e fits four bits wherever it is used.
    logic [7:0] e;
    logic [3:0] shift;
    logic is_raw, below, wide;
    logic [14:0] m0, m8, m4, m2;
    always_comb begin
        e = x[30:23];
        shift = 4'd14 - e[3:0];
        is_raw = e >= 8'd127;
        case (bound)
            2'd0: {below, wide} = {e < 8'd121, e >= 8'd124};
            2'd1: {below, wide} = {e < 8'd119, e >= 8'd123};
            default: {below, wide} = {e < 8'd117, e >= 8'd122};
        endcase
        m0 = {1'b1, x[22:9]};
        m8 = shift[3] ? {8'd0, m0[14:8]} : m0;
        m4 = shift[2] ? {4'd0, m8[14:4]} : m8;
        m2 = shift[1] ? {2'd0, m4[14:2]} : m4;
    end

    logic a_raw, a_coded, a_wide, a_shift;
    logic [31:0] a_x;  // the float if raw, else the sign in 15 and the magnitude in 14:0
    always_ff @(posedge clk)
        if (go) begin
            a_raw <= present && is_raw;
            a_coded <= present && !is_raw && !below;
            a_wide <= wide;
            a_shift <= shift[0] && !is_raw;
            a_x[31:16] <= present && is_raw ? x[31:16] : 16'd0;
            a_x[15:0] <= is_raw ? x[15:0] : {x[31], m2};
        end

    // Stage b. A WORD is what is large, or what a BYTE would lose too much of. Raw bits pass m.
    logic [14:0] m;
    logic is_word, is_byte, whole;
    logic [15:0] bytes;
    always_comb begin
        m = a_shift ? {1'b0, a_x[14:1]} : a_x[14:0];
        is_word = a_coded && (a_wide || (strict && ((bound[0] && m[7]) || (bound[1] && |m[7:5]))));
        is_byte = a_coded && !is_word;
        whole = a_raw || is_word;
        bytes[15:8] = whole ? {a_x[15], m[14:8]} : 8'd0;
        // a byte of zero has no sign
        bytes[7:0] = whole ? m[7:0] : is_byte ? {a_x[15] && |m[14:8], m[14:8]} : 8'd0;
    end

    always_ff @(posedge clk)
        if (go) begin
            tag <= {whole, a_raw || is_byte};
            payload <= {a_x[31:16], bytes};
        end
endmodule
