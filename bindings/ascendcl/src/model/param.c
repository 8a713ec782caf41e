/* param.c: reads a network in ncnn's text form.
 *
 *   7767517                      the magic number
 *   LAYERS BLOBS                 number of lines and number of blobs that follow
 *   TYPE NAME BOTTOMS TOPS bottom... top... key=value...
 *
 * A key from 0 up has one number; a key -23300 - id has an array: its length, then the values, with commas.
 *
 * Guarantee: linear time in the length of the text (blobs are found by hashing), and memory of at most a small multiple
 * of it. Any input gives either a network that keeps the promises of network.h, or one sentence that names file, line
 * and cause.
 */
#include "network.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "7767517"
#define ARRAY_KEY (-23300)
#define HINT_ID 30

struct word {
    const char *at;
    size_t size;
};

struct reader {
    const char *name;
    const char *at, *end;
    uint32_t line; /* current line, from 1 */
    acl__network *network;
    acl__model_error *error;
    weir_status status;
    /* Capacities of the network's arrays. */
    uint32_t link_room, param_room, value_room;
    size_t text_used, text_room;
    uint32_t layer_goal, blob_goal;
    uint32_t *slots; /* hash table of blobs by name: the blob's number plus 1; 0: empty */
    uint32_t slot_mask;
};

/* Records an error, unless there is one already. Always returns false. */
__attribute__((format(printf, 3, 4))) static bool fail(struct reader *r, weir_status status, const char *format, ...)
{
    WEIR_ASSERT(status != WEIR_OK);
    if (r->status != WEIR_OK) {
        return false;
    }
    r->status = status;
    int used = snprintf(r->error->text, sizeof(r->error->text), "%s:%u: ", r->name, (unsigned)r->line);
    if (used < 0 || (size_t)used >= sizeof(r->error->text)) {
        return false;
    }
    va_list list;
    va_start(list, format);
    vsnprintf(r->error->text + used, sizeof(r->error->text) - (size_t)used, format, list);
    va_end(list);
    return false;
}

static bool no_memory(struct reader *r)
{
    return fail(r, WEIR_ERR_NO_MEMORY, "out of host memory");
}

/* Arguments to print a word with %.*s, cut to 60 characters. */
#define SHOWN(w) (int)((w).size > 60 ? 60 : (w).size), (w).at

/* --- words and numbers --- */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads the next word of this line. Returns false at the end of the line. */
static bool next_word(struct reader *r, struct word *out)
{
    WEIR_ASSERT(r->at <= r->end);
    while (r->at < r->end && blank(*r->at)) {
        r->at++;
    }
    const char *start = r->at;
    while (r->at < r->end && !blank(*r->at) && *r->at != '\n') {
        r->at++;
    }
    *out = (struct word){start, (size_t)(r->at - start)};
    return out->size > 0;
}

/* Goes to the next line that is not empty. Returns false at the end of the file. */
static bool next_line(struct reader *r)
{
    WEIR_ASSERT(r->at <= r->end);
    for (;;) {
        while (r->at < r->end && *r->at != '\n') {
            r->at++;
        }
        if (r->at == r->end) {
            return false;
        }
        r->at++;
        r->line++;
        const char *look = r->at;
        while (look < r->end && blank(*look)) {
            look++;
        }
        if (look < r->end && *look != '\n') {
            return true;
        }
    }
}

static bool digits(const char **at, const char *end, double *value, int *count)
{
    WEIR_ASSERT(*at <= end);
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9') {
        *value = *value * 10 + (**at - '0');
        (*at)++;
    }
    *count = (int)(*at - start);
    return *count > 0;
}

/* Parses a decimal number that fills the whole text, in any locale: [-+] digits [. digits] [e [-+] digits]. */
static bool number(const char *at, const char *end, double *out)
{
    WEIR_ASSERT(at <= end);
    double sign = 1, value = 0;
    int whole = 0, part = 0, count;
    if (end - at > 64) {
        return false;
    }
    if (at < end && (*at == '-' || *at == '+')) {
        sign = *at++ == '-' ? -1 : 1;
    }
    digits(&at, end, &value, &whole);
    if (at < end && *at == '.') {
        at++;
        digits(&at, end, &value, &part);
    }
    if (whole + part == 0) {
        return false;
    }
    int exponent = -part;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        int direction = 1;
        double power = 0;
        if (at < end && (*at == '-' || *at == '+')) {
            direction = *at++ == '-' ? -1 : 1;
        }
        if (!digits(&at, end, &power, &count) || power > 400) {
            return false;
        }
        exponent += direction * (int)power;
    }
    value *= sign * pow(10, exponent);
    *out = value;
    return at == end && isfinite(value);
}

static bool count_word(struct reader *r, const char *what, uint32_t limit, uint32_t *out)
{
    struct word w;
    double value;
    if (!next_word(r, &w)) {
        return fail(r, WEIR_ERR_INVALID, "the line ends where %s should stand", what);
    }
    if (!number(w.at, w.at + w.size, &value) || value < 0 || value != floor(value)) {
        return fail(r, WEIR_ERR_INVALID, "%s: \"%.*s\" is no count", what, SHOWN(w));
    }
    if (value > limit) {
        return fail(r, WEIR_ERR_LIMIT, "%s: %.*s is more than the limit of %u", what, SHOWN(w), (unsigned)limit);
    }
    *out = (uint32_t)value;
    return true;
}

/* --- growing arrays --- */

/* Makes room for one more element of `size` bytes in *array, which holds `used` of *room. */
static bool grow(struct reader *r, void **array, uint32_t used, uint32_t *room, size_t size)
{
    WEIR_ASSERT(used <= *room);
    if (used < *room) {
        return true;
    }
    uint32_t larger = *room < 64 ? 64 : *room * 2;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) {
        return no_memory(r);
    }
    *array = moved;
    *room = larger;
    return true;
}

/* Copies a name. All names lie in one buffer as large as the file, which no set of names can exceed. */
static const char *keep(struct reader *r, struct word w)
{
    WEIR_ASSERT(r->text_used + w.size <= r->text_room);
    char *start = r->network->text + r->text_used;
    memcpy(start, w.at, w.size);
    start[w.size] = '\0';
    r->text_used += w.size + 1;
    return start;
}

/* --- blobs by name --- */

static uint32_t *slot_of(struct reader *r, struct word w)
{
    WEIR_ASSERT((r->slot_mask & (r->slot_mask + 1)) == 0);
    WEIR_ASSERT(r->network->blob_count <= r->slot_mask);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < w.size; i++) {
        hash = (hash ^ (unsigned char)w.at[i]) * 16777619u;
    }
    for (uint32_t i = hash & r->slot_mask;; i = (i + 1) & r->slot_mask) {
        uint32_t blob = r->slots[i];
        if (blob == 0) {
            return &r->slots[i];
        }
        const char *name = r->network->blobs[blob - 1].name;
        if (strncmp(name, w.at, w.size) == 0 && name[w.size] == '\0') {
            return &r->slots[i];
        }
    }
}

static bool name_word(struct reader *r, const char *what, struct word *w)
{
    if (!next_word(r, w)) {
        return fail(r, WEIR_ERR_INVALID, "the line ends where %s should stand", what);
    }
    if (w->size > ACL__MAX_NAME) {
        return fail(r, WEIR_ERR_LIMIT, "%s is longer than %u characters: \"%.*s...\"", what, ACL__MAX_NAME, SHOWN(*w));
    }
    for (size_t i = 0; i < w->size; i++) {
        if ((unsigned char)w->at[i] < ' ' || w->at[i] == 0x7f) {
            return fail(r, WEIR_ERR_INVALID, "%s has a control character in it", what);
        }
    }
    return true;
}

static bool link_blob(struct reader *r, uint32_t blob)
{
    WEIR_ASSERT(blob < r->network->blob_count);
    acl__network *n = r->network;
    if (!grow(r, (void **)&n->links, n->link_count, &r->link_room, sizeof(*n->links))) {
        return false;
    }
    n->links[n->link_count++] = blob;
    return true;
}

static bool read_bottom(struct reader *r, acl__layer *layer)
{
    struct word w;
    if (!name_word(r, "an input blob", &w)) {
        return false;
    }
    uint32_t blob = *slot_of(r, w);
    if (blob == 0) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\" uses the blob \"%.*s\", which no layer before it makes",
                    layer->name, SHOWN(w));
    }
    r->network->blobs[blob - 1].consumers++;
    return link_blob(r, blob - 1);
}

static bool read_top(struct reader *r, acl__layer *layer)
{
    struct word w;
    acl__network *n = r->network;
    if (!name_word(r, "an output blob", &w)) {
        return false;
    }
    uint32_t *slot = slot_of(r, w);
    if (*slot != 0) {
        return fail(r, WEIR_ERR_INVALID, "the blob \"%.*s\" is made a second time", SHOWN(w));
    }
    if (n->blob_count == r->blob_goal) {
        return fail(r, WEIR_ERR_INVALID, "more than the %u blobs that the head announces", (unsigned)r->blob_goal);
    }
    n->blobs[n->blob_count] = (acl__blob){.name = keep(r, w), .producer = (uint32_t)(layer - n->layers)};
    *slot = ++n->blob_count;
    return link_blob(r, n->blob_count - 1);
}

/* --- parameters --- */

static bool add_value(struct reader *r, double value)
{
    acl__network *n = r->network;
    if (!grow(r, (void **)&n->values, n->value_count, &r->value_room, sizeof(*n->values))) {
        return false;
    }
    n->values[n->value_count++] = value;
    return true;
}

static bool read_values(struct reader *r, const acl__layer *layer, acl__param *param, const char *at, const char *end)
{
    WEIR_ASSERT(at <= end && param->count == 0);
    double value;
    uint32_t promised = 1;
    if (param->array) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        if (!number(at, stop, &value) || value < 0 || value > ACL__MAX_VALUES || value != floor(value)) {
            return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", array %d: its length is no number from 0 to %u",
                        layer->name, (int)param->id, ACL__MAX_VALUES);
        }
        promised = (uint32_t)value;
        at = comma != NULL ? comma + 1 : end;
        if (comma != NULL && at == end) {
            return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", array %d ends in a comma", layer->name, (int)param->id);
        }
    }
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        struct word w = {at, (size_t)(stop - at)};
        if (*at == '"') {
            return fail(r, WEIR_ERR_UNSUPPORTED, "layer \"%.60s\", parameter %d: a text as value is not supported",
                        layer->name, (int)param->id);
        }
        if (!number(at, stop, &value)) {
            return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", parameter %d: \"%.*s\" is no number", layer->name,
                        (int)param->id, SHOWN(w));
        }
        if (param->count == promised) {
            return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", parameter %d has more than the %u values announced",
                        layer->name, (int)param->id, (unsigned)promised);
        }
        if (!add_value(r, value)) {
            return false;
        }
        param->count++;
        at = comma != NULL ? comma + 1 : end;
        if (comma != NULL && at == end) {
            return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", parameter %d ends in a comma", layer->name,
                        (int)param->id);
        }
    }
    if (param->count != promised) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\", parameter %d: %u values where %u should stand", layer->name,
                    (int)param->id, (unsigned)param->count, (unsigned)promised);
    }
    return true;
}

static const acl__param *find_param(const acl__network *network, const acl__layer *layer, int32_t id)
{
    WEIR_ASSERT(layer->param + layer->param_count <= network->param_count);
    for (uint32_t i = 0; i < layer->param_count; i++) {
        if (network->params[layer->param + i].id == id) {
            return &network->params[layer->param + i];
        }
    }
    return NULL;
}

static bool read_param(struct reader *r, acl__layer *layer, struct word w)
{
    acl__network *n = r->network;
    const char *equals = memchr(w.at, '=', w.size);
    double key;
    if (equals == NULL || !number(w.at, equals, &key) || key != floor(key)) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": \"%.*s\" is no parameter (number=value)", layer->name,
                    SHOWN(w));
    }
    bool array = key <= ARRAY_KEY;
    double id = array ? ARRAY_KEY - key : key;
    if (id < 0 || id > ACL__MAX_PARAM_ID) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": there is no parameter %.*s", layer->name,
                    (int)(equals - w.at), w.at);
    }
    if (find_param(n, layer, (int32_t)id) != NULL) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\" has parameter %d twice", layer->name, (int)id);
    }
    if (!grow(r, (void **)&n->params, n->param_count, &r->param_room, sizeof(*n->params))) {
        return false;
    }
    acl__param param = {.id = (int32_t)id, .array = array, .first = n->value_count};
    if (!read_values(r, layer, &param, equals + 1, w.at + w.size)) {
        return false;
    }
    n->params[n->param_count++] = param;
    layer->param_count++;
    return true;
}

/* Reads parameter 30: rank, w, h, c of each output. It is only kept for comparison; shapes are computed from the
 * layers. */
static bool read_hints(struct reader *r, const acl__layer *layer)
{
    acl__network *n = r->network;
    uint32_t count;
    const double *v = acl__layer_array(n, layer, HINT_ID, &count);
    if (v == NULL) {
        return true;
    }
    if (count != 4 * layer->top_count) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": %u numbers as shapes of %u outputs", layer->name,
                    (unsigned)count, (unsigned)layer->top_count);
    }
    for (uint32_t i = 0; i < layer->top_count; i++, v += 4) {
        for (int k = 0; k < 4; k++) {
            if (v[k] < 0 || v[k] > (double)ACL__MAX_DIMENSION || v[k] != floor(v[k])) {
                return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": the shape of output %u has a number out of range",
                            layer->name, (unsigned)i);
            }
        }
        if (v[0] >= 1 && v[0] <= 3 && v[1] * v[2] * v[3] > 0) {
            n->blobs[acl__layer_top(n, layer, i)].hint =
                (acl__shape){(uint32_t)v[0], (uint64_t)v[1], (uint64_t)v[2], 1, (uint64_t)v[3]};
        }
    }
    return true;
}

/* --- layers --- */

static bool kind_of(struct word w, acl__layer_kind *kind)
{
    for (int i = 0; i < ACL__LAYER_KINDS; i++) {
        const char *name = acl__layer_kind_name((acl__layer_kind)i);
        if (strlen(name) == w.size && memcmp(name, w.at, w.size) == 0) {
            *kind = (acl__layer_kind)i;
            return true;
        }
    }
    return false;
}

/* Checks the numbers of inputs and outputs of a layer. */
static bool check_degree(struct reader *r, const acl__layer *layer)
{
    uint32_t least = 1, most = 1, tops = 1;
    switch (layer->kind) {
    case ACL__LAYER_INPUT:
        least = most = 0, tops = UINT32_MAX;
        break;
    case ACL__LAYER_SPLIT:
        tops = UINT32_MAX;
        break;
    case ACL__LAYER_BINARY_OP:
        most = 2;
        break;
    case ACL__LAYER_ELTWISE:
        least = 2, most = UINT32_MAX;
        break;
    case ACL__LAYER_CONCAT:
    case ACL__LAYER_YOLO_DETECTION:
        most = UINT32_MAX;
        break;
    case ACL__LAYER_GEMM:
        most = 3;
        break;
    case ACL__LAYER_ROTARY_EMBED:
        least = most = 3;
        break;
    case ACL__LAYER_SDPA:
        least = 3, most = 6, tops = 3;
        break;
    default:
        break;
    }
    if (layer->bottom_count < least || layer->bottom_count > most) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": %s cannot have %u inputs", layer->name,
                    acl__layer_kind_name(layer->kind), (unsigned)layer->bottom_count);
    }
    if (layer->top_count == 0 || layer->top_count > tops) {
        return fail(r, WEIR_ERR_INVALID, "layer \"%.60s\": %s cannot have %u outputs", layer->name,
                    acl__layer_kind_name(layer->kind), (unsigned)layer->top_count);
    }
    return true;
}

static bool read_layer(struct reader *r)
{
    WEIR_ASSERT(r->network->layer_count <= r->layer_goal);
    acl__network *n = r->network;
    struct word type, name, w;
    if (n->layer_count == r->layer_goal) {
        return fail(r, WEIR_ERR_INVALID, "more than the %u layers that the head announces", (unsigned)r->layer_goal);
    }
    if (!name_word(r, "the type of a layer", &type) || !name_word(r, "the name of a layer", &name)) {
        return false;
    }
    acl__layer *layer = &n->layers[n->layer_count];
    *layer = (acl__layer){.name = keep(r, name), .line = r->line};
    if (!kind_of(type, &layer->kind)) {
        return fail(r, WEIR_ERR_UNSUPPORTED, "layer \"%.60s\": the type \"%.*s\" is not simulated", layer->name,
                    SHOWN(type));
    }
    if (!count_word(r, "the number of inputs", ACL__MAX_BLOBS, &layer->bottom_count) ||
        !count_word(r, "the number of outputs", ACL__MAX_BLOBS, &layer->top_count) || !check_degree(r, layer)) {
        return false;
    }
    layer->bottom = n->link_count;
    for (uint32_t i = 0; i < layer->bottom_count; i++) {
        if (!read_bottom(r, layer)) {
            return false;
        }
    }
    layer->top = n->link_count;
    for (uint32_t i = 0; i < layer->top_count; i++) {
        if (!read_top(r, layer)) {
            return false;
        }
    }
    layer->param = n->param_count;
    while (next_word(r, &w)) {
        if (!read_param(r, layer, w)) {
            return false;
        }
    }
    n->layer_count++;
    return read_hints(r, layer);
}

/* --- the whole file --- */

static bool read_head(struct reader *r)
{
    struct word w;
    acl__network *n = r->network;
    if (!next_word(r, &w) && !(next_line(r) && next_word(r, &w))) {
        return fail(r, WEIR_ERR_INVALID, "the file is empty");
    }
    if (w.size != strlen(MAGIC) || memcmp(w.at, MAGIC, w.size) != 0) {
        return fail(r, WEIR_ERR_INVALID, "the first line is not " MAGIC ": no network in ncnn's text form");
    }
    if (next_word(r, &w)) {
        return fail(r, WEIR_ERR_INVALID, "\"%.*s\" stands behind the magic number", SHOWN(w));
    }
    if (!next_line(r)) {
        return fail(r, WEIR_ERR_INVALID, "the file ends behind the magic number");
    }
    if (!count_word(r, "the number of layers", ACL__MAX_LAYERS, &r->layer_goal) ||
        !count_word(r, "the number of blobs", ACL__MAX_BLOBS, &r->blob_goal)) {
        return false;
    }
    if (next_word(r, &w)) {
        return fail(r, WEIR_ERR_INVALID, "\"%.*s\" stands behind the two counts", SHOWN(w));
    }
    if (r->layer_goal == 0 || r->blob_goal == 0) {
        return fail(r, WEIR_ERR_INVALID, "a network without layers or without blobs");
    }
    /* A layer takes at least eight characters and a blob two. Check the counts before allocating for them. */
    if (r->layer_goal > r->text_room / 8 || r->blob_goal > r->text_room / 2) {
        return fail(r, WEIR_ERR_INVALID, "%u layers and %u blobs are more than a text of this length holds",
                    (unsigned)r->layer_goal, (unsigned)r->blob_goal);
    }
    r->slot_mask = 15;
    while (r->slot_mask < r->blob_goal * 2) {
        r->slot_mask = r->slot_mask * 2 + 1;
    }
    n->layers = calloc(r->layer_goal, sizeof(*n->layers));
    n->blobs = calloc(r->blob_goal, sizeof(*n->blobs));
    r->slots = calloc((size_t)r->slot_mask + 1, sizeof(*r->slots));
    return (n->layers != NULL && n->blobs != NULL && r->slots != NULL) || no_memory(r);
}

/* Finds the inputs and outputs of the network. */
static bool find_ends(struct reader *r)
{
    WEIR_ASSERT(r->network->inputs == NULL && r->network->outputs == NULL);
    acl__network *n = r->network;
    n->inputs = calloc(n->blob_count, sizeof(*n->inputs));
    n->outputs = calloc(n->blob_count, sizeof(*n->outputs));
    if (n->inputs == NULL || n->outputs == NULL) {
        return no_memory(r);
    }
    for (uint32_t i = 0; i < n->blob_count; i++) {
        if (n->layers[n->blobs[i].producer].kind == ACL__LAYER_INPUT) {
            n->inputs[n->input_count++] = i;
        }
        if (n->blobs[i].consumers == 0) {
            n->outputs[n->output_count++] = i;
        }
    }
    if (n->input_count == 0) {
        return fail(r, WEIR_ERR_INVALID, "the network has no Input layer");
    }
    return true;
}

static bool read_network(struct reader *r)
{
    if (!read_head(r)) {
        return false;
    }
    while (next_line(r)) {
        if (!read_layer(r)) {
            return false;
        }
    }
    acl__network *n = r->network;
    if (n->layer_count != r->layer_goal || n->blob_count != r->blob_goal) {
        return fail(r, WEIR_ERR_INVALID, "the file ends after %u layers and %u blobs; the head announces %u and %u",
                    (unsigned)n->layer_count, (unsigned)n->blob_count, (unsigned)r->layer_goal, (unsigned)r->blob_goal);
    }
    return find_ends(r);
}

weir_status acl__network_parse(const char *name, const char *text, size_t size, acl__network **out,
                               acl__model_error *error)
{
    WEIR_ASSERT(text != NULL || size == 0);
    struct reader r = {.name = name, .at = text, .end = text + size, .line = 1, .error = error, .text_room = size};
    error->text[0] = '\0';
    if (size > ACL__MAX_FILE_BYTES) {
        fail(&r, WEIR_ERR_LIMIT, "%zu bytes are more than the limit of %zu", size, ACL__MAX_FILE_BYTES);
        return r.status;
    }
    r.network = calloc(1, sizeof(*r.network));
    if (r.network == NULL) {
        no_memory(&r);
        return r.status;
    }
    /* The terminator of each name takes the place of the blank after it in the text; one more byte for the last
     * name. */
    r.network->text = malloc(size + 1);
    r.network->name = strdup(name);
    if (r.network->text == NULL || r.network->name == NULL) {
        no_memory(&r);
    } else {
        read_network(&r);
    }
    free(r.slots);
    if (r.status != WEIR_OK) {
        acl__network_free(r.network);
        return r.status;
    }
    *out = r.network;
    return WEIR_OK;
}

static weir_status read_file(const char *path, FILE *file, char **text, size_t *size, acl__model_error *error)
{
    size_t room = 65536, used = 0;
    char *bytes = malloc(room);
    while (bytes != NULL) {
        used += fread(bytes + used, 1, room - used, file);
        if (used < room || used > ACL__MAX_FILE_BYTES) {
            break;
        }
        char *larger = realloc(bytes, room * 2);
        if (larger == NULL) {
            free(bytes);
        }
        bytes = larger;
        room *= 2;
    }
    if (bytes == NULL) {
        snprintf(error->text, sizeof(error->text), "%s: out of host memory", path);
        return WEIR_ERR_NO_MEMORY;
    }
    if (ferror(file)) {
        snprintf(error->text, sizeof(error->text), "%s: %s", path, strerror(errno));
        free(bytes);
        return WEIR_ERR_DEVICE;
    }
    *text = bytes;
    *size = used;
    return WEIR_OK;
}

weir_status acl__network_read(const char *path, acl__network **out, acl__model_error *error)
{
    FILE *file = open_stream_above_standard(path, O_RDONLY, "rb");
    if (file == NULL) {
        snprintf(error->text, sizeof(error->text), "%s: %s", path, strerror(errno));
        return WEIR_ERR_DEVICE;
    }
    char *text = NULL;
    size_t size = 0;
    weir_status status = read_file(path, file, &text, &size, error);
    fclose(file);
    if (status == WEIR_OK) {
        status = acl__network_parse(path, text, size, out, error);
        free(text);
    }
    return status;
}

void acl__network_free(acl__network *network)
{
    if (network == NULL) {
        return;
    }
    free(network->layers);
    free(network->blobs);
    free(network->links);
    free(network->params);
    free(network->values);
    free(network->inputs);
    free(network->outputs);
    free(network->text);
    free(network->name);
    free(network);
}

/* --- queries of a network --- */

acl__layer_class acl__layer_class_of(acl__layer_kind kind)
{
    WEIR_ASSERT(kind < ACL__LAYER_KINDS);
    static const acl__layer_class classes[] = {
#define ACL__LAYER_CLASS(name, text, class) ACL__CLASS_##class,
        ACL__LAYER_LIST(ACL__LAYER_CLASS)
#undef ACL__LAYER_CLASS
    };
    return classes[kind];
}

const char *acl__layer_kind_name(acl__layer_kind kind)
{
    WEIR_ASSERT(kind < ACL__LAYER_KINDS);
    static const char *const names[] = {
#define ACL__LAYER_NAME(name, text, class) text,
        ACL__LAYER_LIST(ACL__LAYER_NAME)
#undef ACL__LAYER_NAME
    };
    return names[kind];
}

double acl__layer_float(const acl__network *network, const acl__layer *layer, int32_t id, double fallback)
{
    const acl__param *param = find_param(network, layer, id);
    WEIR_ASSERT(param == NULL || param->first + param->count <= network->value_count);
    return param != NULL && !param->array ? network->values[param->first] : fallback;
}

int64_t acl__layer_int(const acl__network *network, const acl__layer *layer, int32_t id, int64_t fallback)
{
    const double limit = 9007199254740992.0; /* 2^53: above it a double does not hold every integer */
    double value = acl__layer_float(network, layer, id, (double)fallback);
    return (int64_t)(value < -limit ? -limit : value > limit ? limit : value);
}

const double *acl__layer_array(const acl__network *network, const acl__layer *layer, int32_t id, uint32_t *count)
{
    const acl__param *param = find_param(network, layer, id);
    if (param == NULL || !param->array) {
        return NULL;
    }
    *count = param->count;
    WEIR_ASSERT(param->first + param->count <= network->value_count);
    /* an empty array may lie after the last value */
    return param->count > 0 ? &network->values[param->first] : network->values;
}
