// SPDX-License-Identifier: Apache-2.0
// round(c a + s b, 15), or minus s b, with c, s = 2^15 cos, sin(2 pi A / 64), without a multiplier:
// one sum of shifted words, as many as c and s have digits in non-adjacent form. c = s needs the
// digits once.
//
// No register: who uses it has one behind.
module pe_rotate #(
    parameter int IW = 15,  // bits of a and b
    parameter int A = 8,    // 1 .. 15
    parameter bit MINUS = 0
) (
    input logic signed [IW-1:0] a,
    input logic signed [IW-1:0] b,
    output logic signed [IW:0] y  // sqrt(2) times as large at most, and a half
);
    localparam int PW = IW + 18;
    // 2^15 cos(2 pi i / 64), i = 0 in the lowest bits: shoali_fixed_cos.
    localparam bit [17*16-1:0] COS = {
        16'd0, 16'd3212, 16'd6393, 16'd9512, 16'd12540, 16'd15447, 16'd18205, 16'd20788, 16'd23170,
        16'd25330, 16'd27246, 16'd28899, 16'd30274, 16'd31357, 16'd32138, 16'd32610, 16'd32767
    };

    // v times c: the digits +1 and -1 of c are where 3 c / 2 and c / 2 differ.
    function automatic logic signed [PW-1:0] times(
        input logic signed [PW-1:0] v, input logic [15:0] c
    );
        logic [16:0] half, more;
        half = {2'b00, c[15:1]};
        more = {1'b0, c} + half;
        times = '0;
        for (int i = 0; i < 17; i++)
            if (half[i] != more[i]) times = more[i] ? times + (v <<< i) : times - (v <<< i);
    endfunction

    logic signed [PW-1:0] wide_a, wide_b, sum;
    assign wide_a = PW'(a);
    assign wide_b = MINUS ? '0 - PW'(b) : PW'(b);
    if (A == 8) begin : g_same
        assign sum = times(wide_a + wide_b, COS[16*A+:16]);
    end else begin : g_both
        assign sum = times(wide_a, COS[16*A+:16]) + times(wide_b, COS[16*(16-A)+:16]);
    end
    assign y = (IW + 1)'((sum + PW'(16384)) >>> 15);
endmodule
