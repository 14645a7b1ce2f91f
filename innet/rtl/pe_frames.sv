// SPDX-License-Identifier: Apache-2.0
// What a layer with memory hands from frame to frame: x and h' into the first stage, h out of the
// last one, to the outside and into the queue of FLIGHT frames.
//
//   cycle     0         1 ..
//   s_x       [ x blocks of a frame ]  then  [ h' blocks ]  no register between s_x and a_x
//   h_block   [ in ]    [ in the queue ]
//
// The queue begins with FLIGHT frames that count as zeros, as does h' of a frame that is fresh.
module pe_frames #(
    parameter int WIDTH = 96,  // of a block
    parameter int XB = 2,      // blocks of x and of h
    parameter int HB = 2,
    parameter int FLIGHT = 3
) (
    input logic clk,
    input logic rst,
    input logic [WIDTH-1:0] s_x,
    input logic s_fresh,           // with the first block
    input logic s_valid,
    output logic s_ready,
    output logic [WIDTH-1:0] a_x,
    output logic a_in_h,           // an h' block
    output logic a_first,          // of a frame; a_fresh goes with it
    output logic a_fresh,
    output logic a_valid,
    input logic a_ready,
    input logic [WIDTH-1:0] h_block,
    input logic h_valid,
    output logic h_ready,
    output logic [WIDTH-1:0] m_y,
    output logic m_last,
    output logic m_valid,
    input logic m_ready
);
    localparam int FW = $clog2(FLIGHT + 1);
    logic [WIDTH-1:0] h_before;
    logic [15:0] in_at, out_at;
    logic [FW-1:0] begun;  // frames, up to FLIGHT
    logic h_there, h_room, fresh, moves;
    assign a_in_h = in_at >= 16'(XB);
    assign a_first = in_at == 16'd0;
    assign a_fresh = s_fresh || begun != FW'(FLIGHT);
    assign a_valid = a_in_h ? h_there : s_valid;
    assign a_x = !a_in_h ? s_x : fresh ? '0 : h_before;
    assign s_ready = !a_in_h && a_ready;
    assign moves = a_valid && a_ready;
    always_ff @(posedge clk)
        if (rst) begin
            in_at <= 16'd0;
            begun <= '0;
        end else if (moves) begin
            in_at <= in_at == 16'(XB + HB - 1) ? 16'd0 : in_at + 16'd1;
            if (a_first) fresh <= a_fresh;
            if (a_first && begun != FW'(FLIGHT)) begun <= begun + FW'(1);
        end

    assign h_ready = m_ready && h_room;
    assign m_valid = h_valid && h_room;
    assign m_y = h_block;
    assign m_last = out_at == 16'(HB - 1);
    always_ff @(posedge clk)
        if (rst) out_at <= 16'd0;
        else if (h_valid && h_ready) out_at <= m_last ? 16'd0 : out_at + 16'd1;
    pe_fifo #(.WIDTH(WIDTH), .DEPTH(FLIGHT * HB), .START(FLIGHT * HB)) h_queue (
        .clk, .rst, .s_data(h_block), .s_valid(h_valid && m_ready), .s_ready(h_room),
        .m_data(h_before), .m_valid(h_there), .m_ready(a_in_h && a_ready)
    );
endmodule
