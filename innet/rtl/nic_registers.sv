// SPDX-License-Identifier: Apache-2.0
// The engine's registers on AXI4-Lite: 32-bit words, whole ones only.
//
//   cycle      0                     1             2
//   write      [ address and data ]  [ response ]
//   read       [ address ]                         [ data ]
//
//   0x00 R  "SHC1"                      0x20 R  frames to the link
//   0x04 RW bound: 0, 1, 2              0x24 R  of these, coded
//   0x08 RW strict: 0, 1                0x28 R  marked frames with data that passed as they are
//   0x0c RW ToS, 0 .. 0xfc              0x2c R  lost: too long for the store
//   0x10 RW skip: bytes of each stream  0x30 .. 0x3c  the same from the link (coded: decoded;
//        that are no floats                     lost: corrupt ones, too)
//   0x400 + 64 flow R: in use, addresses and ports (3 words, as in the frame), packets, bytes
//        before, bytes after, floats as BYTE, WORD, RAW
//
// Other words read as zero and take no value. A setting counts from the next frame on.
module nic_registers #(
    parameter int FLOWS = 16
) (
    input logic clk,
    input logic rst,
    // verilator lint_off UNUSEDSIGNAL
    input logic [11:0] s_awaddr,  // of words
    // verilator lint_on UNUSEDSIGNAL
    input logic s_awvalid,
    output logic s_awready,
    input logic [31:0] s_wdata,
    input logic s_wvalid,
    output logic s_wready,
    output logic s_bvalid,
    input logic s_bready,
    // verilator lint_off UNUSEDSIGNAL
    input logic [11:0] s_araddr,
    // verilator lint_on UNUSEDSIGNAL
    input logic s_arvalid,
    output logic s_arready,
    output logic [31:0] s_rdata,
    output logic s_rvalid,
    input logic s_rready,
    output logic [1:0] bound,
    output logic strict,
    output logic [5:0] tos,
    output logic [31:0] skip,
    input logic [7:0] events,   // frame, coded, exact, lost; to the link in 3:0, from it in 7:4
    output logic [$clog2(FLOWS)-1:0] look_flow,
    output logic [3:0] look_word,
    input logic [31:0] look
);
    logic take;
    assign take = s_awvalid && s_wvalid && (!s_bvalid || s_bready);
    assign s_awready = take;
    assign s_wready = take;
    always_ff @(posedge clk)
        if (rst) begin
            s_bvalid <= 1'b0;
            bound <= 2'd2;
            strict <= 1'b1;
            tos <= 6'h0a;  // 0x28
            skip <= 32'd168;
        end else begin
            s_bvalid <= take || (s_bvalid && !s_bready);
            if (take)
                case (s_awaddr[11:2])
                    10'd1: bound <= s_wdata[1:0];
                    10'd2: strict <= s_wdata[0];
                    10'd3: tos <= s_wdata[7:2];
                    10'd4: skip <= s_wdata;
                    default: ;
                endcase
        end

    logic [31:0] counts [8];
    always_ff @(posedge clk)
        for (int i = 0; i < 8; i++)
            if (rst) counts[i] <= 32'd0;
            else if (events[i]) counts[i] <= counts[i] + 32'd1;

    logic asked;
    logic [11:2] at;
    assign s_arready = !asked && (!s_rvalid || s_rready);
    assign look_flow = at[6+:$clog2(FLOWS)];
    assign look_word = at[5:2];
    always_ff @(posedge clk)
        if (rst) begin
            asked <= 1'b0;
            s_rvalid <= 1'b0;
        end else begin
            asked <= s_arvalid && s_arready;
            s_rvalid <= asked || (s_rvalid && !s_rready);
        end
    always_ff @(posedge clk) begin
        if (s_arvalid && s_arready) at <= s_araddr[11:2];
        if (asked)
            if (at[11:10] == 2'd1) s_rdata <= look;
            else
                case (at[11:2])
                    10'd0: s_rdata <= 32'h31434853;
                    10'd1: s_rdata <= {30'd0, bound};
                    10'd2: s_rdata <= {31'd0, strict};
                    10'd3: s_rdata <= {24'd0, tos, 2'd0};
                    10'd4: s_rdata <= skip;
                    10'd8, 10'd9, 10'd10, 10'd11, 10'd12, 10'd13, 10'd14, 10'd15:
                        s_rdata <= counts[at[4:2]];
                    default: s_rdata <= 32'd0;
                endcase
    end
endmodule
