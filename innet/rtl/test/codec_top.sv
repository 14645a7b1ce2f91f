// SPDX-License-Identifier: Apache-2.0
// Compressor and decompressor, each with its own streams: the stream test connects them.
module codec_top (
    input logic clk,
    input logic rst,
    input logic [1:0] bound,
    input logic strict,
    // compressor
    input logic [255:0] c_s_tdata,
    input logic [31:0] c_s_tkeep,
    input logic c_s_tvalid,
    input logic c_s_tlast,
    output logic c_s_tready,
    output logic [255:0] c_m_tdata,
    output logic [31:0] c_m_tkeep,
    output logic c_m_tvalid,
    output logic c_m_tlast,
    input logic c_m_tready,
    // decompressor
    input logic [255:0] d_s_tdata,
    input logic [31:0] d_s_tkeep,
    input logic [13:0] d_s_floats,
    input logic d_s_tvalid,
    input logic d_s_tlast,
    output logic d_s_tready,
    output logic [255:0] d_m_tdata,
    output logic [31:0] d_m_tkeep,
    output logic d_m_tvalid,
    output logic d_m_tlast,
    output logic d_m_bad,
    input logic d_m_tready
);
    // verilator lint_off PINMISSING
    codec_compress compress (
        .clk, .rst, .bound, .strict,
        .s_tdata(c_s_tdata), .s_tkeep(c_s_tkeep), .s_tvalid(c_s_tvalid), .s_tlast(c_s_tlast),
        .s_tready(c_s_tready),
        .m_tdata(c_m_tdata), .m_tkeep(c_m_tkeep), .m_tvalid(c_m_tvalid), .m_tlast(c_m_tlast),
        .m_tready(c_m_tready)
    );
    // verilator lint_on PINMISSING
    codec_decompress decompress (
        .clk, .rst,
        .s_tdata(d_s_tdata), .s_tkeep(d_s_tkeep), .s_floats(d_s_floats), .s_tvalid(d_s_tvalid),
        .s_tlast(d_s_tlast), .s_tready(d_s_tready),
        .m_tdata(d_m_tdata), .m_tkeep(d_m_tkeep), .m_tvalid(d_m_tvalid), .m_tlast(d_m_tlast),
        .m_bad(d_m_bad), .m_tready(d_m_tready)
    );
endmodule
