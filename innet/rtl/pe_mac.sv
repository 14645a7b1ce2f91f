// SPDX-License-Identifier: Apache-2.0
// Multiply-accumulate of one block in the frequency domain per cycle: K weights by K slots.
//
//   cycle      0           1             2
//   w, x       [ in ]
//   products               [ 2 K - 2 ]
//   sums                                 [ += ], load: =
//
// Exact: AW bits hold every sum. `step` moves all; `load` and `add` belong to what is a cycle
// further than w and x. Each real product has an accumulator of its own, so a DSP block holds both;
// their differences and sums are taken as the result is read.
//
// THREE: a complex product of three real ones, 3 K / 2 - 1 in all:
//     a = w.re (x.re + x.im)    re = a - (w.re + w.im) x.im    im = a + (w.im - w.re) x.re
//
// Slots 0 and 1 are real. FOLDED: only while `apart` is high, as the result is read; else they are a
// bin as the others, and two multipliers more do it (four products, with THREE, too).
module pe_mac #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int XW = 15,
    parameter int AW = 34,
    parameter bit THREE = 0,
    parameter bit FOLDED = 0
) (
    input logic clk,
    input logic step,
    input logic load,
    input logic add,
    // verilator lint_off UNUSEDSIGNAL
    input logic apart,
    // verilator lint_on UNUSEDSIGNAL
    input logic [K*W-1:0] w,
    input logic [K*XW-1:0] x,
    output logic [K*AW-1:0] sums
);
    for (genvar i = 0; i < (FOLDED ? 0 : K == 1 ? 1 : 2); i++) begin : g_real
        pe_product #(.BW(W), .XW(XW), .AW(AW)) one (
            .clk, .step, .load, .add, .b(w[W*i+:W]), .x(x[XW*i+:XW]), .sum(sums[AW*i+:AW])
        );
    end

    for (genvar f = FOLDED ? 0 : 1; f < K / 2; f++) begin : g_bin
        localparam bit BOTH = FOLDED && f == 0;
        logic signed [W-1:0] w_re, w_im;
        logic signed [XW-1:0] x_re, x_im;
        logic [AW-1:0] a, b, c;
        assign w_re = w[2*f*W+:W];
        assign w_im = w[(2*f+1)*W+:W];
        assign x_re = x[2*f*XW+:XW];
        assign x_im = x[(2*f+1)*XW+:XW];
        assign sums[2*f*AW+:AW] = BOTH && apart ? a : a - b;
        if (THREE && !BOTH) begin : g_three
            logic signed [XW:0] x_both;
            logic signed [W:0] w_both, w_less;
            assign x_both = (XW + 1)'(x_re) + (XW + 1)'(x_im);
            assign w_both = (W + 1)'(w_re) + (W + 1)'(w_im);
            assign w_less = (W + 1)'(w_im) - (W + 1)'(w_re);
            pe_product #(.BW(W), .XW(XW + 1), .AW(AW)) pa (
                .clk, .step, .load, .add, .b(w_re), .x(x_both), .sum(a)
            );
            pe_product #(.BW(W + 1), .XW(XW), .AW(AW)) pb (
                .clk, .step, .load, .add, .b(w_both), .x(x_im), .sum(b)
            );
            pe_product #(.BW(W + 1), .XW(XW), .AW(AW)) pc (
                .clk, .step, .load, .add, .b(w_less), .x(x_re), .sum(c)
            );
            assign sums[(2*f+1)*AW+:AW] = a + c;
        end else begin : g_four
            logic [AW-1:0] d;
            pe_product #(.BW(W), .XW(XW), .AW(AW)) pa (
                .clk, .step, .load, .add, .b(w_re), .x(x_re), .sum(a)
            );
            pe_product #(.BW(W), .XW(XW), .AW(AW)) pb (
                .clk, .step, .load, .add, .b(w_im), .x(x_im), .sum(b)
            );
            pe_product #(.BW(W), .XW(XW), .AW(AW)) pc (
                .clk, .step, .load, .add, .b(w_re), .x(x_im), .sum(c)
            );
            pe_product #(.BW(W), .XW(XW), .AW(AW)) pd (
                .clk, .step, .load, .add, .b(w_im), .x(x_re), .sum(d)
            );
            assign sums[(2*f+1)*AW+:AW] = BOTH && apart ? b : c + d;
        end
    end
endmodule
