// SPDX-License-Identifier: Apache-2.0
// An lstm layer, as E-RNN cuts it into stages that work on frames of different sequences:
//
//   s_x --> pe_engine, 4 gates -> pe_gates -> pe_lstm_cell -> pe_engine, projection -+-> m_y
//      +--> (x, h')                           (c' of the sequence)                    |
//      +------------------------ h of FLIGHT frames <--------------------------------+
//
// Frames come in turn from FLIGHT sequences (3 in E-RNN): what a frame needs of the one before it in
// its sequence left the last stage while the others went through the first. s_fresh with the first
// block of a frame: h' = c' = 0. Stages hand over blocks, not whole frames, so FLIGHT may be 1 or 2:
// then the first stage waits for h'.
//
// x comes in blocks of K words, zeros behind its end; h leaves in such blocks. CELLS is a multiple
// of K. Weights: `load_start` with what comes, then its words: 0 x, 1 r, 2 p (pe_engine.sv), 3 bias
// [4][CELLS], 4 peepholes [3][CELLS]. Without PROJECT there is no p, and OUT is CELLS.
// verilator lint_off PINCONNECTEMPTY
module pe_lstm #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int CELLS = 32,
    parameter int IN = 16,
    parameter int OUT = 16,
    parameter bit PROJECT = 1,
    parameter bit PEEP = 1,
    parameter bit SIGMOID = 0,  // z
    parameter int N = 2,        // elements of each gate
    parameter int NP = 2,       // of the projection
    parameter int LANES = 2,    // cells per cycle
    parameter int FLIGHT = 3,
    parameter bit THREE = 0
) (
    input logic clk,
    input logic rst,
    input logic [(K/2+1)*6-1:0] shifts_x,
    input logic [(K/2+1)*6-1:0] shifts_r,
    // verilator lint_off UNUSEDSIGNAL
    input logic [(K/2+1)*6-1:0] shifts_p,  // without PROJECT not looked at
    // verilator lint_on UNUSEDSIGNAL
    input logic [5:0] peephole_shift,
    input logic load_start,
    input logic [2:0] load_what,
    input logic load_valid,
    input logic [W-1:0] load_word,
    input logic [K*W-1:0] s_x,
    input logic s_fresh,
    input logic s_valid,
    output logic s_ready,
    output logic [K*W-1:0] m_y,
    output logic m_last,        // of a frame
    output logic m_valid,
    input logic m_ready,
    output logic gates_done     // the last sums of a frame's gates leave the first stage
);
    localparam int CB = CELLS / K, XB = (IN + K - 1) / K, HB = (OUT + K - 1) / K;
    localparam int YW = W + $clog2(K) + 3 + (K > 4 ? ($clog2(K) - 1) / 2 : 0), SW = YW + 2;
    localparam int CW = W + 4, STEPS = K / LANES;

    // ------------------------------------------------------------ x, h' to sums of gates

    logic [K*W-1:0] h_block, a_x;
    logic h_valid, h_ready, a_there, a_taken, a_first, a_fresh;
    pe_frames #(.WIDTH(K * W), .XB(XB), .HB(HB), .FLIGHT(FLIGHT)) frames (
        .clk, .rst, .s_x, .s_fresh, .s_valid, .s_ready,
        .a_x, .a_in_h(), .a_first, .a_fresh, .a_valid(a_there), .a_ready(a_taken),
        .h_block, .h_valid, .h_ready, .m_y, .m_last, .m_valid, .m_ready
    );

    logic [4*K*YW-1:0] a_y;
    logic a_part, a_last, a_valid, a_ready;
    assign gates_done = a_valid && a_ready && a_last;
    pe_engine #(
        .K(K), .W(W), .N(N), .UNITS(4), .PARTS(2), .COLS(XB + HB),
        .DEPTH((CB + N - 1) / N * (XB + HB)), .THREE(THREE)
    ) gates_engine (
        .clk, .rst, .rows(16'(CB)), .cols({16'(HB), 16'(XB)}), .shifts({shifts_r, shifts_x}),
        .load_start(load_start && load_what < 3'd2), .load_part(load_what[0]),
        .load_valid(load_valid && load_what < 3'd2), .load_word,
        .s_x(a_x), .s_valid(a_there), .s_ready(a_taken),
        .m_y(a_y), .m_part(a_part), .m_last(a_last), .m_valid(a_valid), .m_ready(a_ready)
    );

    logic [LANES*4*SW-1:0] sums, sums_then;
    logic first, cells_there, go;
    pe_gates #(
        .K(K), .W(W), .GATES(4), .N(N), .BLOCKS(CB), .LANES(LANES), .YW(YW)
    ) gates (
        .clk, .rst, .load_start(load_start && load_what == 3'd3),
        .load_valid(load_valid && load_what == 3'd3), .load_word,
        .s_y(a_y), .s_part(a_part), .s_valid(a_valid), .s_ready(a_ready),
        .m_sums(sums), .m_first(first), .m_valid(cells_there), .m_ready(go)
    );

    // ------------------------------------------------------------ cells

    // Who is fresh: asked for as a frame's cells begin.
    logic cells_fresh, cells_fresh_now, queue_fresh;
    pe_fifo #(.WIDTH(1), .DEPTH(FLIGHT + 3)) fresh_queue (
        .clk, .rst, .s_data(a_fresh), .s_valid(a_there && a_taken && a_first), .s_ready(),
        .m_data(queue_fresh), .m_valid(), .m_ready(go && cells_there && first)
    );
    assign cells_fresh_now = first ? queue_fresh : cells_fresh;
    always_ff @(posedge clk) if (go && cells_there) cells_fresh <= cells_fresh_now;

    localparam int CA = $clog2(FLIGHT * CB * STEPS > 1 ? FLIGHT * CB * STEPS : 2);
    localparam logic [CA-1:0] C_END = CA'(FLIGHT * CB * STEPS - 1);
    logic [LANES*CW-1:0] cells[0:(1<<CA)-1];
    logic [CA-1:0] c_from, c_to;
    logic [LANES*CW-1:0] c_read, c_before, c_after;
    logic c_zero;
    logic [16:0] there;  // cells at their inputs, .. at m
    logic [LANES*W-1:0] m;
    assign c_before = c_zero ? '0 : c_read;
    pe_delay #(.WIDTH(LANES * 4 * SW), .N(1)) d_sums (.clk, .go, .d(sums), .q(sums_then));
    always_ff @(posedge clk)
        if (go) begin
            c_read <= cells[c_from];
            c_zero <= cells_fresh_now;
            if (there[8]) cells[c_to] <= c_after;
        end
    always_ff @(posedge clk)
        if (rst) begin
            there <= '0;
            c_from <= '0;
            c_to <= '0;
        end else if (go) begin
            there <= {there[15:0], cells_there};
            if (cells_there) c_from <= c_from == C_END ? '0 : c_from + CA'(1);
            if (there[8]) c_to <= c_to == C_END ? '0 : c_to + CA'(1);
        end

    localparam int PA = $clog2(CB * STEPS > 1 ? CB * STEPS : 2);
    logic [15:0] l_gate, l_at, l_lane;
    logic [PA-1:0] cells_at;
    always_ff @(posedge clk)
        if (rst) cells_at <= '0;
        else if (go && cells_there)
            cells_at <= cells_at == PA'(CB * STEPS - 1) ? '0 : cells_at + PA'(1);
    always_ff @(posedge clk)
        if (load_start) {l_gate, l_at, l_lane} <= '0;
        else if (load_valid) begin
            l_lane <= l_lane == 16'(LANES - 1) ? 16'd0 : l_lane + 16'd1;
            if (l_lane == 16'(LANES - 1)) begin
                l_at <= l_at == 16'(CB * STEPS - 1) ? 16'd0 : l_at + 16'd1;
                if (l_at == 16'(CB * STEPS - 1)) l_gate <= l_gate + 16'd1;
            end
        end
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
        logic [3*W-1:0] peepholes;
        for (genvar gate = 0; gate < 3; gate++) begin : g_peep
            if (PEEP) begin : g_words
                logic [W-1:0] words[0:(1<<PA)-1];
                logic [W-1:0] word;
                always_ff @(posedge clk) begin
                    if (load_valid && load_what == 3'd4 && l_gate == 16'(gate)
                        && l_lane == 16'(lane))
                        words[l_at[PA-1:0]] <= load_word;
                    if (go) word <= words[cells_at];
                end
                assign peepholes[gate*W+:W] = word;
            end else begin : g_none
                assign peepholes[gate*W+:W] = '0;
            end
        end
        pe_lstm_cell #(.W(W), .SW(SW), .SIGMOID(SIGMOID)) cell_lane (
            .clk, .go, .peephole_shift, .sums(sums_then[lane*4*SW+:4*SW]), .peepholes,
            .c_before(c_before[lane*CW+:CW]), .c(c_after[lane*CW+:CW]), .m(m[lane*W+:W])
        );
    end

    // ------------------------------------------------------------ m to h

    logic [K*W-1:0] m_block;
    logic m_there, m_taken;
    pe_collect #(.WIDTH(LANES * W), .STEPS(STEPS)) collect (
        .clk, .rst, .go, .s_data(m), .s_valid(there[16]),
        .m_data(m_block), .m_valid(m_there), .m_ready(m_taken)
    );

    if (PROJECT) begin : g_project
        logic [K*YW-1:0] p_y;
        pe_engine #(
            .K(K), .W(W), .N(NP), .COLS(CB), .DEPTH((HB + NP - 1) / NP * CB), .THREE(THREE)
        ) projection (
            .clk, .rst, .rows(16'(HB)), .cols(16'(CB)), .shifts(shifts_p),
            .load_start(load_start && load_what == 3'd2), .load_part(1'b0),
            .load_valid(load_valid && load_what == 3'd2), .load_word,
            .s_x(m_block), .s_valid(m_there), .s_ready(m_taken),
            .m_y(p_y), .m_part(), .m_last(), .m_valid(h_valid), .m_ready(h_ready)
        );
        for (genvar t = 0; t < K; t++) begin : g_word
            logic [W-1:0] word;
            pe_sat #(.IW(YW), .OW(W)) sat (.v(p_y[t*YW+:YW]), .y(word));
            if ((HB - 1) * K + t < OUT) begin : g_always
                assign h_block[t*W+:W] = word;
            end else begin : g_padding
                assign h_block[t*W+:W] = m_last ? '0 : word;
            end
        end
    end else begin : g_plain
        assign h_block = m_block;
        assign h_valid = m_there;
        assign m_taken = h_ready;
    end
endmodule
