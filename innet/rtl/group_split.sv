// SPDX-License-Identifier: Apache-2.0
// A group to the tags and payloads of eight lanes, in two cycles.
//
//   cycle      0           1                          2
//   group      [ 2..34 B ]
//   places                 [ where each payload begins ]
//   lanes                                             [ 8 x tag, 4 bytes ]
//
// Four bytes are taken from each payload's first one on; a lane looks at those that its tag names.
module group_split (
    input logic clk,
    input logic go,
    input logic [15:0] word,        // the tag word
    input logic odd,                // payloads begin at byte 1 of those here, else at 0
    input logic [263:0] bytes,
    output logic [15:0] tags,
    output logic [255:0] payloads
);
    // Bytes that two tags announce.
    function automatic logic [3:0] bytes_of(input logic [3:0] two);
        bytes_of = {1'b0, two[1:0] == 2'd3, two[1:0] == 2'd2, two[1:0] == 2'd1}
            + {1'b0, two[3:2] == 2'd3, two[3:2] == 2'd2, two[3:2] == 2'd1};
    endfunction
    function automatic logic [2:0] size_of(input logic [1:0] tag);
        size_of = {tag == 2'd3, tag == 2'd2, tag == 2'd1};
    endfunction

    logic [3:0] p01, p23, p45;
    logic [4:0] p03, p05;
    always_comb begin
        p01 = bytes_of(word[3:0]);
        p23 = bytes_of(word[7:4]);
        p45 = bytes_of(word[11:8]);
        p03 = {1'b0, p01} + {1'b0, p23};
        p05 = p03 + {1'b0, p45};
    end

    logic [39:0] place;  // 8 x 5 bits
    logic [15:0] a_tags;
    logic [255:0] a_bytes;
    always_ff @(posedge clk)
        if (go) begin
            a_tags <= word;
            a_bytes <= odd ? bytes[263:8] : bytes[255:0];
            place[4:0] <= 5'd0;
            place[9:5] <= {2'd0, size_of(word[1:0])};
            place[14:10] <= {1'b0, p01};
            place[19:15] <= {1'b0, p01} + {2'd0, size_of(word[5:4])};
            place[24:20] <= p03;
            place[29:25] <= p03 + {2'd0, size_of(word[9:8])};
            place[34:30] <= p05;
            place[39:35] <= p05 + {2'd0, size_of(word[13:12])};
            tags <= a_tags;
        end

    // Lane i's payload begins at 0 .. 4 i. The largest steps come first: they leave the fewest bytes.
    for (genvar i = 0; i < 8; i++) begin : g_lane
        logic [4:0] at;
        logic [279:0] from;
        logic [151:0] by_16;
        logic [87:0] by_8;
        logic [55:0] by_4;
        logic [39:0] by_2;
        always_comb begin
            at = place[5*i+:5];
            from = {{(280-32*(i+1)){1'b0}}, a_bytes[0+:32*(i+1)]};
            by_16 = at[4] ? from[279:128] : from[151:0];
            by_8 = at[3] ? by_16[151:64] : by_16[87:0];
            by_4 = at[2] ? by_8[87:32] : by_8[55:0];
            by_2 = at[1] ? by_4[55:16] : by_4[39:0];
        end
        always_ff @(posedge clk)
            if (go) payloads[32*i+:32] <= at[0] ? by_2[39:8] : by_2[31:0];
    end
endmodule
