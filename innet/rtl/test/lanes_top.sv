// SPDX-License-Identifier: Apache-2.0
// LANES compressors, each followed by a decompressor: the lane test's device.
module lanes_top #(
    parameter int LANES = 32
) (
    input logic clk,
    input logic [1:0] bound,
    input logic strict,
    input logic [32*LANES-1:0] x,
    output logic [2*LANES-1:0] tag,
    output logic [32*LANES-1:0] payload,
    output logic [32*LANES-1:0] y
);
    for (genvar i = 0; i < LANES; i++) begin : lane
        lane_compress compress (
            .clk, .go(1'b1), .bound, .strict, .present(1'b1),
            .x(x[32*i+:32]), .tag(tag[2*i+:2]), .payload(payload[32*i+:32])
        );
        lane_decompress decompress (
            .clk, .go(1'b1), .tag(tag[2*i+:2]), .payload(payload[32*i+:32]), .x(y[32*i+:32])
        );
    end
endmodule
