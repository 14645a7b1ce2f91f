// SPDX-License-Identifier: Apache-2.0
// Compressor: packets of floats in, layout `interleaved` out, on AXI4-Stream of 256 bits.
//
//   cycle     0      1      2      3      4       5      6      7
//   s_tdata   [ in ]
//                    [ lanes     ] [ pairs, halves ] [ aligner       ]
//   m_tdata                                                    [ out ]
//
// Latency 7 cycles; one burst of 8 floats per cycle unless `hold` (aligner.sv) or the sink says
// wait. A packet is a multiple of 4 bytes; s_tkeep may be partial in its last burst only, and the
// missing floats of that group count as zeros, which cost nothing. `bound` (0, 1, 2 for 2^-6, 2^-8,
// 2^-10) and `strict` must be stable while a packet is inside. group_tags names the classes of the
// group that is taken when group_taken is high, for counters.
module codec_compress (
    input logic clk,
    input logic rst,
    input logic [1:0] bound,
    input logic strict,
    input logic [255:0] s_tdata,
    // verilator lint_off UNUSEDSIGNAL
    input logic [31:0] s_tkeep,  // one bit per float is looked at
    // verilator lint_on UNUSEDSIGNAL
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_tready,
    output logic [255:0] m_tdata,
    output logic [31:0] m_tkeep,
    output logic m_tvalid,
    output logic m_tlast,
    input logic m_tready,
    output logic [15:0] group_tags,
    output logic group_taken
);
    localparam int STAGES = 4;  // lanes 2, pack 2

    logic go, hold, step;
    logic [15:0] word;
    logic [STAGES-1:0] valid, last;
    assign step = go && !hold;
    assign s_tready = step;
    assign group_tags = word;
    assign group_taken = step && valid[STAGES-1];

    always_ff @(posedge clk)
        if (rst) valid <= '0;
        else if (step) valid <= {valid[STAGES-2:0], s_tvalid};
    always_ff @(posedge clk) if (step) last <= {last[STAGES-2:0], s_tlast};

    logic [15:0] tags;
    logic [255:0] payloads;
    for (genvar i = 0; i < 8; i++) begin : g_lane
        lane_compress lane (
            .clk, .go(step), .bound, .strict,
            .present(s_tkeep[4*i]), .x(s_tdata[32*i+:32]),
            .tag(tags[2*i+:2]), .payload(payloads[32*i+:32])
        );
    end

    logic [127:0] left, right;
    logic [4:0] right_at;
    logic [5:0] len;
    group_pack pack (.clk, .go(step), .tags, .payloads, .word, .left, .right, .right_at, .len);

    aligner align (
        .clk, .rst, .go, .hold, .word, .left, .right, .right_at, .len,
        .valid(valid[STAGES-1]), .last(last[STAGES-1]),
        .m_tdata, .m_tkeep, .m_tvalid, .m_tlast, .m_tready
    );
endmodule
