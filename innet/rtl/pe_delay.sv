// SPDX-License-Identifier: Apache-2.0
// A word, N cycles of go later; N >= 1.
module pe_delay #(
    parameter int WIDTH = 8,
    parameter int N = 2
) (
    input logic clk,
    input logic go,
    input logic [WIDTH-1:0] d,
    output logic [WIDTH-1:0] q
);
    logic [N*WIDTH-1:0] line;
    always_ff @(posedge clk) if (go) line <= (N * WIDTH)'({line, d});
    assign q = line[(N-1)*WIDTH+:WIDTH];
endmodule
