// SPDX-License-Identifier: Apache-2.0
// A queue of DEPTH words between two streams.
//
//   cycle     0       1        2
//   s_data    [ in ]
//   m_data            [ there, if nothing waits before it ]
//
// It begins with START words of any content: frames that nobody reads (pe_lstm.sv).
module pe_fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 4,
    parameter int START = 0
) (
    input logic clk,
    input logic rst,
    input logic [WIDTH-1:0] s_data,
    input logic s_valid,
    output logic s_ready,
    output logic [WIDTH-1:0] m_data,
    output logic m_valid,
    input logic m_ready
);
    localparam int A = $clog2(DEPTH > 1 ? DEPTH : 2), CW = $clog2(DEPTH + 1);
    logic [WIDTH-1:0] words[0:(1<<A)-1];
    logic [A-1:0] in_at, out_at;
    logic [CW-1:0] count;
    logic in, out;
    assign s_ready = count != CW'(DEPTH);
    assign m_valid = count != '0;
    assign m_data = words[out_at];
    assign in = s_valid && s_ready;
    assign out = m_valid && m_ready;

    always_ff @(posedge clk) if (in) words[in_at] <= s_data;
    always_ff @(posedge clk)
        if (rst) begin
            in_at <= A'(START % DEPTH);
            out_at <= '0;
            count <= CW'(START);
        end else begin
            if (in) in_at <= in_at == A'(DEPTH - 1) ? '0 : in_at + A'(1);
            if (out) out_at <= out_at == A'(DEPTH - 1) ? '0 : out_at + A'(1);
            if (in != out) count <= in ? count + CW'(1) : count - CW'(1);
        end
endmodule
