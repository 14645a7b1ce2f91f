/* SPDX-License-Identifier: Apache-2.0 */
/* Text from a trained network: after a prompt, one token after the other.
 *
 *     shoal_generate_desc desc = SHOAL_GENERATE_DESC_INIT;
 *     desc.from = "run1", desc.prompt = "The licence";
 *     shoal_generator *g;
 *     shoal_generated one = {.size = sizeof one};
 *     if (shoal_generate_open(&desc, &g) != SHOAL_OK) ...
 *     while (shoal_generate_next(g, &one) == SHOAL_OK && !one.end)
 *         fwrite(one.text, 1, one.len_bytes, stdout);
 *     shoal_generate_close(g);
 *
 * The network is one of sequences that was trained on the data of `shoal data text`, whose
 * tokenizer.json says which texts its tokens are. It sees as many of the last tokens as its samples
 * may be long. The same desc and checkpoint give the same tokens on the same kind of machine.
 *
 * Cost: each token is a pass over all that the network sees; of networks that look back (attention,
 * nothing recurrent) over the new token only, until they have seen as many as their samples are
 * long: from then on all of them move.
 *
 * Threads: a generator belongs to one thread at a time. */
#ifndef SHOAL_GENERATE_H
#define SHOAL_GENERATE_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_generator shoal_generator;

/** What to say. Zero means the default in brackets; start from SHOAL_GENERATE_DESC_INIT. */
typedef struct shoal_generate_desc {
    size_t size;
    const char *from;   /* out directory of a run: its newest checkpoint; or a safetensors file */
    const char *data;   /* [the run's own] directory, as in training: its tokenizer.json */
    const char *prompt; /* [the end of another text] what goes before */
    double temperature; /* 0: the most likely token, always; else scores are divided by it */
    uint32_t top_k;     /* [all] only so many of the most likely tokens are drawn from */
    uint64_t seed;      /* [1] of what is drawn */
} shoal_generate_desc;
#define SHOAL_GENERATE_DESC_INIT            \
    {                                       \
        .size = sizeof(shoal_generate_desc) \
    }

/** A token. */
typedef struct shoal_generated {
    size_t size;
    uint32_t token;
    const char *text; /* its bytes, which need not be whole characters; of the generator */
    size_t len_bytes;
    bool end; /* the text ends here: nothing follows */
} shoal_generated;

/**
 * Open checkpoint, data set and tokenizer, and read the prompt.
 * @param generator_out owned by the caller; shoal_generate_close.
 * @return SHOAL_OK | EINVAL (names what does not fit: a network or data of something else than
 * text, characters of the prompt that have no token, no prompt where there is no token to begin
 * with) | EIO, ECORRUPT (file and reason) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_generate_open(const shoal_generate_desc *desc,
                                                          shoal_generator **generator_out);

/** Token i of the prompt, as it was understood; false behind the last one. */
SHOAL_API bool shoal_generate_prompt(const shoal_generator *generator, size_t i,
                                     shoal_generated *token_out);

/**
 * The next token. After the end of the text it is that again.
 * @return SHOAL_OK | ENOTFINITE (the network's scores are no numbers)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_generate_next(shoal_generator *generator,
                                                          shoal_generated *token_out);

/** NULL is allowed. */
SHOAL_API void shoal_generate_close(shoal_generator *generator);

#ifdef __cplusplus
}
#endif
#endif
