// SPDX-License-Identifier: Apache-2.0
// A layer without memory: sat(M x + bias, W), then max(0, .) with `relu`.
//
//   cycle    0                       1
//   sums     [ pe_engine's m_y ]
//   m_y                              [ with bias, saturated ]
//
// Shape and weights as in pe_engine.sv; `load_what` 0 says weights, 1 biases, one per row. Blocks of
// a layer's output are blocks of the next one's input.
// verilator lint_off PINCONNECTEMPTY
module pe_layer #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int N = 4,
    parameter int ROWS = 128,   // most row blocks
    parameter int COLS = 128,   // most block columns
    parameter int DEPTH = 4096, // weights of a processing element, in blocks
    parameter bit THREE = 0
) (
    input logic clk,
    input logic rst,
    input logic [15:0] rows,
    input logic [15:0] cols,
    input logic [(K/2+1)*6-1:0] shifts,
    input logic relu,
    input logic load_start,
    input logic load_what,
    input logic load_valid,
    input logic [W-1:0] load_word,
    input logic [K*W-1:0] s_x,
    input logic s_valid,
    output logic s_ready,
    output logic [K*W-1:0] m_y,
    output logic m_last,
    output logic m_valid,
    input logic m_ready
);
    localparam int YW = W + $clog2(K) + 3 + (K > 4 ? ($clog2(K) - 1) / 2 : 0);
    localparam int RA = $clog2(ROWS > 1 ? ROWS : 2);

    logic [K*YW-1:0] y;
    logic y_valid, y_last, go;
    assign go = !m_valid || m_ready;
    pe_engine #(.K(K), .W(W), .N(N), .COLS(COLS), .DEPTH(DEPTH), .THREE(THREE)) engine (
        .clk, .rst, .rows, .cols, .shifts,
        .load_start(load_start && !load_what), .load_part(1'b0),
        .load_valid(load_valid && !load_what), .load_word, .s_x, .s_valid, .s_ready,
        .m_y(y), .m_part(), .m_last(y_last), .m_valid(y_valid), .m_ready(go)
    );

    logic [15:0] l_word;
    logic [RA-1:0] l_row, row;
    always_ff @(posedge clk)
        if (load_start) begin
            l_word <= 16'd0;
            l_row <= '0;
        end else if (load_valid) begin
            l_word <= l_word == 16'(K - 1) ? 16'd0 : l_word + 16'd1;
            if (l_word == 16'(K - 1)) l_row <= l_row + RA'(1);
        end
    always_ff @(posedge clk)
        if (rst || load_start) begin
            row <= '0;
            m_valid <= 1'b0;
        end else if (go) begin
            m_valid <= y_valid;
            m_last <= y_last;
            if (y_valid) row <= y_last ? '0 : row + RA'(1);
        end

    for (genvar t = 0; t < K; t++) begin : g_word
        logic [W-1:0] bias[0:(1<<RA)-1];
        logic signed [W-1:0] b, word;
        logic signed [YW:0] sum;
        assign b = bias[row];
        assign sum = (YW + 1)'($signed(y[t*YW+:YW])) + (YW + 1)'(b);
        pe_sat #(.IW(YW + 1), .OW(W)) sat (.v(sum), .y(word));
        always_ff @(posedge clk) begin
            if (load_valid && load_what && l_word == 16'(t)) bias[l_row] <= load_word;
            if (go) m_y[t*W+:W] <= relu && word < 0 ? '0 : word;
        end
    end
endmodule
