// SPDX-License-Identifier: Apache-2.0
// The engine of a network card, between its DMA and its MAC: both directions and the registers.
//
//   tx_s -> nic_path (code)   -> tx_m     to the link
//   rx_m <- nic_path (decode) <- rx_s     from the link
//
// Cycles: nic_path.sv. All streams are whole Ethernet frames without FCS, AXI4-Stream of 256 bits.
// AXI4-Lite's protection and strobes are not looked at, and every response is OKAY.
module nic_engine #(
    parameter int DEPTH = 512,
    parameter int FLOWS = 16
) (
    input logic clk,
    input logic rst,
    input logic [255:0] tx_s_tdata,
    input logic [31:0] tx_s_tkeep,
    input logic tx_s_tvalid,
    input logic tx_s_tlast,
    output logic tx_s_tready,
    output logic [255:0] tx_m_tdata,
    output logic [31:0] tx_m_tkeep,
    output logic tx_m_tvalid,
    output logic tx_m_tlast,
    input logic tx_m_tready,
    input logic [255:0] rx_s_tdata,
    input logic [31:0] rx_s_tkeep,
    input logic rx_s_tvalid,
    input logic rx_s_tlast,
    output logic rx_s_tready,
    output logic [255:0] rx_m_tdata,
    output logic [31:0] rx_m_tkeep,
    output logic rx_m_tvalid,
    output logic rx_m_tlast,
    input logic rx_m_tready,
    input logic [11:0] s_awaddr,
    input logic s_awvalid,
    output logic s_awready,
    input logic [31:0] s_wdata,
    input logic s_wvalid,
    output logic s_wready,
    output logic s_bvalid,
    input logic s_bready,
    input logic [11:0] s_araddr,
    input logic s_arvalid,
    output logic s_arready,
    output logic [31:0] s_rdata,
    output logic s_rvalid,
    input logic s_rready
);
    logic [1:0] bound;
    logic strict;
    logic [5:0] tos;
    logic [31:0] skip, look;
    logic [7:0] events;
    logic [$clog2(FLOWS)-1:0] look_flow;
    logic [3:0] look_word;
    nic_registers #(.FLOWS(FLOWS)) registers (
        .clk, .rst, .s_awaddr, .s_awvalid, .s_awready, .s_wdata, .s_wvalid, .s_wready,
        .s_bvalid, .s_bready, .s_araddr, .s_arvalid, .s_arready, .s_rdata, .s_rvalid, .s_rready,
        .bound, .strict, .tos, .skip, .events, .look_flow, .look_word, .look
    );
    nic_path #(.DECODE(1'b0), .DEPTH(DEPTH), .FLOWS(FLOWS)) tx (
        .clk, .rst, .bound, .strict, .tos, .skip,
        .s_tdata(tx_s_tdata), .s_tkeep(tx_s_tkeep), .s_tvalid(tx_s_tvalid), .s_tlast(tx_s_tlast),
        .s_tready(tx_s_tready), .m_tdata(tx_m_tdata), .m_tkeep(tx_m_tkeep),
        .m_tvalid(tx_m_tvalid), .m_tlast(tx_m_tlast), .m_tready(tx_m_tready),
        .had_frame(events[0]), .had_coded(events[1]), .had_exact(events[2]), .had_lost(events[3]),
        .look_flow, .look_word, .look
    );
    // verilator lint_off PINCONNECTEMPTY
    nic_path #(.DECODE(1'b1), .DEPTH(DEPTH), .FLOWS(FLOWS)) rx (
        .clk, .rst, .bound(2'd0), .strict(1'b0), .tos, .skip(32'd0),
        .s_tdata(rx_s_tdata), .s_tkeep(rx_s_tkeep), .s_tvalid(rx_s_tvalid), .s_tlast(rx_s_tlast),
        .s_tready(rx_s_tready), .m_tdata(rx_m_tdata), .m_tkeep(rx_m_tkeep),
        .m_tvalid(rx_m_tvalid), .m_tlast(rx_m_tlast), .m_tready(rx_m_tready),
        .had_frame(events[4]), .had_coded(events[5]), .had_exact(events[6]), .had_lost(events[7]),
        .look_flow('0), .look_word(4'd0), .look()
    );
    // verilator lint_on PINCONNECTEMPTY
endmodule
