// SPDX-License-Identifier: Apache-2.0
// Sums of gates: what an engine of two parts gives, x part and h' part, and the bias; then a few
// cells at a time.
//
//   cycle    0            1            2              3 ..
//   x parts  [ in, N ]    [ kept ]
//   h parts  [ in, N ]    [ + x part, + bias ] -> queue -> [ LANES cells per cycle ]
//
// The queue takes two turns of the engine's elements, so these go on while cells are computed.
module pe_gates #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int GATES = 4,
    parameter int N = 4,       // elements of each gate
    parameter int BLOCKS = 8,  // of cells
    parameter int LANES = 2,   // divides K
    parameter int YW = 19,
    parameter int SW = YW + 2  // not to be set
) (
    input logic clk,
    input logic rst,
    input logic load_start,    // biases follow: [gate][cell]
    input logic load_valid,
    input logic [W-1:0] load_word,
    input logic [GATES*K*YW-1:0] s_y,
    input logic s_part,
    input logic s_valid,
    output logic s_ready,
    output logic [LANES*GATES*SW-1:0] m_sums,  // of each lane all gates
    output logic m_first,                      // cells of a frame
    output logic m_valid,
    input logic m_ready
);
    localparam int BA = $clog2(BLOCKS > 1 ? BLOCKS : 2), NA = $clog2(N > 1 ? N : 2);
    localparam int STEPS = K / LANES, LA = $clog2(STEPS > 1 ? STEPS : 2);

    // ------------------------------------------------------------ biases

    logic [15:0] l_gate, l_word, l_block;
    always_ff @(posedge clk)
        if (load_start) {l_gate, l_block, l_word} <= '0;
        else if (load_valid) begin
            l_word <= l_word == 16'(K - 1) ? 16'd0 : l_word + 16'd1;
            if (l_word == 16'(K - 1)) begin
                l_block <= l_block == 16'(BLOCKS - 1) ? 16'd0 : l_block + 16'd1;
                if (l_block == 16'(BLOCKS - 1)) l_gate <= l_gate + 16'd1;
            end
        end

    // ------------------------------------------------------------ parts together

    // n counts within a turn: a turn ends with its N-th block or with the last one of the frame.
    logic [15:0] n, turn, block;
    logic takes, turn_ends, room, b_valid;
    assign block = turn + n;
    assign turn_ends = n == 16'(N - 1) || block == 16'(BLOCKS - 1);
    assign s_ready = !b_valid || room;
    assign takes = s_valid && s_ready;
    always_ff @(posedge clk)
        if (rst) begin
            n <= 16'd0;
            turn <= 16'd0;
            b_valid <= 1'b0;
        end else if (s_ready) begin
            b_valid <= s_valid && s_part;
            if (takes) n <= turn_ends ? 16'd0 : n + 16'd1;
            if (takes && turn_ends && s_part)
                turn <= block == 16'(BLOCKS - 1) ? 16'd0 : turn + 16'(N);
        end

    logic [GATES*K*SW-1:0] b_sums;
    for (genvar i = 0; i < GATES * K; i++) begin : g_word
        logic [YW-1:0] x_part[0:(1<<NA)-1];
        logic [W-1:0] bias[0:(1<<BA)-1];
        logic signed [YW-1:0] y, x;
        logic signed [W-1:0] b;
        assign y = s_y[i*YW+:YW];
        assign x = x_part[n[NA-1:0]];
        assign b = bias[block[BA-1:0]];
        always_ff @(posedge clk) begin
            if (load_valid && l_gate == 16'(i / K) && l_word == 16'(i % K))
                bias[l_block[BA-1:0]] <= load_word;
            if (takes && !s_part) x_part[n[NA-1:0]] <= y;
            if (s_ready) b_sums[i*SW+:SW] <= SW'(y) + SW'(x) + SW'(b);
        end
    end

    // ------------------------------------------------------------ some cells at a time

    logic [GATES*K*SW-1:0] head;
    logic there, next;
    pe_fifo #(.WIDTH(GATES * K * SW), .DEPTH(2 * N)) queue (
        .clk, .rst, .s_data(b_sums), .s_valid(b_valid), .s_ready(room),
        .m_data(head), .m_valid(there), .m_ready(next)
    );
    logic [LA-1:0] step;
    logic go;
    logic [15:0] at;
    assign go = !m_valid || m_ready;
    assign next = go && step == LA'(STEPS - 1);
    always_ff @(posedge clk)
        if (rst) begin
            step <= '0;
            at <= 16'd0;
            m_valid <= 1'b0;
        end else if (go) begin
            m_valid <= there;
            m_first <= at == 16'd0;
            if (there) begin
                step <= step == LA'(STEPS - 1) ? '0 : step + LA'(1);
                at <= at == 16'(BLOCKS * STEPS - 1) ? 16'd0 : at + 16'd1;
            end
        end
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
        for (genvar gate = 0; gate < GATES; gate++) begin : g_gate
            always_ff @(posedge clk)
                if (go)
                    m_sums[(lane*GATES+gate)*SW+:SW] <=
                        head[((gate*K+lane)*SW+LANES*SW*32'(step))+:SW];
        end
    end
endmodule
