// SPDX-License-Identifier: Apache-2.0
// Whole frames on their way: nothing leaves before its frame is complete and has been judged.
//
//   cycle      0        1        2 ..         n         n + 1     n + 2
//   s_tdata    [ 0 ]    [ 1 ]    ..  [ last ]
//   commit                                    [ meta ]
//   m_tdata                                             fetched   [ 0 ]  m_meta stands as long
//
// Between the last beat and commit or forget nothing is taken. A frame that does not fit into
// DEPTH - 1 beats has no place here: it is swallowed and `swallowed` says so at its end, instead of
// a commit. `forget` drops the frame that waits for its judgement.
module frame_store #(
    parameter int DEPTH = 512,  // beats of 32 bytes, a power of two
    parameter int METAS = 16,   // frames, a power of two
    parameter int META = 1
) (
    input logic clk,
    input logic rst,
    input logic [255:0] s_tdata,
    input logic [5:0] s_bytes,
    input logic s_tvalid,
    input logic s_tlast,
    output logic s_tready,
    output logic waits,      // for commit or forget
    output logic swallowed,
    input logic commit,
    input logic forget,
    input logic [META-1:0] meta,
    output logic [255:0] m_tdata,
    output logic [5:0] m_bytes,
    output logic m_tvalid,
    output logic m_tlast,
    output logic [META-1:0] m_meta,
    input logic m_tready
);
    localparam int A = $clog2(DEPTH), B = $clog2(METAS);

    logic [262:0] beats [DEPTH];
    logic [META-1:0] metas [METAS];
    logic [A-1:0] to, done, from;  // next to write, behind the last committed, next to read
    logic [B:0] meta_to, meta_from;
    logic full, meta_full, swallows, write;
    assign full = to + A'(1) == from;
    assign meta_full = meta_to == {!meta_from[B], meta_from[B-1:0]};
    assign s_tready = swallows || (!full && !meta_full && !waits);
    assign write = s_tvalid && s_tready && !swallows;
    assign swallowed = swallows && s_tvalid && s_tlast;

    always_ff @(posedge clk)
        if (rst) begin
            to <= '0;
            done <= '0;
            waits <= 1'b0;
            swallows <= 1'b0;
            meta_to <= '0;
        end else begin
            if (write) begin
                to <= to + A'(1);
                waits <= s_tlast;
            end
            if (full && done == from && !waits) begin
                swallows <= 1'b1;  // nothing will make room
                to <= done;
            end
            if (swallowed) swallows <= 1'b0;
            if (commit || forget) waits <= 1'b0;
            if (commit) begin
                done <= to;
                meta_to <= meta_to + 1'b1;
            end
            if (forget) to <= done;
        end
    always_ff @(posedge clk) if (write) beats[to] <= {s_tlast, s_bytes, s_tdata};
    always_ff @(posedge clk) if (commit) metas[meta_to[B-1:0]] <= meta;

    logic fetch;
    assign fetch = from != done && (!m_tvalid || m_tready);
    always_ff @(posedge clk)
        if (rst) begin
            from <= '0;
            meta_from <= '0;
            m_tvalid <= 1'b0;
        end else begin
            if (fetch) from <= from + A'(1);
            m_tvalid <= fetch || (m_tvalid && !m_tready);
            if (m_tvalid && m_tready && m_tlast) meta_from <= meta_from + 1'b1;
        end
    always_ff @(posedge clk) if (fetch) {m_tlast, m_bytes, m_tdata} <= beats[from];
    assign m_meta = metas[meta_from[B-1:0]];
endmodule
