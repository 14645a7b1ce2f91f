// SPDX-License-Identifier: Apache-2.0
// Real FFT of a block of N words, as src/kernel/fixed.h defines it, one block per cycle.
//
//   cycle    0       1                    2                 3
//   x        [ in ]
//   N <= 4           [ sums ]
//   N >= 8           [ both halves ... ]  [ odd, rotated ]  [ sums ]
//
// 1 cycle for N <= 4, two more per doubling. Slots: DC, Nyquist, then re and im of each bin, W + L
// bits each. All of it moves when go is high.
module pe_rfft #(
    parameter int N = 8,
    parameter int W = 12
) (
    input logic clk,
    input logic go,
    input logic [N*W-1:0] x,        // first word in the lowest bits
    output logic [N*(W+$clog2(N))-1:0] slots
);
    localparam int OW = W + $clog2(N);
    if (N == 1) begin : g_1
        always_ff @(posedge clk) if (go) slots <= x;
    end else if (N == 2) begin : g_2
        logic signed [OW-1:0] a, b;
        assign a = OW'($signed(x[0+:W]));
        assign b = OW'($signed(x[W+:W]));
        always_ff @(posedge clk) if (go) slots <= {a - b, a + b};
    end else if (N == 4) begin : g_4
        logic signed [OW-1:0] a, b, c, d;
        assign a = OW'($signed(x[0+:W]));
        assign b = OW'($signed(x[W+:W]));
        assign c = OW'($signed(x[2*W+:W]));
        assign d = OW'($signed(x[3*W+:W]));
        always_ff @(posedge clk) if (go) slots <= {d - b, a - c, a + c - b - d, a + b + c + d};
    end else begin : g_n
        localparam int HW = OW - 1, H = N / 2;
        logic [H*W-1:0] x_even, x_odd;
        logic [H*HW-1:0] even, odd, e;  // e: even, a cycle later
        for (genvar i = 0; i < H; i++) begin : g_split
            assign x_even[W*i+:W] = x[2*W*i+:W];
            assign x_odd[W*i+:W] = x[2*W*i+W+:W];
        end
        pe_rfft #(.N(H), .W(W)) half_even (.clk, .go, .x(x_even), .slots(even));
        pe_rfft #(.N(H), .W(W)) half_odd (.clk, .go, .x(x_odd), .slots(odd));
        always_ff @(posedge clk) if (go) e <= even;

        // Slots 0, 1 and bin N/4, which need no rotation.
        logic signed [HW-1:0] o0, o1;
        logic signed [OW-1:0] e0, e1;
        assign e0 = OW'($signed(e[0+:HW]));
        assign e1 = OW'($signed(e[HW+:HW]));
        always_ff @(posedge clk)
            if (go) begin
                o0 <= odd[0+:HW];
                o1 <= odd[HW+:HW];
                slots[0+:OW] <= e0 + OW'(o0);
                slots[OW+:OW] <= e0 - OW'(o0);
                slots[H*OW+:OW] <= e1;
                slots[(H+1)*OW+:OW] <= '0 - OW'(o1);
            end

        for (genvar f = 1; f < N / 4; f++) begin : g_bin
            localparam int A = f * 64 / N;
            logic signed [HW-1:0] in_re, in_im;
            logic signed [HW:0] rot_re, rot_im, t_re, t_im;
            logic signed [OW-1:0] e_re, e_im;
            assign in_re = odd[2*f*HW+:HW];
            assign in_im = odd[(2*f+1)*HW+:HW];
            pe_rotate #(.IW(HW), .A(A)) re (.a(in_re), .b(in_im), .y(rot_re));
            pe_rotate #(.IW(HW), .A(A), .MINUS(1)) im (.a(in_im), .b(in_re), .y(rot_im));
            assign e_re = OW'($signed(e[2*f*HW+:HW]));
            assign e_im = OW'($signed(e[(2*f+1)*HW+:HW]));
            always_ff @(posedge clk)
                if (go) begin
                    t_re <= rot_re;
                    t_im <= rot_im;
                    slots[2*f*OW+:OW] <= e_re + t_re;
                    slots[(2*f+1)*OW+:OW] <= e_im + t_im;
                    slots[(N-2*f)*OW+:OW] <= e_re - t_re;
                    slots[(N-2*f+1)*OW+:OW] <= t_im - e_im;
                end
        end
    end
endmodule
