// SPDX-License-Identifier: Apache-2.0
// The nearest word of OW bits: sat() of src/kernel/fixed.h. No register.
module pe_sat #(
    parameter int IW = 16,  // more than OW
    parameter int OW = 12
) (
    input logic signed [IW-1:0] v,
    output logic signed [OW-1:0] y
);
    assign y = v[IW-1:OW-1] == '0 || v[IW-1:OW-1] == '1 ? v[OW-1:0]
        : {v[IW-1], {(OW - 1){~v[IW-1]}}};
endmodule
