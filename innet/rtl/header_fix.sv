// SPDX-License-Identifier: Apache-2.0
// The four header fields that change with a payload, as they lie in the frame.
//
//   cycle      0              1                  2
//   in         [ old, new ]
//   stage a                   [ sums of four ]
//   out                                          [ fields ]
//
// Checksums are changed, not made anew (RFC 1624, equation 3: ~(~HC + ~m + m')), the TCP checksum
// by the sums of both payloads, too. So a segment that was damaged before still is behind: nothing
// here vouches for what the hosts did not.
module header_fix (
    input logic clk,
    input logic [15:0] old_length,   // of the IP packet, first byte in bits 7:0
    input logic [15:0] new_length,
    input logic [15:0] old_urgent,
    input logic [15:0] new_urgent,
    input logic [15:0] old_payload,  // sums
    input logic [15:0] new_payload,
    input logic [15:0] old_ip_sum,
    input logic [15:0] old_tcp_sum,
    output logic [15:0] ip_sum,
    output logic [15:0] tcp_sum
);
    function automatic logic [15:0] fold(input logic [19:0] x);
        logic [16:0] once;
        once = {1'b0, x[15:0]} + {13'd0, x[19:16]};
        fold = once[15:0] + {15'd0, once[16]};
    endfunction
    logic [19:0] a_ip, a_tcp;
    always_ff @(posedge clk) begin
        a_ip <= {4'd0, ~old_ip_sum} + {4'd0, ~old_length} + {4'd0, new_length};
        a_tcp <= {4'd0, ~old_tcp_sum} + {4'd0, ~old_length} + {4'd0, new_length}
            + {4'd0, ~old_urgent} + {4'd0, new_urgent} + {4'd0, ~old_payload} + {4'd0, new_payload};
        ip_sum <= ~fold(a_ip);
        tcp_sum <= ~fold(a_tcp);
    end
endmodule
