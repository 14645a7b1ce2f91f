// SPDX-License-Identifier: Apache-2.0
// The connections that carry floats: where each stream begins, and what went through.
//
//   cycle      0                    1                          2
//   ask        [ key, seq ]
//   found                           [ known, flow, offset ]
//   counters   [ add ]              [ new values ]
//
// A SYN with the ToS makes an entry, the oldest one gives way: segments of a forgotten connection
// pass as they are. `wrapped` says that the stream is longer than 2^31 bytes, so that small offsets
// are those of a second round. Counters belong to an entry and begin at zero with it.
module flow_table #(
    parameter int FLOWS = 16  // a power of two
) (
    input logic clk,
    input logic rst,
    input logic begins,
    input logic asks,
    input logic [95:0] key,
    input logic [31:0] seq,
    output logic known,
    output logic wrapped,
    output logic [$clog2(FLOWS)-1:0] flow,
    output logic [31:0] offset,
    // a packet was coded
    input logic add,
    input logic [$clog2(FLOWS)-1:0] add_flow,
    input logic [15:0] add_before,   // bytes of payload
    input logic [15:0] add_after,
    input logic [47:0] add_classes,  // floats coded as BYTE, WORD, RAW
    // one entry, combinational
    input logic [$clog2(FLOWS)-1:0] look_flow,
    input logic [3:0] look_word,
    output logic [31:0] look
);
    localparam int A = $clog2(FLOWS);

    logic [FLOWS-1:0] used, over, same;
    logic [95:0] keys [FLOWS];
    logic [31:0] bases [FLOWS];
    logic [A-1:0] next, at;
    always_comb begin
        at = next;
        for (int i = 0; i < FLOWS; i++) begin
            same[i] = used[i] && keys[i] == key;
            if (same[i]) at = A'(i);
        end
    end

    // Packets, before, after, BYTE, WORD, RAW; 32 bits, wrapping. A memory has one port to write, so
    // what an entry begins with is not written, but `fresh`.
    logic [191:0] counters [FLOWS];
    logic [FLOWS-1:0] fresh;
    logic [31:0] ahead;
    assign ahead = seq - bases[at];
    always_ff @(posedge clk)
        if (rst) begin
            used <= '0;
            next <= '0;
        end else if (begins) begin
            used[at] <= 1'b1;
            if (same == '0) next <= next + 1'b1;
        end
    always_ff @(posedge clk) begin
        if (begins) begin
            keys[at] <= key;
            bases[at] <= seq + 32'd1;
            over[at] <= 1'b0;
        end else if (asks && same != '0 && ahead[31]) over[at] <= 1'b1;
        known <= asks && same != '0;
        wrapped <= over[at];
        flow <= at;
        offset <= ahead;
    end

    logic [191:0] now, sum;
    always_comb begin
        now = fresh[add_flow] ? '0 : counters[add_flow];
        sum[31:0] = now[31:0] + 32'd1;
        sum[63:32] = now[63:32] + {16'd0, add_before};
        sum[95:64] = now[95:64] + {16'd0, add_after};
        for (int i = 0; i < 3; i++)
            sum[96+32*i+:32] = now[96+32*i+:32] + {16'd0, add_classes[16*i+:16]};
    end
    always_ff @(posedge clk) if (add) counters[add_flow] <= sum;
    always_ff @(posedge clk)
        if (rst) fresh <= '1;
        else begin
            if (add) fresh[add_flow] <= 1'b0;
            if (begins) fresh[at] <= 1'b1;
        end

    logic [95:0] shown [FLOWS];  // keys once more: a memory for this, flip-flops to compare
    logic [95:0] look_key;
    logic [191:0] look_counters;
    always_ff @(posedge clk) if (begins) shown[at] <= key;
    assign look_key = shown[look_flow];
    assign look_counters = fresh[look_flow] ? '0 : counters[look_flow];
    always_comb
        case (look_word)
            4'd0: look = {31'd0, used[look_flow]};
            4'd1: look = look_key[31:0];
            4'd2: look = look_key[63:32];
            4'd3: look = look_key[95:64];
            4'd4: look = look_counters[31:0];
            4'd5: look = look_counters[63:32];
            4'd6: look = look_counters[95:64];
            4'd7: look = look_counters[127:96];
            4'd8: look = look_counters[159:128];
            4'd9: look = look_counters[191:160];
            default: look = 32'd0;
        endcase
endmodule
