// SPDX-License-Identifier: Apache-2.0
// sigmoid or tanh of a word with F fraction bits, as straight lines over segments of 1/8:
// src/kernel/fixed.h. Results have W - 1 fraction bits; tanh(x) = 2 sigmoid(2 x) - 1.
//
//   cycle    0       1        2                  3               4
//   v        [ in ]
//                    [ |v| ]  [ base, slope ]    [ slope rest ]
//   y                                                            [ base + , sign, rounded ]
module pe_squash #(
    parameter int VW = 12,
    parameter int F = 8,   // 4 or more
    parameter int W = 12,  // 12 or 16
    parameter bit TANH = 0
) (
    input logic clk,
    input logic go,
    input logic signed [VW-1:0] v,
    output logic signed [W-1:0] y
);
    // shoali_fixed_base and shoali_fixed_slope, segment 0 in the lowest bits.
    localparam bit [96*15-1:0] BASE = {
        15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767,
        15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767, 15'd32767,
        15'd32766, 15'd32766, 15'd32766, 15'd32766, 15'd32765, 15'd32765, 15'd32764, 15'd32764,
        15'd32763, 15'd32763, 15'd32762, 15'd32761, 15'd32760, 15'd32759, 15'd32758, 15'd32757,
        15'd32756, 15'd32754, 15'd32752, 15'd32750, 15'd32747, 15'd32745, 15'd32742, 15'd32738,
        15'd32734, 15'd32730, 15'd32725, 15'd32719, 15'd32712, 15'd32705, 15'd32697, 15'd32687,
        15'd32676, 15'd32664, 15'd32650, 15'd32635, 15'd32617, 15'd32597, 15'd32574, 15'd32549,
        15'd32520, 15'd32487, 15'd32450, 15'd32408, 15'd32361, 15'd32308, 15'd32247, 15'd32179,
        15'd32102, 15'd32016, 15'd31918, 15'd31808, 15'd31685, 15'd31546, 15'd31390, 15'd31215,
        15'd31019, 15'd30801, 15'd30556, 15'd30284, 15'd29981, 15'd29646, 15'd29274, 15'd28864,
        15'd28414, 15'd27920, 15'd27380, 15'd26793, 15'd26158, 15'd25474, 15'd24740, 15'd23958,
        15'd23130, 15'd22258, 15'd21346, 15'd20399, 15'd19422, 15'd18423, 15'd17407, 15'd16384
    };
    localparam bit [96*15-1:0] SLOPE = {
        15'd1, 15'd1, 15'd1, 15'd1, 15'd1, 15'd2, 15'd2, 15'd2, 15'd2, 15'd3, 15'd3, 15'd3, 15'd4,
        15'd4, 15'd5, 15'd6, 15'd6, 15'd7, 15'd8, 15'd9, 15'd10, 15'd12, 15'd13, 15'd15, 15'd17,
        15'd20, 15'd22, 15'd25, 15'd28, 15'd32, 15'd36, 15'd41, 15'd47, 15'd53, 15'd60, 15'd68,
        15'd77, 15'd87, 15'd99, 15'd112, 15'd127, 15'd144, 15'd163, 15'd185, 15'd209, 15'd237,
        15'd268, 15'd304, 15'd344, 15'd390, 15'd441, 15'd500, 15'd566, 15'd640, 15'd725, 15'd820,
        15'd927, 15'd1049, 15'd1186, 15'd1341, 15'd1515, 15'd1711, 15'd1932, 15'd2181, 15'd2460,
        15'd2774, 15'd3125, 15'd3518, 15'd3957, 15'd4447, 15'd4992, 15'd5597, 15'd6268, 15'd7008,
        15'd7822, 15'd8715, 15'd9690, 15'd10748, 15'd11892, 15'd13120, 15'd14430, 15'd15816,
        15'd17269, 15'd18779, 15'd20329, 15'd21902, 15'd23472, 15'd25015, 15'd26501, 15'd27899,
        15'd29175, 15'd30299, 15'd31240, 15'd31971, 15'd32471, 15'd32725
    };
    localparam int GW = VW + 1 - (F - 3);  // bits of a segment's number

    logic [VW:0] magnitude;  // doubled for tanh
    logic [GW-1:0] segment;
    logic [6:0] row;
    logic [F-4:0] rest;
    logic [2:0] minus;
    logic [14:0] base, base_then, slope;
    logic [F+11:0] rise;
    assign segment = magnitude[VW:F-3];
    // Beyond the last segment its line holds: 32767, and a slope too small to be seen.
    assign row = segment > GW'(95) ? 7'd95 : 7'(segment);
    always_ff @(posedge clk)
        if (go) begin
            magnitude <= (v < 0 ? {1'b0, ~v} + (VW + 1)'(1) : {1'b0, v}) << TANH;
            rest <= magnitude[F-4:0];
            base <= BASE[15*row+:15];
            slope <= SLOPE[15*row+:15];
            base_then <= base;
            rise <= (F + 12)'(slope) * (F + 12)'(rest);
            minus <= {minus[1:0], v < 0};
        end

    logic [15:0] sum, line;
    logic signed [17:0] u, up;  // 2^15 times the result; its word
    assign sum = {1'b0, base_then} + 16'((rise + (F + 12)'(1 << (F + 1))) >> (F + 2));
    assign line = sum[15] ? 16'd32767 : sum;
    localparam int DOWN = 16 - W;
    localparam logic signed [17:0] MOST = 18'((1 << (W - 1)) - 1);
    if (TANH) begin : g_tanh
        assign u = $signed({1'b0, line, 1'b0}) - 18'sd32768;
    end else begin : g_sigmoid
        assign u = minus[2] ? 18'sd32768 - $signed({2'b00, line}) : $signed({2'b00, line});
    end
    assign up = DOWN == 0 ? u : (u + 18'((1 << DOWN) / 2)) >>> DOWN;
    logic signed [W-1:0] kept;
    assign kept = up > MOST ? MOST[W-1:0] : up[W-1:0];
    always_ff @(posedge clk) if (go) y <= TANH && minus[2] ? '0 - kept : kept;
endmodule
