// SPDX-License-Identifier: Apache-2.0
// Decompressor: packets in layout `interleaved` in, floats out, on AXI4-Stream of 256 bits.
//
//   cycle     0      1      2      3      4       5       6       7      8
//   s_tdata   [ in ]
//                    [ burst_window           ] [ group_split ] [ lanes     ]
//   m_tdata                                                           [ out ]
//
// Latency 8 cycles; one burst of 8 floats per cycle as long as its bytes are there (17 bursts of
// incompressible data make 16). s_floats, which comes with a packet's first burst, says how many
// floats it decodes to; m_tkeep is partial in its last burst only. A packet whose groups do not end
// where its bytes do comes out with m_bad in its last burst, perhaps too short: corrupt.
// The code words say how they are to be read, so there is no `bound` here.
module codec_decompress (
    input logic clk,
    input logic rst,
    input logic [255:0] s_tdata,
    input logic [31:0] s_tkeep,
    input logic [13:0] s_floats,
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_tready,
    output logic [255:0] m_tdata,
    output logic [31:0] m_tkeep,
    output logic m_tvalid,
    output logic m_tlast,
    output logic m_bad,
    input logic m_tready
);
    localparam int STAGES = 4;  // split 2, lanes 2

    logic go;
    assign go = !m_tvalid || m_tready;

    // The number of bytes in a burst, from a tkeep without gaps.
    logic [5:0] bytes;
    always_comb begin
        bytes = s_tkeep[31] ? 6'd32 : 6'd0;
        for (int i = 0; i < 31; i++)
            if (s_tkeep[i] && !s_tkeep[i+1]) bytes = bytes | 6'(i + 1);
    end

    logic [15:0] word;
    logic odd;
    logic [263:0] moved;
    logic valid, final_group, bad;
    logic [2:0] tail;
    burst_window window (
        .clk, .rst, .go, .s_tdata, .s_bytes(bytes), .s_floats, .s_tvalid, .s_tlast,
        .s_taken(s_tready), .word, .odd, .payloads(moved), .valid, .final_group, .final_tail(tail), .bad
    );

    logic [15:0] tags;
    logic [255:0] payloads;
    group_split split (.clk, .go, .word, .odd, .bytes(moved), .tags, .payloads);
    for (genvar i = 0; i < 8; i++) begin : g_lane
        lane_decompress lane (
            .clk, .go, .tag(tags[2*i+:2]), .payload(payloads[32*i+:32]), .x(m_tdata[32*i+:32])
        );
    end

    // Tags of floats that are not there must be zero.
    logic ghosts;
    always_comb begin
        ghosts = 1'b0;
        for (int i = 1; i < 8; i++)
            if (final_group && tail != 3'd0 && i >= {29'd0, tail}) ghosts |= |word[2*i+:2];
    end

    logic [STAGES-1:0] valids, finals, bads;
    logic [3*STAGES-1:0] tails;
    always_ff @(posedge clk)
        if (rst) valids <= '0;
        else if (go) valids <= {valids[STAGES-2:0], valid};
    always_ff @(posedge clk)
        if (go) begin
            finals <= {finals[STAGES-2:0], final_group};
            bads <= {bads[STAGES-2:0], bad || ghosts};
            tails <= {tails[3*STAGES-4:0], tail};
        end
    assign m_tvalid = valids[STAGES-1];
    assign m_tlast = finals[STAGES-1];
    assign m_bad = bads[STAGES-1];
    logic [2:0] m_tail;
    assign m_tail = tails[3*STAGES-1-:3];
    always_comb
        for (int i = 0; i < 32; i++) m_tkeep[i] = !m_tlast || m_tail == 3'd0 || i / 4 < {29'd0, m_tail};
endmodule
