// SPDX-License-Identifier: Apache-2.0
// One direction of the engine: frames in, frames out in the same number and order; the payload of
// those that carry floats is coded (to the link) or decoded (DECODE, from the link).
//
//   frame_parse ..................... verdict
//        |                               |
//   s -> frame_store -> frame_split -> header --------> frame_join -> frame_store -> m
//                            |                             |             |
//                         payload -> codec -> new payload -+        header_fix on the first
//                            +---- ones_sum ----+                   two beats as they leave
//
//   cycle   0 .. n     n+3     n+5        n+7 ..          + codec       + 6       + 2
//   frame   [ in ]     judged  [ header ] [ payload in ]  [ out ]       judged    [ out ]
//
// Two stores, so a frame waits until it is complete twice: before, since lengths and fragments must
// agree with what came; behind, since its header tells the new length. One frame is between the
// stores at a time: a coded segment of 1448 bytes takes 63 cycles there, a passing one 50.
//
// A frame that does not decode is forgotten and counted: the sender's TCP repeats it.
module nic_path #(
    parameter bit DECODE = 1'b0,
    parameter int DEPTH = 512,
    parameter int FLOWS = 16
) (
    input logic clk,
    input logic rst,
    input logic [1:0] bound,
    input logic strict,
    input logic [5:0] tos,
    input logic [31:0] skip,
    input logic [255:0] s_tdata,
    input logic [31:0] s_tkeep,
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_tready,
    output logic [255:0] m_tdata,
    output logic [31:0] m_tkeep,
    output logic m_tvalid,
    output logic m_tlast,
    input logic m_tready,
    // one cycle each
    output logic had_frame,
    output logic had_coded,
    output logic had_exact,      // of the marked frames with data, one that passes as it is
    output logic had_lost,       // too long, or corrupt
    input logic [$clog2(FLOWS)-1:0] look_flow,
    input logic [3:0] look_word,
    output logic [31:0] look
);
    localparam int A = $clog2(FLOWS), META = 70 + A;

    function automatic logic [15:0] swap(input logic [15:0] x);
        swap = {x[7:0], x[15:8]};
    endfunction

    // ------------------------------------------------------------ in

    logic [5:0] s_bytes;
    always_comb begin
        s_bytes = s_tkeep[31] ? 6'd32 : 6'd0;
        for (int i = 0; i < 31; i++)
            if (s_tkeep[i] && !s_tkeep[i+1]) s_bytes = s_bytes | 6'(i + 1);
    end

    logic judged, judging, code, marked, begins, asks, known, wrapped;
    logic [6:0] head;
    logic [13:0] floats;
    logic [15:0] length, ip_sum, tcp_sum;
    logic [95:0] key;
    logic [31:0] seq, offset;
    logic [A-1:0] flow;
    logic in_waits, in_swallowed, in_ready;
    assign s_tready = in_ready && !judging;
    frame_parse #(.DECODE(DECODE)) parse (
        .clk, .rst, .tos, .skip, .s_tdata, .s_bytes, .s_taken(s_tvalid && s_tready), .s_tlast,
        .judging, .begins, .asks, .key, .seq, .known, .wrapped, .offset,
        .judged, .code, .marked, .head, .floats, .length, .ip_sum, .tcp_sum
    );

    logic [255:0] f_tdata;
    logic [5:0] f_bytes;
    logic f_tvalid, f_tlast, f_tready, f_code;
    logic [META-1:0] f_meta;
    logic [6:0] f_head;
    frame_store #(.DEPTH(DEPTH), .META(META)) store_in (
        .clk, .rst, .s_tdata, .s_bytes, .s_tvalid(s_tvalid && !judging), .s_tlast, .s_tready(in_ready),
        .waits(in_waits), .swallowed(in_swallowed),
        .commit(judged && in_waits), .forget(1'b0),
        .meta({flow, code, head, floats, length, ip_sum, tcp_sum}),
        .m_tdata(f_tdata), .m_bytes(f_bytes), .m_tvalid(f_tvalid), .m_tlast(f_tlast),
        .m_meta(f_meta), .m_tready(f_tready)
    );
    assign {f_code, f_head} = f_meta[69:62];

    // ------------------------------------------------------------ between

    // A corrupt payload may be judged before all of it has gone into the decoder.
    logic busy, more, may, split_ready, split_idle, committed, gone;
    logic [META-1:0] now;  // of the frame that is there
    assign may = more || !busy;
    assign f_tready = may && split_ready;
    always_ff @(posedge clk)
        if (rst) begin
            busy <= 1'b0;
            more <= 1'b0;
            gone <= 1'b0;
        end else if (f_tvalid && f_tready) begin
            busy <= 1'b1;
            more <= !f_tlast;
            gone <= gone || committed;
        end else if ((committed || gone) && !more && split_idle) begin
            busy <= 1'b0;
            gone <= 1'b0;
        end else gone <= gone || committed;
    always_ff @(posedge clk) if (f_tvalid && f_tready) now <= f_meta;

    logic now_code;
    logic [6:0] now_head;
    logic [13:0] now_floats;
    logic [15:0] now_length, now_ip_sum, now_tcp_sum;
    assign {now_code, now_head, now_floats, now_length, now_ip_sum, now_tcp_sum} = now[69:0];

    logic [255:0] h_tdata, p_tdata, c_tdata, j_tdata;
    logic [5:0] h_bytes, p_bytes, c_bytes, j_bytes;
    logic h_tvalid, h_tlast, h_more, h_tready, p_tvalid, p_tlast, p_tready;
    logic c_tvalid, c_tlast, c_tready, c_bad, j_tvalid, j_tlast, j_tready;
    frame_split split (
        .clk, .rst, .code(f_code), .head(f_head),
        .s_tdata(f_tdata), .s_bytes(f_bytes), .s_tvalid(f_tvalid && may), .s_tlast(f_tlast),
        .s_tready(split_ready), .idle(split_idle), .h_tdata, .h_bytes, .h_tvalid, .h_tlast, .h_more, .h_tready,
        .p_tdata, .p_bytes, .p_tvalid, .p_tlast, .p_tready
    );

    logic [31:0] p_tkeep, c_tkeep;
    always_comb begin
        for (int i = 0; i < 32; i++) p_tkeep[i] = i < {26'd0, p_bytes};
        c_bytes = c_tkeep[31] ? 6'd32 : 6'd0;
        for (int i = 0; i < 31; i++)
            if (c_tkeep[i] && !c_tkeep[i+1]) c_bytes = c_bytes | 6'(i + 1);
    end

    logic [15:0] group_tags;
    logic group_taken;
    if (DECODE) begin : g_decode
        codec_decompress codec (
            .clk, .rst, .s_tdata(p_tdata), .s_tkeep(p_tkeep), .s_floats(now_floats),
            .s_tvalid(p_tvalid), .s_tlast(p_tlast), .s_tready(p_tready),
            .m_tdata(c_tdata), .m_tkeep(c_tkeep), .m_tvalid(c_tvalid), .m_tlast(c_tlast),
            .m_bad(c_bad), .m_tready(c_tready)
        );
        assign {group_tags, group_taken} = '0;
    end else begin : g_code
        logic [1:0] now_bound;
        logic now_strict;
        always_ff @(posedge clk) if (!busy) {now_bound, now_strict} <= {bound, strict};
        codec_compress codec (
            .clk, .rst, .bound(now_bound), .strict(now_strict),
            .s_tdata(p_tdata), .s_tkeep(p_tkeep), .s_tvalid(p_tvalid), .s_tlast(p_tlast),
            .s_tready(p_tready), .m_tdata(c_tdata), .m_tkeep(c_tkeep), .m_tvalid(c_tvalid),
            .m_tlast(c_tlast), .m_tready(c_tready), .group_tags, .group_taken
        );
        assign c_bad = 1'b0;
    end

    frame_join join_ (
        .clk, .rst, .h_tdata, .h_bytes, .h_tvalid, .h_tlast, .h_more, .h_tready,
        .c_tdata, .c_bytes, .c_tvalid, .c_tlast, .c_tready,
        .m_tdata(j_tdata), .m_bytes(j_bytes), .m_tvalid(j_tvalid), .m_tlast(j_tlast),
        .m_tready(j_tready)
    );

    // ------------------------------------------------------------ what changes in the header

    logic p_taken, c_taken, bad;
    logic [15:0] p_sum, c_sum, c_count, new_length, new_ip_sum, new_tcp_sum, urgent, old_urgent;
    logic [15:0] new_urgent;
    assign p_taken = p_tvalid && p_tready;
    assign c_taken = c_tvalid && c_tready;
    ones_sum sum_before (
        .clk, .clear(!busy), .data(p_tdata), .bytes(p_bytes), .taken(p_taken), .sum(p_sum)
    );
    ones_sum sum_behind (
        .clk, .clear(!busy), .data(c_tdata), .bytes(c_bytes), .taken(c_taken), .sum(c_sum)
    );
    always_ff @(posedge clk)
        if (!busy) begin
            c_count <= 16'd0;
            bad <= 1'b0;
        end else if (c_taken) begin
            c_count <= c_count + {10'd0, c_bytes};
            bad <= bad || c_bad;
        end
    always_comb begin
        urgent = swap({2'd0, now_floats});
        old_urgent = DECODE ? urgent : 16'd0;
        new_urgent = DECODE ? 16'd0 : urgent;
        new_length = swap({9'd0, now_head} - 16'd14 + c_count);
    end
    header_fix fix (
        .clk, .old_length(now_length), .new_length, .old_urgent, .new_urgent,
        .old_payload(p_sum), .new_payload(c_sum), .old_ip_sum(now_ip_sum),
        .old_tcp_sum(now_tcp_sum), .ip_sum(new_ip_sum), .tcp_sum(new_tcp_sum)
    );

    // Sums and fields settle in 3 + 2 cycles behind the last beat, or earlier.
    logic out_waits, out_swallowed, settled, commit, forget;
    logic [2:0] settle;
    assign settled = out_waits && (!now_code || settle == 3'd6);
    assign commit = settled && !(now_code && bad);
    assign forget = settled && now_code && bad;
    assign committed = commit || forget || out_swallowed;
    always_ff @(posedge clk)
        if (!out_waits) settle <= 3'd0;
        else if (settle != 3'd6) settle <= settle + 3'd1;

    // ------------------------------------------------------------ out

    logic [255:0] o_tdata;
    logic [5:0] o_bytes;
    logic [64:0] o_meta;
    frame_store #(.DEPTH(DEPTH), .META(65)) store_out (
        .clk, .rst, .s_tdata(j_tdata), .s_bytes(j_bytes), .s_tvalid(j_tvalid), .s_tlast(j_tlast),
        .s_tready(j_tready), .waits(out_waits), .swallowed(out_swallowed), .commit, .forget,
        .meta({now_code, new_length, new_ip_sum, new_tcp_sum, new_urgent}),
        .m_tdata(o_tdata), .m_bytes(o_bytes), .m_tvalid, .m_tlast, .m_meta(o_meta), .m_tready
    );
    logic [1:0] o_beat;
    always_ff @(posedge clk)
        if (rst) o_beat <= 2'd0;
        else if (m_tvalid && m_tready) o_beat <= m_tlast ? 2'd0 : o_beat[1] ? 2'd2 : o_beat + 2'd1;
    always_comb begin
        m_tdata = o_tdata;
        if (o_meta[64] && o_beat == 2'd0) begin
            m_tdata[8*16+:16] = o_meta[63:48];
            m_tdata[8*24+:16] = o_meta[47:32];
        end
        if (o_meta[64] && o_beat == 2'd1) begin
            m_tdata[8*18+:16] = o_meta[31:16];
            m_tdata[8*20+:16] = o_meta[15:0];
        end
        for (int i = 0; i < 32; i++) m_tkeep[i] = i < {26'd0, o_bytes};
    end

    // ------------------------------------------------------------ counters

    assign had_frame = judged;
    assign had_coded = commit && now_code;
    assign had_exact = judged && marked && !code;
    assign had_lost = in_swallowed || out_swallowed || forget;
    if (DECODE) begin : g_no_flows
        assign {known, wrapped, flow, offset, look} = '0;
        // verilator lint_off UNUSEDSIGNAL
        logic unused;
        assign unused = &{begins, asks, key, seq, look_flow, look_word, bound, strict, skip,
            group_tags, group_taken, now[META-1:70]};
        // verilator lint_on UNUSEDSIGNAL
    end else begin : g_flows
        logic [47:0] classes;
        logic [11:0] more_classes;
        always_comb begin
            more_classes = '0;
            for (int i = 0; i < 8; i++)
                for (int c = 0; c < 3; c++)
                    if (group_tags[2*i+:2] == 2'(c + 1))
                        more_classes[4*c+:4] = more_classes[4*c+:4] + 4'd1;
        end
        always_ff @(posedge clk)
            if (!busy) classes <= '0;
            else if (group_taken)
                for (int c = 0; c < 3; c++)
                    classes[16*c+:16] <= classes[16*c+:16] + {12'd0, more_classes[4*c+:4]};
        flow_table #(.FLOWS(FLOWS)) flows (
            .clk, .rst, .begins, .asks, .key, .seq, .known, .wrapped, .flow, .offset,
            .add(had_coded), .add_flow(now[META-1:70]), .add_before({now_floats, 2'd0}),
            .add_after(c_count), .add_classes(classes), .look_flow, .look_word, .look
        );
    end
endmodule
