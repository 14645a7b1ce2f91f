// SPDX-License-Identifier: Apache-2.0
// One class and payload back to its float, in two cycles.
//
//   cycle        0                 1                        2
//   tag, payload [ in ]
//   stage a                   [ magnitude, leading one ]
//   stage b                                            [ float ]
//
// The payload stands in stream order, first byte in bits 7:0; what lies behind its end may be
// anything. A magnitude of zero is +0.0 whatever its sign. Both stages move when go is high.
module lane_decompress (
    input logic clk,
    input logic go,
    input logic [1:0] tag,
    input logic [31:0] payload,
    output logic [31:0] x
);
    localparam logic [1:0] BYTE = 2'd1, WORD = 2'd2, RAW = 2'd3;

    // Stage a: sign and 15-bit magnitude, and how far its leading one is from the top. The fraction
    // of a raw float takes the way of a magnitude whose leading one is in place.
    logic [15:0] word;
    logic [14:0] m, m8;
    logic [3:0] lead;  // 0: bit 14 is set ... 14: bit 0 is
    logic [6:0] h;
    logic raw, zero;
    always_comb begin
        raw = tag == RAW;
        case (tag)
            RAW: word = {payload[31], 1'b1, payload[22:9]};
            WORD: word = payload[15:0];
            BYTE: word = {payload[7:0], 8'd0};
            default: word = 16'd0;
        endcase
        m = word[14:0];
        zero = m == 15'd0;
        lead[3] = m[14:7] == 8'd0;
        m8 = lead[3] ? {m[6:0], 8'd0} : m;
        h = m8[14:8];  // if all of it is zero, bit 7 leads
        lead[2] = h[6:3] == 4'd0;
        lead[1] = lead[2] ? h[2:1] == 2'd0 : h[6:5] == 2'd0;
        case (lead[2:1])
            2'd0: lead[0] = !h[6];
            2'd1: lead[0] = !h[4];
            2'd2: lead[0] = !h[2];
            default: lead[0] = !h[0];
        endcase
    end

    logic [2:0] a_lead;
    logic [8:0] a_top;  // sign and exponent
    logic [13:0] a_m;
    logic [8:0] a_low;
    always_ff @(posedge clk)
        if (go) begin
            a_lead <= lead[2:0];
            a_top <= raw ? payload[31:23] : zero ? 9'd0 : {word[15], 4'b0111, 4'd14 - lead};
            a_m <= m8[13:0];
            a_low <= raw ? payload[8:0] : 9'd0;
        end

    // Stage b: bring the leading one to the top and drop it.
    logic [13:0] n4, n2, n1;
    always_comb begin
        n4 = a_lead[2] ? {a_m[9:0], 4'd0} : a_m;
        n2 = a_lead[1] ? {n4[11:0], 2'd0} : n4;
        n1 = a_lead[0] ? {n2[12:0], 1'd0} : n2;
    end

    always_ff @(posedge clk) if (go) x <= {a_top, n1, a_low};
endmodule
