/* SPDX-License-Identifier: Apache-2.0 */
/* shoal data images: pictures, arrays and tables of one's own; shoal data check: what is wrong with
 * them, or with a data set. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "arguments.h"
#include "cli.h"
#include "progress_show.h"
#include "shoal/data.h"

enum { KEY_FIT = 1000, KEY_CHANNELS, KEY_CLASSES };

typedef struct images_args {
    shoal_images_desc images;
    bool json;
    json_t *problems; /* of check, with --json */
    uint32_t told;    /* of them */
} images_args;

#define WHAT(group)                                                                               \
    {"labels", 'l', "FILE", 0, "Of an .npy: the .npy of its labels", group},                      \
        {"classes", KEY_CLASSES, "N", 0, "Refuse what has another number of classes", group},     \
        {"size", 'z', "N|HxW", 0, "Bring all to this size; else all must be alike", group},       \
        {"fit",                                                                                   \
         KEY_FIT,                                                                                 \
         "crop|stretch",                                                                          \
         0,                                                                                       \
         "With --size: cover it and keep the middle, or change the proportions (crop)",           \
         group},                                                                                  \
        {"channels", KEY_CHANNELS, "1|3", 0, "Make all grey or coloured; else all must be alike", \
         group},                                                                                  \
    {                                                                                             \
        "json", 'j', NULL, 0, "Result as one JSON object", group                                  \
    }

static const struct argp_option make_options[] = {
    {"from", 'f', "DIR", 0,
     "A folder with a folder of PNG or JPEG files per class; or an .npz, .npy or .csv file", 0},
    {"out", 'o', "DIR", 0, "Directory for the files: made, or an empty one", 0},
    {"test", 't', "SHARE", 0,
     "Of each class, for tests, where DIR does not say which: above 0, below 1 (0.1)", 0},
    {"seed", 's', "N", 0, "Which they are; the same seed gives the same bytes (1)", 0},
    WHAT(0),
    {0}};
static const struct argp_option check_options[] = {WHAT(0), {0}};

/* "32", "24x32". */
static bool parse_size(const char *text, shoal_images_desc *d)
{
    char height[24];
    const char *cross = strchr(text, 'x');
    const size_t length = cross != NULL ? (size_t)(cross - text) : strlen(text);
    if (length >= sizeof height)
        return false;
    memcpy(height, text, length);
    height[length] = '\0';
    return cli_parse_count(height, 1, 4096, &d->height) &&
           cli_parse_count(cross != NULL ? cross + 1 : height, 1, 4096, &d->width);
}

static bool parse_fit(const char *text, shoal_images_desc *d)
{
    d->fit = strcmp(text, "stretch") == 0 ? SHOAL_IMAGES_STRETCH : SHOAL_IMAGES_CROP;
    return d->fit == SHOAL_IMAGES_STRETCH || strcmp(text, "crop") == 0;
}

/* 1: taken, 0: a bad value, -1: another option. */
static int take(images_args *args, int key, char *text)
{
    shoal_images_desc *d = &args->images;
    int64_t number = 0;
    switch (key) {
    case 'f':
        d->from = text;
        return 1;
    case 'o':
        d->dir = text;
        return 1;
    case 'l':
        d->labels = text;
        return 1;
    case 'j':
        args->json = true;
        return 1;
    case 't':
        return cli_parse_real(text, 1e-6, 0.999999, &d->test);
    case 's':
        if (!cli_parse_int(text, 1, INT64_MAX, &number))
            return 0;
        d->seed = (uint64_t)number;
        return 1;
    case 'z':
        return parse_size(text, d);
    case KEY_FIT:
        return parse_fit(text, d);
    case KEY_CHANNELS:
        return cli_parse_count(text, 1, 3, &d->channels) && d->channels != 2;
    case KEY_CLASSES:
        return cli_parse_count(text, 1, 65536, &d->classes);
    default:
        return -1;
    }
}

static error_t parse_make(int key, char *text, struct argp_state *state)
{
    const int taken = take(state->input, key, text);
    if (taken == 0)
        cli_refuse_value(state, key, text);
    return taken > 0 ? 0 : ARGP_ERR_UNKNOWN;
}

static error_t parse_check(int key, char *text, struct argp_state *state)
{
    images_args *args = state->input;
    if (key == ARGP_KEY_ARG && state->arg_num == 0) {
        args->images.from = text;
        return 0;
    }
    if (key == ARGP_KEY_NO_ARGS)
        cli_refuse(state, "what is to be looked at? a folder or file comes first");
    return parse_make(key, text, state);
}

static json_t *describe(const shoal_images_info *info)
{
    json_t *answer = json_object();
    if (info->format[0] != '\0')
        answer_set_text(answer, "format", info->format);
    answer_set_count(answer, "train", info->train);
    answer_set_count(answer, "test", info->test);
    answer_set_count(answer, "classes", info->classes);
    answer_set_count(answer, "channels", info->channels);
    answer_set_count(answer, "height", info->height);
    answer_set_count(answer, "width", info->width);
    return answer;
}

static void print_info(const char *name, const shoal_images_info *info)
{
    printf("%s: %llu samples to train on, %llu to test; %u classes, %u x %u x %u\n", name,
           (unsigned long long)info->train, (unsigned long long)info->test, info->classes,
           info->channels, info->height, info->width);
}

static int make(void *ctx)
{
    images_args *args = ctx;
    shoal_images_info info = {0};
    progress_begin("data", "images", false, "the data set is not whole; make it anew");
    const shoal_status status = shoal_images_make(&args->images, &info);
    progress_end();
    if (status != SHOAL_OK)
        return cli_report("data images");
    if (args->json)
        return answer_print("data images", describe(&info));
    print_info(args->images.dir, &info);
    return CLI_OK;
}

int data_images(int argc, char **argv)
{
    static const struct argp argp = {
        make_options,
        parse_make,
        "",
        "Make a data set of your own images: of folders (cat/1.png, dog/7.jpg; or train/cat/1.png "
        "and test/cat/2.png), of NumPy's arrays, of a CSV table with a class and pixels in a row.\v"
        "Example: shoal data images --from photos --size 32 --out data\n"
        "         shoal data images --from x.npy --labels y.npy --out data\n"
        "         shoal data check photos\n",
        progress_children,
        NULL,
        NULL};
    images_args args = {.images = SHOAL_IMAGES_DESC_INIT};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.images.from == NULL || args.images.dir == NULL)
        return cli_usage("data images", "%s",
                         args.images.from == NULL ? "of what? --from DIR" : "where to? --out DIR");
    if (args.images.fit != SHOAL_IMAGES_CROP && args.images.height == 0)
        return cli_usage("data images", "--fit says nothing without --size");
    return data_fill("data images", args.images.dir, make, &args);
}

static void tell(void *ctx, const char *text)
{
    images_args *args = ctx;
    if (args->json)
        json_array_append_new(args->problems, answer_text(text));
    else {
        progress_aside();
        printf("%s\n", text);
        fflush(stdout);
    }
    progress_at(++args->told, 0, NULL);
}

int data_check(int argc, char **argv)
{
    static const struct argp argp = {
        check_options,
        parse_check,
        "PATH",
        "Say all that is wrong with a data set, or with what `shoal data images` would read: which "
        "file, what was expected, what was found. Exit code 1 if something is.\v"
        "Example: shoal data check photos --size 32\n",
        progress_children,
        NULL,
        NULL};
    images_args args = {.images = SHOAL_IMAGES_DESC_INIT};
    shoal_images_info info = {0};
    if (cli_parse(&argp, argc, argv, 0, &args) != 0)
        return CLI_USAGE;
    if (args.images.fit != SHOAL_IMAGES_CROP && args.images.height == 0)
        return cli_usage("data check", "--fit says nothing without --size");
    args.problems = json_array();
    progress_begin("data", "problems", false, "nothing was changed");
    const shoal_status status = shoal_images_check(&args.images, tell, &args, &info);
    progress_end();
    if (status != SHOAL_OK) {
        json_decref(args.problems);
        return cli_report("data check");
    }
    if (args.json) {
        json_t *answer = describe(&info);
        answer_set(answer, "problems", args.problems);
        const int code = answer_print("data check", answer);
        return code != CLI_OK ? code : info.problems > 0 ? CLI_FAILED : CLI_OK;
    }
    json_decref(args.problems);
    print_info(args.images.from, &info);
    if (info.problems > 0)
        printf("%u problem%s\n", info.problems, info.problems == 1 ? "" : "s");
    return info.problems > 0 ? CLI_FAILED : CLI_OK;
}
