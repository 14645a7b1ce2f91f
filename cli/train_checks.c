/* SPDX-License-Identifier: Apache-2.0 */
#include "train_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "shoal/codec.h"

/* "auto:allow=A+B": each of them, and float32, that all are compared with. Anything else behind
 * "auto" is for the trainer to refuse. */
static bool auto_is_carried(const char *codec, const char *collective)
{
    static const char allow[] = "auto:allow=";
    char spec[160];
    if (shoal_codec_carried("identity", collective) != SHOAL_OK)
        return false;
    if (strncmp(codec, allow, sizeof allow - 1) != 0)
        return true;
    for (const char *at = codec + sizeof allow - 1; *at != '\0';) {
        size_t length = strcspn(at, "+");
        snprintf(spec, sizeof spec, "%.*s", (int)length, at);
        if (shoal_codec_carried(spec, collective) != SHOAL_OK)
            return false;
        at += length + (at[length] == '+');
    }
    return true;
}

/* Protocols other than all_reduce choose their own collectives: then the operation itself finds
 * out. */
bool train_codec_is_carried(const shoal_train_desc *train)
{
    const char *codec = train->codec != NULL ? train->codec : "identity";
    const char *collective = train->collective != NULL ? train->collective : "ring";
    const char *sync = train->sync != NULL ? train->sync : "all_reduce";
    if (strncmp(sync, "all_reduce", 10) != 0 || strncmp(collective, "auto", 4) == 0)
        return true;
    if (strcmp(codec, "auto") == 0 || strncmp(codec, "auto:", 5) == 0)
        return auto_is_carried(codec, collective);
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
