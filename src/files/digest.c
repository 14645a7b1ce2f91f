/* SPDX-License-Identifier: Apache-2.0 */
#include "files/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/error.h"

enum { DIGEST_BYTES = SHOALI_DIGEST_CHARS / 2 };

void shoali_digest_begin(shoali_digest *digest)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    *digest = (shoali_digest){
        .hash = hash, .failed = hash == NULL || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1};
}

void shoali_digest_add(shoali_digest *digest, const void *bytes, size_t len_bytes)
{
    if (!digest->failed && len_bytes > 0)
        digest->failed = EVP_DigestUpdate(digest->hash, bytes, len_bytes) != 1;
}

bool shoali_digest_text(const shoali_digest *digest, char text_out[SHOALI_DIGEST_CHARS + 1])
{
    unsigned char bytes[DIGEST_BYTES];
    if (digest->failed || digest->hash == NULL)
        return false;
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    bool ok = copy != NULL && EVP_MD_CTX_copy_ex(copy, digest->hash) == 1 &&
              EVP_DigestFinal_ex(copy, bytes, NULL) == 1;
    EVP_MD_CTX_free(copy);
    for (int i = 0; ok && i < DIGEST_BYTES; i++)
        snprintf(text_out + 2 * i, 3, "%02x", bytes[i]);
    return ok;
}

void shoali_digest_end(shoali_digest *digest)
{
    EVP_MD_CTX_free(digest->hash);
    *digest = (shoali_digest){0};
}

/* ------------------------------------------------------------------ a data set's */

static void add_split(shoali_digest *digest, const shoali_dataset *d, const shoali_split *split)
{
    const size_t sample = (size_t)d->channels * d->height * d->width;
    const uint64_t frames = split->starts != NULL && split->count > 0 ? split->starts[split->count]
                                                                      : 0;
    const size_t labels = d->sequences ? frames : split->count;
    shoali_digest_add(digest, &split->count, sizeof split->count);
    if (split->stream != NULL) {
        shoali_digest_add(digest, &split->length, sizeof split->length);
        shoali_digest_add(digest, split->stream,
                          ((uint64_t)split->count * split->length + 1) * sizeof *split->stream);
        return;
    }
    if (d->sequences || d->pairs) {
        shoali_digest_add(digest, split->starts, (split->count + 1u) * sizeof *split->starts);
        shoali_digest_add(digest, split->frames, frames * d->width * sizeof *split->frames);
    } else if (d->ids > 0) {
        shoali_digest_add(digest, split->frames, split->count * sample * sizeof *split->frames);
    } else {
        shoali_digest_add(digest, split->pixels, split->count * sample);
    }
    shoali_digest_add(digest, split->labels, labels * sizeof *split->labels);
}

shoal_status shoali_digest_of_data(const shoali_dataset *dataset,
                                   char text_out[SHOALI_DIGEST_CHARS + 1])
{
    shoali_digest digest;
    const uint32_t shape[] = {dataset->channels, dataset->height,    dataset->width,
                              dataset->classes,  dataset->sequences, dataset->ids};
    shoali_digest_begin(&digest);
    shoali_digest_add(&digest, shape, sizeof shape);
    add_split(&digest, dataset, &dataset->train);
    add_split(&digest, dataset, &dataset->test);
    bool ok = shoali_digest_text(&digest, text_out);
    shoali_digest_end(&digest);
    return ok ? SHOAL_OK : shoali_fail(SHOAL_ENOMEM, "no memory for a digest of the data");
}
