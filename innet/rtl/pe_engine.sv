// SPDX-License-Identifier: Apache-2.0
// Block-circulant products: UNITS of N processing elements, all of them on the same input block.
//
//   s_x -> pe_rfft -> spectra, two banks -> UNITS N pe_element -> pe_round -> pe_irfft -> m_y
//
//   cycle      0          1            2            3         4         5 ..
//   sequencer  [ issue ]
//   memories              [ w, X ]
//   pe_mac                             [ products ] [ sums ]
//   held                                                      [ N sums ]
//   the way back, a processing element per cycle              [ .. round, pe_irfft, round ]
//
// Blocks of more than LANES words are folded: an element has multipliers and memories for LANES
// slots, so a block product takes FOLDS = K / LANES cycles; all block columns with the first LANES
// slots, then all with the next ones. The transforms are whole, there is one of each.
//
// y = M x, step 1 to 4 of src/kernel/fixed.h, of PARTS matrices with the same rows: the columns of
// one after the other's are one input frame, and results come per part. Unit u has row blocks
// u `rows` .. (u + 1) `rows` - 1, N at a time, a block column per cycle: a frame takes
// ceil(rows / N) x all columns x FOLDS cycles. m_y has N blocks of part 0, then of part 1, then the next N
// (fewer at the end), each of all units side by side.
//
// Input goes to one bank while the other one is read, and a bank may be read as it fills. What the
// sink does not take stops the way back; sums that cannot leave stop the multiplication.
//
// Weights: `load_start`, then the words of part `load_part` one by one, in the order in which the
// library exports them: [row block][slot][column block]. `load_start` ends what is inside; set the
// shape before it, and the shifts before the first frame.
module pe_engine #(
    parameter int K = 8,
    parameter int W = 12,
    parameter int N = 4,
    parameter int UNITS = 1,
    parameter int PARTS = 1,
    parameter int COLS = 64,    // most block columns, all parts
    parameter int DEPTH = 256,  // weights of a processing element, in blocks
    parameter bit THREE = 0,    // pe_mac.sv
    parameter int LANES = K > 16 ? 16 : K,
    parameter int YW = W + $clog2(K) + 3 + (K > 4 ? ($clog2(K) - 1) / 2 : 0)  // not to be set
) (
    input logic clk,
    input logic rst,
    input logic [15:0] rows,                       // row blocks of each unit, >= 1
    input logic [PARTS*16-1:0] cols,               // block columns of each part, >= 1
    input logic [PARTS*(K/2+1)*6-1:0] shifts,      // of each bin, per part
    input logic load_start,
    input logic load_part,
    input logic load_valid,
    input logic [W-1:0] load_word,
    input logic [K*W-1:0] s_x,
    input logic s_valid,
    output logic s_ready,
    output logic [UNITS*K*YW-1:0] m_y,
    output logic m_part,
    output logic m_last,                           // of a frame
    output logic m_valid,
    input logic m_ready
);
    localparam int L = $clog2(K), BINS = K / 2 + 1;
    localparam int XW = W + L, AW = 2 * W + L + 1 + $clog2(COLS), SW = W + L + 2;
    localparam int FOLDS = K / LANES, FA = FOLDS > 1 ? $clog2(FOLDS) : 1;
    localparam int XA = $clog2(COLS), WA = $clog2(DEPTH * FOLDS), NA = $clog2(N + 1);
    localparam int AHEAD = K <= 4 ? 1 : 2 * L - 3;  // cycles of pe_rfft and of pe_irfft
    // With pe_round, folds that are put together, and the last rounding.
    localparam int BACK = AHEAD + (FOLDS > 1 ? 4 : 3);

    logic restart;
    logic [15:0] all_cols;
    assign restart = rst || load_start;
    assign all_cols = PARTS == 1 ? cols[15:0] : cols[15:0] + cols[PARTS*16-1-:16];

    // ------------------------------------------------------------ input to spectra

    logic fill_go, fill_bank, read_bank;
    logic [1:0] full;
    logic [15:0] fill_at;
    logic [AHEAD-1:0] coming;
    logic [K*XW-1:0] fresh, read;
    logic [LANES*XW-1:0] spectrum;
    logic [K*XW-1:0] spectra[0:(2<<XA)-1];
    pe_rfft #(.N(K), .W(W)) ahead (.clk, .go(fill_go), .x(s_x), .slots(fresh));

    assign fill_go = !coming[AHEAD-1] || !full[fill_bank];
    assign s_ready = fill_go;
    always_ff @(posedge clk)
        if (restart) coming <= '0;
        else if (fill_go) coming <= AHEAD'({coming, s_valid});

    logic filled, fills, empties;  // a block, the last one of a frame, the last one that is read
    assign filled = coming[AHEAD-1] && fill_go;
    assign fills = filled && fill_at == all_cols - 16'd1;
    always_ff @(posedge clk) if (filled) spectra[{fill_bank, fill_at[XA-1:0]}] <= fresh;
    always_ff @(posedge clk)
        if (restart) begin
            fill_at <= 16'd0;
            fill_bank <= 1'b0;
            full <= 2'b00;
        end else begin
            if (filled) fill_at <= fills ? 16'd0 : fill_at + 16'd1;
            if (fills) fill_bank <= !fill_bank;
            if (fills) full[fill_bank] <= 1'b1;
            if (empties) full[read_bank] <= 1'b0;
        end

    // ------------------------------------------------------------ sequencer

    logic step, issue, part, cols_end, part_ends, pass_ends, last_pass;
    logic [FA-1:0] fold;
    logic [15:0] read_at, next_cols, part_left, rows_left;
    logic [WA-1:0] weight_at;
    assign issue = full[read_bank] || (read_bank == fill_bank && read_at < fill_at);
    assign cols_end = part_left == 16'd1;
    assign part_ends = cols_end && fold == FA'(FOLDS - 1);
    assign next_cols = PARTS == 2 && part != part_ends ? cols[PARTS*16-1-:16] : cols[15:0];
    assign pass_ends = part_ends && (PARTS == 1 || part);
    assign last_pass = rows_left <= 16'(N);
    assign empties = step && issue && pass_ends && last_pass;
    always_ff @(posedge clk)
        if (restart) begin
            read_bank <= 1'b0;
            read_at <= 16'd0;
            part <= 1'b0;
            fold <= '0;
            part_left <= cols[15:0];
            rows_left <= rows;
            weight_at <= '0;
        end else if (step && issue) begin
            read_at <= pass_ends ? 16'd0 : read_at + 16'd1;
            if (cols_end && !part_ends) read_at <= PARTS == 2 && part ? cols[15:0] : 16'd0;
            part_left <= part_left - 16'd1;
            weight_at <= pass_ends && last_pass ? '0 : weight_at + WA'(1);
            if (cols_end) part_left <= next_cols;
            if (cols_end) fold <= part_ends ? '0 : fold + FA'(1);
            if (part_ends) part <= PARTS == 2 && !part;
            if (pass_ends) rows_left <= last_pass ? rows : rows_left - 16'(N);
            if (empties) read_bank <= !read_bank;
        end

    // What goes with the block in the memories' registers, at the products, at the sums.
    logic [2:0] v, ends_v, part_v, last_v;
    logic [1:0] first_v;
    logic begins;
    logic [3*NA-1:0] count_v;
    logic [3*FA-1:0] fold_v;
    always_ff @(posedge clk)
        if (restart) begin
            v <= 3'b000;
            begins <= 1'b1;
        end else if (step) begin
            v <= {v[1:0], issue};
            if (issue) begins <= cols_end;
        end
    always_ff @(posedge clk)
        if (step) begin
            first_v <= {first_v[0], begins};
            ends_v <= {ends_v[1:0], cols_end};
            part_v <= {part_v[1:0], part};
            last_v <= {last_v[1:0], pass_ends && last_pass};
            count_v <= {count_v[2*NA-1:0], last_pass ? rows_left[NA-1:0] : NA'(N)};
            fold_v <= {fold_v[2*FA-1:0], fold};
            read <= spectra[{read_bank, read_at[XA-1:0]}];
        end
    if (FOLDS > 1) begin : g_fold
        assign spectrum = read[32'(fold_v[FA-1:0])*LANES*XW+:LANES*XW];
    end else begin : g_whole
        assign spectrum = read;
    end

    // ------------------------------------------------------------ loading weights

    logic [15:0] l_col, l_row, l_slot, l_pe, l_unit;
    logic [WA-1:0] l_base, l_begin, l_fold;  // of the row blocks, of the slots
    logic [15:0] l_cols;
    logic l_col_ends, l_slot_ends, l_row_ends, l_pe_ends;
    assign l_begin = PARTS == 2 && load_part ? WA'(FOLDS * 32'(cols[15:0])) : '0;
    assign l_cols = PARTS == 2 && load_part ? cols[PARTS*16-1-:16] : cols[15:0];
    assign l_col_ends = l_col == l_cols - 16'd1;
    assign l_slot_ends = l_col_ends && l_slot == 16'(K - 1);
    assign l_row_ends = l_slot_ends && l_row == rows - 16'd1;
    assign l_pe_ends = l_slot_ends && l_pe == 16'(N - 1);
    always_ff @(posedge clk)
        if (load_start) begin
            {l_col, l_row, l_slot, l_pe, l_unit} <= '0;
            l_fold <= '0;
            l_base <= l_begin;
        end else if (load_valid) begin
            l_col <= l_col_ends ? 16'd0 : l_col + 16'd1;
            if (l_col_ends) l_slot <= l_slot_ends ? 16'd0 : l_slot + 16'd1;
            if (l_slot_ends) l_fold <= '0;
            else if (l_col_ends && l_slot % 16'(LANES) == 16'(LANES - 1))
                l_fold <= l_fold + WA'(l_cols);
            if (l_slot_ends) begin
                l_row <= l_row_ends ? 16'd0 : l_row + 16'd1;
                l_pe <= l_row_ends || l_pe_ends ? 16'd0 : l_pe + 16'd1;
            end
            if (l_row_ends) begin
                l_unit <= l_unit + 16'd1;
                l_base <= l_begin;
            end else if (l_pe_ends) begin
                l_base <= l_base + WA'(FOLDS * 32'(all_cols));
            end
        end

    // ------------------------------------------------------------ what leaves

    logic done, go, leaves, held_part, held_last;
    logic [NA-1:0] held;  // sums that wait, of each unit
    logic [FA-1:0] held_fold;
    assign done = v[2] && ends_v[2];
    assign leaves = go && held != '0;
    assign step = !done || held == '0 || (held == NA'(1) && go);
    always_ff @(posedge clk)
        if (restart) held <= '0;
        else if (done && step) held <= count_v[2*NA+:NA];
        else if (leaves) held <= held - NA'(1);
    always_ff @(posedge clk)
        if (done && step) begin
            held_part <= part_v[2];
            held_last <= last_v[2];
            held_fold <= fold_v[2*FA+:FA];
        end

    logic [BACK-1:0] back_v, back_part, back_last;
    assign go = !m_valid || m_ready;
    assign m_valid = back_v[BACK-1];
    assign m_part = back_part[BACK-1];
    assign m_last = back_last[BACK-1];
    always_ff @(posedge clk)
        if (restart) back_v <= '0;
        else if (go) back_v <= {back_v[BACK-2:0], held != '0 && held_fold == FA'(FOLDS - 1)};
    always_ff @(posedge clk)
        if (go) begin
            back_part <= {back_part[BACK-2:0], held_part};
            back_last <= {back_last[BACK-2:0], held_last && held == NA'(1)};
        end

    function automatic int bin_of(input int slot);
        bin_of = slot == 1 ? K / 2 : slot / 2;
    endfunction

    // Which fold of which element pe_round has done.
    // verilator lint_off UNUSEDSIGNAL
    logic [NA-1:0] held_at, begun_at, round_at;
    logic [FA-1:0] begun_fold, round_fold;
    // verilator lint_on UNUSEDSIGNAL
    always_ff @(posedge clk) begin
        if (done && step) held_at <= '0;
        else if (leaves) held_at <= held_at + NA'(1);
        if (go) begin
            begun_at <= held_at;
            begun_fold <= held_fold;
            round_at <= begun_at;
            round_fold <= begun_fold;
        end
    end

    for (genvar u = 0; u < UNITS; u++) begin : g_unit
        // ---------------------------------------------------- processing elements
        logic [(N+1)*LANES*AW-1:0] chain;  // what waits, the next to leave in front
        assign chain[N*LANES*AW+:LANES*AW] = '0;
        for (genvar n = 0; n < N; n++) begin : g_pe
            pe_element #(
                .K(LANES), .W(W), .XW(XW), .AW(AW), .DEPTH(DEPTH * FOLDS), .THREE(THREE),
                .FOLDED(FOLDS > 1)
            ) element (
                .clk, .step, .load(v[1] && first_v[1]), .add(v[1]),
                .apart(fold_v[2*FA+:FA] == '0), .hold(done && step), .shift(leaves),
                .x(spectrum), .at(weight_at),
                .put(load_valid && l_unit == 16'(u) && l_pe == 16'(n)), .put_slot(l_slot % 16'(LANES)),
                .put_at(l_base + l_fold + WA'(l_col)), .put_word(load_word),
                .next(chain[(n+1)*LANES*AW+:LANES*AW]), .waits(chain[n*LANES*AW+:LANES*AW])
            );
        end

        // ---------------------------------------------------- the way back
        localparam int RW = SW + (K < 4 ? L : 2 * L - 2);
        localparam logic signed [RW:0] HALF = (RW + 1)'(1) << L >> 1;
        logic [LANES*SW-1:0] rounded;
        logic [K*SW-1:0] spectrum_back;
        logic [K*RW-1:0] time_words;
        for (genvar s = 0; s < LANES; s++) begin : g_round
            logic [5:0] shift;
            always_comb begin
                shift = '0;
                for (int f = 0; f < FOLDS; f++)
                    if (held_fold == FA'(f))
                        shift = PARTS == 2 && held_part
                            ? shifts[6*((PARTS-1)*BINS+bin_of(f*LANES+s))+:6]
                            : shifts[6*bin_of(f*LANES+s)+:6];
            end
            pe_round #(.AW(AW), .OW(SW)) round (
                .clk, .go, .shift, .sum(chain[s*AW+:AW]), .y(rounded[s*SW+:SW])
            );
        end
        // Folds wait for the last one of their row block.
        if (FOLDS > 1) begin : g_gather
            logic [(FOLDS-1)*LANES*SW-1:0] kept[0:(1<<NA)-1];
            always_ff @(posedge clk)
                if (go) begin
                    for (int f = 0; f < FOLDS - 1; f++)
                        if (round_fold == FA'(f))
                            kept[round_at][f*LANES*SW+:LANES*SW] <= rounded;
                    spectrum_back <= {rounded, kept[round_at]};
                end
        end else begin : g_ready
            assign spectrum_back = rounded;
        end
        pe_irfft #(.N(K), .IW(SW)) back (.clk, .go, .slots(spectrum_back), .x(time_words));
        for (genvar t = 0; t < K; t++) begin : g_time
            logic signed [RW:0] raised;  // and a half
            assign raised = (RW + 1)'($signed(time_words[t*RW+:RW])) + HALF;
            always_ff @(posedge clk) if (go) m_y[(u*K+t)*YW+:YW] <= YW'(raised >>> L);
        end
    end
endmodule
