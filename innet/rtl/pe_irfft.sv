// SPDX-License-Identifier: Apache-2.0
// The butterflies of pe_rfft.sv backwards: N times the block whose spectrum comes in.
//
//   cycle    0       1                     2                 3
//   slots    [ in ]
//   N >= 8           [ sums, differences ] [ odd, rotated ]  [ halves ... ]
//   N <= 4           [ sums ]
//
// 1 cycle for N <= 4, two more per doubling. Words grow by one bit, the odd half's by two, at each
// division; what src/kernel/fixed.h says about the largest result holds, too.
module pe_irfft #(
    parameter int N = 8,
    parameter int IW = 17,
    parameter int OW = IW + (N < 4 ? $clog2(N) : 2 * $clog2(N) - 2)  // not to be set
) (
    input logic clk,
    input logic go,
    input logic [N*IW-1:0] slots,
    output logic [N*OW-1:0] x
);
    localparam int L = $clog2(N);
    if (N == 1) begin : g_1
        always_ff @(posedge clk) if (go) x <= slots;
    end else if (N == 2) begin : g_2
        logic signed [OW-1:0] a, b;
        assign a = OW'($signed(slots[0+:IW]));
        assign b = OW'($signed(slots[IW+:IW]));
        always_ff @(posedge clk) if (go) x <= {a - b, a + b};
    end else if (N == 4) begin : g_4
        logic signed [OW-1:0] a, b, re, im;  // re and im doubled
        assign a = OW'($signed(slots[0+:IW]));
        assign b = OW'($signed(slots[IW+:IW]));
        assign re = OW'($signed(slots[2*IW+:IW])) <<< 1;
        assign im = OW'($signed(slots[3*IW+:IW])) <<< 1;
        always_ff @(posedge clk) if (go) x <= {a - b + im, a + b - re, a - b - im, a + b + re};
    end else begin : g_n
        localparam int H = N / 2, EW = IW + 1, RW = IW + 2;
        localparam int EOW = EW + 2 * L - 4, ROW = RW + 2 * L - 4;  // results of the halves
        logic [H*EW-1:0] sums, even;
        logic [H*RW-1:0] odd;
        logic [H*EOW-1:0] x_even;
        logic [H*ROW-1:0] x_odd;

        logic signed [EW-1:0] a0, a1, o0;
        logic signed [RW-1:0] quarter;  // -2 im of bin N/4, which may be 2^IW
        assign a0 = EW'($signed(slots[0+:IW]));
        assign a1 = EW'($signed(slots[IW+:IW]));
        always_ff @(posedge clk)
            if (go) begin
                sums[0+:EW] <= a0 + a1;
                sums[EW+:EW] <= EW'($signed(slots[H*IW+:IW])) <<< 1;
                o0 <= a0 - a1;
                quarter <= '0 - (RW'($signed(slots[(H+1)*IW+:IW])) <<< 1);
                odd[0+:RW] <= RW'(o0);
                odd[RW+:RW] <= quarter;
                even <= sums;
            end

        for (genvar f = 1; f < N / 4; f++) begin : g_bin
            localparam int A = f * 64 / N;
            logic signed [EW-1:0] a_re, a_im, b_re, b_im, d_re, d_im;
            logic signed [EW:0] rot_re, rot_im;
            assign a_re = EW'($signed(slots[2*f*IW+:IW]));
            assign a_im = EW'($signed(slots[(2*f+1)*IW+:IW]));
            assign b_re = EW'($signed(slots[(N-2*f)*IW+:IW]));
            assign b_im = EW'($signed(slots[(N-2*f+1)*IW+:IW]));
            pe_rotate #(.IW(EW), .A(A), .MINUS(1)) re (.a(d_re), .b(d_im), .y(rot_re));
            pe_rotate #(.IW(EW), .A(16 - A)) im (.a(d_re), .b(d_im), .y(rot_im));
            always_ff @(posedge clk)
                if (go) begin
                    sums[2*f*EW+:EW] <= a_re + b_re;
                    sums[(2*f+1)*EW+:EW] <= a_im - b_im;
                    d_re <= a_re - b_re;
                    d_im <= a_im + b_im;
                    odd[2*f*RW+:RW] <= rot_re;
                    odd[(2*f+1)*RW+:RW] <= rot_im;
                end
        end

        pe_irfft #(.N(H), .IW(EW)) half_even (.clk, .go, .slots(even), .x(x_even));
        pe_irfft #(.N(H), .IW(RW)) half_odd (.clk, .go, .slots(odd), .x(x_odd));
        for (genvar i = 0; i < H; i++) begin : g_join
            assign x[2*i*OW+:OW] = OW'($signed(x_even[i*EOW+:EOW]));
            assign x[(2*i+1)*OW+:OW] = OW'($signed(x_odd[i*ROW+:ROW]));
        end
    end
endmodule
