// SPDX-License-Identifier: Apache-2.0
// sat(a + round(w c, shift), W): what enters a gate that sees the cell.
//
//   cycle    0       1        2
//   w, c     [ in ]
//                    [ w c ]
//   a                [ in ]
//   y                         [ sum, saturated ]
module pe_peep #(
    parameter int W = 12,
    parameter int SW = 20  // bits of a
) (
    input logic clk,
    input logic go,
    input logic [5:0] shift,
    input logic signed [W-1:0] w,
    input logic signed [W+3:0] c,
    input logic signed [SW-1:0] a,
    output logic signed [W-1:0] y
);
    localparam int PW = 2 * W + 4, UW = (PW > SW ? PW : SW) + 2;
    logic signed [UW-1:0] sum;
    logic signed [W-1:0] kept;
    logic signed [PW-1:0] product;
    logic signed [PW:0] shifted;
    always_ff @(posedge clk) if (go) product <= w * c;
    assign shifted = $signed({product, 1'b0}) >>> shift;
    assign sum = UW'(a) + ((UW'(shifted) + UW'(1)) >>> 1);
    pe_sat #(.IW(UW), .OW(W)) sat (.v(sum), .y(kept));
    always_ff @(posedge clk) if (go) y <= kept;
endmodule
