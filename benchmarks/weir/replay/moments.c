/* moments.c: see moments.h.
 *
 * Cost: O(n + m log m) for n events and m live blocks.
 */
#include "replay/moments.h"

#include "replay/holders.h"
#include "replay/tags.h"
#include "shared/number_map.h"

#include <stdlib.h>
#include <string.h>

/* --- stacks --- */

static bool contains(const char *frame, size_t length, const char *word)
{
    return memmem(frame, length, word, strlen(word)) != NULL;
}

static bool is_python(const char *frame, size_t length)
{
    return contains(frame, length, ".py:");
}

static bool is_runtime(const char *frame, size_t length)
{
    static const char *const words[] = {"/torch/", "/torch_npu/", "<frozen ", "/runpy.py:", "/threading.py:"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (contains(frame, length, words[i])) {
            return true;
        }
    }
    return strncmp(frame, "torch/", 6) == 0;
}

enum frames { FRAMES_OF_PROGRAM, FRAMES_OF_PYTHON, FRAMES_ALL };

static bool is_kept(const char *frame, size_t length, enum frames kept)
{
    return kept == FRAMES_ALL || (is_python(frame, length) && (kept == FRAMES_OF_PYTHON || !is_runtime(frame, length)));
}

/* Writes the kept frames from the outermost. Returns the length. */
static size_t write_frames(const char *stack, enum frames kept, char *out)
{
    size_t used = 0;
    for (const char *end = stack + strlen(stack); end > stack;) {
        const char *begin = end;
        while (begin > stack && begin[-1] != '\n') {
            begin--;
        }
        const size_t length = (size_t)(end - begin);
        if (length > 0 && is_kept(begin, length, kept)) {
            out[used] = '\n';
            used += used > 0;
            memcpy(out + used, begin, length);
            used += length;
        }
        end = begin > stack ? begin - 1 : stack;
    }
    out[used] = '\0';
    return used;
}

char *moments_fold(const char *stack)
{
    char *out = malloc(strlen(stack) + 2);
    for (int kept = FRAMES_OF_PROGRAM; out != NULL && kept <= FRAMES_ALL; kept++) {
        if (write_frames(stack, (enum frames)kept, out) > 0) {
            break;
        }
    }
    return out;
}

/* --- groups --- */

static bool same_key(const struct moments_group *a, const struct moments_group *b)
{
    return a->size == b->size && strcmp(a->text, b->text) == 0;
}

static int by_key(const void *left, const void *right)
{
    const struct moments_group *a = left;
    const struct moments_group *b = right;
    return a->size != b->size ? (a->size < b->size ? -1 : 1) : strcmp(a->text, b->text);
}

static int by_turnover(const void *left, const void *right)
{
    const uint64_t a = moments_turnover(left);
    const uint64_t b = moments_turnover(right);
    return a != b ? (a > b ? -1 : 1) : by_key(left, right);
}

static void add_sum(struct moments_sum *sum, const struct moments_sum *more)
{
    sum->bytes += more->bytes;
    sum->blocks += more->blocks;
}

static void add_group(struct moments_group *group, const struct moments_group *more)
{
    add_sum(&group->at[0], &more->at[0]);
    add_sum(&group->at[1], &more->at[1]);
    add_sum(&group->came, &more->came);
    add_sum(&group->went, &more->went);
}

/* The blocks that came and went between the moments of two recordings. */
static void weigh(struct moments_group *group)
{
    const struct moments_sum *a = &group->at[0];
    const struct moments_sum *b = &group->at[1];
    group->came.bytes = b->bytes > a->bytes ? b->bytes - a->bytes : 0;
    group->came.blocks = b->blocks > a->blocks ? b->blocks - a->blocks : 0;
    group->went.bytes = a->bytes > b->bytes ? a->bytes - b->bytes : 0;
    group->went.blocks = a->blocks > b->blocks ? a->blocks - b->blocks : 0;
}

/* The texts of the tags of a trace, then of untagged blocks and those from before the window. */
static const char **texts_of(const struct trace *trace, enum moments_by by, struct moments *moments)
{
    const char **texts = calloc((size_t)trace->tag_count + 2, sizeof(*texts));
    char **more = realloc(moments->texts, (moments->text_count + trace->tag_count + 1) * sizeof(*more));
    moments->texts = more != NULL ? more : moments->texts;
    if (texts == NULL || more == NULL) {
        free(texts);
        return NULL;
    }
    for (uint32_t tag = 0; tag < trace->tag_count; tag++) {
        texts[tag] = by == MOMENTS_BY_SIZE ? "" : trace->tags[tag];
        if (by == MOMENTS_BY_STACK && trace->stacks != NULL && trace->stacks[tag] != NULL) {
            char *folded = moments_fold(trace->stacks[tag]);
            if (folded == NULL) {
                free(texts);
                return NULL;
            }
            texts[tag] = moments->texts[moments->text_count++] = folded;
        }
    }
    texts[trace->tag_count] = by == MOMENTS_BY_SIZE ? "" : "untagged";
    texts[trace->tag_count + 1] = by == MOMENTS_BY_SIZE ? "" : "before the window";
    return texts;
}

/* Returns the group of a block, which is made if the block's size is new. `base`: the first group of this trace, of
 * which each tag has one unless the sizes are the keys. NULL when out of host memory. */
static struct moments_group *group_of(struct moments *moments, size_t base, const char *const *texts, uint32_t place,
                                      uint64_t size, weir__number_map *sizes)
{
    if (sizes == NULL) {
        moments->groups[base + place].text = texts[place];
        return &moments->groups[base + place];
    }
    uint64_t found = weir__number_map_get(sizes, size);
    if (found == 0) {
        found = ++moments->count;
        moments->groups[found - 1] = (struct moments_group){.text = texts[place], .size = size};
        if (!weir__number_map_put(sizes, size, found)) {
            return NULL;
        }
    }
    return &moments->groups[found - 1];
}

static bool add_block(struct moments *moments, size_t base, const char *const *texts, const struct trace *trace,
                      const weir_trace_event *const at[2], weir__number_map *sizes)
{
    const weir_trace_event *event = at[0] != NULL ? at[0] : at[1];
    const uint32_t tag = replay_tag_of_event(event);
    const uint32_t place = tag < trace->tag_count ? tag : trace->tag_count + (tag == REPLAY_TAG_PRIOR);
    const struct moments_sum block = {event->size, 1};
    struct moments_group *group = group_of(moments, base, texts, place, event->size, sizes);
    if (group == NULL) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        if (at[i] != NULL) {
            add_sum(&group->at[i], &block);
        }
    }
    if (at[0] == NULL || at[1] == NULL) {
        add_sum(at[0] == NULL ? &group->came : &group->went, &block);
    }
    return true;
}

/* Makes room for the groups of a trace. Returns false when out of host memory. */
static bool make_room(struct moments *moments, const struct trace *trace, enum moments_by by)
{
    const size_t more = (by == MOMENTS_BY_SIZE ? trace->block_count : trace->tag_count) + (size_t)2;
    struct moments_group *groups = realloc(moments->groups, (moments->count + more) * sizeof(*groups));
    if (groups == NULL) {
        return false;
    }
    moments->groups = groups;
    if (by != MOMENTS_BY_SIZE) {
        memset(&groups[moments->count], 0, more * sizeof(*groups));
        moments->count += more;
    }
    return true;
}

/* Finds the blocks that live after `first` events and after `second` events, which are no fewer, in one walk. A list is
 * NULL when out of host memory. */
static void live_at_both(const struct trace *trace, size_t first, size_t second, const weir_trace_event ***at_first,
                         const weir_trace_event ***at_second)
{
    const size_t size = ((size_t)trace->block_count + 1) * sizeof(const weir_trace_event *);
    *at_first = holders_live(trace, first);
    *at_second = *at_first != NULL ? malloc(size) : NULL;
    if (*at_second != NULL) {
        memcpy(*at_second, *at_first, size);
        holders_go_on(trace, *at_second, first, second);
    }
}

/* Appends the groups of the blocks that live at the moment `a`, at the moment `b`, or at both; one may be NULL. */
static bool add_blocks(struct moments *moments, const struct moment *a, const struct moment *b, enum moments_by by)
{
    const struct trace *trace = a != NULL ? a->trace : b->trace;
    const size_t base = moments->count;
    weir__number_map sizes = {0};
    const char **texts = texts_of(trace, by, moments);
    const weir_trace_event **at_a = NULL;
    const weir_trace_event **at_b = NULL;
    if (a != NULL && b != NULL && a->count > b->count) {
        live_at_both(trace, b->count, a->count, &at_b, &at_a);
    } else if (a != NULL && b != NULL) {
        live_at_both(trace, a->count, b->count, &at_a, &at_b);
    } else {
        *(a != NULL ? &at_a : &at_b) = holders_live(trace, a != NULL ? a->count : b->count);
    }
    bool enough =
        make_room(moments, trace, by) && texts != NULL && (a == NULL || at_a != NULL) && (b == NULL || at_b != NULL);
    for (uint32_t i = 0; enough && i < trace->block_count; i++) {
        const weir_trace_event *at[2] = {at_a != NULL ? at_a[i] : NULL, at_b != NULL ? at_b[i] : NULL};
        if (at[0] != NULL || at[1] != NULL) {
            enough = add_block(moments, base, texts, trace, at, by == MOMENTS_BY_SIZE ? &sizes : NULL);
        }
    }
    weir__number_map_fini(&sizes);
    free(texts);
    free(at_a);
    free(at_b);
    return enough;
}

/* Joins the groups of one key, and leaves out those without a block. */
static void join(struct moments *moments)
{
    size_t kept = 0;
    size_t used = 0;
    for (size_t i = 0; i < moments->count; i++) {
        if (moments->groups[i].text != NULL) {
            moments->groups[used++] = moments->groups[i];
        }
    }
    moments->count = used;
    qsort(moments->groups, moments->count, sizeof(*moments->groups), by_key);
    for (size_t i = 0; i < moments->count; i++) {
        if (kept > 0 && same_key(&moments->groups[kept - 1], &moments->groups[i])) {
            add_group(&moments->groups[kept - 1], &moments->groups[i]);
        } else {
            moments->groups[kept++] = moments->groups[i];
        }
    }
    moments->count = kept;
}

bool moments_compare(const struct moment *a, const struct moment *b, enum moments_by by, struct moments *moments)
{
    const bool one_trace = a->trace == b->trace;
    *moments = (struct moments){.all = {.text = ""}};
    const bool done = one_trace ? add_blocks(moments, a, b, by)
                                : add_blocks(moments, a, NULL, by) && add_blocks(moments, NULL, b, by);
    if (!done) {
        return false;
    }
    join(moments);
    for (size_t i = 0; i < moments->count; i++) {
        if (!one_trace) {
            weigh(&moments->groups[i]);
        }
        add_group(&moments->all, &moments->groups[i]);
    }
    if (by != MOMENTS_BY_STACK) {
        qsort(moments->groups, moments->count, sizeof(*moments->groups), by_turnover);
    }
    return true;
}

void moments_free(struct moments *moments)
{
    for (size_t i = 0; i < moments->text_count; i++) {
        free(moments->texts[i]);
    }
    free(moments->texts);
    free(moments->groups);
    *moments = (struct moments){0};
}
