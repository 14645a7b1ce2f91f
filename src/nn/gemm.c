/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/gemm.h"

#include <cblas.h>
#include <stdint.h>

#include "nn/onednn.h"

enum { SMALL = 16 * 16 * 16 }; /* multiplications: a call of oneDNN takes as long */

static bool by_onednn(bool turn_a, bool turn_b, int m, int n, int k, float scale, const float *a,
                      int a_step, const float *b, int b_step, float keep, float *c, int c_step)
{
    const shoali_onednn *d = (int64_t)m * n * k > SMALL ? shoali_onednn_there() : NULL;
    if (d == NULL)
        return false;
    const shoali_onednn_before before = shoali_onednn_alone(d);
    const dnnl_status_t status = d->sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', m, n, k, scale, a,
                                          a_step, b, b_step, keep, c, c_step);
    shoali_onednn_give_back(d, &before);
    return status == dnnl_success;
}

void shoali_gemm(bool turn_a, bool turn_b, int m, int n, int k, float scale, const float *a,
                 int a_step, const float *b, int b_step, float keep, float *c, int c_step)
{
    if (by_onednn(turn_a, turn_b, m, n, k, scale, a, a_step, b, b_step, keep, c, c_step))
        return;
    cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans,
                turn_b ? CblasTrans : CblasNoTrans, m, n, k, scale, a, a_step, b, b_step, keep, c,
                c_step);
}
