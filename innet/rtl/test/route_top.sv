// SPDX-License-Identifier: Apache-2.0
// What is placed and routed: one engine between registers on all sides, reached by few pins.
//
// The device has 208 pins and an engine 600 signals, so its inputs are a shift register (`wide` bits
// behind one pin) and its outputs are folded by XOR, 4 bits a level and cycle, down to one pin.
// Nothing of the engine can be optimised away, and its paths lie between registers, as in a real
// design.
module route_top (
    input logic clk,
    input logic rst,
    input logic in,
    output logic out
);
`ifdef ROUTE_DECOMPRESS
    localparam int IN = 256 + 32 + 14 + 3, OUT = 256 + 32 + 4;
`elsif ROUTE_PE_ELEMENT
    // k = 4, 12 bits, 64 blocks of weights, as many block columns
    localparam int K = 4, W = 12, XW = W + 2, AW = 2 * W + 9, A = 6;
    localparam int IN = 6 + K * XW + A + 17 + A + W + K * AW, OUT = K * AW;
`else
    localparam int IN = 256 + 32 + 2 + 1 + 3, OUT = 256 + 32 + 3;
`endif
    logic [IN-1:0] wide;
    logic [OUT-1:0] result;
    logic rst_here;
    always_ff @(posedge clk) begin
        rst_here <= rst;
        wide <= {wide[IN-2:0], in};
    end

`ifdef ROUTE_DECOMPRESS
    codec_decompress engine (
        .clk, .rst(rst_here),
        .s_tdata(wide[255:0]), .s_tkeep(wide[287:256]), .s_floats(wide[301:288]),
        .s_tvalid(wide[302]), .s_tlast(wide[303]), .m_tready(wide[304]),
        .m_tdata(result[255:0]), .m_tkeep(result[287:256]), .m_tvalid(result[288]),
        .m_tlast(result[289]), .m_bad(result[290]), .s_tready(result[291])
    );
`elsif ROUTE_PE_ELEMENT
    logic step, load, add, apart, hold, shift, put;
    logic [K*XW-1:0] x;
    logic [A-1:0] at, put_at;
    logic [15:0] put_slot;
    logic [W-1:0] put_word;
    logic [K*AW-1:0] next;
    assign {step, load, add, apart, hold, shift, x, at, put, put_slot, put_at, put_word, next} = wide;
    pe_element #(.K(K), .W(W), .XW(XW), .AW(AW), .DEPTH(1 << A)) engine (
        .clk, .step, .load, .add, .apart, .hold, .shift, .x, .at, .put, .put_slot, .put_at,
        .put_word, .next, .waits(result)
    );
`else
    codec_compress engine (
        .clk, .rst(rst_here),
        .s_tdata(wide[255:0]), .s_tkeep(wide[287:256]), .bound(wide[289:288]), .strict(wide[290]),
        .s_tvalid(wide[291]), .s_tlast(wide[292]), .m_tready(wide[293]),
        .m_tdata(result[255:0]), .m_tkeep(result[287:256]), .m_tvalid(result[288]),
        .m_tlast(result[289]), .s_tready(result[290])
    );
`endif

    localparam int N1 = (OUT + 3) / 4, N2 = (N1 + 3) / 4, N3 = (N2 + 3) / 4;
    logic [4*N1-1:0] x0;
    logic [4*N2-1:0] x1;
    logic [4*N3-1:0] x2;
    assign x0 = {{(4*N1-OUT){1'b0}}, result};
    always_ff @(posedge clk) begin
        x1 <= '0;
        x2 <= '0;
        for (int i = 0; i < N1; i++) x1[i] <= ^x0[4*i+:4];
        for (int i = 0; i < N2; i++) x2[i] <= ^x1[4*i+:4];
        out <= ^x2;
    end
endmodule
