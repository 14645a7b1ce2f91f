// SPDX-License-Identifier: Apache-2.0
// One multiplier with its accumulator: a DSP block.
//
//   cycle     0        1          2
//   b, x      [ in ]
//   product            [ b x ]
//   sum                           [ load: b x, add: + b x ]
module pe_product #(
    parameter int BW = 12,
    parameter int XW = 15,
    parameter int AW = 34
) (
    input logic clk,
    input logic step,
    input logic load,  // of the product that is there, as add
    input logic add,
    input logic signed [BW-1:0] b,
    input logic signed [XW-1:0] x,
    output logic signed [AW-1:0] sum
);
    logic signed [BW+XW-1:0] product;
    always_ff @(posedge clk)
        if (step) begin
            product <= b * x;
            if (load) sum <= AW'(product);
            else if (add) sum <= sum + AW'(product);
        end
endmodule
