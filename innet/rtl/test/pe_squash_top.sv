// SPDX-License-Identifier: Apache-2.0
// The three uses of pe_squash.sv side by side: gates, z, tanh of a cell.
module pe_squash_top #(
    parameter int W = 12
) (
    input logic clk,
    input logic signed [W-1:0] gate,
    input logic signed [W+3:0] cell_word,
    output logic signed [W-1:0] sigmoid_gate,
    output logic signed [W-1:0] tanh_gate,
    output logic signed [W-1:0] tanh_cell
);
    pe_squash #(.VW(W), .F(W - 4), .W(W)) s (.clk, .go(1'b1), .v(gate), .y(sigmoid_gate));
    pe_squash #(.VW(W), .F(W - 4), .W(W), .TANH(1)) t (.clk, .go(1'b1), .v(gate), .y(tanh_gate));
    pe_squash #(.VW(W + 4), .F(W - 1), .W(W), .TANH(1)) c (
        .clk, .go(1'b1), .v(cell_word), .y(tanh_cell)
    );
endmodule
