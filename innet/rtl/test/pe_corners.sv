// SPDX-License-Identifier: Apache-2.0
// innet/vectors/fixed.txt through the parts of a processing element in a second simulator (Icarus):
// transforms, activations, products; the sink is ready in two cycles of three.
`timescale 1ns / 1ns

// Each instance reads the file and takes the lines of its own block size and width.
module pe_corner #(
    parameter int K = 8,
    parameter int W = 12
) (
    output logic done,
    output int lines,
    output int wrong
);
    localparam int L = $clog2(K), XW = W + L, SW = W + L + 2, BINS = K / 2 + 1;
    localparam int RW = SW + (K < 4 ? L : 2 * L - 2);
    localparam int YW = W + L + 3 + (K > 4 ? (L - 1) / 2 : 0);
    logic clk = 1'b0, rst = 1'b1;
    always #1 clk = !clk;

    logic [K*W-1:0] x;
    logic [K*XW-1:0] slots;
    logic [K*SW-1:0] back_slots;
    logic [K*RW-1:0] back_x;
    pe_rfft #(.N(K), .W(W)) ahead (.clk, .go(1'b1), .x, .slots);
    pe_irfft #(.N(K), .IW(SW)) back (.clk, .go(1'b1), .slots(back_slots), .x(back_x));

    logic signed [W+3:0] v;
    logic signed [W-1:0] y_sg, y_tg, y_sc, y_tc;
    pe_squash #(.VW(W), .F(W - 4), .W(W)) sg (.clk, .go(1'b1), .v(v[W-1:0]), .y(y_sg));
    pe_squash #(.VW(W), .F(W - 4), .W(W), .TANH(1'b1)) tg (
        .clk, .go(1'b1), .v(v[W-1:0]), .y(y_tg)
    );
    pe_squash #(.VW(W + 4), .F(W - 1), .W(W)) sc (.clk, .go(1'b1), .v, .y(y_sc));
    pe_squash #(.VW(W + 4), .F(W - 1), .W(W), .TANH(1'b1)) tc (.clk, .go(1'b1), .v, .y(y_tc));

    logic [15:0] rows, cols;
    logic [BINS*6-1:0] shifts;
    logic load_start = 1'b0, load_valid = 1'b0, s_valid = 1'b0, s_ready, m_valid, m_ready, m_last;
    logic [W-1:0] load_word;
    logic [K*W-1:0] s_x;
    logic [K*YW-1:0] m_y;
    logic m_part;
    pe_engine #(.K(K), .W(W), .N(2), .COLS(16), .DEPTH(64)) engine (
        .clk, .rst, .rows, .cols, .shifts, .load_start, .load_part(1'b0), .load_valid, .load_word,
        .s_x, .s_valid, .s_ready, .m_y, .m_part, .m_last, .m_valid, .m_ready
    );
    int tick = 0;
    always @(negedge clk) begin
        tick <= tick + 1;
        m_ready <= tick % 3 != 0;
    end

    int file, got, bits, k, n_rows, n_cols, frac, value, said, word, i;
    int p, q, received;
    logic [8*16-1:0] name;
    logic [8*4096-1:0] rest;
    int ins[0:255], outs[0:255], weights[0:1023];

    task automatic check(input logic same);
        if (!same) begin
            wrong = wrong + 1;
            $display("k %0d, %0d bits: %0s differs", K, W, name);
        end
    endtask

    // The rest of a line, whose end may lie beyond one buffer.
    task automatic skip;
        int c;
        c = $fgetc(file);
        while (c != 10 && c != -1) c = $fgetc(file);
    endtask

    // A name, then count numbers.
    task automatic numbers(input int count, input int into);
        got = $fscanf(file, "%s", rest);
        for (int n = 0; n < count; n = n + 1) begin
            got = $fscanf(file, "%d", word);
            if (into == 0) ins[n] = word;
            else if (into == 1) outs[n] = word;
            else weights[n] = word;
        end
    endtask

    task automatic transform(input logic inverse);
        numbers(K, 0);
        numbers(K, 1);
        @(negedge clk);
        for (int t = 0; t < K; t = t + 1)
            if (inverse) back_slots[t*SW+:SW] = ins[t];
            else x[t*W+:W] = ins[t];
        repeat (12) @(negedge clk);
        for (int t = 0; t < K; t = t + 1)
            if (inverse) check($signed(back_x[t*RW+:RW]) == outs[t]);
            else check($signed(slots[t*XW+:XW]) == outs[t]);
        lines = lines + 1;
    endtask

    task automatic product;
        got = $fscanf(file, "%s %d %d %d", rest, n_rows, n_cols, k);
        if (k != K) skip;
        else begin
            p = (n_rows + K - 1) / K;
            q = (n_cols + K - 1) / K;
            for (int bin = 0; bin < BINS; bin = bin + 1) begin
                got = $fscanf(file, "%d", word);
                shifts[6*bin+:6] = word;
            end
            numbers(p * q * K, 2);
            numbers(n_cols, 0);
            numbers(n_rows, 1);
            rows = p;
            cols = q;
            @(negedge clk) load_start = 1'b1;
            @(negedge clk) load_start = 1'b0;
            for (int n = 0; n < p * q * K; n = n + 1) begin
                load_valid = 1'b1;
                load_word = weights[n];
                @(negedge clk);
            end
            load_valid = 1'b0;
            for (int j = 0; j < q; j = j + 1) begin
                for (int t = 0; t < K; t = t + 1)
                    s_x[t*W+:W] = j * K + t < n_cols ? ins[j*K+t] : 0;
                s_valid = 1'b1;
                do @(posedge clk); while (!s_ready);
                @(negedge clk);
            end
            s_valid = 1'b0;
            received = 0;
            while (received < p) begin
                @(posedge clk);
                if (m_valid && m_ready) begin
                    for (int t = 0; t < K; t = t + 1)
                        if (received * K + t < n_rows)
                            check($signed(m_y[t*YW+:YW]) == outs[received*K+t]);
                    received = received + 1;
                    check(m_last == (received == p));
                end
                @(negedge clk);
            end
            lines = lines + 1;
        end
    endtask

    task automatic activation(input logic tanh);
        got = $fscanf(file, "%d %d %d", frac, value, said);
        @(negedge clk) v = value;
        repeat (5) @(negedge clk);
        if (frac == W - 4) check((tanh ? y_tg : y_sg) == said);
        else check((tanh ? y_tc : y_sc) == said);
        lines = lines + 1;
    endtask

    initial begin
        done = 1'b0;
        lines = 0;
        wrong = 0;
        file = $fopen("innet/vectors/fixed.txt", "r");
        if (file == 0) $fatal(1, "no vectors");
        repeat (4) @(negedge clk);
        rst = 1'b0;
        while ($fscanf(file, "%s %d", name, bits) >= 1) begin
            if (name == "rfft" || name == "irfft") begin
                got = $fscanf(file, "%d", k);
                if (k == K && bits == (name == "rfft" ? W : SW)) transform(name == "irfft");
                else skip;
            end else if (bits == W && name == "product") product;
            else if (bits == W && (name == "sigmoid" || name == "tanh")) activation(name == "tanh");
            else skip;
        end
        done = 1'b1;
    end
endmodule

module pe_corners;
    wire [7:0] done;
    wire [31:0] lines[0:7], wrong[0:7];
    pe_corner #(.K(2), .W(12)) a (.done(done[0]), .lines(lines[0]), .wrong(wrong[0]));
    pe_corner #(.K(4), .W(12)) b (.done(done[1]), .lines(lines[1]), .wrong(wrong[1]));
    pe_corner #(.K(8), .W(12)) c (.done(done[2]), .lines(lines[2]), .wrong(wrong[2]));
    pe_corner #(.K(16), .W(12)) d (.done(done[3]), .lines(lines[3]), .wrong(wrong[3]));
    pe_corner #(.K(2), .W(16)) e (.done(done[4]), .lines(lines[4]), .wrong(wrong[4]));
    pe_corner #(.K(4), .W(16)) f (.done(done[5]), .lines(lines[5]), .wrong(wrong[5]));
    pe_corner #(.K(8), .W(16)) g (.done(done[6]), .lines(lines[6]), .wrong(wrong[6]));
    pe_corner #(.K(16), .W(16)) h (.done(done[7]), .lines(lines[7]), .wrong(wrong[7]));

    int all_lines = 0, all_wrong = 0;
    initial begin
        wait (&done);
        for (int i = 0; i < 8; i = i + 1) begin
            all_lines = all_lines + lines[i];
            all_wrong = all_wrong + wrong[i];
        end
        $display("{\"lines\": %0d, \"wrong\": %0d}", all_lines, all_wrong);
        if (all_wrong != 0 || all_lines < 1000) $fatal(1, "corners failed");
        $finish;
    end
    initial begin
        #10000000 $fatal(1, "pe_corners: stuck");
    end
endmodule
