// SPDX-License-Identifier: Apache-2.0
// STEPS pieces to one block, the first one in the lowest bits.
//
//   cycle    0 ..        STEPS
//   s_data   [ pieces ]
//   m_data               [ block ]
//
// A block that is not taken stops what brings the pieces: `go` is low.
module pe_collect #(
    parameter int WIDTH = 24,
    parameter int STEPS = 4
) (
    input logic clk,
    input logic rst,
    output logic go,
    input logic [WIDTH-1:0] s_data,
    input logic s_valid,
    output logic [STEPS*WIDTH-1:0] m_data,
    output logic m_valid,
    input logic m_ready
);
    localparam int A = $clog2(STEPS > 1 ? STEPS : 2);
    logic [A-1:0] step;
    assign go = !m_valid || m_ready;
    always_ff @(posedge clk)
        if (go && s_valid) m_data <= (STEPS * WIDTH)'({s_data, m_data} >> WIDTH);
    always_ff @(posedge clk)
        if (rst) begin
            step <= '0;
            m_valid <= 1'b0;
        end else if (go) begin
            m_valid <= s_valid && step == A'(STEPS - 1);
            if (s_valid) step <= step == A'(STEPS - 1) ? '0 : step + A'(1);
        end
endmodule
