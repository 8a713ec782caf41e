/* torch_tags.c: frames and labels of a snapshot become tags and stacks.
 *
 * Frames of the same text, stacks of the same frames, and tags of the same stack and labels are stored once. Events
 * share the lists of a pickle, so a list of frames is read once; pickle_value.mark of the list then has the number of
 * its stack.
 */
#include "torch_tags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_FRAME UINT32_MAX
#define NO_STACK UINT32_MAX
#define LABEL_BYTES 256
/* limit for the stacks of all tags together; stacks beyond it are left out */
#define MOST_STACK_BYTES ((size_t)64 << 20)

enum frame_kind { FRAME_NATIVE, FRAME_TORCH, FRAME_USER };

struct torch_frame {
    enum frame_kind kind;
    const char *text;
    const char *function;             /* points into `text` */
    const struct pickle_value *value; /* the first frame with this text */
};

struct torch_stack {
    size_t first; /* index of the first frame in stack_frames */
    uint32_t count;
};

struct torch_tag {
    uint32_t stack;
    uint32_t tag; /* number of the tag in the trace */
    const char *labels;
};

/* --- frames --- */

static bool ends_with(const struct pickle_value *text, const char *suffix)
{
    size_t length = strlen(suffix);
    return text->count >= length && memcmp(text->as.text + text->count - length, suffix, length) == 0;
}

static bool is_separator(char c)
{
    return c == '/' || c == '\\';
}

/* True if the path contains a folder `torch`. */
static bool under_torch(const struct pickle_value *path)
{
    const char *text = path->as.text;
    for (uint32_t i = 0; i + 7 <= path->count; i++) {
        if (is_separator(text[i]) && memcmp(text + i + 1, "torch", 5) == 0 && is_separator(text[i + 6])) {
            return true;
        }
    }
    return false;
}

static enum frame_kind kind_of_frame(const struct pickle_value *path, const struct pickle_value *name)
{
    bool python = path != NULL && path->kind == PICKLE_STR && path->count > 3 && ends_with(path, ".py") &&
                  name != NULL && name->kind == PICKLE_STR;
    return !python ? FRAME_NATIVE : under_torch(path) ? FRAME_TORCH : FRAME_USER;
}

static void trim(char *text)
{
    text[trimmed_length(text, strlen(text))] = '\0';
}

/* Writes "FILE:LINE:FUNCTION", or the function alone for a native frame of an unknown line. `whole` keeps the folders
 * of the file; else the form is "file.py:function:LINE". Returns the offset of the function in the whole form. */
static size_t describe_frame(const struct pickle_value *frame, bool whole, char *text, size_t size)
{
    static const struct pickle_value none = {.kind = PICKLE_STR, .as.text = ""};
    const struct pickle_value *path = pickle_get(frame, "filename");
    const struct pickle_value *name = pickle_get(frame, "name");
    const uint64_t line = pickle_get_number_or(frame, "line", 0);
    char file[TRACE_FRAME_BYTES / 2];
    char function[TRACE_FRAME_BYTES + 1];
    char number[24] = "";
    path = path != NULL && path->kind == PICKLE_STR ? path : &none;
    name = name != NULL && name->kind == PICKLE_STR ? name : &none;
    uint32_t base = whole ? 0 : path->count;
    while (base > 0 && !is_separator(path->as.text[base - 1])) {
        base--;
    }
    trace_quote(file, whole ? sizeof(file) : 100, path->as.text + base, path->count - base);
    trace_quote(function, whole ? sizeof(function) : 100, name->as.text, name->count);
    if (line > 0) {
        snprintf(number, sizeof(number), ":%" PRIu64, line);
    }
    const bool place = ends_with(path, ".py") || (line > 0 && path->count > 0 && path->as.text[0] != '?');
    char joined[sizeof(file) + sizeof(function) + sizeof(number) + 4];
    if (!whole) {
        snprintf(joined, sizeof(joined), "%s:%s%s", file, function, number);
    } else if (place) {
        snprintf(joined, sizeof(joined), "%s%s:%s", file, number, function);
    } else {
        snprintf(joined, sizeof(joined), "%s", function);
    }
    trace_quote(text, size, joined, strlen(joined));
    trim(text);
    return whole && place ? strlen(file) + strlen(number) + 1 : 0;
}

/* Finds the number of a frame; frames of equal text share a number. value->mark caches the number plus 1. */
static bool number_of_frame(struct torch_tags *tags, struct pickle_value *value, uint32_t *number)
{
    if (value->mark != 0) {
        *number = value->mark - 1;
        return true;
    }
    char text[TRACE_FRAME_BYTES + 1];
    const size_t function = describe_frame(value, true, text, sizeof(text));
    const uint64_t hash = trace_hash(text, strlen(text));
    if (!id_map_get(&tags->frame_by_hash, hash, number) || strcmp(tags->frames[*number].text, text) != 0) {
        struct torch_frame *frames =
            grow_array(tags->frames, tags->frame_count, &tags->frame_capacity, sizeof(*frames));
        char *copy = builder_text(tags->builder, text, strlen(text));
        tags->frames = frames != NULL ? frames : tags->frames;
        *number = tags->frame_count;
        if (frames == NULL || copy == NULL || !id_map_put(&tags->frame_by_hash, hash, *number)) {
            return builder_no_memory(tags->builder);
        }
        frames[tags->frame_count++] = (struct torch_frame){
            .kind = kind_of_frame(pickle_get(value, "filename"), pickle_get(value, "name")),
            .text = copy,
            .function = function < strlen(copy) ? copy + function : copy,
            .value = value,
        };
    }
    value->mark = *number + 1;
    return true;
}

/* --- names of native stacks --- */

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* True for operators that only create memory. The name of their caller makes a better tag. */
static bool only_allocates(const char *name)
{
    return begins(name, "empty") || begins(name, "new_empty") || begins(name, "resize_");
}

/* torch::autograd::generated::MmBackward0::apply(...) -> MmBackward0 */
static bool name_autograd(const char *frame, const char *prefix, char *out, size_t size)
{
    (void)prefix;
    const char *end = strstr(frame, "Backward");
    while (end != NULL && strcspn(end, "(<: ") != 0) {
        const char *stop = end + strcspn(end, "(<: ");
        const char *start = end;
        while (start > frame && start[-1] != ':' && start[-1] != ' ' && start[-1] != '<') {
            start--;
        }
        if (begins(stop, "::apply")) {
            snprintf(out, size, "%.*s", (int)(stop - start), start);
            return true;
        }
        end = strstr(stop, "Backward");
    }
    return false;
}

/* at::_ops::mm::call(...) -> at::mm */
static bool name_operator(const char *frame, const char *prefix, char *out, size_t size)
{
    if (!begins(frame, prefix) || only_allocates(frame + strlen(prefix))) {
        return false;
    }
    const char *name = frame + strlen(prefix);
    const size_t length = strcspn(name, "(<: ");
    if (!begins(name + length, "::call") && !begins(name + length, "::redispatch")) {
        return false;
    }
    snprintf(out, size, "at::%.*s", (int)length, name);
    return true;
}

/* Writes the whole name of the function, without its arguments. */
static bool name_function(const char *frame, const char *prefix, char *out, size_t size)
{
    if (!begins(frame, prefix) || only_allocates(frame + strlen(prefix))) {
        return false;
    }
    snprintf(out, size, "%.*s", (int)strcspn(frame, "(<"), frame);
    return true;
}

/* The last of `rules`: accepts any function except those of the allocator, of the recording of stacks, and of empty
 * tensors. */
static bool name_any(const char *frame, const char *prefix, char *out, size_t size)
{
    static const char *const starts[] = {
        "c10::", "c10_npu::", "at::detail::", "torch::unwind", "torch::Captured", "??"};
    static const char *const parts[] = {"CachingAllocator", "gather_with_cpp", "malloc", "empty"};
    (void)prefix;
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        if (begins(frame, starts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strstr(frame, parts[i]) != NULL) {
            return false;
        }
    }
    const char *end = strchr(frame, '(');
    while (end != NULL && begins(end, "(anonymous namespace)")) {
        end = strchr(end + 1, '(');
    }
    const size_t length = end != NULL ? (size_t)(end - frame) : strlen(frame);
    snprintf(out, size, "%.*s", (int)length, frame);
    return length > 0;
}

/* Rules that choose the frame of the tag, the preferred rule first. Each rule is tried on all frames, from the
 * innermost. */
static const struct rule {
    bool (*name)(const char *frame, const char *prefix, char *out, size_t size);
    const char *prefix;
} rules[] = {
    {name_autograd, ""},
    {name_operator, "at::_ops::"},
    {name_function, "c10d::"},
    {name_function, "at::native::"},
    {name_function, "at_npu::native::"},
    {name_function, "op_api::"},
    {name_any, ""},
};

/* The frames of an allocation that are kept, and behind them the frame that gives the tag. */
struct stack_key {
    uint32_t frames[TRACE_STACK_FRAMES + 1]; /* the last one is the frame of the tag */
    uint32_t count;
};

static bool native_tag(const struct torch_tags *tags, const struct stack_key *key, char *out, size_t size)
{
    for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++) {
        for (uint32_t i = 0; i + 1 < key->count; i++) {
            if (rules[r].name(tags->frames[key->frames[i]].function, rules[r].prefix, out, size)) {
                return true;
            }
        }
    }
    return false;
}

/* Collects the frames. The tag comes from the innermost Python frame outside of torch; if there is none, from the
 * innermost Python frame; NO_FRAME: there is no Python frame. */
static bool gather_frames(struct torch_tags *tags, const struct pickle_value *frames, struct stack_key *key)
{
    uint32_t chosen = NO_FRAME;
    key->count = 0;
    for (uint32_t i = 0; i < frames->count; i++) {
        struct pickle_value *value = frames->as.items[i];
        uint32_t number;
        if (!pickle_walk_spend(tags->walk, 1)) {
            return false;
        }
        if (value == NULL || value->kind != PICKLE_DICT || value->count > 64) {
            continue;
        }
        if (!number_of_frame(tags, value, &number)) {
            return false;
        }
        if (key->count < TRACE_STACK_FRAMES && tags->frames[number].text[0] != '\0') {
            key->frames[key->count++] = number;
        }
        const enum frame_kind kind = tags->frames[number].kind;
        if (kind == FRAME_USER && (chosen == NO_FRAME || tags->frames[chosen].kind != FRAME_USER)) {
            chosen = number;
        } else if (kind == FRAME_TORCH && chosen == NO_FRAME) {
            chosen = number;
        }
    }
    key->frames[key->count++] = chosen;
    return true;
}

/* Copies the stack of a tag into the trace, as long as all stacks together stay below a limit. */
static bool keep_stack(struct torch_tags *tags, const struct stack_key *key, uint32_t tag)
{
    char text[TRACE_STACK_FRAMES * (TRACE_FRAME_BYTES + 1)];
    size_t size = 0;
    for (uint32_t i = 0; i + 1 < key->count; i++) {
        const char *frame = tags->frames[key->frames[i]].text;
        const size_t length = strlen(frame);
        if (i > 0) {
            text[size++] = '\n';
        }
        memcpy(text + size, frame, length);
        size += length;
    }
    if (size == 0 || size > MOST_STACK_BYTES - tags->stack_bytes) {
        return true;
    }
    tags->stack_bytes += size;
    return builder_stack(tags->builder, tag, text, size);
}

/* Writes a tag's text without labels, from the frames of a stack; "" if no frame gives a text. */
static void describe_stack(const struct torch_tags *tags, const struct stack_key *key, char *text, size_t size)
{
    const uint32_t chosen = key->frames[key->count - 1];
    text[0] = '\0';
    if (chosen != NO_FRAME) {
        (void)describe_frame(tags->frames[chosen].value, false, text, size);
    } else {
        (void)native_tag(tags, key, text, size);
    }
    trim(text);
}

static bool same_stack(const struct torch_tags *tags, const struct torch_stack *stack, const struct stack_key *key)
{
    return stack->count == key->count &&
           memcmp(tags->stack_frames + stack->first, key->frames, key->count * sizeof(*key->frames)) == 0;
}

static bool add_stack(struct torch_tags *tags, const struct stack_key *key, uint64_t hash)
{
    struct torch_stack *stacks = grow_array(tags->stacks, tags->stack_count, &tags->stack_capacity, sizeof(*stacks));
    tags->stacks = stacks != NULL ? stacks : tags->stacks;
    if (stacks == NULL || !id_map_put(&tags->stack_by_hash, hash, tags->stack_count)) {
        return builder_no_memory(tags->builder);
    }
    stacks[tags->stack_count++] = (struct torch_stack){tags->stack_frame_count, key->count};
    for (uint32_t i = 0; i < key->count; i++) {
        uint32_t *frames =
            grow_array(tags->stack_frames, tags->stack_frame_count, &tags->stack_frame_capacity, sizeof(*frames));
        if (frames == NULL) {
            return builder_no_memory(tags->builder);
        }
        tags->stack_frames = frames;
        frames[tags->stack_frame_count++] = key->frames[i];
    }
    return true;
}

/* Finds the number of the stack that a list of frames describes; equal lists share a number; NO_STACK: there is no
 * list. The list's mark caches the number plus 1, because events may share the list. */
static bool number_of_stack(struct torch_tags *tags, struct pickle_value *frames, uint32_t *number)
{
    *number = NO_STACK;
    if (!pickle_is_sequence(frames)) {
        return true;
    }
    if (frames->mark == 0) {
        struct stack_key key;
        uint32_t known;
        if (!gather_frames(tags, frames, &key)) {
            return false;
        }
        const uint64_t hash = trace_hash(key.frames, key.count * sizeof(*key.frames));
        if (!id_map_get(&tags->stack_by_hash, hash, &known) || !same_stack(tags, &tags->stacks[known], &key)) {
            known = tags->stack_count;
            if (!add_stack(tags, &key, hash)) {
                return false;
            }
        }
        frames->mark = known + 1;
    }
    *number = frames->mark - 1;
    return true;
}

/* --- labels --- */

/* Appends "; TEXT", or "TEXT" if `labels` is empty. Leaves out texts without content, such as "unknown" or "N/A". */
static void add_label(char labels[LABEL_BYTES], const char *prefix, const struct pickle_value *value)
{
    char text[LABEL_BYTES / 3 - 16];
    const size_t used = strlen(labels);
    if (value == NULL || value->kind != PICKLE_STR || value->count == 0 || pickle_is_text(value, "unknown") ||
        pickle_is_text(value, "N/A") || pickle_is_text(value, "None")) {
        return;
    }
    trace_quote(text, sizeof(text), value->as.text, value->count);
    snprintf(labels + used, LABEL_BYTES - used, "%s%s%s", used > 0 ? "; " : "", prefix, text);
}

/* Collects the labels of the memory profiler (category), the program (user_metadata) and torch.compile. */
static void gather_labels(const struct pickle_value *event, char labels[LABEL_BYTES])
{
    labels[0] = '\0';
    add_label(labels, "", pickle_get(event, "category"));
    add_label(labels, "", pickle_get(event, "user_metadata"));
    add_label(labels, "compile ", pickle_get(event, "compile_context"));
}

/* --- tags --- */

static bool make_tag(struct torch_tags *tags, uint32_t stack, const char *labels, uint32_t *tag)
{
    struct stack_key key = {.count = 0};
    char base[232] = "";
    char text[sizeof(base) + LABEL_BYTES + 4];
    if (stack != NO_STACK) {
        const struct torch_stack *known = &tags->stacks[stack];
        key.count = known->count;
        memcpy(key.frames, tags->stack_frames + known->first, known->count * sizeof(*key.frames));
        describe_stack(tags, &key, base, sizeof(base));
    }
    *tag = WEIR_TRACE_NONE;
    if (base[0] == '\0' && labels[0] == '\0') {
        return true;
    }
    if (base[0] == '\0') {
        snprintf(text, sizeof(text), "[%s]", labels);
    } else {
        snprintf(text, sizeof(text), labels[0] != '\0' ? "%s [%s]" : "%s", base, labels);
    }
    return builder_tag(tags->builder, text, strlen(text), tag) && (key.count == 0 || keep_stack(tags, &key, *tag));
}

static bool add_tag(struct torch_tags *tags, uint64_t hash, struct torch_tag tag)
{
    struct torch_tag *grown = grow_array(tags->tags, tags->tag_count, &tags->tag_capacity, sizeof(*grown));
    tags->tags = grown != NULL ? grown : tags->tags;
    if (grown == NULL || !id_map_put(&tags->tag_by_hash, hash, tags->tag_count)) {
        return builder_no_memory(tags->builder);
    }
    grown[tags->tag_count++] = tag;
    return true;
}

/* Returns the frames of an event or a block. Old snapshots have them in the first (latest) entry of a block's
 * history. */
static struct pickle_value *frames_of(const struct pickle_value *event)
{
    struct pickle_value *frames = pickle_get(event, "frames");
    const struct pickle_value *history = pickle_get(event, "history");
    if (frames == NULL && pickle_is_sequence(history) && history->count > 0) {
        frames = pickle_get(history->as.items[0], "frames");
    }
    return frames;
}

bool torch_tags_find(struct torch_tags *tags, const struct pickle_value *event, uint32_t *tag)
{
    char labels[LABEL_BYTES];
    uint32_t stack;
    uint32_t known;
    if (!number_of_stack(tags, frames_of(event), &stack)) {
        return false;
    }
    gather_labels(event, labels);
    const uint64_t hash = trace_hash(labels, strlen(labels)) ^ (stack + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    if (id_map_get(&tags->tag_by_hash, hash, &known) && tags->tags[known].stack == stack &&
        strcmp(tags->tags[known].labels, labels) == 0) {
        *tag = tags->tags[known].tag;
        return true;
    }
    char *kept = builder_text(tags->builder, labels, strlen(labels));
    if (kept == NULL) {
        return builder_no_memory(tags->builder);
    }
    return make_tag(tags, stack, kept, tag) &&
           add_tag(tags, hash, (struct torch_tag){.stack = stack, .tag = *tag, .labels = kept});
}

void torch_tags_free(struct torch_tags *tags)
{
    free(tags->frames);
    free(tags->stacks);
    free(tags->stack_frames);
    free(tags->tags);
    id_map_free(&tags->frame_by_hash);
    id_map_free(&tags->stack_by_hash);
    id_map_free(&tags->tag_by_hash);
}
