// SPDX-License-Identifier: Apache-2.0
// sat(round(sum, shift), OW) of src/kernel/fixed.h: half goes up; shift 0 .. 40.
//
//   cycle    0        1                           2
//   sum      [ in ]
//                     [ 2 sum shifted right ]
//   y                                             [ its half, rounded up, saturated ]
module pe_round #(
    parameter int AW = 34,
    parameter int OW = 17
) (
    input logic clk,
    input logic go,
    input logic [5:0] shift,
    input logic signed [AW-1:0] sum,
    output logic signed [OW-1:0] y
);
    localparam logic signed [AW+1:0] MOST = (AW + 2)'((1 << (OW - 1)) - 1);
    logic signed [AW:0] shifted;
    logic signed [AW+1:0] half;
    always_comb half = ((AW + 2)'(shifted) + (AW + 2)'(1)) >>> 1;
    always_ff @(posedge clk)
        if (go) begin
            shifted <= $signed({sum, 1'b0}) >>> shift;
            y <= half > MOST ? MOST[OW-1:0] : half < ~MOST ? ~MOST[OW-1:0] : half[OW-1:0];
        end
endmodule
