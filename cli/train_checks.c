/* SPDX-License-Identifier: Apache-2.0 */
#include "train_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "shoal/codec.h"

/* Protocols other than all_reduce
 * choose their own collectives: then the operation itself finds out. */
bool train_codec_is_carried(const shoal_train_desc *train)
{
    const char *codec = train->codec != NULL ? train->codec : "identity";
    const char *collective = train->collective != NULL ? train->collective : "ring";
    const char *sync = train->sync != NULL ? train->sync : "all_reduce";
    if (strncmp(sync, "all_reduce", 10) != 0 || strncmp(codec, "auto", 4) == 0 ||
        strncmp(collective, "auto", 4) == 0)
        return true;
    return shoal_codec_carried(codec, collective) == SHOAL_OK;
}

static bool parse_part(const char *part, int64_t *dense, int64_t *conv)
{
    if (strncmp(part, "k=", 2) == 0)
        return cli_parse_int(part + 2, 2, 1024, dense);
    if (strncmp(part, "conv=", 5) == 0)
        return cli_parse_int(part + 5, 2, 1024, conv);
    return false;
}

char *train_circulate(const char *model, const char *option)
{
    int64_t dense = 0, conv = 0;
    char *parts = strdup(option), *rest = NULL, *spec = NULL;
    bool good = parts != NULL;
    for (char *part = good ? strtok_r(parts, ",", &rest) : NULL; good && part != NULL;
         part = strtok_r(NULL, ",", &rest))
        good = parse_part(part, &dense, &conv);
    free(parts);
    if (!good || (dense == 0 && conv == 0))
        return NULL;
    const char *file = strrchr(model, '/'); /* folders may hold colons */
    const char *mark = strchr(file != NULL ? file : model, ':') != NULL ? "," : ":";
    if (asprintf(&spec, "%s%scirculant=%d,circulant_conv=%d", model, mark, (int)dense, (int)conv) <
        0)
        return NULL;
    return spec;
}
