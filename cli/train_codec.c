/* SPDX-License-Identifier: Apache-2.0 */
#include "train_codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void train_codec_table(const shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    if (!shoal_train_choice(train, 0, &c))
        return;
    printf("  %-28s %-8s %12s %10s %14s %18s\n", "codec", "", "exchange ms", "coding ms",
           "bytes a step", "predicted step ms");
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        printf("%c %-28s %-8s ", c.chosen ? '*' : ' ', c.codec, c.lossless ? "lossless" : "lossy");
        if (isfinite(c.step_ms))
            printf("%12.2f %10.2f %14.0f %18.2f\n", c.exchange_ms, c.code_ms, c.sent_bytes,
                   c.step_ms);
        else
            printf("%12s\n", "not measured: a gradient was not finite");
    }
    printf("codec auto: %s%s\n", shoal_train_codec(train),
           strcmp(shoal_train_codec(train), "identity") == 0 ? " (off: float32 as it is)" : "");
    fflush(stdout);
}

void train_codec_json(const shoal_train *train)
{
    shoal_train_candidate c = {.size = sizeof c};
    printf("\"codec_used\": \"%s\", ", shoal_train_codec(train));
    if (!shoal_train_choice(train, 0, &c))
        return;
    printf("\"candidates\": [");
    for (uint32_t i = 0; shoal_train_choice(train, i, &c); i++) {
        printf("%s{\"codec\": \"%s\", \"lossless\": %s", i > 0 ? ", " : "", c.codec,
               c.lossless ? "true" : "false");
        if (isfinite(c.step_ms))
            printf(", \"exchange_ms\": %.6g, \"code_ms\": %.6g, \"sent_bytes\": %.0f, "
                   "\"step_ms\": %.6g",
                   c.exchange_ms, c.code_ms, c.sent_bytes, c.step_ms);
        printf("}");
    }
    printf("], ");
}
