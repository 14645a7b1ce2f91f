// SPDX-License-Identifier: Apache-2.0
// One cell of an lstm per cycle: gates, cell, output, as src/kernel/fixed.h has them.
//
//   cycle    0       2             6            8       10         14           16
//   a's, c   [ in ]  [ peepholes ] [ i, f, z ]  [ c ]
//                                                       [ peephole ] [ o, tanh c ]
//   m                                                                           [ o tanh c ]
module pe_lstm_cell #(
    parameter int W = 12,
    parameter int SW = 20,
    parameter bit SIGMOID = 0  // z
) (
    input logic clk,
    input logic go,
    input logic [5:0] peephole_shift,
    input logic [4*SW-1:0] sums,         // input, forget, cell, output: products and bias
    input logic [3*W-1:0] peepholes,     // input, forget, output; 0: none
    input logic signed [W+3:0] c_before,
    output logic signed [W+3:0] c,       // 8 cycles later
    output logic signed [W-1:0] m        // 16 cycles later
);
    localparam int CW = W + 4, F = W - 4;
    localparam logic signed [2*W+5:0] HALF = (2 * W + 6)'(1) <<< (W - 2);

    // ------------------------------------------------------------ i, f, z

    logic [3*SW-1:0] sums_1;
    logic signed [W-1:0] v_i, v_f, v_z, z_now, i, f, z;
    logic signed [CW-1:0] c_then;
    pe_delay #(.WIDTH(3 * SW), .N(1)) d_sums (.clk, .go, .d(sums[3*SW-1:0]), .q(sums_1));
    pe_peep #(.W(W), .SW(SW)) peep_i (
        .clk, .go, .shift(peephole_shift), .w(peepholes[0+:W]), .c(c_before),
        .a(sums_1[0+:SW]), .y(v_i)
    );
    pe_peep #(.W(W), .SW(SW)) peep_f (
        .clk, .go, .shift(peephole_shift), .w(peepholes[W+:W]), .c(c_before),
        .a(sums_1[SW+:SW]), .y(v_f)
    );
    pe_sat #(.IW(SW), .OW(W)) sat_z (.v(sums_1[2*SW+:SW]), .y(z_now));
    always_ff @(posedge clk) if (go) v_z <= z_now;
    pe_squash #(.VW(W), .F(F), .W(W)) squash_i (.clk, .go, .v(v_i), .y(i));
    pe_squash #(.VW(W), .F(F), .W(W)) squash_f (.clk, .go, .v(v_f), .y(f));
    pe_squash #(.VW(W), .F(F), .W(W), .TANH(!SIGMOID)) squash_z (.clk, .go, .v(v_z), .y(z));
    pe_delay #(.WIDTH(CW), .N(6)) d_c (.clk, .go, .d(c_before), .q(c_then));

    // ------------------------------------------------------------ the cell

    logic signed [2*W+3:0] kept;
    logic signed [2*W-1:0] enters;
    logic signed [2*W+5:0] both;
    logic signed [CW-1:0] c_now;
    assign both = ((2 * W + 6)'(kept) + (2 * W + 6)'(enters) + HALF) >>> (W - 1);
    pe_sat #(.IW(2 * W + 6), .OW(CW)) sat_c (.v(both), .y(c_now));
    always_ff @(posedge clk)
        if (go) begin
            kept <= f * c_then;
            enters <= i * z;
            c <= c_now;
        end

    // ------------------------------------------------------------ the output

    logic [SW-1:0] a_o;
    logic [W-1:0] w_o;
    logic signed [W-1:0] v_o, o, t, t_then, m_now;
    logic signed [2*W-1:0] product;
    logic signed [2*W+5:0] rounded;
    pe_delay #(.WIDTH(SW), .N(9)) d_o (.clk, .go, .d(sums[3*SW+:SW]), .q(a_o));
    pe_delay #(.WIDTH(W), .N(8)) d_w (.clk, .go, .d(peepholes[2*W+:W]), .q(w_o));
    pe_peep #(.W(W), .SW(SW)) peep_o (
        .clk, .go, .shift(peephole_shift), .w(w_o), .c, .a(a_o), .y(v_o)
    );
    pe_squash #(.VW(W), .F(F), .W(W)) squash_o (.clk, .go, .v(v_o), .y(o));
    pe_squash #(.VW(CW), .F(W - 1), .W(W), .TANH(1)) squash_c (.clk, .go, .v(c), .y(t));
    pe_delay #(.WIDTH(W), .N(2)) d_t (.clk, .go, .d(t), .q(t_then));
    assign rounded = ((2 * W + 6)'(product) + HALF) >>> (W - 1);
    pe_sat #(.IW(2 * W + 6), .OW(W)) sat_m (.v(rounded), .y(m_now));
    always_ff @(posedge clk)
        if (go) begin
            product <= o * t_then;
            m <= m_now;
        end
endmodule
