// SPDX-License-Identifier: Apache-2.0
// Tags and payloads of eight lanes to the two halves of a group, each without gaps, in two cycles.
//
//   cycle      0               1            2
//   lanes      [ 8 x 0..4 B ]
//   pairs                      [ 4 x 0..8 ]
//   halves                                  [ 2 x 0..16 B, lengths ]
//
// Each step shifts the right part behind the left one and ORs: payloads are zero behind their ends,
// and so are halves. The aligner puts the tag word and the halves together.
module group_pack (
    input logic clk,
    input logic go,
    input logic [15:0] tags,
    input logic [255:0] payloads,
    output logic [15:0] word,      // the tag word
    output logic [127:0] left,     // payloads 0..3, first byte in bits 7:0
    output logic [127:0] right,    // payloads 4..7
    output logic [4:0] right_at,   // where the right half begins in the group: 2 .. 18
    output logic [5:0] len         // of the group: 2 .. 34
);
    logic [15:0] pair_tags;
    logic [15:0] pair_len;   // 4 x 4 bits
    logic [255:0] pair;      // 4 x 64 bits

    // Bytes that two tags announce.
    function automatic logic [3:0] bytes_of(input logic [3:0] two);
        bytes_of = {1'b0, two[1:0] == 2'd3, two[1:0] == 2'd2, two[1:0] == 2'd1}
            + {1'b0, two[3:2] == 2'd3, two[3:2] == 2'd2, two[3:2] == 2'd1};
    endfunction

    for (genvar i = 0; i < 4; i++) begin : g_pair
        logic [31:0] p;
        logic [63:0] moved;
        assign p = payloads[64*i+32+:32];
        always_comb
            case (tags[4*i+:2])
                2'd0: moved = {32'd0, p};
                2'd1: moved = {24'd0, p, 8'd0};
                2'd2: moved = {16'd0, p, 16'd0};
                default: moved = {p, 32'd0};
            endcase
        always_ff @(posedge clk)
            if (go) begin
                pair[64*i+:64] <= {32'd0, payloads[64*i+:32]} | moved;
                pair_len[4*i+:4] <= bytes_of(tags[4*i+:4]);
            end
    end
    always_ff @(posedge clk) if (go) pair_tags <= tags;

    logic [127:0] moved_left, moved_right;
    logic [4:0] left_len, right_len;
    always_comb begin
        moved_left = {64'd0, pair[127:64]} << {pair_len[3:0], 3'd0};
        moved_right = {64'd0, pair[255:192]} << {pair_len[11:8], 3'd0};
        left_len = {1'b0, pair_len[3:0]} + {1'b0, pair_len[7:4]};
        right_len = {1'b0, pair_len[11:8]} + {1'b0, pair_len[15:12]};
    end
    always_ff @(posedge clk)
        if (go) begin
            word <= pair_tags;
            left <= {64'd0, pair[63:0]} | moved_left;
            right <= {64'd0, pair[191:128]} | moved_right;
            right_at <= left_len + 5'd2;
            len <= {1'b0, left_len} + {1'b0, right_len} + 6'd2;
        end
endmodule
