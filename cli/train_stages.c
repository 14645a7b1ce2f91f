/* SPDX-License-Identifier: Apache-2.0 */
#include "train_stages.h"

#include <stdio.h>
#include <stdlib.h>

static char *text_of(const char *first, const char *rest)
{
    char *text = NULL;
    return asprintf(&text, "%s%s", first, rest) >= 0 ? text : NULL;
}

static shoal_train_desc *add(train_stages *s, const shoal_train_desc *desc, const char *name)
{
    s->desc[s->count] = *desc;
    s->name[s->count] = name;
    return &s->desc[s->count++];
}

shoal_status train_stages_make(const shoal_train_desc *desc, const char *whole, const char *admm,
                               train_stages *stages_out)
{
    shoal_admm keys;
    *stages_out = (train_stages){0};
    if (admm == NULL) {
        add(stages_out, desc, NULL);
        return SHOAL_OK;
    }
    char *spec = text_of("admm:", admm), *dense_out = text_of(desc->out, "/dense"),
         *admm_out = text_of(desc->out, "/admm");
    train_stages s = {.owned = {spec, dense_out, admm_out}};
    for (uint32_t i = 0; i < 2 && desc->dump_gradients != NULL; i++)
        s.owned[3 + i] = text_of(desc->dump_gradients, i == 0 ? "/dense" : "/admm");
    shoal_status status = spec != NULL && dense_out != NULL && admm_out != NULL ? SHOAL_OK
                                                                                : SHOAL_ENOMEM;
    if (desc->dump_gradients != NULL && (s.owned[3] == NULL || s.owned[4] == NULL))
        status = SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = shoal_admm_parse(spec, &keys);
    if (status != SHOAL_OK) {
        train_stages_free(&s);
        return status;
    }
    shoal_train_desc *stage;
    if (keys.dense > 0) {
        stage = add(&s, desc, "whole matrices");
        stage->model = whole;
        stage->epochs = (uint32_t)keys.dense;
        stage->out = dense_out;
        stage->dump_gradients = s.owned[3];
    }
    stage = add(&s, desc, "towards block-circulant ones");
    stage->model = whole;
    stage->admm = spec;
    stage->admm_model = desc->model;
    stage->start = keys.dense > 0 ? dense_out : desc->start;
    stage->epochs = (uint32_t)(keys.iterations * keys.epochs);
    stage->lr = desc->lr * keys.lr;
    stage->out = admm_out;
    stage->dump_gradients = s.owned[4];
    stage = add(&s, desc, "block-circulant matrices");
    stage->start = admm_out;
    *stages_out = s;
    return SHOAL_OK;
}

void train_stages_free(train_stages *stages)
{
    for (uint32_t i = 0; i < sizeof stages->owned / sizeof *stages->owned; i++)
        free(stages->owned[i]);
    *stages = (train_stages){0};
}
