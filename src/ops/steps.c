/* SPDX-License-Identifier: Apache-2.0 */
/* A transform in whose state steps are counted (shoali_codec_steps), from which follows what a
 * round is. Before its first round among these members, or after one that failed, they take the
 * maximum of what each counts: the view, and its negative, which gives the least. All go on with
 * the largest count; what members that have taken the same steps have alike begins anew where
 * somebody has not. Operations among some of the ranks count by themselves. */
#include "ops/inner.h"

bool shoali_steps_open(const shoal_op *op)
{
    const bool *agreed = shoali_residuals_agreed(op->ops->residuals, op->rounds.transform);
    return op->plan->push->row->steps != NULL && op->plan->member_count == op->ops->ranks &&
           agreed != NULL && !*agreed;
}

void shoali_steps_look(shoal_op *op)
{
    const shoal_codec *codec = op->plan->push;
    float *view = op->rounds.steps;
    codec->row->steps->look(codec->params, op->rounds.transform, op->plan->tensors,
                            op->plan->tensor_count, view);
    for (int i = 0; i < SHOALI_STEPS_VIEW; i++)
        view[SHOALI_STEPS_VIEW + i] = -view[i];
}

void shoali_steps_agreed(shoal_op *op)
{
    bool *agreed = shoali_residuals_agreed(op->ops->residuals, op->rounds.transform);
    if (agreed != NULL)
        *agreed = true;
}

void shoali_steps_go_on(shoal_op *op)
{
    const shoal_codec *codec = op->plan->push;
    const float *most = op->rounds.steps, *least = most + SHOALI_STEPS_VIEW;
    bool anew = false;
    for (int i = 0; i < SHOALI_STEPS_VIEW; i++)
        anew = anew || most[i] != -least[i];
    codec->row->steps->go_on(codec->params, op->rounds.transform, op->plan->tensors,
                             op->plan->tensor_count, (uint64_t)most[0], anew);
}
