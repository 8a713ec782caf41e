/* shape.c: the shape of every blob from those of the inputs, by the rules of ncnn's layers.
 *
 * Guarantee: every dimension of a resulting shape is from 1 to ACL__MAX_DIMENSION and it has at most ACL__MAX_ELEMENTS
 * elements, so nothing computed from it overflows. An impossible shape is an error that names the layer and the reason.
 * Cost: linear in the layers and their inputs.
 *
 * All arithmetic is in int64_t: parameters are clamped to 2^31 either way first and dimensions are at most 2^31, so no
 * product of two and no sum of such products exceeds 63 bits.
 */
#include "network.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Values of a padding parameter that keep the size. If the padding is odd, the extra element goes after the input
 * (upper) or before it (lower). */
#define SAME_UPPER (-233)
#define SAME_LOWER (-234)

struct place {
    const acl__network *network;
    const acl__layer *layer;
    acl__shape *shapes;
    acl__model_error *error;
};

__attribute__((format(printf, 2, 3))) static weir_status wrong(const struct place *p, const char *format, ...)
{
    int used = snprintf(p->error->text, sizeof(p->error->text), "%s:%u: layer \"%.60s\" (%s): ", p->network->name,
                        (unsigned)p->layer->line, p->layer->name, acl__layer_kind_name(p->layer->kind));
    if (used > 0 && (size_t)used < sizeof(p->error->text)) {
        va_list list;
        va_start(list, format);
        vsnprintf(p->error->text + used, sizeof(p->error->text) - (size_t)used, format, list);
        va_end(list);
    }
    return WEIR_ERR_INVALID;
}

static int64_t cut(int64_t value)
{
    const int64_t limit = (int64_t)ACL__MAX_DIMENSION;
    return value < -limit ? -limit : value > limit ? limit : value;
}

static int64_t param(const struct place *p, int32_t id, int64_t fallback)
{
    return cut(acl__layer_int(p->network, p->layer, id, fallback));
}

static const acl__shape *in(const struct place *p, uint32_t i)
{
    return &p->shapes[acl__layer_bottom(p->network, p->layer, i)];
}

/* --- sizes --- */

uint64_t acl__shape_elements(const acl__shape *shape)
{
    return shape->w * shape->h * shape->d * shape->c;
}

uint64_t acl__shape_bytes(const acl__shape *shape)
{
    WEIR_ASSERT(shape->rank >= 1 && shape->rank <= 4);
    uint64_t plane = shape->w * shape->h * shape->d * 4;
    if (shape->rank < 3) {
        return plane + 4;
    }
    return (plane + 15) / 16 * 16 * shape->c + 4;
}

bool acl__shape_equal(const acl__shape *a, const acl__shape *b)
{
    return a->rank == b->rank && a->w == b->w && a->h == b->h && a->d == b->d && a->c == b->c;
}

/* Stores the shape of an output. Takes any numbers; a shape outside the bounds is an error. */
static weir_status give(const struct place *p, uint32_t top, uint32_t rank, int64_t w, int64_t h, int64_t d, int64_t c)
{
    WEIR_ASSERT(rank >= 1 && rank <= 4);
    const int64_t v[4] = {w, h, d, c};
    uint64_t elements = 1;
    for (int i = 0; i < 4; i++) {
        if (v[i] < 1) {
            return wrong(p, "output %u would have a dimension of %lld", (unsigned)top, (long long)v[i]);
        }
        if ((uint64_t)v[i] > ACL__MAX_DIMENSION || (uint64_t)v[i] > ACL__MAX_ELEMENTS / elements) {
            return wrong(p,
                         "output %u would have more elements than can be simulated (%lld x %lld x "
                         "%lld x %lld)",
                         (unsigned)top, (long long)w, (long long)h, (long long)d, (long long)c);
        }
        elements *= (uint64_t)v[i];
    }
    p->shapes[acl__layer_top(p->network, p->layer, top)] =
        (acl__shape){rank, (uint64_t)w, (uint64_t)h, (uint64_t)d, (uint64_t)c};
    return WEIR_OK;
}

static weir_status give_shape(const struct place *p, uint32_t top, const acl__shape *s)
{
    return give(p, top, s->rank, (int64_t)s->w, (int64_t)s->h, (int64_t)s->d, (int64_t)s->c);
}

/* --- windows: convolutions and pooling --- */

static int64_t ceil_div(int64_t a, int64_t b)
{
    WEIR_ASSERT(a >= 0 && b > 0);
    return (a + b - 1) / b;
}

/* The sliding window of a layer in one direction. */
struct window {
    int64_t kernel, dilation, stride, before, after;
};

static int64_t extent(struct window w)
{
    return w.dilation * (w.kernel - 1) + 1;
}

/* Reads a convolution's window. In ncnn a vertical parameter has the id of the horizontal one plus ten, and its value
 * by default. The two paddings at the far side were added later and have other ids. */
static struct window conv_window(const acl__network *n, const acl__layer *l, bool vertical)
{
    int64_t left = acl__layer_int(n, l, 4, 0);
    struct window x = {cut(acl__layer_int(n, l, 1, 0)), cut(acl__layer_int(n, l, 2, 1)),
                       cut(acl__layer_int(n, l, 3, 1)), cut(left), cut(acl__layer_int(n, l, 15, left))};
    if (!vertical) {
        return x;
    }
    int64_t top = acl__layer_int(n, l, 14, x.before);
    return (struct window){cut(acl__layer_int(n, l, 11, x.kernel)), cut(acl__layer_int(n, l, 12, x.dilation)),
                           cut(acl__layer_int(n, l, 13, x.stride)), cut(top), cut(acl__layer_int(n, l, 16, top))};
}

static bool window_fits(struct window w)
{
    return w.kernel >= 1 && w.dilation >= 1 && w.stride >= 1;
}

static bool same_padding(struct window w)
{
    return w.before == SAME_UPPER || w.before == SAME_LOWER;
}

/* Computes the padding before and after the input, if the file only says that padding keeps the size. */
static struct window resolve(struct window w, int64_t size)
{
    WEIR_ASSERT(size > 0 && w.stride != 0);
    if (same_padding(w)) {
        int64_t whole = extent(w) + (size - 1) / w.stride * w.stride - size;
        whole = whole > 0 ? whole : 0;
        int64_t small = whole / 2;
        bool upper = w.before == SAME_UPPER;
        w.before = upper ? small : whole - small;
        w.after = whole - w.before;
    }
    return w;
}

acl__shape acl__layer_bordered(const acl__network *network, const acl__layer *layer, const acl__shape *shape)
{
    acl__shape wide = *shape;
    wide.rank = 0;
    if (layer->kind == ACL__LAYER_CONVOLUTION || layer->kind == ACL__LAYER_CONVOLUTION_DW) {
        struct window x = resolve(conv_window(network, layer, false), (int64_t)shape->w);
        struct window y = resolve(conv_window(network, layer, true), (int64_t)shape->h);
        if (x.before + x.after + y.before + y.after > 0) {
            wide.rank = shape->rank;
            wide.w += (uint64_t)(x.before + x.after);
            wide.h += (uint64_t)(y.before + y.after);
        }
    }
    return wide;
}

/* Returns the output size of a convolution in one direction; 0 if the window is larger than the padded input. */
static int64_t convolved(struct window w, int64_t size)
{
    WEIR_ASSERT(window_fits(w) && size > 0);
    if (same_padding(w)) {
        return ceil_div(size, w.stride);
    }
    int64_t room = size + w.before + w.after - extent(w);
    return room < 0 ? 0 : room / w.stride + 1;
}

static weir_status convolution(const struct place *p)
{
    const acl__shape *s = in(p, 0);
    struct window x = conv_window(p->network, p->layer, false);
    struct window y = conv_window(p->network, p->layer, true);
    int64_t channels = param(p, 0, 0);
    int64_t groups = p->layer->kind == ACL__LAYER_CONVOLUTION_DW ? param(p, 7, 1) : 1;
    if (s->rank != 3) {
        return wrong(p, "needs an input with width, height and channels, not of rank %u", (unsigned)s->rank);
    }
    if (!window_fits(x) || !window_fits(y)) {
        return wrong(p, "kernel, dilation and stride must be at least 1");
    }
    if (!same_padding(x) && (x.before < 0 || x.after < 0 || y.before < 0 || y.after < 0)) {
        return wrong(p, "a padding below zero");
    }
    if (channels < 1 || groups < 1 || channels % groups != 0 || (int64_t)s->c % groups != 0) {
        return wrong(p, "%lld input channels, %lld output channels and %lld groups do not go together", (long long)s->c,
                     (long long)channels, (long long)groups);
    }
    int64_t w = convolved(x, (int64_t)s->w), h = convolved(y, (int64_t)s->h);
    if (w < 1 || h < 1) {
        return wrong(p, "the kernel is larger than its input of %llu x %llu", (unsigned long long)s->w,
                     (unsigned long long)s->h);
    }
    /* The padded copy of the input must stay inside the bounds too: check it as if it were the output. */
    acl__shape wide = acl__layer_bordered(p->network, p->layer, s);
    weir_status status = give(p, 0, 3, (int64_t)wide.w, (int64_t)wide.h, 1, (int64_t)wide.c);
    return status == WEIR_OK ? give(p, 0, 3, w, h, 1, channels) : status;
}

/* Returns the output size of a pooling in one direction. In mode 0 the last window may extend beyond the input; in mode
 * 1 it may not. 0 if the window is larger than the padded input. */
static int64_t pooled(struct window w, int64_t size, int64_t mode)
{
    WEIR_ASSERT(w.stride > 0);
    if (mode != 0 && mode != 1) {
        return ceil_div(size, w.stride);
    }
    int64_t room = size + w.before + w.after - w.kernel;
    if (room < 0) {
        return 0;
    }
    return (mode == 0 ? ceil_div(room, w.stride) : room / w.stride) + 1;
}

static weir_status pooling(const struct place *p)
{
    const acl__shape *s = in(p, 0);
    if (s->rank != 3) {
        return wrong(p, "needs an input with width, height and channels, not of rank %u", (unsigned)s->rank);
    }
    if (param(p, 4, 0) != 0) { /* global */
        return give(p, 0, 1, (int64_t)s->c, 1, 1, 1);
    }
    if (param(p, 7, 0) != 0) { /* to a given size */
        int64_t w = param(p, 8, 0), h = param(p, 18, w);
        return give(p, 0, 3, w == SAME_UPPER ? (int64_t)s->w : w, h == SAME_UPPER ? (int64_t)s->h : h, 1,
                    (int64_t)s->c);
    }
    struct window x = {param(p, 1, 0), 1, param(p, 2, 1), param(p, 3, 0), param(p, 14, param(p, 3, 0))};
    struct window y = {param(p, 11, x.kernel), 1, param(p, 12, x.stride), param(p, 13, x.before),
                       param(p, 15, param(p, 13, x.before))};
    int64_t mode = param(p, 5, 0);
    if (!window_fits(x) || !window_fits(y) || x.before < 0 || x.after < 0 || y.before < 0 || y.after < 0) {
        return wrong(p, "kernel and stride must be at least 1, a padding at least 0");
    }
    int64_t w = pooled(x, (int64_t)s->w, mode), h = pooled(y, (int64_t)s->h, mode);
    if (w < 1 || h < 1) {
        return wrong(p, "the kernel is larger than its input of %llu x %llu", (unsigned long long)s->w,
                     (unsigned long long)s->h);
    }
    return give(p, 0, 3, w, h, 1, (int64_t)s->c);
}

/* --- several inputs --- */

static weir_status larger_input(const struct place *p)
{
    WEIR_ASSERT(p->layer->bottom_count > 0);
    const acl__shape *best = in(p, 0);
    for (uint32_t i = 1; i < p->layer->bottom_count; i++) {
        if (acl__shape_elements(in(p, i)) > acl__shape_elements(best)) {
            best = in(p, i);
        }
    }
    return give_shape(p, 0, best);
}

/* Stores the dimensions of a shape in `v`, outermost first, as axes are counted. Returns dimension number `which`
 * (negative: from the end), or NULL if there is none. */
static int64_t *axis(acl__shape *s, int64_t *v, int64_t which)
{
    WEIR_ASSERT(s->rank >= 1 && s->rank <= 4);
    const int64_t c = (int64_t)s->c, d = (int64_t)s->d, h = (int64_t)s->h, w = (int64_t)s->w;
    const int64_t all[4][4] = {{w}, {h, w}, {c, h, w}, {c, d, h, w}};
    for (uint32_t i = 0; i < s->rank; i++) {
        v[i] = all[s->rank - 1][i];
    }
    which = which < 0 ? which + s->rank : which;
    return which >= 0 && which < s->rank ? &v[which] : NULL;
}

static weir_status give_axes(const struct place *p, uint32_t top, uint32_t rank, const int64_t *v)
{
    switch (rank) {
    case 1:
        return give(p, top, 1, v[0], 1, 1, 1);
    case 2:
        return give(p, top, 2, v[1], v[0], 1, 1);
    case 3:
        return give(p, top, 3, v[2], v[1], 1, v[0]);
    case 4:
        return give(p, top, 4, v[3], v[2], v[1], v[0]);
    default:
        return wrong(p, "a rank of %u", (unsigned)rank);
    }
}

static weir_status concat(const struct place *p)
{
    acl__shape first = *in(p, 0);
    int64_t v[4], other[4], which = param(p, 0, 0);
    int64_t *sum = axis(&first, v, which);
    if (sum == NULL) {
        return wrong(p, "there is no axis %lld at rank %u", (long long)which, (unsigned)first.rank);
    }
    for (uint32_t i = 1; i < p->layer->bottom_count; i++) {
        acl__shape next = *in(p, i);
        if (next.rank != first.rank) {
            return wrong(p, "input %u is of rank %u, input 0 of rank %u", (unsigned)i, (unsigned)next.rank,
                         (unsigned)first.rank);
        }
        axis(&next, other, which);
        for (uint32_t k = 0; k < first.rank; k++) {
            if (&v[k] != sum && v[k] != other[k]) {
                return wrong(p, "input %u differs from input 0 in axis %u (%lld and %lld)", (unsigned)i, (unsigned)k,
                             (long long)other[k], (long long)v[k]);
            }
        }
        *sum += other[sum - v];
        if (*sum > (int64_t)ACL__MAX_DIMENSION) {
            return wrong(p, "the inputs together are too large");
        }
    }
    return give_axes(p, 0, first.rank, v);
}

/* --- one input, other shape --- */

static weir_status interp(const struct place *p)
{
    const acl__shape *s = in(p, 0);
    double scale_h = acl__layer_float(p->network, p->layer, 1, 1),
           scale_w = acl__layer_float(p->network, p->layer, 2, 1);
    int64_t h = param(p, 3, 0), w = param(p, 4, 0);
    if (s->rank != 3) {
        return wrong(p, "needs an input with width, height and channels, not of rank %u", (unsigned)s->rank);
    }
    double wide = w > 0 ? (double)w : (double)s->w * scale_w, high = h > 0 ? (double)h : (double)s->h * scale_h;
    if (!(wide >= 1 && wide <= (double)ACL__MAX_DIMENSION && high >= 1 && high <= (double)ACL__MAX_DIMENSION)) {
        return wrong(p, "a size of %g x %g", wide, high);
    }
    return give(p, 0, 3, (int64_t)wide, (int64_t)high, 1, (int64_t)s->c);
}

static weir_status reshape(const struct place *p)
{
    const int64_t missing = SAME_UPPER;
    const acl__shape *s = in(p, 0);
    int64_t w = param(p, 0, missing), h = param(p, 1, missing), c = param(p, 2, missing), d = param(p, 11, missing);
    uint32_t rank = c == missing ? (h == missing ? 1 : 2) : (d == missing ? 3 : 4);
    int64_t *v[4] = {&w, &h, &c, &d};
    const int64_t old[4] = {(int64_t)s->w, (int64_t)s->h, (int64_t)s->c, (int64_t)s->d};
    int64_t elements = (int64_t)acl__shape_elements(s), known = 1, *open = NULL;
    for (int i = 0; i < 4; i++) {
        if (*v[i] == missing) {
            *v[i] = 1;
        } else if (*v[i] == 0) { /* unchanged */
            *v[i] = old[i];
        } else if (*v[i] == -1) {
            if (open != NULL) {
                return wrong(p, "two dimensions are left open");
            }
            open = v[i];
            continue;
        }
        if (*v[i] < 1 || *v[i] > elements / known) {
            return wrong(p, "a shape that %lld elements do not fill", (long long)elements);
        }
        known *= *v[i];
    }
    if (open != NULL) {
        *open = elements / known;
        known *= *open;
    }
    if (known != elements) {
        return wrong(p, "a shape that %lld elements do not fill", (long long)elements);
    }
    return give(p, 0, rank, w, h, d, c);
}

static weir_status expand_dims(const struct place *p)
{
    acl__shape s = *in(p, 0);
    uint32_t count = 0;
    const double *axes = acl__layer_array(p->network, p->layer, 3, &count);
    int64_t v[4], wide[4] = {1, 1, 1, 1};
    bool fresh[4] = {false, false, false, false};
    uint32_t rank = s.rank + count;
    axis(&s, v, 0);
    if (axes == NULL || rank > 4) {
        return wrong(p, "cannot add %u axes to rank %u", (unsigned)count, (unsigned)s.rank);
    }
    for (uint32_t i = 0; i < count; i++) {
        double at = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (at < 0 || at >= rank || fresh[(int)at]) {
            return wrong(p, "there is no axis %g to add", axes[i]);
        }
        fresh[(int)at] = true;
    }
    for (uint32_t i = 0, from = 0; i < rank; i++) {
        wide[i] = fresh[i] ? 1 : v[from++];
    }
    return give_axes(p, 0, rank, wide);
}

static weir_status tile(const struct place *p)
{
    acl__shape s = *in(p, 0);
    uint32_t count = 0;
    const double *repeats = acl__layer_array(p->network, p->layer, 2, &count);
    int64_t v[4];
    axis(&s, v, 0);
    if (repeats == NULL) { /* one axis, repeated */
        int64_t *one = axis(&s, v, param(p, 0, 0));
        if (one == NULL || param(p, 1, 1) < 1) {
            return wrong(p, "no such axis, or a repetition below 1");
        }
        *one *= param(p, 1, 1);
        return give_axes(p, 0, s.rank, v);
    }
    if (count > s.rank) {
        return wrong(p, "%u repetitions for rank %u", (unsigned)count, (unsigned)s.rank);
    }
    for (uint32_t i = 0; i < count; i++) { /* the last repetition count is that of the innermost axis */
        double times = repeats[count - 1 - i];
        if (times < 1 || times > (double)ACL__MAX_DIMENSION) {
            return wrong(p, "a repetition of %g", times);
        }
        v[s.rank - 1 - i] *= (int64_t)times;
    }
    return give_axes(p, 0, s.rank, v);
}

static weir_status permute(const struct place *p)
{
    /* For each order of a permutation, the input's dimensions that become w, h and c of the output. */
    static const char orders3[6][4] = {"whc", "hwc", "wch", "cwh", "hcw", "chw"};
    const acl__shape *s = in(p, 0);
    int64_t order = param(p, 0, 0);
    if (s->rank == 1 && order == 0) {
        return give_shape(p, 0, s);
    }
    if (s->rank == 2 && (order == 0 || order == 1)) {
        return order == 0 ? give_shape(p, 0, s) : give(p, 0, 2, (int64_t)s->h, (int64_t)s->w, 1, 1);
    }
    if (s->rank != 3 || order < 0 || order > 5) {
        return wrong(p, "order %lld at rank %u is not simulated", (long long)order, (unsigned)s->rank);
    }
    int64_t v[3];
    for (int i = 0; i < 3; i++) {
        char from = orders3[order][i];
        v[i] = (int64_t)(from == 'w' ? s->w : from == 'h' ? s->h : s->c);
    }
    return give(p, 0, 3, v[0], v[1], 1, v[2]);
}

/* --- matrices and attention --- */

static weir_status gemm(const struct place *p)
{
    bool transposed_a = param(p, 2, 0) != 0, transposed_b = param(p, 3, 0) != 0;
    bool constant_a = param(p, 4, 0) != 0, constant_b = param(p, 5, 0) != 0;
    int64_t m = param(p, 7, 0), n = param(p, 8, 0), k_a = param(p, 9, 0), k_b = k_a;
    uint32_t next = 0;
    for (int side = 0; side < 2; side++) {
        bool constant = side == 0 ? constant_a : constant_b;
        if (constant) {
            continue;
        }
        if (next == p->layer->bottom_count) {
            return wrong(p, "too few inputs");
        }
        const acl__shape *s = in(p, next++);
        if (s->rank > 2) {
            return wrong(p, "input %u is of rank %u, not a matrix", (unsigned)(next - 1), (unsigned)s->rank);
        }
        int64_t rows = (int64_t)s->h, columns = (int64_t)s->w;
        if (side == 0) {
            m = transposed_a ? columns : rows, k_a = transposed_a ? rows : columns;
        } else {
            n = transposed_b ? rows : columns, k_b = transposed_b ? columns : rows;
        }
    }
    if (constant_a) {
        k_a = k_b;
    } else if (constant_b) {
        k_b = param(p, 9, k_a);
    }
    if (k_a != k_b || k_a < 1) {
        return wrong(p, "the inner dimensions %lld and %lld differ", (long long)k_a, (long long)k_b);
    }
    return param(p, 14, 0) != 0 ? give(p, 0, 2, m, n, 1, 1) : give(p, 0, 2, n, m, 1, 1);
}

static weir_status sdpa(const struct place *p)
{
    const acl__shape *q = in(p, 0), *k = in(p, 1), *v = in(p, 2);
    bool mask = param(p, 5, 0) != 0, cache = param(p, 7, 0) != 0;
    uint32_t inputs = 3u + (mask ? 1u : 0u) + (cache ? 2u : 0u);
    if (p->layer->bottom_count != inputs || p->layer->top_count != (cache ? 3u : 1u)) {
        return wrong(p, "%u inputs and %u outputs, where its parameters want %u and %u",
                     (unsigned)p->layer->bottom_count, (unsigned)p->layer->top_count, (unsigned)inputs,
                     cache ? 3u : 1u);
    }
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || q->w != k->w || k->c != v->c || k->h != v->h ||
        q->c % k->c != 0) {
        return wrong(p, "query, key and value do not go together");
    }
    if (cache) {
        for (uint32_t i = 0; i < 2; i++) {
            const acl__shape *old = in(p, (mask ? 4u : 3u) + i), *fresh = i == 0 ? k : v;
            if (old->rank != 3 || old->w != fresh->w || old->c != fresh->c) {
                return wrong(p,
                             "the cache of %llu x %llu x %llu is not for keys and values of %llu x "
                             ".. x %llu",
                             (unsigned long long)old->w, (unsigned long long)old->h, (unsigned long long)old->c,
                             (unsigned long long)fresh->w, (unsigned long long)fresh->c);
            }
            weir_status status =
                give(p, 1 + i, 3, (int64_t)fresh->w, (int64_t)(old->h + fresh->h), 1, (int64_t)fresh->c);
            if (status != WEIR_OK) {
                return status;
            }
        }
    }
    return give(p, 0, 3, (int64_t)v->w, (int64_t)q->h, 1, (int64_t)q->c);
}

/* The shape has the greatest possible number of boxes: the real number is known only after the computation. */
static weir_status yolo(const struct place *p)
{
    int64_t boxes = 0, per_cell = param(p, 1, 5);
    for (uint32_t i = 0; i < p->layer->bottom_count; i++) {
        const acl__shape *s = in(p, i);
        if (s->rank != 3 || per_cell < 1 || per_cell > (int64_t)s->c) {
            return wrong(p, "%lld boxes a cell from %llu channels", (long long)per_cell, (unsigned long long)s->c);
        }
        boxes += (int64_t)(s->w * s->h) * per_cell;
        if (boxes > (int64_t)ACL__MAX_ELEMENTS) {
            return wrong(p, "the inputs together are too large");
        }
    }
    return give(p, 0, 2, 6, boxes, 1, 1);
}

/* --- all layers --- */

/* Stores an input's shape as the file gives it: w, h, c. If the file gives no size, the caller must give one. */
static weir_status fixed_input(const struct place *p, uint32_t top)
{
    WEIR_ASSERT(p->layer->kind == ACL__LAYER_INPUT);
    int64_t w = param(p, 0, 0), h = param(p, 1, 0), c = param(p, 2, 0), d = param(p, 11, 0);
    if (w < 1) {
        return wrong(p, "the file gives no size for input \"%.60s\" and the caller gave none",
                     p->network->blobs[acl__layer_top(p->network, p->layer, top)].name);
    }
    uint32_t rank = c > 0 ? (d > 0 ? 4 : 3) : h > 0 ? 2 : 1;
    return give(p, top, rank, w, h > 0 ? h : 1, d > 0 ? d : 1, c > 0 ? c : 1);
}

static weir_status layer_shapes(const struct place *p)
{
    WEIR_ASSERT(p->layer->kind != ACL__LAYER_INPUT && p->layer->bottom_count > 0);
    const acl__shape *s;
    switch (p->layer->kind) {
    case ACL__LAYER_CONVOLUTION:
    case ACL__LAYER_CONVOLUTION_DW:
        return convolution(p);
    case ACL__LAYER_POOLING:
        return pooling(p);
    case ACL__LAYER_INNER_PRODUCT:
        return give(p, 0, 1, param(p, 0, 0), 1, 1, 1);
    case ACL__LAYER_ELTWISE:
    case ACL__LAYER_BINARY_OP:
        return larger_input(p);
    case ACL__LAYER_CONCAT:
        return concat(p);
    case ACL__LAYER_INTERP:
        return interp(p);
    case ACL__LAYER_RESHAPE:
        return reshape(p);
    case ACL__LAYER_FLATTEN:
        return give(p, 0, 1, (int64_t)acl__shape_elements(in(p, 0)), 1, 1, 1);
    case ACL__LAYER_EXPAND_DIMS:
        return expand_dims(p);
    case ACL__LAYER_TILE:
        return tile(p);
    case ACL__LAYER_PERMUTE:
        return permute(p);
    case ACL__LAYER_GEMM:
        return gemm(p);
    case ACL__LAYER_SDPA:
        return sdpa(p);
    case ACL__LAYER_YOLO_DETECTION:
        return yolo(p);
    default:
        break;
    }
    s = in(p, 0); /* all remaining kinds of layers: each output has the shape of the input */
    for (uint32_t i = 0; i < p->layer->top_count; i++) {
        weir_status status = give_shape(p, i, s);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

weir_status acl__network_shapes(const acl__network *network, const acl__shape *inputs, acl__shape *shapes,
                                acl__model_error *error)
{
    uint32_t input = 0;
    for (uint32_t l = 0; l < network->layer_count; l++) {
        struct place p = {network, &network->layers[l], shapes, error};
        weir_status status = WEIR_OK;
        if (p.layer->kind != ACL__LAYER_INPUT) {
            status = layer_shapes(&p);
        } else {
            for (uint32_t i = 0; i < p.layer->top_count && status == WEIR_OK; i++, input++) {
                const acl__shape *given = inputs != NULL ? &inputs[input] : NULL;
                WEIR_ASSERT(input < network->input_count);
                status = given != NULL && given->rank > 0 ? give_shape(&p, i, given) : fixed_input(&p, i);
            }
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}
