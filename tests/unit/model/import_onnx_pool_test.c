/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes made here: which layer they are, and what no layer is. */
#include "model/import_onnx.h"

#include "support/check.h"

enum { LISTS = 3 };

/* Lists of a node, each ended by -1: kernel_shape, strides, pads. */
typedef struct wanted {
    int64_t lists[LISTS][5];
    bool ceil, counts;
    shoal_shape in;
    const char *spec; /* NULL: refused */
    uint32_t height, width;
    const char *says;
} wanted;

static shoal_status run(const wanted *w, shoal_shape *shape, char *spec)
{
    static const char *const names[] = {"kernel_shape", "strides", "pads", "ceil_mode",
                                        "count_include_pad"};
    Shoal__Onnx__Node node = SHOAL__ONNX__NODE__INIT;
    Shoal__Onnx__Attribute all[LISTS + 2], *list[LISTS + 2];
    int64_t values[LISTS][5];
    memcpy(values, w->lists, sizeof values);
    for (size_t i = 0; i < LISTS + 2; i++) {
        shoal__onnx__attribute__init(&all[i]);
        list[i] = &all[i];
        all[i].name = (char *)(uintptr_t)names[i];
        all[i].has_i = i >= LISTS;
        for (size_t k = 0; i < LISTS && values[i][k] >= 0; k++)
            all[i].n_ints = k + 1;
        all[i].ints = i < LISTS ? values[i] : NULL;
    }
    all[LISTS].i = w->ceil;
    all[LISTS + 1].i = w->counts;
    node.op_type = (char[]){"Pool"};
    node.n_attribute = LISTS + 2;
    node.attribute = list;
    *shape = w->in;
    return shoali_onnx_pool(&node, "avgpool", shape, spec);
}

static const wanted cases[] = {
    {{{3, 3, -1}, {2, 2, -1}, {-1}},
     false,
     false,
     {4, 9, 7},
     "avgpool:kernel=3,stride=2,pad=0,ceil=off",
     4,
     3,
     NULL},
    {{{3, 3, -1}, {2, 2, -1}, {-1}},
     true,
     false,
     {4, 8, 8},
     "avgpool:kernel=3,stride=2,pad=0,ceil=on",
     4,
     4,
     NULL},
    /* a partial window as a border at the end */
    {{{3, 3, -1}, {2, 2, -1}, {0, 0, 1, 1, -1}},
     false,
     false,
     {4, 8, 8},
     "avgpool:kernel=3,stride=2,pad=0,ceil=on",
     4,
     4,
     NULL},
    /* a border that no window reaches */
    {{{3, 3, -1}, {2, 2, -1}, {1, 1, 0, 0, -1}},
     false,
     false,
     {4, 8, 8},
     "avgpool:kernel=3,stride=2,pad=1,ceil=off",
     4,
     4,
     NULL},
    {{{3, 3, -1}, {1, 1, -1}, {1, 1, 1, 1, -1}},
     false,
     true,
     {4, 8, 5},
     "avgpool:kernel=3,stride=1,pad=1,ceil=off,include_pad",
     8,
     5,
     NULL},
    {{{2, 2, -1}, {2, 2, -1}, {0, 0, 0, 0, -1}},
     false,
     true,
     {4, 8, 8},
     "avgpool:kernel=2,stride=2,pad=0,ceil=off",
     4,
     4,
     NULL},
    {{{3, 3, -1}, {2, 2, -1}, {0, 1, 1, 1, -1}},
     false,
     false,
     {4, 8, 8},
     NULL,
     0,
     0,
     "as wide at the top as at the left"},
    {{{3, 3, -1}, {1, 1, -1}, {0, 0, 2, 2, -1}},
     false,
     false,
     {4, 8, 8},
     NULL,
     0,
     0,
     "changes how many windows"},
    {{{3, 3, -1}, {2, 2, -1}, {0, 0, 1, 1, -1}},
     false,
     true,
     {4, 8, 8},
     NULL,
     0,
     0,
     "one border all around only"},
    {{{3, 2, -1}, {2, 2, -1}, {-1}},
     false,
     false,
     {4, 8, 8},
     NULL,
     0,
     0,
     "the same in all directions"},
    {{{3, 3, -1}, {2, 2, -1}, {1, 1, 1, -1}}, false, false, {4, 8, 8}, NULL, 0, 0, "border"},
    {{{3, 3, -1}, {2, 2, -1}, {0, 0, 300, 0, -1}},
     false,
     false,
     {4, 8, 8},
     NULL,
     0,
     0,
     "a border beyond 255"},
    {{{-1}, {2, 2, -1}, {-1}}, false, false, {4, 8, 8}, NULL, 0, 0, "a window beyond 255"},
};

static void nodes_become_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[SHOALI_LAYER_SPEC_MAX];
        shoal_shape shape;
        const shoal_status status = run(&cases[i], &shape, spec);
        if (cases[i].spec == NULL) {
            assert_status(status, SHOAL_ECORRUPT);
            assert_error_has(cases[i].says);
            continue;
        }
        assert_ok(status);
        assert_string_equal(spec, cases[i].spec);
        assert_int_equal(shape.height, cases[i].height);
        assert_int_equal(shape.width, cases[i].width);
        assert_int_equal(shape.channels, 4);
    }
}

/* A pool that leaves its border to the reader was read as one without. */
static void borders_left_to_the_reader(void **state)
{
    static const struct {
        const char *text;
        bool read;
    } texts[] = {{"NOTSET", true},      {"VALID", true}, {"SAME_UPPER", false},
                 {"SAME_LOWER", false}, {"", false},     {"VALIDX", false}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Shoal__Onnx__Node node = SHOAL__ONNX__NODE__INIT;
        Shoal__Onnx__Attribute pad = SHOAL__ONNX__ATTRIBUTE__INIT, *list[] = {&pad};
        char text[16];
        snprintf(text, sizeof text, "%s", texts[i].text);
        pad.name = (char[]){"auto_pad"};
        pad.has_s = true;
        pad.s = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
        node.op_type = (char[]){"Pool"};
        node.n_attribute = 1;
        node.attribute = list;
        assert_status(shoali_onnx_check_auto_pad(&node), texts[i].read ? SHOAL_OK : SHOAL_ECORRUPT);
    }
    char spec[SHOALI_LAYER_SPEC_MAX];
    shoal_shape shape = {1, 4, 4};
    Shoal__Onnx__Node node = SHOAL__ONNX__NODE__INIT;
    Shoal__Onnx__Attribute pad = SHOAL__ONNX__ATTRIBUTE__INIT, kernel = pad,
                           *list[] = {&pad, &kernel};
    pad.name = (char[]){"auto_pad"};
    pad.s = (ProtobufCBinaryData){10, (uint8_t[]){"SAME_UPPER"}};
    kernel.name = (char[]){"kernel_shape"};
    kernel.ints = (int64_t[]){2, 2};
    kernel.n_ints = 2;
    node.op_type = (char[]){"Pool"};
    node.n_attribute = 2;
    node.attribute = list;
    assert_status(shoali_onnx_pool(&node, "maxpool", &shape, spec), SHOAL_ECORRUPT);
    assert_error_has("auto_pad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(nodes_become_layers),
                                       CHECK_TEST(borders_left_to_the_reader)};
    return CHECK_RUN(tests);
}
