// SPDX-License-Identifier: Apache-2.0
// innet/vectors/inceptionn_packets.txt through both engines in a second simulator (Icarus), with a
// sink that is ready in every cycle, in every other, and in two of seven.
`timescale 1ns / 1ns
module corners;
    logic clk = 1'b0, rst = 1'b1;
    always #1 clk = !clk;

    logic [1:0] bound;
    logic strict, c_valid = 1'b0, c_last, c_ready, d_valid = 1'b0, d_last, d_ready, sink;
    logic [255:0] c_data, d_data, c_out, d_out;
    logic [31:0] c_keep, d_keep, c_out_keep, d_out_keep;
    logic [13:0] d_floats;
    logic c_out_valid, c_out_last, d_out_valid, d_out_last, d_bad;
    codec_compress compress (
        .clk, .rst, .bound, .strict, .s_tdata(c_data), .s_tkeep(c_keep), .s_tvalid(c_valid),
        .s_tlast(c_last), .s_tready(c_ready), .m_tdata(c_out), .m_tkeep(c_out_keep),
        .m_tvalid(c_out_valid), .m_tlast(c_out_last), .m_tready(sink)
    );
    codec_decompress decompress (
        .clk, .rst, .s_tdata(d_data), .s_tkeep(d_keep), .s_floats(d_floats), .s_tvalid(d_valid),
        .s_tlast(d_last), .s_tready(d_ready), .m_tdata(d_out), .m_tkeep(d_out_keep),
        .m_tvalid(d_out_valid), .m_tlast(d_out_last), .m_bad(d_bad), .m_tready(sink)
    );

    int file, k, s, floats, bytes, got, packets = 0, wrong = 0, pattern = 0, tick = 0;
    logic [31:0] in[0:63], want[0:63];
    logic [7:0] coded[0:511];
    logic [8*256-1:0] line;

    always @(negedge clk) begin
        tick <= tick + 1;
        sink <= pattern == 0 || (pattern == 1 ? tick % 2 == 0 : tick % 7 < 2);
    end

    task automatic check(input logic same, input string what);
        if (!same) begin
            wrong = wrong + 1;
            $display("packet %0d (k %0d strict %0d), pattern %0d: %s", packets, k, s, pattern, what);
        end
    endtask

    // Put the floats into the compressor; inputs change at the falling edge.
    task automatic send_floats;
        for (int at = 0; at < floats; at = at + 8) begin
            @(negedge clk);
            c_valid = 1'b1;
            c_last = at + 8 >= floats;
            for (int i = 0; i < 8; i = i + 1) begin
                c_data[32*i+:32] = at + i < floats ? in[at+i] : 32'hdeadbeef;
                c_keep[4*i+:4] = at + i < floats ? 4'hf : 4'h0;
            end
            do @(posedge clk); while (!c_ready);
        end
        @(negedge clk) c_valid = 1'b0;
    endtask

    task automatic send_coded;
        for (int at = 0; at < bytes; at = at + 32) begin
            @(negedge clk);
            d_valid = 1'b1;
            d_last = at + 32 >= bytes;
            d_floats = 14'(floats);
            for (int i = 0; i < 32; i = i + 1) begin
                d_data[8*i+:8] = at + i < bytes ? coded[at+i] : 8'hff;
                d_keep[i] = at + i < bytes;
            end
            do @(posedge clk); while (!d_ready);
        end
        @(negedge clk) d_valid = 1'b0;
    endtask

    task automatic receive_coded;
        logic done;
        int at;
        at = 0;
        done = 1'b0;
        while (!done) begin
            @(posedge clk);
            if (c_out_valid && sink) begin
                for (int i = 0; i < 32; i = i + 1)
                    if (c_out_keep[i]) begin
                        check(at < bytes && c_out[8*i+:8] == coded[at], "coded byte");
                        at = at + 1;
                    end
                done = c_out_last;
            end
        end
        check(at == bytes, "coded length");
    endtask

    task automatic receive_floats;
        logic done;
        int at;
        at = 0;
        done = 1'b0;
        while (!done) begin
            @(posedge clk);
            if (d_out_valid && sink) begin
                for (int i = 0; i < 8; i = i + 1)
                    if (d_out_keep[4*i]) begin
                        check(at < floats && d_out[32*i+:32] == want[at], "decoded float");
                        at = at + 1;
                    end
                done = d_out_last;
                check(!d_bad, "called bad");
            end
        end
        check(at == floats, "decoded length");
    endtask

    initial begin
        file = $fopen("innet/vectors/inceptionn_packets.txt", "r");
        if (file == 0) $fatal(1, "no vectors");
        got = $fgets(line, file);
        got = $fgets(line, file);
        repeat (4) @(negedge clk);
        rst = 1'b0;
        while ($fscanf(file, "%d %d %d", k, s, floats) == 3) begin
            for (int i = 0; i < floats; i = i + 1) got = $fscanf(file, "%h", in[i]);
            got = $fscanf(file, "%d", bytes);
            for (int i = 0; i < bytes; i = i + 1) got = $fscanf(file, "%h", coded[i]);
            for (int i = 0; i < floats; i = i + 1) got = $fscanf(file, "%h", want[i]);
            bound = 2'((k - 6) / 2);
            strict = s != 0;
            for (pattern = 0; pattern < 3; pattern = pattern + 1)
                fork
                    send_floats;
                    send_coded;
                    receive_coded;
                    receive_floats;
                join
            packets = packets + 1;
        end
        $display("{\"packets\": %0d, \"wrong\": %0d}", packets, wrong);
        if (wrong != 0 || packets < 72) $fatal(1, "corners failed");
        $finish;
    end

    initial begin
        #10000000 $fatal(1, "corners: stuck in packet %0d", packets);
    end
endmodule
