/* SPDX-License-Identifier: Apache-2.0 */
/* net_scores MODEL WEIGHTS.safetensors: the scores of one sample, whose values come in as text, one
 * a line each. For tests that compare them with another framework's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/safetensors.h"
#include "files/weights.h"
#include "model/model.h"
#include "nn/nn.h"

static shoal_status load(const char *path, const shoal_model *model, shoali_net *net)
{
    shoali_safetensors *file = NULL;
    size_t count;
    float *state = shoali_net_state(net, &count);
    shoal_status status = shoali_safetensors_open(path, &file);
    if (status != SHOAL_OK)
        return status;
    status = shoali_weights_read(path, file, model, shoali_net_params(net), state, NULL);
    shoali_safetensors_close(file);
    return status;
}

static void show(const shoal_model *model, shoali_net *net)
{
    const size_t in = (size_t)shoali_shape_elems(model->input);
    const size_t out = (size_t)shoali_shape_elems(model->layers[model->layer_count - 1].out);
    float *x = calloc(in, sizeof *x);
    uint32_t *labels = calloc(in, sizeof *labels);
    shoali_loss loss;
    const shoali_batch batch = {.x = x, .labels = labels, .count = 1, .weight = 1};
    char line[64];
    for (size_t i = 0; i < in && x != NULL; i++) {
        if (fgets(line, sizeof line, stdin) == NULL)
            abort();
        x[i] = strtof(line, NULL);
    }
    if (x == NULL || labels == NULL)
        abort();
    if (model->masked) /* which an evaluation would hide some tokens of */
        shoali_net_continue(net, x, 0, model->input.height);
    else if (shoali_net_evaluate(net, &batch, &loss) != SHOAL_OK)
        abort();
    for (size_t i = 0; i < out; i++)
        printf("%.9g\n", (double)shoali_net_scores(net)[i]);
    free(labels);
    free(x);
}

int main(int argc, char **argv)
{
    shoal_model *model = NULL;
    shoali_net *net = NULL;
    shoal_status status = argc == 3 ? shoal_model_open(argv[1], &model) : SHOAL_EINVAL;
    if (status == SHOAL_OK)
        status = shoali_net_create(model, 1, 1, &net);
    if (status == SHOAL_OK)
        status = load(argv[2], model, net);
    if (status == SHOAL_OK)
        show(model, net);
    else
        fprintf(stderr, "net_scores: %s\n", shoal_last_error()->text);
    shoali_net_destroy(net);
    shoal_model_close(model);
    return status == SHOAL_OK ? 0 : 1;
}
