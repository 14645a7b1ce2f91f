/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets made here: free of licences, reproducible, and hard enough to tell methods apart.
 *
 * Digits are drawn from the outlines of Debian's fonts and distorted: size, rotation, shear,
 * aspect, place, an elastic grid, blur, contrast, noise. Every fifth font is kept for the test set,
 * so a network is tested on shapes that it has never seen. The files are genuine IDX files under
 * MNIST's names, which every loader of MNIST reads. An image depends on (seed, split, number,
 * fonts) only: the same call gives the same bytes as long as the font packages are the same.
 *
 * Colours are ten kinds of shapes and textures in colour, in the files of CIFAR-10's binary
 * version: for convolutional networks, harder than digits. An image depends on (seed, split,
 * number, hard) only.
 *
 * Making them takes seconds to minutes, so it goes in steps and the caller shows progress:
 *
 *     shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
 *     desc.dir = "data/digits";
 *     shoal_status status = shoal_digits_open(&desc, &digits);
 *     while (status == SHOAL_OK && (status = shoal_digits_step(digits, &progress)) ==
 * SHOAL_PENDING) status = SHOAL_OK; // show progress.done of progress.total
 *     shoal_digits_close(digits);
 */
#ifndef SHOAL_DATA_H
#define SHOAL_DATA_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_digits shoal_digits;

/** What to make. Zero means the default in brackets; start from SHOAL_DIGITS_DESC_INIT. */
typedef struct shoal_digits_desc {
    size_t size;          /* sizeof(shoal_digits_desc) */
    const char *dir;      /* where the four files go; made if it is not there */
    uint64_t seed;        /* [1] */
    uint32_t train_count; /* [40000] images */
    uint32_t test_count;  /* [8000] images */
    double hard;          /* [1] how much everything is distorted, 0.1 .. 4 */
} shoal_digits_desc;
#define SHOAL_DIGITS_DESC_INIT                      \
    {                                               \
        sizeof(shoal_digits_desc), NULL, 0, 0, 0, 0 \
    }

/** How far it is. */
typedef struct shoal_digits_progress {
    uint64_t done, total;             /* images */
    uint32_t train_fonts, test_fonts; /* faces in use */
} shoal_digits_progress;

/**
 * Find the fonts and begin. Nothing is seen in dir until all is done.
 * @param digits_out owned by the caller; shoal_digits_close.
 * @return SHOAL_OK | EINVAL | ENOTSUP (font packages are missing: the advice names them) | EIO |
 * ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_digits_open(const shoal_digits_desc *desc,
                                                        shoal_digits **digits_out);

/**
 * Draw some more images, about 20 ms worth.
 * @return PENDING: call again | OK: the files are there, whole, under their names | EIO
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_digits_step(shoal_digits *digits,
                                                        shoal_digits_progress *progress_out);

/** Free everything; what is not finished is removed. NULL is allowed. */
SHOAL_API void shoal_digits_close(shoal_digits *digits);

/* ---------------------------------------------------------------- colours */

typedef struct shoal_colours shoal_colours;

/** What to make. Zero means the default in brackets; start from SHOAL_COLOURS_DESC_INIT. */
typedef struct shoal_colours_desc {
    size_t size;          /* sizeof(shoal_colours_desc) */
    const char *dir;      /* where the six files go; made if it is not there */
    uint64_t seed;        /* [1] */
    uint32_t train_count; /* [40000] images, at least 5: one per file */
    uint32_t test_count;  /* [8000] images */
    double hard;          /* [0.6] how much everything is distorted, 0.1 .. 4 */
} shoal_colours_desc;
#define SHOAL_COLOURS_DESC_INIT                      \
    {                                                \
        sizeof(shoal_colours_desc), NULL, 0, 0, 0, 0 \
    }

/** How far it is. */
typedef struct shoal_data_progress {
    uint64_t done, total; /* images */
} shoal_data_progress;

/**
 * Begin. Nothing is seen in dir until all is done.
 * @param colours_out owned by the caller; shoal_colours_close.
 * @return SHOAL_OK | EINVAL | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_colours_open(const shoal_colours_desc *desc,
                                                         shoal_colours **colours_out);

/**
 * Draw some more images, about 20 ms worth.
 * @return PENDING: call again | OK: the files are there, whole, under their names | EIO
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_colours_step(shoal_colours *colours,
                                                         shoal_data_progress *progress_out);

/** Free everything; what is not finished is removed. NULL is allowed. */
SHOAL_API void shoal_colours_close(shoal_colours *colours);

/* ---------------------------------------------------------------- images of one's own
 *
 * A folder with a folder of PNG and JPEG files per class, NumPy's .npz or .npy, or a CSV table
 * become IDX files (docs/data.md), which every verb that takes data reads. */

typedef enum shoal_images_fit {
    SHOAL_IMAGES_CROP,   /* cover height x width, keep the middle */
    SHOAL_IMAGES_STRETCH /* bring each side to its length */
} shoal_images_fit;

/** What to make. Zero means the default in brackets; start from SHOAL_IMAGES_DESC_INIT. */
typedef struct shoal_images_desc {
    size_t size;
    const char *dir;        /* where the files go; made if it is not there */
    const char *from;       /* a folder, .npz, .npy or .csv */
    const char *labels;     /* of an .npy: the .npy of its labels */
    uint32_t height, width; /* [of the images, which must all be alike] */
    shoal_images_fit fit;   /* where height and width are given */
    uint32_t channels;      /* [of the images, which must all be alike] 1 or 3 */
    uint32_t classes;       /* [as many as there are] what is expected */
    double test;            /* [0.1] share of each class that is kept for tests, where `from` does
                               not say which: drawn by seed */
    uint64_t seed;          /* [1] */
} shoal_images_desc;
#define SHOAL_IMAGES_DESC_INIT            \
    {                                     \
        .size = sizeof(shoal_images_desc) \
    }

typedef struct shoal_images_info {
    size_t size;
    char format[16]; /* of a data set; empty: of images */
    uint64_t train, test;
    uint32_t classes, channels, height, width;
    uint32_t problems; /* that were told */
} shoal_images_info;

/** Make the files; nothing is seen of them until all are whole.
 * @return SHOAL_OK | EINVAL (of the descriptor, or what `from` lacks) | EIO | ECORRUPT (file,
 * what was expected, what was found) | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_images_make(const shoal_images_desc *desc,
                                                        shoal_images_info *info_out);

/**
 * Look at a data set, or at what shoal_images_make would read, and tell all that is wrong.
 * @param tell called with a sentence per problem, which is borrowed; NULL: they are counted only.
 * @return SHOAL_OK: looked at, see info's problems | EINVAL, EIO, ECORRUPT: cannot be looked at |
 * ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_images_check(const shoal_images_desc *desc,
                                                         void (*tell)(void *ctx, const char *text),
                                                         void *ctx, shoal_images_info *info_out);

/* ---------------------------------------------------------------- clicks
 *
 * Click logs for recommenders: each sample has an id per categorical field, drawn by a Zipf law,
 * and whether there was a click, which depends on the ids and their pairs. Gradients of an
 * embedding are zero but for the ids of the batch. Files are `train.clicks` and `test.clicks`
 * (docs/sparse.md). They depend on the descriptor only. */

/** What to make. Zero means the default in brackets; start from SHOAL_CLICKS_DESC_INIT. */
typedef struct shoal_clicks_desc {
    size_t size;
    const char *dir;      /* where the files go; made if it is not there */
    uint64_t seed;        /* [1] */
    uint32_t train_count; /* [200000] samples */
    uint32_t test_count;  /* [20000] */
    uint32_t fields;      /* [26], of 4 ids to the larger part of the vocabulary */
    uint32_t vocab;       /* [262144] ids of all fields together */
    double skew;          /* [1.1] exponent of the Zipf law: the k-th id comes as k^-skew */
} shoal_clicks_desc;
#define SHOAL_CLICKS_DESC_INIT                            \
    {                                                     \
        sizeof(shoal_clicks_desc), NULL, 0, 0, 0, 0, 0, 0 \
    }

typedef struct shoal_clicks_info {
    size_t size;
    uint64_t samples, clicks;
    uint32_t fields, vocab;
} shoal_clicks_info;

/** Make both files; a second or so per million ids. @return SHOAL_OK | EINVAL | EIO | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_clicks_make(const shoal_clicks_desc *desc,
                                                        shoal_clicks_info *info_out);

/* ---------------------------------------------------------------- svmlight
 *
 * Texts of svmlight and libsvm, plain or .gz, a line `CLASS INDEX:VALUE ...` per sample, become
 * `train.pairs`, `test.pairs` and `classes.txt`, for linear models (docs/sparse.md). */

/** What to make. Zero means the default in brackets; start from SHOAL_SVMLIGHT_DESC_INIT. */
typedef struct shoal_svmlight_desc {
    size_t size;
    const char *dir;       /* where the files go; made if it is not there */
    const char *from;      /* the text */
    const char *test_from; /* [a share of from] another one, for tests */
    double test;           /* [0.1] share of each class that is kept for tests, drawn by seed */
    uint64_t seed;         /* [1] */
    uint32_t vocab;        /* [as many as the texts have] features */
    bool zero_based;       /* indices begin at 0; else at 1 */
} shoal_svmlight_desc;
#define SHOAL_SVMLIGHT_DESC_INIT            \
    {                                       \
        .size = sizeof(shoal_svmlight_desc) \
    }

typedef struct shoal_svmlight_info {
    size_t size;
    uint64_t train, test, pairs; /* samples; features that all of them have */
    uint32_t vocab, classes;
    uint32_t most; /* features of the sample that has most */
} shoal_svmlight_info;

/** @return SHOAL_OK | EINVAL | EIO | ECORRUPT (file, line, what was found) | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_svmlight_make(const shoal_svmlight_desc *desc,
                                                          shoal_svmlight_info *info_out);

/* ---------------------------------------------------------------- speech
 *
 * A corpus for phoneme recognition, spoken by espeak-ng: made-up sentences, several accents, voices
 * and speeds, noise and echoes; the voices of the test set are in no other. Its labels are exact:
 * they come with the sound. Files are `train.shoalseq`, `test.shoalseq` and `phonemes.txt` (the
 * class names, one a line; docs/sequence-models.md). A corpus depends on (seed, options, version of
 * espeak-ng) only.
 *
 * espeak-ng is under GPL-3, so it runs in a program of its own, shoal-speak, which the caller
 * names; nothing of it is linked here. Goes in steps, as digits do. */

typedef struct shoal_speech shoal_speech;

/** What to make. Zero means the default in brackets; start from SHOAL_SPEECH_DESC_INIT. */
typedef struct shoal_speech_desc {
    size_t size;
    const char *dir;      /* where the files go; made if it is not there */
    const char *program;  /* path of shoal-speak */
    uint64_t seed;        /* [1] */
    double train_minutes; /* [30] of speech */
    double test_minutes;  /* [150] */
    uint32_t every; /* [1] of the frames, which are 10 ms apart, keep each so many-th, .. 10 */
    double noise;   /* [1] noise and echoes are so many times as loud; negative: none */
    bool log_mel;   /* 40 log-mel values a frame in place of 39 MFCC */
    bool stack; /* a kept frame has the values of those left out behind it, too: every times 39 */
} shoal_speech_desc;
#define SHOAL_SPEECH_DESC_INIT                                             \
    {                                                                      \
        sizeof(shoal_speech_desc), NULL, NULL, 0, 0, 0, 0, 0, false, false \
    }

/** How far it is, both splits together. */
typedef struct shoal_speech_progress {
    double minutes, total_minutes;
    uint32_t utterances;
    uint64_t train_phonemes, test_phonemes; /* pauses left out */
} shoal_speech_progress;

/**
 * Start the program that speaks. Nothing is seen in dir until all is done.
 * @param speech_out owned by the caller; shoal_speech_close.
 * @return SHOAL_OK | EINVAL | EIO (the program cannot be started) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_speech_open(const shoal_speech_desc *desc,
                                                        shoal_speech **speech_out);
/**
 * One more utterance, some 10 ms of work.
 * @return PENDING: call again | OK: the files are there | EIO, ECORRUPT (what the program says is
 * checked like a file) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_speech_step(shoal_speech *speech,
                                                        shoal_speech_progress *progress_out);
/** Free everything, end the program. NULL is allowed. */
SHOAL_API void shoal_speech_close(shoal_speech *speech);

/* ---------------------------------------------------------------- text */

/** Text as tokens, each labelled with the next one. Zero means the default in brackets; start from
 * SHOAL_TEXT_DESC_INIT. */
typedef struct shoal_text_desc {
    size_t size;
    const char *dir;          /* where the files go; made if missing */
    const char *const *files; /* [file_count] files, plain or .gz, and folders of them */
    uint32_t file_count;      /* [0: texts that Debian's packages have installed] */
    uint32_t length;          /* [128] tokens of a sequence */
    /** ["characters": 64 of them, for lstm-text] "bytes"; "bpe=N": N tokens learned from the
     * training texts; or the path of a tokenizer.json or of BERT's vocab.txt, which
     * is written beside the data as tokenizer.json. */
    const char *tokens;
    /** NULL, or called as it goes on, in this thread: what is done, and bytes of it. */
    void (*tell)(void *ctx, const char *what, double done, double total);
    void *ctx;
} shoal_text_desc;
#define SHOAL_TEXT_DESC_INIT            \
    {                                   \
        .size = sizeof(shoal_text_desc) \
    }

/** What became of it. */
typedef struct shoal_text_info {
    uint64_t train_sequences, test_sequences;
    uint32_t length;
    uint32_t vocabulary;          /* tokens that there are */
    uint64_t documents, repeated; /* texts; those that are in another one's words, left out */
    uint64_t binary;              /* files that are no text, left out */
    uint64_t bytes, tokens;       /* of the texts, of both splits */
} shoal_text_info;

/**
 * Make train.shoaltok, test.shoaltok, tokenizer.json and sources.txt (of characters:
 * train.shoalseq, test.shoalseq, tokenizer.json). The test set is whole documents, about a tenth of
 * the bytes, whose choice depends on their bytes only; where that cannot be, and of characters, the
 * last tenth of each.
 * @return SHOAL_OK | EINVAL (less than one sequence; dir holds a data set of another form) | EIO (a
 * file: which) | ECORRUPT (the tokenizer, or a file: why) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_text_make(const shoal_text_desc *desc,
                                                      shoal_text_info *info_out);

#ifdef __cplusplus
}
#endif
#endif
