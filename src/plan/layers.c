/* SPDX-License-Identifier: Apache-2.0 */
/* What a layer costs that is no transformer: arithmetic on its kind's efficiency table, or, without
 * weights, element by element; memory traffic of its tensors. Under tensor parallelism the input
 * channels of layers with weights are split, as HyPar's model parallelism does: partial sums of the
 * outputs are exchanged, and the errors on the way back. */
#include "plan/predict.h"

shoali_block_cost shoali_layer_cost(const shoali_cluster *cluster,
                                    const shoali_accelerator *accelerator,
                                    const shoali_layer *layer, const shoali_block_args *args)
{
    shoali_block_cost cost = {0};
    bool weighted = layer->param_count > 0;
    double t = weighted ? args->tensor : 1;
    double in = args->microbatch * (double)shoali_shape_elems(layer->in);
    double out = args->microbatch * (double)shoali_shape_elems(layer->out);
    double params = (double)layer->param_count / t, width = args->element_bytes;
    const char *kind = weighted ? layer->row->name : "vector";
    double forward = args->microbatch * layer->forward_flops / t;
    double bytes = (in / t + out + params) * width;
    cost.params = params;
    cost.boundary_bytes = out * width;
    if ((layer->row->traits & SHOALI_LAYER_ALIAS) != 0)
        return cost;
    cost.forward = shoali_cost_work(accelerator, kind, forward, bytes);
    cost.backward = shoali_cost_work(accelerator, kind, args->microbatch * layer->weight_flops / t,
                                     bytes);
    if (layer->input_flops > 0)
        cost.backward = shoali_time_add(
            cost.backward, 1,
            shoali_cost_work(accelerator, kind, args->microbatch * layer->input_flops / t, bytes));
    cost.kept_bytes = cost.working_bytes = out * width;
    double own = params / (args->state_sharded ? args->data : 1);
    if (weighted) /* momentum: read gradient, weight and state, write the last two */
        cost.update = shoali_cost_work(accelerator, "vector", 4 * own, 20 * own);
    if (t > 1) {
        shoali_group group = {1, args->tensor};
        cost.exchange.network = shoali_cost_exchange_s(cluster, group, SHOALI_EXCHANGE_ALL_REDUCE,
                                                       out * width) +
                                shoali_cost_exchange_s(cluster, group, SHOALI_EXCHANGE_SHARDED,
                                                       in * width);
        cost.summed_bytes = out * width;
        cost.summed_back_bytes = in * width / 2; /* gathered, not summed */
    }
    return cost;
}
