/* SPDX-License-Identifier: Apache-2.0 */
#include "support/onnx_file.h"

#include <unistd.h>

#include "base/read_file.h"
#include "model/export_onnx.h"
#include "model/model_text.h"
#include "support/check.h"

enum { LAYERS_MAX = 32 };

shoal_model *onnx_file_model(const char *layers, shoal_shape input)
{
    char copy[1024], *rest = NULL;
    const char *list[LAYERS_MAX];
    shoali_model_text text = {.name = "net", .input = input, .layers = list};
    shoal_model *model = NULL;
    snprintf(copy, sizeof copy, "%s", layers);
    for (char *one = strtok_r(copy, ";", &rest); one != NULL; one = strtok_r(NULL, ";", &rest))
        list[text.layer_count++] = one;
    assert_ok(shoali_model_build("net", &text, false, &model));
    return model;
}

static bool is_made(const Shoal__Onnx__Graph *g, size_t before, const char *name)
{
    size_t times = strcmp(g->input[0]->name, name) == 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        times += strcmp(g->initializer[i]->name, name) == 0;
    for (size_t i = 0; i < before; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            times += strcmp(g->node[i]->output[k], name) == 0;
    assert_in_range(times, 0, 1);
    return times == 1;
}

static void check(const Shoal__Onnx__Graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (!is_made(g, i, g->node[i]->input[k]))
                fail_msg("%s uses %s, which nothing before it makes", g->node[i]->name,
                         g->node[i]->input[k]);
    assert_true(is_made(g, g->n_node, g->output[0]->name));
}

Shoal__Onnx__Model *onnx_file_of(const shoal_model *model)
{
    char path[256];
    char *bytes = NULL;
    size_t len = 0;
    float *params = shoali_alloc_array((size_t)model->param_count + 1, sizeof *params);
    float *kept = shoali_alloc_array((size_t)model->state_count + 1, sizeof *kept);
    assert_true(params != NULL && kept != NULL);
    for (size_t i = 0; i < model->param_count; i++)
        params[i] = (float)(i + 1);
    for (size_t i = 0; i < model->state_count; i++)
        kept[i] = -(float)(i + 1);
    snprintf(path, sizeof path, SHOAL_BUILD_DIR "/tests/onnx_file.%d.onnx", (int)getpid());
    assert_ok(shoali_onnx_write(path, model, params, kept, NULL));
    assert_ok(shoali_read_file(path, 1 << 24, &bytes, &len));
    unlink(path);
    Shoal__Onnx__Model *file = shoal__onnx__model__unpack(NULL, len, (const uint8_t *)bytes);
    assert_non_null(file);
    check(file->graph);
    shoali_free(bytes);
    shoali_free(kept);
    shoali_free(params);
    return file;
}

size_t onnx_file_count(const Shoal__Onnx__Model *file, const char *op)
{
    size_t count = 0;
    for (size_t i = 0; i < file->graph->n_node; i++)
        count += strcmp(file->graph->node[i]->op_type, op) == 0;
    return count;
}

Shoal__Onnx__Tensor *onnx_file_tensor(const Shoal__Onnx__Model *file, const char *name)
{
    for (size_t i = 0; i < file->graph->n_initializer; i++)
        if (strcmp(file->graph->initializer[i]->name, name) == 0)
            return file->graph->initializer[i];
    return NULL;
}
