// SPDX-License-Identifier: Apache-2.0
// A gru layer, in stages that work on frames of different sequences (as pe_lstm.sv):
//
//   s_x -+-> pe_engine, 2 gates -> pe_gates -> z, r, g = r h' -> pe_engine, candidate -> pe_gates
//        |   (x, h')                           |                 (x, g)                     |
//        +--> x, later ------------------------|--------> z, h' -------> h = h' + z (v - h') +-> m_y
//
//   cycle    0        1        5          7        of the first cells: sums, gates, r h'
//   cycle    0        1        5     6    8        of the second ones: sums, v, v - h', h
//
// Ports, order of frames and words as in pe_lstm.sv; OUT is CELLS. x's rows are update, reset,
// candidate: the first two thirds of its words go to the first engine, the others to the second;
// biases likewise.
// verilator lint_off PINCONNECTEMPTY
module pe_gru #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int CELLS = 32,
    parameter int IN = 16,
    parameter int N = 2,       // elements of each gate
    parameter int NP = 2,      // of the candidate
    parameter int LANES = 2,   // cells per cycle
    parameter int FLIGHT = 3,
    parameter bit THREE = 0
) (
    input logic clk,
    input logic rst,
    input logic [(K/2+1)*6-1:0] shifts_x,
    input logic [(K/2+1)*6-1:0] shifts_r,
    input logic [(K/2+1)*6-1:0] shifts_p,  // of the candidate
    input logic load_start,
    input logic [2:0] load_what,           // 0 x, 1 r, 2 candidate, 3 bias [3][CELLS]
    input logic load_valid,
    input logic [W-1:0] load_word,
    input logic [K*W-1:0] s_x,
    input logic s_fresh,
    input logic s_valid,
    output logic s_ready,
    output logic [K*W-1:0] m_y,
    output logic m_last,
    output logic m_valid,
    input logic m_ready
);
    localparam int CB = CELLS / K, XB = (IN + K - 1) / K, STEPS = K / LANES;
    localparam int YW = W + $clog2(K) + 3 + (K > 4 ? ($clog2(K) - 1) / 2 : 0), SW = YW + 2;
    localparam int F = W - 4;

    // Words since load_start tell the candidate's from the others.
    logic [31:0] loaded;
    logic x_late, bias_late;
    assign x_late = loaded >= 32'(2 * CB * XB * K);
    assign bias_late = loaded >= 32'(2 * CELLS);
    always_ff @(posedge clk)
        if (load_start) loaded <= 32'd0;
        else if (load_valid) loaded <= loaded + 32'd1;

    // ------------------------------------------------------------ x, h' to z, r

    logic [K*W-1:0] h_block, a_x, late_x, h_before;
    logic h_valid, h_ready, a_there, a_taken, a_in_h, a_moves, x_room, x_there, x_taken;
    logic before_room, e_taken;
    pe_frames #(.WIDTH(K * W), .XB(XB), .HB(CB), .FLIGHT(FLIGHT)) frames (
        .clk, .rst, .s_x, .s_fresh, .s_valid, .s_ready,
        .a_x, .a_in_h, .a_first(), .a_fresh(), .a_valid(a_there), .a_ready(a_taken),
        .h_block, .h_valid, .h_ready, .m_y, .m_last, .m_valid, .m_ready
    );
    assign a_taken = e_taken && (a_in_h ? before_room : x_room);
    assign a_moves = a_there && a_taken;
    pe_fifo #(.WIDTH(K * W), .DEPTH(3 * XB)) x_queue (
        .clk, .rst, .s_data(a_x), .s_valid(a_moves && !a_in_h), .s_ready(x_room),
        .m_data(late_x), .m_valid(x_there), .m_ready(x_taken)
    );
    logic before_next;
    pe_fifo #(.WIDTH(K * W), .DEPTH(2 * CB)) before_queue (
        .clk, .rst, .s_data(a_x), .s_valid(a_moves && a_in_h), .s_ready(before_room),
        .m_data(h_before), .m_valid(), .m_ready(before_next)
    );

    logic [2*K*YW-1:0] a_y;
    logic a_part, a_valid, a_ready;
    pe_engine #(
        .K(K), .W(W), .N(N), .UNITS(2), .PARTS(2), .COLS(XB + CB),
        .DEPTH((CB + N - 1) / N * (XB + CB)), .THREE(THREE)
    ) gates_engine (
        .clk, .rst, .rows(16'(CB)), .cols({16'(CB), 16'(XB)}), .shifts({shifts_r, shifts_x}),
        .load_start(load_start && load_what < 3'd2), .load_part(load_what[0]),
        .load_valid(load_valid && (load_what == 3'd0 ? !x_late : load_what == 3'd1)), .load_word,
        .s_x(a_x), .s_valid(a_there && (a_in_h ? before_room : x_room)), .s_ready(e_taken),
        .m_y(a_y), .m_part(a_part), .m_last(), .m_valid(a_valid), .m_ready(a_ready)
    );
    logic [LANES*2*SW-1:0] sums;
    logic cells_there, go, collected, zh_room;
    pe_gates #(
        .K(K), .W(W), .GATES(2), .N(N), .BLOCKS(CB), .LANES(LANES), .YW(YW)
    ) gates (
        .clk, .rst, .load_start(load_start && load_what == 3'd3),
        .load_valid(load_valid && load_what == 3'd3), .load_word,
        .s_y(a_y), .s_part(a_part), .s_valid(a_valid), .s_ready(a_ready),
        .m_sums(sums), .m_first(), .m_valid(cells_there), .m_ready(go)
    );

    // ------------------------------------------------------------ z, g = r h'

    localparam int LA = $clog2(STEPS > 1 ? STEPS : 2);
    logic [LA-1:0] step;
    logic [6:0] there;
    logic [LANES*W-1:0] h_cells, g;
    logic [LANES*2*W-1:0] zh, zh_then;
    assign h_cells = h_before[LANES*W*32'(step)+:LANES*W];
    assign before_next = go && cells_there && step == LA'(STEPS - 1);
    assign go = collected && (zh_room || !there[6]);
    always_ff @(posedge clk)
        if (rst) begin
            step <= '0;
            there <= '0;
        end else if (go) begin
            there <= {there[5:0], cells_there};
            if (cells_there) step <= step == LA'(STEPS - 1) ? '0 : step + LA'(1);
        end
    for (genvar lane = 0; lane < LANES; lane++) begin : g_gates
        localparam logic signed [2*W+1:0] HALF = (2 * W + 2)'(1) <<< (W - 2);
        logic signed [W-1:0] v_z, v_r, v_z_now, v_r_now, z, z_then, r, h, h_then, g_now;
        logic signed [2*W-1:0] product;
        logic signed [2*W+1:0] rounded;
        pe_sat #(.IW(SW), .OW(W)) sat_z (.v(sums[2*lane*SW+:SW]), .y(v_z_now));
        pe_sat #(.IW(SW), .OW(W)) sat_r (.v(sums[(2*lane+1)*SW+:SW]), .y(v_r_now));
        pe_squash #(.VW(W), .F(F), .W(W)) squash_z (.clk, .go, .v(v_z), .y(z));
        pe_squash #(.VW(W), .F(F), .W(W)) squash_r (.clk, .go, .v(v_r), .y(r));
        pe_delay #(.WIDTH(W), .N(5)) d_h (.clk, .go, .d(h_cells[lane*W+:W]), .q(h));
        pe_delay #(.WIDTH(W), .N(2)) d_h_then (.clk, .go, .d(h), .q(h_then));
        pe_delay #(.WIDTH(W), .N(2)) d_z_then (.clk, .go, .d(z), .q(z_then));
        assign rounded = ((2 * W + 2)'(product) + HALF) >>> (W - 1);
        pe_sat #(.IW(2 * W + 2), .OW(W)) sat_g (.v(rounded), .y(g_now));
        always_ff @(posedge clk)
            if (go) begin
                v_z <= v_z_now;
                v_r <= v_r_now;
                product <= r * h;
                g[lane*W+:W] <= g_now;
            end
        assign zh[2*lane*W+:2*W] = {h_then, z_then};
    end

    logic [K*W-1:0] g_block;
    logic g_there, g_taken, zh_next;
    pe_collect #(.WIDTH(LANES * W), .STEPS(STEPS)) collect_g (
        .clk, .rst, .go(collected), .s_data(g), .s_valid(there[6] && go),
        .m_data(g_block), .m_valid(g_there), .m_ready(g_taken)
    );
    pe_fifo #(.WIDTH(LANES * 2 * W), .DEPTH(2 * CB * STEPS)) zh_queue (
        .clk, .rst, .s_data(zh), .s_valid(there[6] && go), .s_ready(zh_room),
        .m_data(zh_then), .m_valid(), .m_ready(zh_next)
    );

    // ------------------------------------------------------------ x, g to the candidate

    logic [15:0] in_at;
    logic in_g, b_there, b_taken;
    assign in_g = in_at >= 16'(XB);
    assign b_there = in_g ? g_there : x_there;
    assign x_taken = !in_g && b_taken;
    assign g_taken = in_g && b_taken;
    always_ff @(posedge clk)
        if (rst) in_at <= 16'd0;
        else if (b_there && b_taken)
            in_at <= in_at == 16'(XB + CB - 1) ? 16'd0 : in_at + 16'd1;

    logic [K*YW-1:0] b_y;
    logic b_part, b_valid, b_ready;
    pe_engine #(
        .K(K), .W(W), .N(NP), .PARTS(2), .COLS(XB + CB),
        .DEPTH((CB + NP - 1) / NP * (XB + CB)), .THREE(THREE)
    ) candidate_engine (
        .clk, .rst, .rows(16'(CB)), .cols({16'(CB), 16'(XB)}), .shifts({shifts_p, shifts_x}),
        .load_start(load_start && (load_what == 3'd0 || load_what == 3'd2)),
        .load_part(load_what[1]),
        .load_valid(load_valid && (load_what == 3'd0 ? x_late : load_what == 3'd2)), .load_word,
        .s_x(in_g ? g_block : late_x), .s_valid(b_there), .s_ready(b_taken),
        .m_y(b_y), .m_part(b_part), .m_last(), .m_valid(b_valid), .m_ready(b_ready)
    );
    logic [LANES*SW-1:0] b_sums;
    logic b_cells_there, b_go;
    pe_gates #(
        .K(K), .W(W), .GATES(1), .N(NP), .BLOCKS(CB), .LANES(LANES), .YW(YW)
    ) candidate (
        .clk, .rst, .load_start(load_start && load_what == 3'd3),
        .load_valid(load_valid && load_what == 3'd3 && bias_late), .load_word,
        .s_y(b_y), .s_part(b_part), .s_valid(b_valid), .s_ready(b_ready),
        .m_sums(b_sums), .m_first(), .m_valid(b_cells_there), .m_ready(b_go)
    );

    // ------------------------------------------------------------ h

    logic [7:0] b_done;
    logic [LANES*W-1:0] h_new;
    assign zh_next = b_go && b_cells_there;
    always_ff @(posedge clk)
        if (rst) b_done <= '0;
        else if (b_go) b_done <= {b_done[6:0], b_cells_there};
    for (genvar lane = 0; lane < LANES; lane++) begin : g_h
        localparam int PW = 2 * W + 3;
        logic signed [W-1:0] v_v, v_v_now, v, z, h, h_then, h_now;
        logic signed [W:0] change;
        logic signed [2*W:0] product;
        logic signed [PW-1:0] sum;
        pe_sat #(.IW(SW), .OW(W)) sat_v (.v(b_sums[lane*SW+:SW]), .y(v_v_now));
        pe_squash #(.VW(W), .F(F), .W(W), .TANH(1)) squash_v (.clk, .go(b_go), .v(v_v), .y(v));
        pe_delay #(.WIDTH(W), .N(6)) d_z (.clk, .go(b_go), .d(zh_then[2*lane*W+:W]), .q(z));
        pe_delay #(.WIDTH(W), .N(5)) d_h (.clk, .go(b_go), .d(zh_then[(2*lane+1)*W+:W]), .q(h));
        pe_delay #(.WIDTH(W), .N(2)) d_h_then (.clk, .go(b_go), .d(h), .q(h_then));
        assign sum = ((PW'(h_then) <<< (W - 1)) + PW'(product) + (PW'(1) <<< (W - 2))) >>> (W - 1);
        pe_sat #(.IW(PW), .OW(W)) sat_h (.v(sum), .y(h_now));
        always_ff @(posedge clk)
            if (b_go) begin
                v_v <= v_v_now;
                change <= (W + 1)'(v) - (W + 1)'(h);
                product <= z * change;
                h_new[lane*W+:W] <= h_now;
            end
    end
    pe_collect #(.WIDTH(LANES * W), .STEPS(STEPS)) collect_h (
        .clk, .rst, .go(b_go), .s_data(h_new), .s_valid(b_done[7]),
        .m_data(h_block), .m_valid(h_valid), .m_ready(h_ready)
    );
endmodule
