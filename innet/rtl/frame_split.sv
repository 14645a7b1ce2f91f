// SPDX-License-Identifier: Apache-2.0
// A frame to its header and its payload, which begins at a burst's first byte.
//
//   cycle      0         1         2                3                ..  n
//   s_tdata    [ 0 ]     [ 1 ]     [ 2 ]            [ 3 ]            ..  [ last ]
//   h_tdata    [ 0 ]     [ 1, of it `head` mod 32 bytes, h_last ]
//   p_tdata                        [ of 1 and 2 ]   [ of 2 and 3 ]   ..  [ last ], or one more
//
// (a head of 54 to 63 bytes; of 64 and more, one beat later). All three move in the same cycle. A
// frame whose payload is not coded is header from end to end. Headers are 2 bytes more than a
// multiple of 4 long, so eight places do.
module frame_split (
    input logic clk,
    input logic rst,
    input logic code,          // code and head stand while the frame is offered
    input logic [6:0] head,
    input logic [255:0] s_tdata,
    input logic [5:0] s_bytes,
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_tready,
    output logic idle,         // between frames, or in a header
    output logic [255:0] h_tdata,
    output logic [5:0] h_bytes,
    output logic h_tvalid,
    output logic h_tlast,
    output logic h_more,       // with h_last: a payload follows
    input logic h_tready,
    output logic [255:0] p_tdata,
    output logic [5:0] p_bytes,
    output logic p_tvalid,
    output logic p_tlast,
    input logic p_tready
);
    typedef enum logic [1:0] { HEAD, BODY, REST } state_e;
    state_e state;
    logic [1:0] beat;
    logic [255:0] kept;
    logic [5:0] kept_bytes;
    logic [2:0] place;  // the payload begins at byte 4 place + 2 of a beat
    logic cut;          // this beat ends the header
    assign idle = state == HEAD;
    always_comb begin
        cut = code && beat == head[6:5];
        h_tdata = s_tdata;
        h_bytes = cut ? {1'b0, head[4:0]} : s_bytes;
        h_tvalid = state == HEAD && s_tvalid;
        h_tlast = cut || s_tlast;
        h_more = cut;
        s_tready = state == HEAD ? h_tready : state == BODY && p_tready;
    end

    logic [511:0] both;
    logic [5:0] rest;  // bytes of the kept beat that are payload
    always_comb begin
        both = {s_tdata, kept};
        rest = kept_bytes - {1'b0, place, 2'd2};
        p_tdata = both[16+:256];
        for (int i = 1; i < 8; i++)
            if (place == 3'(i)) p_tdata = both[32*i+16+:256];
        p_tvalid = state == REST || (state == BODY && s_tvalid);
        p_tlast = state == REST || (s_tlast && s_bytes <= {1'b0, place, 2'd2});
        p_bytes = state == REST ? rest : p_tlast ? rest + s_bytes : 6'd32;
    end

    always_ff @(posedge clk)
        if (rst) begin
            state <= HEAD;
            beat <= 2'd0;
        end else
            case (state)
                HEAD:
                    if (s_tvalid && h_tready) begin
                        beat <= s_tlast || cut ? 2'd0 : beat == 2'd3 ? 2'd3 : beat + 2'd1;
                        if (cut) state <= s_tlast ? REST : BODY;
                    end
                BODY: if (s_tvalid && p_tready && s_tlast) state <= p_tlast ? HEAD : REST;
                default: if (p_tready) state <= HEAD;
            endcase
    always_ff @(posedge clk)
        if (s_tvalid && s_tready) begin
            kept <= s_tdata;
            kept_bytes <= s_bytes;
            if (state == HEAD) place <= head[4:2];
        end
endmodule
