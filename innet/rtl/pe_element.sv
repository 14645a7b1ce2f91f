// SPDX-License-Identifier: Apache-2.0
// A processing element: its weights, a multiply-accumulate, and the sums that wait to leave.
//
//   cycle    0        1         2             3          4
//   at       [ in ]
//   memory            [ w ]     [ products ]  [ sums ]
//   waits                                                [ sums, hold ] [ the next element's, shift ]
//
// K memories of W bits, one per slot. x comes with w.
module pe_element #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int XW = 15,
    parameter int AW = 34,
    parameter int DEPTH = 256,
    parameter bit THREE = 0,
    parameter bit FOLDED = 0
) (
    input logic clk,
    input logic step,
    input logic load,                        // pe_mac.sv
    input logic add,
    input logic apart,
    input logic hold,
    input logic shift,
    input logic [K*XW-1:0] x,
    input logic [$clog2(DEPTH)-1:0] at,
    input logic put,                         // a weight
    input logic [15:0] put_slot,
    input logic [$clog2(DEPTH)-1:0] put_at,
    input logic [W-1:0] put_word,
    input logic [K*AW-1:0] next,
    output logic [K*AW-1:0] waits
);
    // verilator no_inline_module
    logic [K*W-1:0] weight;
    logic [K*AW-1:0] sums;
    for (genvar s = 0; s < K; s++) begin : g_slot
        logic [W-1:0] bank[0:DEPTH-1];
        logic [W-1:0] word;
        always_ff @(posedge clk) begin
            if (put && put_slot == 16'(s)) bank[put_at] <= put_word;
            if (step) word <= bank[at];
        end
        assign weight[s*W+:W] = word;
    end
    pe_mac #(.K(K), .W(W), .XW(XW), .AW(AW), .THREE(THREE), .FOLDED(FOLDED)) mac (
        .clk, .step, .load, .add, .apart, .w(weight), .x, .sums
    );
    always_ff @(posedge clk)
        if (hold) waits <= sums;
        else if (shift) waits <= next;
endmodule
