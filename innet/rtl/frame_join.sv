// SPDX-License-Identifier: Apache-2.0
// A header and a payload back to one frame without a gap: frame_split.sv the other way round.
//
//   cycle      0         1               2               3                ..
//   h_tdata    [ 0 ]     [ 1, h_more ]
//   c_tdata                              [ 0 ]           [ 1 ]            ..
//   m_tdata    [ 0 ]                     [ of 1 and 0 ]  [ of 0 and 1 ]   ..  and, if need be, the rest
//
// All three move in the same cycle. A header without h_more is a whole frame.
module frame_join (
    input logic clk,
    input logic rst,
    input logic [255:0] h_tdata,
    input logic [5:0] h_bytes,
    input logic h_tvalid,
    input logic h_tlast,
    input logic h_more,
    output logic h_tready,
    input logic [255:0] c_tdata,
    input logic [5:0] c_bytes,
    input logic c_tvalid,
    input logic c_tlast,
    output logic c_tready,
    output logic [255:0] m_tdata,
    output logic [5:0] m_bytes,
    output logic m_tvalid,
    output logic m_tlast,
    input logic m_tready
);
    typedef enum logic [1:0] { HEAD, BODY, REST } state_e;
    state_e state;
    logic [255:0] kept;     // bytes of the next beat, first in bits 7:0, anything behind them
    logic [5:0] kept_bytes;
    logic [2:0] place;      // a payload's burst begins at byte 4 place + 2 of a beat
    logic [6:0] bytes;
    logic [511:0] moved;
    logic stays;            // an unfinished beat, which the payload fills
    always_comb begin
        stays = h_tlast && h_more;
        bytes = {1'b0, c_bytes} + {2'd0, place, 2'd2};
        moved = {256'd0, c_tdata} << 16;
        for (int i = 1; i < 8; i++)
            if (place == 3'(i)) moved = {256'd0, c_tdata} << (32 * i + 16);
        h_tready = state == HEAD && (stays || m_tready);
        c_tready = state == BODY && m_tready;
        m_tdata = state == HEAD ? h_tdata : kept;
        for (int i = 0; i < 32; i++)
            if (state == BODY && i >= {27'd0, place, 2'd2}) m_tdata[8*i+:8] = moved[8*i+:8];
        case (state)
            HEAD: begin
                m_tvalid = h_tvalid && !stays;
                m_tlast = h_tlast;
                m_bytes = h_bytes;
            end
            BODY: begin
                m_tvalid = c_tvalid;
                m_tlast = c_tlast && bytes <= 7'd32;
                m_bytes = m_tlast ? bytes[5:0] : 6'd32;
            end
            default: begin
                m_tvalid = 1'b1;
                m_tlast = 1'b1;
                m_bytes = kept_bytes;
            end
        endcase
    end

    always_ff @(posedge clk)
        if (rst) state <= HEAD;
        else
            case (state)
                HEAD: if (h_tvalid && stays) state <= BODY;
                BODY: if (c_tvalid && c_tready && c_tlast) state <= m_tlast ? HEAD : REST;
                default: if (m_tready) state <= HEAD;
            endcase
    always_ff @(posedge clk) begin
        if (state == HEAD && h_tvalid && stays) begin
            kept <= h_tdata;
            place <= h_bytes[4:2];
        end
        if (c_tvalid && c_tready) begin
            kept <= moved[511:256];
            kept_bytes <= bytes[5:0] - 6'd32;
        end
    end
endmodule
