/* ascendcl_network_test.c: networks of the simulated runtime: the reader and its refusals, shapes,
 * memory plans, costs. */
#include "rig/test.h"
#include "network.h"

#include <stdio.h>
#include <string.h>

static acl__network *parse(const char *text)
{
    acl__network *network = NULL;
    acl__model_error error;
    weir_status status = acl__network_parse("net", text, strlen(text), &network, &error);
    if (status != WEIR_OK) {
        fail_msg("%s", error.text);
    }
    return network;
}

static acl__network *read_own(const char *name)
{
    char path[1024];
    acl__network *network = NULL;
    acl__model_error error;
    snprintf(path, sizeof(path), "%s/%s", WEIR_NETWORKS_DIR, name);
    if (acl__network_read(path, &network, &error) != WEIR_OK) {
        fail_msg("%s", error.text);
    }
    return network;
}

static acl__shape *shapes_of(const acl__network *network, const acl__shape *inputs)
{
    acl__shape *shapes = calloc(network->blob_count, sizeof(*shapes));
    acl__model_error error;
    assert_non_null(shapes);
    if (acl__network_shapes(network, inputs, shapes, &error) != WEIR_OK) {
        fail_msg("%s", error.text);
    }
    return shapes;
}

/* --- files that the reader refuses --- */

#define HEAD "7767517\n"
#define NET(layers, blobs, text) HEAD layers " " blobs "\n" text

TEST(malformed_texts_are_named)
{
    static const struct {
        const char *text;
        weir_status status;
        const char *message;
    } cases[] = {
        {"", WEIR_ERR_INVALID, "net:1: the file is empty"},
        {"\n\n  \n", WEIR_ERR_INVALID, "net:4: the file is empty"},
        {"7767518\n1 1\n", WEIR_ERR_INVALID, "net:1: the first line is not 7767517"},
        {"77675170\n1 1\n", WEIR_ERR_INVALID, "net:1: the first line is not 7767517"},
        {"7767517 2\n1 1\n", WEIR_ERR_INVALID, "net:1: \"2\" stands behind the magic number"},
        {"7767517", WEIR_ERR_INVALID, "net:1: the file ends behind the magic number"},
        {NET("1", "", ""), WEIR_ERR_INVALID, "net:2: the line ends where the number of blobs should stand"},
        {NET("1", "-1", ""), WEIR_ERR_INVALID, "net:2: the number of blobs: \"-1\" is no count"},
        {NET("1.5", "1", ""), WEIR_ERR_INVALID, "net:2: the number of layers: \"1.5\" is no count"},
        {NET("0x1", "1", ""), WEIR_ERR_INVALID, "net:2: the number of layers: \"0x1\" is no count"},
        {NET("65537", "1", ""), WEIR_ERR_LIMIT, "net:2: the number of layers: 65537 is more than the limit of 65536"},
        {NET("1e30", "1", ""), WEIR_ERR_LIMIT, "net:2: the number of layers: 1e30 is more than the limit"},
        {NET("1e99999", "1", ""), WEIR_ERR_INVALID, "net:2: the number of layers: \"1e99999\" is no count"},
        {NET("0", "1", ""), WEIR_ERR_INVALID, "net:2: a network without layers or without blobs"},
        {NET("1", "1", ""), WEIR_ERR_INVALID,
         "net:3: the file ends after 0 layers and 0 blobs; the head announces 1 and 1"},
        {NET("1", "1 1", ""), WEIR_ERR_INVALID, "net:2: \"1\" stands behind the two counts"},
        {NET("60000", "3", "Input a 0 1 b\n"), WEIR_ERR_INVALID,
         "net:2: 60000 layers and 3 blobs are more than a text"},
        {NET("1", "1", "Input\n"), WEIR_ERR_INVALID, "net:3: the line ends where the name of a layer should stand"},
        {NET("1", "1", "Inputs a 0 1 b\n"), WEIR_ERR_UNSUPPORTED, "net:3: layer \"a\": the type \"Inputs\" is not"},
        {NET("1", "1", "Input a x 1 b\n"), WEIR_ERR_INVALID, "net:3: the number of inputs: \"x\" is no count"},
        {NET("1", "1", "Input a 1 1 b b\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": Input cannot have 1 inputs"},
        {NET("1", "1", "Input a 0 0\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": Input cannot have 0 outputs"},
        {NET("1", "2", "Input a 0 2 b\n"), WEIR_ERR_INVALID, "net:3: the line ends where an output blob should stand"},
        {NET("2", "2", "Input a 0 1 b\nReLU c 1 1 d e\n"), WEIR_ERR_INVALID,
         "net:4: layer \"c\" uses the blob \"d\", which no layer before it makes"},
        {NET("2", "2", "Input a 0 1 b\nReLU c 1 1 b b\n"), WEIR_ERR_INVALID,
         "net:4: the blob \"b\" is made a second time"},
        {NET("2", "1", "Input a 0 1 b\nReLU c 1 1 b d\n"), WEIR_ERR_INVALID, "net:4: more than the 1 blobs"},
        {NET("1", "2", "Input a 0 1 b\nReLU c 1 1 b d\n"), WEIR_ERR_INVALID, "net:4: more than the 1 layers"},
        {NET("3", "3", "Input a 0 1 b\nReLU c 1 1 b d\n"), WEIR_ERR_INVALID, "net:5: the file ends after 2 layers"},
        {NET("2", "2", "Input a 0 1 b\nReLU c 1 2 b d e\n"), WEIR_ERR_INVALID, "ReLU cannot have 2 outputs"},
        {NET("2", "2", "Input a 0 1 b\nEltwise c 1 1 b d\n"), WEIR_ERR_INVALID, "Eltwise cannot have 1 inputs"},
        {NET("1", "1", "Input a 0 1 b 0\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": \"0\" is no parameter"},
        {NET("1", "1", "Input a 0 1 b =3\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": \"=3\" is no parameter"},
        {NET("1", "1", "Input a 0 1 b x=3\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": \"x=3\" is no parameter"},
        {NET("1", "1", "Input a 0 1 b -1=3\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": there is no parameter -1"},
        {NET("1", "1", "Input a 0 1 b 64=3\n"), WEIR_ERR_INVALID, "net:3: layer \"a\": there is no parameter 64"},
        {NET("1", "1", "Input a 0 1 b -23364=0\n"), WEIR_ERR_INVALID, "there is no parameter -23364"},
        {NET("1", "1", "Input a 0 1 b 0=3 0=4\n"), WEIR_ERR_INVALID, "net:3: layer \"a\" has parameter 0 twice"},
        {NET("1", "1", "Input a 0 1 b 0=\n"), WEIR_ERR_INVALID, "parameter 0: 0 values where 1 should stand"},
        {NET("1", "1", "Input a 0 1 b 0=3x\n"), WEIR_ERR_INVALID, "parameter 0: \"3x\" is no number"},
        {NET("1", "1", "Input a 0 1 b 0=nan\n"), WEIR_ERR_INVALID, "parameter 0: \"nan\" is no number"},
        {NET("1", "1", "Input a 0 1 b 0=1e400\n"), WEIR_ERR_INVALID, "parameter 0: \"1e400\" is no number"},
        {NET("1", "1", "Input a 0 1 b 0=1,2\n"), WEIR_ERR_INVALID, "parameter 0 has more than the 1 values"},
        {NET("1", "1", "Input a 0 1 b 0=1,\n"), WEIR_ERR_INVALID, "parameter 0 ends in a comma"},
        {NET("1", "1", "Input a 0 1 b 0=\"x\"\n"), WEIR_ERR_UNSUPPORTED, "a text as value is not supported"},
        {NET("1", "1", "Input a 0 1 b -23300=\n"), WEIR_ERR_INVALID, "array 0: its length is no number"},
        {NET("1", "1", "Input a 0 1 b -23300=-1,2\n"), WEIR_ERR_INVALID, "array 0: its length is no number"},
        {NET("1", "1", "Input a 0 1 b -23300=9999999,2\n"), WEIR_ERR_INVALID, "array 0: its length is no number"},
        {NET("1", "1", "Input a 0 1 b -23300=3,1,2\n"), WEIR_ERR_INVALID, "parameter 0: 2 values where 3 should stand"},
        {NET("1", "1", "Input a 0 1 b -23300=1,1,2\n"), WEIR_ERR_INVALID, "more than the 1 values announced"},
        {NET("1", "1", "Input a 0 1 b -23300=1,\n"), WEIR_ERR_INVALID, "array 0 ends in a comma"},
        {NET("1", "1", "Input a 0 1 b -23330=3,1,2,3\n"), WEIR_ERR_INVALID, "3 numbers as shapes of 1 outputs"},
        {NET("1", "1", "Input a 0 1 b -23330=4,3,-1,2,3\n"), WEIR_ERR_INVALID,
         "the shape of output 0 has a number out"},
        {NET("1", "1", "Input a 0 1 b -23330=4,3,1.5,2,3\n"), WEIR_ERR_INVALID,
         "the shape of output 0 has a number out"},
        {NET("1", "1", "Input \001 0 1 b\n"), WEIR_ERR_INVALID, "the name of a layer has a control character"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        acl__network *network = NULL;
        acl__model_error error;
        weir_status status = acl__network_parse("net", cases[i].text, strlen(cases[i].text), &network, &error);
        if (status != cases[i].status || strstr(error.text, cases[i].message) == NULL || network != NULL) {
            fail_msg("case %zu: status %d, \"%s\"; expected \"%s\"", i, (int)status, error.text, cases[i].message);
        }
    }
}

TEST(a_long_name_is_refused)
{
    char text[400];
    for (size_t length = ACL__MAX_NAME; length <= ACL__MAX_NAME + 1; length++) {
        acl__network *network = NULL;
        acl__model_error error;
        snprintf(text, sizeof(text), NET("1", "1", "Input %0*d 0 1 b\n"), (int)length, 0);
        weir_status status = acl__network_parse("net", text, strlen(text), &network, &error);
        assert_int_equal(status, length > ACL__MAX_NAME ? WEIR_ERR_LIMIT : WEIR_OK);
        acl__network_free(network);
    }
}

TEST(the_text_needs_no_end)
{
    /* A text without a terminating NUL, with carriage returns, blank lines and no newline at the end. */
    static const char text[] = "\r\n7767517\r\n\n2 2\r\n\nInput  a\t0 1 b   0=4\r\n \nReLU c 1 1 b d";
    char *exact = malloc(sizeof(text) - 1);
    acl__network *network = NULL;
    acl__model_error error;
    assert_non_null(exact);
    memcpy(exact, text, sizeof(text) - 1);
    if (acl__network_parse("net", exact, sizeof(text) - 1, &network, &error) != WEIR_OK) {
        fail_msg("%s", error.text);
    }
    free(exact);
    assert_int_equal(network->layer_count, 2);
    assert_string_equal(network->blobs[1].name, "d");
    assert_int_equal(acl__layer_int(network, &network->layers[0], 0, 0), 4);
    assert_int_equal(network->layers[1].line, 8);
    acl__network_free(network);
}

TEST(a_file_that_is_not_there)
{
    acl__network *network = NULL;
    acl__model_error error;
    assert_int_equal(acl__network_read("/no/such/file.param", &network, &error), WEIR_ERR_DEVICE);
    assert_non_null(strstr(error.text, "/no/such/file.param: "));
    assert_int_equal(acl__network_read("/", &network, &error), WEIR_ERR_DEVICE);
    assert_null(network);
}

TEST(values_are_read)
{
    acl__network *n = parse(NET("2", "2",
                                "Input a 0 1 b 0=+7 1=-3.25e+1 -23302=3,1,2.5e-1,-4\n"
                                "Clip c 1 1 b d 0=-3.402823e+38 1=3.402823e+38 -23303=0\n"));
    const acl__layer *a = &n->layers[0], *c = &n->layers[1];
    uint32_t count = 0;
    assert_int_equal(acl__layer_int(n, a, 0, 0), 7);
    assert_true(acl__layer_float(n, a, 1, 0) == -32.5);
    assert_int_equal(acl__layer_int(n, a, 1, 0), -32);
    assert_int_equal(acl__layer_int(n, a, 9, -5), -5);
    assert_int_equal(acl__layer_int(n, a, 2, -5), -5); /* an array is no number */
    const double *v = acl__layer_array(n, a, 2, &count);
    assert_int_equal(count, 3);
    assert_true(v[0] == 1 && v[1] == 0.25 && v[2] == -4);
    assert_null(acl__layer_array(n, a, 0, &count));
    assert_non_null(acl__layer_array(n, c, 3, &count));
    assert_int_equal(count, 0);
    assert_int_equal(acl__layer_int(n, c, 1, 0), (int64_t)1 << 53); /* clamped, without overflow */
    acl__network_free(n);
}

/* --- shapes --- */

/* Each case is one layer after an input of 17 x 13 x 8 (w x h x c), with the shape of its output or the error. */
TEST(layers_shape_their_outputs)
{
    static const struct {
        const char *layer; /* "TYPE params" */
        acl__shape out;
        const char *message; /* the expected error */
    } cases[] = {
        {"Convolution 0=16 1=3", {3, 15, 11, 1, 16}, NULL},
        {"Convolution 0=16 1=3 4=1", {3, 17, 13, 1, 16}, NULL},
        {"Convolution 0=16 1=3 4=1 3=2", {3, 9, 7, 1, 16}, NULL},
        {"Convolution 0=16 1=3 11=5 2=2 12=1 4=0 15=2 14=1 16=0", {3, 15, 10, 1, 16}, NULL},
        {"Convolution 0=16 1=3 3=2 4=-233", {3, 9, 7, 1, 16}, NULL},
        {"Convolution 0=16 1=3 3=3 4=-234", {3, 6, 5, 1, 16}, NULL},
        {"Convolution 0=16 1=18", {0}, "the kernel is larger than its input of 17 x 13"},
        {"Convolution 0=16 1=0", {0}, "must be at least 1"},
        {"Convolution 0=16 1=3 3=0", {0}, "must be at least 1"},
        {"Convolution 0=16 1=3 2=0", {0}, "must be at least 1"},
        {"Convolution 0=16 1=3 4=-1", {0}, "a padding below zero"},
        {"Convolution 0=0 1=3", {0}, "do not go together"},
        {"Convolution 0=16 1=1 4=2000000000", {0}, "more elements than can be simulated"},
        {"Convolution 0=16 1=2000000000 2=2000000000 4=-233", {0}, "more elements than can be simulated"},
        {"ConvolutionDepthWise 0=8 1=3 7=8", {3, 15, 11, 1, 8}, NULL},
        {"ConvolutionDepthWise 0=8 1=3 7=3", {0}, "do not go together"},
        {"Pooling 1=3 2=2", {3, 8, 6, 1, 8}, NULL},
        {"Pooling 1=2 2=2", {3, 9, 7, 1, 8}, NULL},
        {"Pooling 1=2 2=2 5=1", {3, 8, 6, 1, 8}, NULL},
        {"Pooling 1=2 2=2 5=2", {3, 9, 7, 1, 8}, NULL},
        {"Pooling 1=3 11=5 2=1 12=2 3=1 13=0 14=0 15=1", {3, 16, 6, 1, 8}, NULL},
        {"Pooling 4=1", {1, 8, 1, 1, 1}, NULL},
        {"Pooling 7=1 8=5 18=-233", {3, 5, 13, 1, 8}, NULL},
        {"Pooling 1=20 2=1", {0}, "the kernel is larger"},
        {"Pooling 1=3 2=0", {0}, "at least 1"},
        {"InnerProduct 0=10", {1, 10, 1, 1, 1}, NULL},
        {"InnerProduct 0=-4", {0}, "a dimension of -4"},
        {"ReLU", {3, 17, 13, 1, 8}, NULL},
        {"Interp 0=1 1=2.0 2=0.5", {3, 8, 26, 1, 8}, NULL},
        {"Interp 0=1 3=5 4=6", {3, 6, 5, 1, 8}, NULL},
        {"Interp 0=1 1=1e30 2=1", {0}, "a size of"},
        {"Interp 0=1 1=0.01 2=1", {0}, "a size of"},
        {"Reshape 0=-1", {1, 1768, 1, 1, 1}, NULL},
        {"Reshape 0=34 1=-1", {2, 34, 52, 1, 1}, NULL},
        {"Reshape 0=17 1=-1 2=2", {3, 17, 52, 1, 2}, NULL},
        {"Reshape 0=17 1=13 2=2 11=4", {4, 17, 13, 4, 2}, NULL},
        {"Reshape 0=0 1=0 2=0", {3, 17, 13, 1, 8}, NULL},
        {"Reshape 0=7 1=-1", {0}, "1768 elements do not fill"},
        {"Reshape 0=-1 1=-1", {0}, "two dimensions are left open"},
        {"Reshape 0=2000000000 1=2000000000 2=2000000000", {0}, "1768 elements do not fill"},
        {"Flatten", {1, 1768, 1, 1, 1}, NULL},
        {"ExpandDims -23303=1,1", {4, 17, 13, 1, 8}, NULL},
        {"ExpandDims -23303=1,0", {4, 17, 13, 8, 1}, NULL},
        {"ExpandDims -23303=1,-1", {4, 1, 17, 13, 8}, NULL},
        {"ExpandDims -23303=2,0,1", {0}, "cannot add 2 axes to rank 3"},
        {"ExpandDims -23303=1,4", {0}, "there is no axis 4"},
        {"Tile -23302=3,2,1,3", {3, 51, 13, 1, 16}, NULL},
        {"Tile -23302=1,2", {3, 34, 13, 1, 8}, NULL},
        {"Tile 0=1 1=2", {3, 17, 26, 1, 8}, NULL},
        {"Tile -23302=4,1,1,1,1", {0}, "4 repetitions for rank 3"},
        {"Tile -23302=1,0", {0}, "a repetition of 0"},
        {"Tile -23302=3,2000000000,2000000000,2000000000", {0}, "more elements than can be simulated"},
        {"Permute 0=0", {3, 17, 13, 1, 8}, NULL},
        {"Permute 0=1", {3, 13, 17, 1, 8}, NULL},
        {"Permute 0=2", {3, 17, 8, 1, 13}, NULL},
        {"Permute 0=3", {3, 8, 17, 1, 13}, NULL},
        {"Permute 0=4", {3, 13, 8, 1, 17}, NULL},
        {"Permute 0=5", {3, 8, 13, 1, 17}, NULL},
        {"Permute 0=6", {0}, "order 6 at rank 3 is not simulated"},
        {"Gemm 5=1 8=4", {0}, "is of rank 3, not a matrix"},
        {"Yolov3DetectionOutput 1=3", {2, 6, 663, 1, 1}, NULL},
        {"Yolov3DetectionOutput 1=9", {0}, "9 boxes a cell from 8 channels"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256], type[64];
        const char *blank = strchr(cases[i].layer, ' ');
        size_t length = blank != NULL ? (size_t)(blank - cases[i].layer) : strlen(cases[i].layer);
        snprintf(type, sizeof(type), "%.*s", (int)length, cases[i].layer);
        snprintf(text, sizeof(text), NET("2", "2", "Input in 0 1 a 0=17 1=13 2=8\n%s l 1 1 a b%s\n"), type,
                 cases[i].layer + length);
        acl__network *n = parse(text);
        acl__shape shapes[2] = {{0}};
        acl__model_error error = {""};
        weir_status status = acl__network_shapes(n, NULL, shapes, &error);
        if (cases[i].message == NULL) {
            if (status != WEIR_OK || !acl__shape_equal(&shapes[1], &cases[i].out)) {
                fail_msg("%s: rank %u, %llu x %llu x %llu x %llu %s", cases[i].layer, shapes[1].rank,
                         (unsigned long long)shapes[1].w, (unsigned long long)shapes[1].h,
                         (unsigned long long)shapes[1].d, (unsigned long long)shapes[1].c, error.text);
            }
        } else if (status != WEIR_ERR_INVALID || strstr(error.text, cases[i].message) == NULL ||
                   strncmp(error.text, "net:4: layer \"l\" (", 18) != 0) {
            fail_msg("%s: status %d, \"%s\"; expected \"%s\"", cases[i].layer, (int)status, error.text,
                     cases[i].message);
        }
        acl__network_free(n);
    }
}

TEST(several_inputs_are_joined)
{
    acl__network *n = parse(NET("7", "8",
                                "Input i 0 2 a b\nConcat c 2 1 a b c\nConcat d 2 1 a b d 0=-1\n"
                                "Eltwise e 2 1 a b e\nReLU r 1 1 c f\nReLU s 1 1 d g\nReLU t 1 1 e h\n"));
    acl__shape inputs[2] = {{3, 4, 5, 1, 6}, {3, 4, 5, 1, 2}}, shapes[8];
    acl__model_error error;
    /* Inputs that are joined along the width must have equal channels. */
    assert_int_equal(acl__network_shapes(n, inputs, shapes, &error), WEIR_ERR_INVALID);
    assert_non_null(
        strstr(error.text, "net:5: layer \"d\" (Concat): input 1 differs from input 0 in axis 0 (2 and 6)"));
    inputs[1].c = 6;
    inputs[1].w = 9;
    assert_int_equal(acl__network_shapes(n, inputs, shapes, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.text, "layer \"c\" (Concat): input 1 differs from input 0 in axis 2 (9 and 4)"));
    inputs[1].w = 4;
    assert_int_equal(acl__network_shapes(n, inputs, shapes, &error), WEIR_OK);
    assert_true(acl__shape_equal(&shapes[2], &(acl__shape){3, 4, 5, 1, 12}));
    assert_true(acl__shape_equal(&shapes[3], &(acl__shape){3, 8, 5, 1, 6}));
    inputs[0].w = 0;
    assert_int_equal(acl__network_shapes(n, inputs, shapes, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.text, "output 0 would have a dimension of 0"));
    inputs[0].rank = 0; /* the file must give the shape, but does not */
    assert_int_equal(acl__network_shapes(n, inputs, shapes, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.text, "the file gives no size for input \"a\""));
    acl__network_free(n);
}

TEST(bytes_follow_the_layout)
{
    assert_int_equal(acl__shape_bytes(&(acl__shape){1, 1000, 1, 1, 1}), 4004);
    assert_int_equal(acl__shape_bytes(&(acl__shape){2, 3, 5, 1, 1}), 64);
    assert_int_equal(acl__shape_bytes(&(acl__shape){3, 3, 5, 1, 7}), 64 * 7 + 4);
    assert_int_equal(acl__shape_bytes(&(acl__shape){3, 640, 448, 1, 3}), 3440644);
    assert_int_equal(acl__shape_bytes(&(acl__shape){4, 3, 5, 2, 7}), 128 * 7 + 4);
}

/* --- plans --- */

/* Runs a plan. Each storage holds one number, that of the blob with its contents. Checks that each layer finds its
 * inputs, and that memory is freed after its last reader and not before. */
static void check_plan(const acl__network *n)
{
    acl__plan *plan = acl__plan_create(n);
    assert_non_null(plan);
    /* A view has the contents of its source. */
    uint32_t *contents = calloc(n->blob_count, sizeof(*contents)), *holds = calloc(n->blob_count, sizeof(*holds));
    bool *alive = calloc(n->blob_count, sizeof(*alive));
    assert_true(contents != NULL && holds != NULL && alive != NULL);
    uint32_t ended = 0, internal = 0;
    for (uint32_t l = 0; l < n->layer_count; l++) {
        const acl__layer *layer = &n->layers[l];
        for (uint32_t i = 0; i < layer->bottom_count; i++) {
            uint32_t blob = acl__layer_bottom(n, layer, i), s = plan->storage_of[blob];
            assert_true(alive[s]);
            assert_int_equal(holds[s], contents[blob]);
        }
        for (uint32_t i = 0; i < layer->top_count; i++) {
            uint32_t blob = acl__layer_top(n, layer, i), s = plan->storage_of[blob];
            bool view = acl__layer_class_of(layer->kind) == ACL__CLASS_VIEW;
            contents[blob] = view ? contents[acl__layer_bottom(n, layer, 0)] : blob + 1;
            if (!alive[s]) {
                assert_int_equal(plan->storages[s].born, l);
                assert_true(!view);
                alive[s] = true;
                internal += plan->storages[s].kind == ACL__STORAGE_INTERNAL;
            }
            assert_true(view || plan->storages[s].kind != ACL__STORAGE_INPUT || layer->kind == ACL__LAYER_INPUT);
            holds[s] = contents[blob];
        }
        for (uint32_t i = plan->gone_first[l]; i < plan->gone_first[l + 1]; i++) {
            assert_true(alive[plan->gone[i]]);
            assert_int_equal(plan->storages[plan->gone[i]].last, l);
            alive[plan->gone[i]] = false;
            ended++;
        }
    }
    assert_int_equal(ended, internal);
    for (uint32_t i = 0; i < n->output_count; i++) { /* outputs keep their contents */
        uint32_t s = plan->storage_of[n->outputs[i]];
        assert_true(alive[s] && plan->storages[s].kind != ACL__STORAGE_INTERNAL);
        assert_int_equal(holds[s], contents[n->outputs[i]]);
    }
    free(contents);
    free(holds);
    free(alive);
    acl__plan_free(plan);
}

TEST(plans_lose_nothing)
{
    static const char *const nets[] = {
        /* A layer that is the only reader of its input writes over it. A layer behind a split writes to new memory. */
        NET("5", "6",
            "Input i 0 1 a\nReLU r 1 1 a b\nSplit s 1 2 b c d\nReLU t 1 1 c e\nEltwise u 2 1 e d "
            "f\n"),
        /* One blob is both inputs of a layer. Another blob is two outputs of the network. */
        NET("4", "5", "Input i 0 1 a\nReLU r 1 1 a b\nBinaryOp m 2 1 b b c\nSplit s 1 2 c d e\n"),
        /* An output that is a view of the input. */
        NET("2", "2", "Input i 0 1 a\nFlatten f 1 1 a b\n"),
        /* A view of one output of a split. A layer writes over the view while the other output is still needed. */
        NET("6", "7",
            "Input i 0 1 a\nPooling p 1 1 a b 4=1\nSplit s 1 2 b c d\nNoop n 1 1 c e\nReLU r 1 1 e "
            "f\n"
            "Concat k 2 1 d f g\n"),
    };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        acl__network *n = parse(nets[i]);
        check_plan(n);
        acl__network_free(n);
    }
}

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % limit;
}

TEST(plans_of_random_networks)
{
    static const char *const kinds[] = {"ReLU", "Split", "Noop", "Convolution", "Eltwise", "Dropout", "Reshape"};
    for (uint64_t round = 1; round <= 300; round++) {
        uint64_t seed = round;
        char text[8192];
        uint32_t layers = 2 + random_below(&seed, 40), blobs = 1;
        char body[7000] = "Input i 0 1 b0\n";
        size_t used = strlen(body);
        for (uint32_t l = 1; l < layers; l++) {
            const char *kind = kinds[random_below(&seed, 7)];
            uint32_t bottoms = strcmp(kind, "Eltwise") == 0 ? 2 + random_below(&seed, 2) : 1;
            uint32_t tops = strcmp(kind, "Split") == 0 ? 1 + random_below(&seed, 3) : 1;
            used += (size_t)snprintf(body + used, sizeof(body) - used, "%s l%u %u %u", kind, l, bottoms, tops);
            for (uint32_t i = 0; i < bottoms; i++) {
                used += (size_t)snprintf(body + used, sizeof(body) - used, " b%u", random_below(&seed, blobs));
            }
            for (uint32_t i = 0; i < tops; i++) {
                used += (size_t)snprintf(body + used, sizeof(body) - used, " b%u", blobs++);
            }
            used += (size_t)snprintf(body + used, sizeof(body) - used, "\n");
        }
        snprintf(text, sizeof(text), HEAD "%u %u\n%s", layers, blobs, body);
        acl__network *n = parse(text);
        check_plan(n);
        acl__network_free(n);
    }
}

/* --- costs, and the networks of the project --- */

static void totals(const acl__network *n, const acl__shape *inputs, acl__cost *sum)
{
    acl__shape *shapes = shapes_of(n, inputs);
    *sum = (acl__cost){0, 0, 0, 0, 0};
    for (uint32_t l = 0; l < n->layer_count; l++) {
        acl__cost cost = acl__layer_cost(n, &n->layers[l], shapes);
        sum->macs += cost.macs;
        sum->vector_ops += cost.vector_ops;
        sum->bytes += cost.bytes;
        sum->parameters += cost.parameters;
        sum->duration_ns += cost.duration_ns;
    }
    free(shapes);
}

TEST(resnet50_is_resnet50)
{
    acl__network *n = read_own("resnet50.param");
    acl__cost sum, larger;
    check_plan(n);
    totals(n, NULL, &sum);
    /* Published: 25,557,032 parameters, of which 26,560 scales of batch normalisations are folded away here;
     * 4.1 G multiply-adds. */
    assert_int_equal(sum.parameters, 25557032 - 26560);
    assert_in_range(sum.macs, 4050000000, 4150000000);
    assert_int_equal(n->output_count, 1);
    acl__shape *shapes = shapes_of(n, NULL);
    assert_true(acl__shape_equal(&shapes[n->outputs[0]], &(acl__shape){1, 1000, 1, 1, 1}));
    free(shapes);
    totals(n, &(acl__shape){3, 448, 448, 1, 3}, &larger);
    assert_in_range(larger.macs, sum.macs * 39 / 10, sum.macs * 4);
    assert_true(larger.duration_ns > sum.duration_ns);
    acl__network_free(n);
}

TEST(mobilenet_v2_is_mobilenet_v2)
{
    acl__network *n = read_own("mobilenet_v2.param");
    acl__cost sum;
    check_plan(n);
    totals(n, NULL, &sum);
    /* Published: 3,504,872 parameters, of which 17,056 scales are folded away here; 300 M multiply-adds. */
    assert_int_equal(sum.parameters, 3504872 - 17056);
    assert_in_range(sum.macs, 295000000, 320000000);
    acl__network_free(n);
}

TEST(the_roofline_is_the_longest_side)
{
    assert_int_equal(acl__roofline_ns(0, 0, 0), 5000);
    assert_int_equal(acl__roofline_ns(0, 0, 12000000), 10000);
    assert_int_equal(acl__roofline_ns(1280000000, 0, 12000000), 10000);
    assert_int_equal(acl__roofline_ns(2560000000, 0, 12000000), 20000);
    assert_int_equal(acl__roofline_ns(0, 8192 * 7000, 12000), 7000);
    assert_true(acl__roofline_ns(UINT64_MAX, UINT64_MAX, UINT64_MAX) > 0);
}

TEST(costs_count_what_a_layer_does)
{
    acl__network *n = parse(NET("8", "9",
                                "Input i 0 1 a 0=32 1=32 2=16\nConvolution c 1 1 a b 0=8 1=3 5=1 6=1152\n"
                                "ConvolutionDepthWise d 1 1 b c 0=8 1=3 4=1 6=72 7=8\nSplit s 1 2 c d e\n"
                                "Pooling p 1 1 d f 1=2 2=2\nReLU r 1 1 e g\nInnerProduct q 1 1 f h 0=10 1=1 2=18000\n"
                                "Gemm m 1 1 h j 2=0 3=1 5=1 8=5 9=10\n"));
    acl__shape *shapes = shapes_of(n, NULL);
    acl__cost cost[8];
    for (uint32_t l = 0; l < 8; l++) {
        cost[l] = acl__layer_cost(n, &n->layers[l], shapes);
    }
    assert_int_equal(cost[0].duration_ns, 0);
    assert_int_equal(cost[1].macs, 30 * 30 * 8 * 9 * 16);
    assert_int_equal(cost[1].parameters, 1152 + 8);
    assert_int_equal(cost[1].bytes, 4 * 1160 + (32 * 32 * 16 * 4 + 4) + (30 * 30 * 8 * 4 + 4));
    assert_int_equal(cost[2].macs, 30 * 30 * 8 * 9);
    assert_int_equal(cost[2].parameters, 72);
    assert_int_equal(cost[3].duration_ns, 0);
    assert_int_equal(cost[4].vector_ops, 15 * 15 * 8 * 4);
    assert_int_equal(cost[5].vector_ops, 30 * 30 * 8);
    assert_int_equal(cost[6].macs, 18000);
    assert_int_equal(cost[6].parameters, 18010);
    assert_int_equal(cost[7].macs, 5 * 10);
    assert_int_equal(cost[7].parameters, 50);
    free(shapes);
    acl__network_free(n);
}
