// SPDX-License-Identifier: Apache-2.0
// What a frame is: Ethernet, IPv4 without options, TCP, and the ToS that marks floats.
//
//   cycle      0     1     ..   n          n + 1       n + 2
//   beats      [ 0 ] [ 1 ] ..   [ last ]
//   fields           [0]   [1]             flow_table
//   judged                                             [ verdict ]
//
// It watches the beats that frame_store takes; all fields lie in the first two. In the stream of a
// connection, bytes are floats if they lie behind its first `skip` bytes (a handshake) at a multiple
// of 4. So a segment is coded if
// - flow_table has seen its connection begin, which tells where multiples of 4 are,
// - it is whole floats, all of them behind `skip`,
// - it has no urgent data: the urgent pointer then means nothing, and carries the number of floats
//   between the two engines.
// At the receiving side (DECODE) a segment is decoded if that pointer is not zero. Everything else,
// fragments, padded and cut frames too, passes as it is.
//
// 16-bit fields are kept as they lie in the frame (first byte in bits 7:0): a ones' complement sum
// does not mind. Lengths are numbers.
module frame_parse #(
    parameter bit DECODE = 1'b0
) (
    input logic clk,
    input logic rst,
    input logic [5:0] tos,       // without the two bits of ECN
    input logic [31:0] skip,
    // verilator lint_off UNUSEDSIGNAL
    input logic [255:0] s_tdata,
    // verilator lint_on UNUSEDSIGNAL
    input logic [5:0] s_bytes,
    input logic s_taken,
    input logic s_tlast,
    output logic judging,        // offer nothing
    // flow_table
    output logic begins,         // a connection: its SYN
    output logic asks,           // the flow of a segment
    output logic [95:0] key,     // addresses, ports
    output logic [31:0] seq,
    input logic known,           // one cycle later
    input logic wrapped,
    input logic [31:0] offset,   // of the segment in its stream
    // verdict
    output logic judged,
    output logic code,           // or decode
    output logic marked,         // had the ToS and data
    output logic [6:0] head,     // bytes before the payload, 54 .. 94
    output logic [13:0] floats,
    output logic [15:0] length,  // of the IP packet, as in the frame
    output logic [15:0] ip_sum,
    output logic [15:0] tcp_sum
);
    function automatic logic [15:0] swap(input logic [15:0] x);
        swap = {x[7:0], x[15:8]};
    endfunction

    logic [1:0] beat;      // 0, 1, then 2 for all others
    logic [15:0] bytes;    // of the frame so far
    always_ff @(posedge clk)
        if (rst) begin
            beat <= 2'd0;
            bytes <= 16'd0;
        end else if (s_taken) begin
            beat <= s_tlast ? 2'd0 : beat[1] ? 2'd2 : beat + 2'd1;
            bytes <= (beat == 2'd0 ? 16'd0 : bytes) + {10'd0, s_bytes};
        end

    // Byte i of beat 0 or 1 is byte i or 32 + i of the frame.
    logic is_ip, two;
    logic [3:0] words;  // of the TCP header
    logic syn, urg;
    logic [15:0] urgent;
    always_ff @(posedge clk) begin
        if (s_taken && beat == 2'd0) begin
            is_ip <= s_tdata[8*12+:16] == 16'h0008 && s_tdata[8*14+:8] == 8'h45
                && s_tdata[8*15+2+:6] == tos && s_tdata[8*23+:8] == 8'd6
                && (s_tdata[8*20+:16] & 16'hff3f) == 16'd0;
            length <= s_tdata[8*16+:16];
            ip_sum <= s_tdata[8*24+:16];
            key[47:0] <= s_tdata[8*26+:48];
            two <= 1'b0;
        end
        if (s_taken && beat == 2'd1) begin
            key[95:48] <= s_tdata[47:0];
            seq <= {s_tdata[8*6+:8], s_tdata[8*7+:8], s_tdata[8*8+:8], s_tdata[8*9+:8]};
            words <= s_tdata[8*14+4+:4];
            syn <= s_tdata[8*15+1];
            urg <= s_tdata[8*15+5];
            tcp_sum <= s_tdata[8*18+:16];
            urgent <= s_tdata[8*20+:16];
            two <= s_bytes >= 6'd22;
        end
    end

    logic ended, is_tcp, plain;
    logic [15:0] total, payload;
    always_comb begin
        total = swap(length);
        is_tcp = two && is_ip && words >= 4'd5;
        payload = total - 16'd20 - {10'd0, words, 2'd0};
        plain = is_tcp && !urg && !syn && bytes == total + 16'd14
            && total > 16'd20 + {10'd0, words, 2'd0};
        judging = ended || judged;
        begins = ended && is_tcp && syn;
        asks = ended && plain;
    end

    always_ff @(posedge clk)
        if (rst) begin
            ended <= 1'b0;
            judged <= 1'b0;
        end else begin
            ended <= s_taken && s_tlast;
            judged <= ended;
        end

    logic was_plain;
    always_ff @(posedge clk) begin
        was_plain <= plain;
        head <= 7'd34 + {1'b0, words, 2'd0};
        floats <= DECODE ? {urgent[5:0], urgent[15:8]} : payload[15:2];
    end
    if (DECODE) begin : g_decode
        assign marked = was_plain && urgent != 16'd0;
        assign code = marked && urgent[7:6] == 2'd0;
        // verilator lint_off UNUSEDSIGNAL
        logic unused;
        assign unused = &{known, wrapped, offset, skip, payload[1:0]};
        // verilator lint_on UNUSEDSIGNAL
    end else begin : g_code
        assign marked = was_plain;
        assign code = was_plain && known && urgent == 16'd0 && payload[1:0] == 2'd0
            && offset[1:0] == 2'd0 && (wrapped || offset >= skip);
    end
endmodule
