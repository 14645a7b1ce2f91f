// SPDX-License-Identifier: Apache-2.0
// Ones' complement sum of a stream (RFC 1071), first bytes low: two bytes a word, as they lie there.
//
//   cycle      0          1              2               3
//   beat       [ in ]
//   stage a               [ 4 sums ]
//   stage b                              [ one sum ]
//   sum                                                  [ with it ]
//
// The sum of what was taken is there 3 cycles later.
module ones_sum (
    input logic clk,
    input logic clear,
    input logic [255:0] data,
    input logic [5:0] bytes,
    input logic taken,
    output logic [15:0] sum
);
    logic [255:0] there;
    always_comb
        for (int i = 0; i < 32; i++)
            there[8*i+:8] = i < {26'd0, bytes} ? data[8*i+:8] : 8'd0;

    function automatic logic [17:0] add_four(input logic [63:0] x);
        add_four = {2'd0, x[15:0]} + {2'd0, x[31:16]} + {2'd0, x[47:32]} + {2'd0, x[63:48]};
    endfunction
    logic [17:0] quarter [4];
    logic [19:0] whole;
    logic [16:0] next;
    logic a_taken, b_taken;
    assign next = {1'b0, sum} + {1'b0, whole[15:0]};  // folded twice: carries come back in
    logic [16:0] folded;
    assign folded = {1'b0, next[15:0]} + {12'd0, {1'b0, whole[19:16]} + {4'd0, next[16]}};
    always_ff @(posedge clk) begin
        for (int i = 0; i < 4; i++) quarter[i] <= add_four(there[64*i+:64]);
        whole <= {2'd0, quarter[0]} + {2'd0, quarter[1]} + {2'd0, quarter[2]} + {2'd0, quarter[3]};
        a_taken <= taken && !clear;
        b_taken <= a_taken && !clear;
        if (clear) sum <= 16'd0;
        else if (b_taken) sum <= folded[15:0] + {15'd0, folded[16]};
    end
endmodule
