/* SPDX-License-Identifier: Apache-2.0 */
#include "data/picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* behind stdio.h, which it needs */
#include <jpeglib.h>

#include "base/arena.h"
#include "base/error.h"

void shoali_picture_free(shoali_picture *picture)
{
    shoali_free(picture->pixels);
    picture->pixels = NULL;
}

static shoal_status make(const char *what, uint32_t channels, uint64_t height, uint64_t width,
                         shoali_picture *p)
{
    if (height == 0 || width == 0 || height > SHOALI_PICTURE_SIDE_MAX ||
        width > SHOALI_PICTURE_SIDE_MAX || height * width * 4 > SHOALI_PICTURE_ELEMS_MAX)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s: %llu x %llu pixels; at most %d a side and %d in all", what,
                           (unsigned long long)height, (unsigned long long)width,
                           SHOALI_PICTURE_SIDE_MAX, SHOALI_PICTURE_ELEMS_MAX / 4);
    *p = (shoali_picture){channels, (uint32_t)height, (uint32_t)width, NULL};
    p->pixels = shoali_alloc_array((size_t)(height * width), 4); /* room for alpha */
    return p->pixels != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* ---------------------------------------------------------------- PNG */

static void drop_alpha(shoali_picture *p)
{
    const size_t count = (size_t)p->height * p->width, c = p->channels;
    for (size_t i = 0; i < count; i++)
        memmove(p->pixels + i * c, p->pixels + i * (c + 1), c);
}

static shoal_status decode_png(const char *what, const uint8_t *bytes, size_t len_bytes,
                               shoali_picture *p)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_memory(&image, bytes, len_bytes) == 0)
        return shoali_fail(SHOAL_ECORRUPT, "%s is no whole PNG: %s", what, image.message);
    const bool alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0,
               colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
    shoal_status status = make(what, colour ? 3 : 1, image.height, image.width, p);
    image.format = colour ? (alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB)
                          : (alpha ? PNG_FORMAT_GA : PNG_FORMAT_GRAY);
    if (status == SHOAL_OK && (png_image_finish_read(&image, NULL, p->pixels, 0, NULL) == 0 ||
                               image.warning_or_error != 0))
        status = shoali_fail(SHOAL_ECORRUPT, "%s is no whole PNG: %s", what, image.message);
    png_image_free(&image);
    if (status == SHOAL_OK && alpha)
        drop_alpha(p);
    return status;
}

/* ---------------------------------------------------------------- JPEG */

/* libjpeg reports by leaving: a warning (a cut-off or damaged file) as well as an error. */
typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf out;
    char message[JMSG_LENGTH_MAX];
} reader;

static void leave(j_common_ptr jpeg)
{
    reader *r = jpeg->client_data;
    r->errors.format_message(jpeg, r->message);
    longjmp(r->out, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0)
        leave(jpeg);
}

/* Between setjmp and its return only *r and *p change. */
static shoal_status read_jpeg(const char *what, const uint8_t *bytes, size_t len_bytes, reader *r,
                              shoali_picture *p)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    if (setjmp(r->out) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "%s is no whole JPEG: %s", what, r->message);
    jpeg_create_decompress(jpeg);
    jpeg->client_data = r;
    jpeg_mem_src(jpeg, bytes, len_bytes);
    (void)jpeg_read_header(jpeg, TRUE);
    const bool grey = jpeg->jpeg_color_space == JCS_GRAYSCALE;
    jpeg->out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    SHOALI_TRY(make(what, grey ? 1 : 3, jpeg->image_height, jpeg->image_width, p));
    (void)jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = p->pixels + (size_t)jpeg->output_scanline * p->width * p->channels;
        (void)jpeg_read_scanlines(jpeg, &row, 1);
    }
    (void)jpeg_finish_decompress(jpeg);
    return SHOAL_OK;
}

static shoal_status decode_jpeg(const char *what, const uint8_t *bytes, size_t len_bytes,
                                shoali_picture *p)
{
    reader *r = shoali_alloc(sizeof *r);
    if (r == NULL)
        return SHOAL_ENOMEM;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->jpeg.client_data = r;
    r->errors.error_exit = leave;
    r->errors.emit_message = on_message;
    shoal_status status = read_jpeg(what, bytes, len_bytes, r, p);
    jpeg_destroy_decompress(&r->jpeg);
    shoali_free(r);
    return status;
}

shoal_status shoali_picture_decode(const char *what, const uint8_t *bytes, size_t len_bytes,
                                   shoali_picture *picture_out)
{
    static const uint8_t png[4] = {0x89, 'P', 'N', 'G'}, jpeg[3] = {0xff, 0xd8, 0xff};
    shoali_picture p = {0};
    shoal_status status;
    if (len_bytes > sizeof png && memcmp(bytes, png, sizeof png) == 0)
        status = decode_png(what, bytes, len_bytes, &p);
    else if (len_bytes > sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
        status = decode_jpeg(what, bytes, len_bytes, &p);
    else
        status = shoali_fail(SHOAL_ECORRUPT, "%s is neither a PNG nor a JPEG, by its first bytes",
                             what);
    if (status != SHOAL_OK)
        shoali_picture_free(&p);
    else
        *picture_out = p;
    return status;
}

/* ---------------------------------------------------------------- colours and size */

shoal_status shoali_picture_recolour(shoali_picture *p, uint32_t channels)
{
    const size_t count = (size_t)p->height * p->width;
    if (p->channels == channels)
        return SHOAL_OK;
    uint8_t *made = shoali_alloc_array(count, channels);
    if (made == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = p->pixels + i * p->channels;
        if (channels == 1) /* of 2^16, rounded */
            made[i] = (uint8_t)((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >>
                                16);
        else
            memset(made + 3 * i, from[0], 3);
    }
    shoali_free(p->pixels);
    p->pixels = made;
    p->channels = channels;
    return SHOAL_OK;
}

/* One value of a line of `count` values, `step` apart: the mean around `at` under a triangle. */
static float sample_line(const float *line, size_t count, size_t step, double at, double reach)
{
    double sum = 0, weights = 0;
    const double low = at - reach, high = at + reach;
    for (size_t i = low > 0 ? (size_t)low : 0; i < count && (double)i <= high; i++) {
        const double distance = ((double)i > at ? (double)i - at : at - (double)i) / reach;
        const double weight = distance < 1 ? 1 - distance : 0;
        sum += weight * (double)line[i * step];
        weights += weight;
    }
    return (float)(sum / weights);
}

/* lines x count x step values become lines x target x step, from `first` on in `scale` steps. */
static void resize_lines(const float *from, size_t lines, size_t count, size_t step, size_t target,
                         double first, double scale, float *to)
{
    const double reach = scale > 1 ? scale : 1;
    for (size_t l = 0; l < lines; l++)
        for (size_t i = 0; i < target; i++)
            for (size_t s = 0; s < step; s++)
                to[(l * target + i) * step + s] = sample_line(
                    from + l * count * step + s, count, step,
                    first + ((double)i + 0.5) * scale - 0.5, reach);
}

shoal_status shoali_picture_resize(shoali_picture *p, uint32_t height, uint32_t width, bool crop)
{
    if (p->height == height && p->width == width)
        return SHOAL_OK;
    const size_t c = p->channels, old = (size_t)p->height * p->width * c,
                 between = (size_t)p->height * width * c, made = (size_t)height * width * c;
    double down = (double)p->height / height, across = (double)p->width / width;
    if (crop)
        down = across = down < across ? down : across;
    float *wide = shoali_alloc_array(old + between + made, sizeof *wide);
    uint8_t *pixels = shoali_alloc(made);
    if (wide == NULL || pixels == NULL) {
        shoali_free(wide);
        shoali_free(pixels);
        return SHOAL_ENOMEM;
    }
    for (size_t i = 0; i < old; i++)
        wide[i] = p->pixels[i];
    resize_lines(wide, p->height, p->width, c, width, (p->width - width * across) / 2, across,
                 wide + old);
    resize_lines(wide + old, 1, p->height, width * c, height, (p->height - height * down) / 2, down,
                 wide + old + between);
    for (size_t i = 0; i < made; i++)
        pixels[i] = (uint8_t)(wide[old + between + i] + 0.5f);
    shoali_free(wide);
    shoali_free(p->pixels);
    *p = (shoali_picture){p->channels, height, width, pixels};
    return SHOAL_OK;
}
