/* pickle.c: a stack machine for the opcodes of plain data, protocols 0 to 5.
 *
 * Like Python's machine it has a stack of values, a stack of marks, and a memo. Values are nodes in an arena. The
 * marked part of the stack is the slice above the last mark; an opcode never reads below it.
 *
 *     invariant: marks[i] <= marks[i + 1] <= stack_count;   memo index < memo_count <= input size
 *
 * The arena may hold 64 bytes for each byte of input and a little more: the densest input that is not an attack, a list
 * of small integers, takes half of that.
 */
#include "pickle.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_PER_BYTE 64u
#define ARENA_BASE ((uint64_t)1 << 20)
#define SMALL_INTS 256u
#define MOST_ITEMS UINT32_MAX
#define VALUE_POINTER sizeof(void *) /* stack, memo and containers hold pointers to values */

struct machine {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    const unsigned char *opcode; /* current instruction, for messages */
    const char *name;            /* name of its opcode */
    const char *path;
    struct trace_error *error;
    struct arena *arena;
    unsigned protocol;
    bool stopped;

    struct pickle_value **stack;
    size_t stack_count;
    size_t stack_capacity;
    size_t *marks;
    size_t mark_count;
    size_t mark_capacity;
    struct pickle_value **memo; /* NULL = not set */
    size_t memo_count;
    size_t memo_set; /* entries that are set */

    struct pickle_value *none;
    struct pickle_value *truth[2];
    struct pickle_value *small[SMALL_INTS]; /* 0 .. 255, made when first met */
};

/* --- messages --- */

static bool fail(struct machine *machine, weir_status status, const char *format, ...) TRACE_PRINTF(3, 4);

static bool fail(struct machine *machine, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    uint64_t byte = (uint64_t)(machine->opcode - machine->start);
    bool none = trace_say_byte(machine->error, status, machine->path, byte, format, arguments);
    va_end(arguments);
    return none;
}

static bool fail_short(struct machine *machine)
{
    machine->opcode = machine->end;
    return fail(machine, WEIR_ERR_INVALID, "the pickle ends in the middle (%s)",
                machine->name != NULL ? machine->name : "no STOP");
}

static bool fail_memory(struct machine *machine)
{
    if (machine->arena->refused) {
        return fail(machine, WEIR_ERR_LIMIT,
                    "the pickle needs more than %" PRIu64 " bytes of memory, too much for "
                    "its size",
                    machine->arena->limit);
    }
    return fail(machine, WEIR_ERR_NO_MEMORY, "out of memory");
}

static bool fail_type(struct machine *machine, const char *what, const struct pickle_value *value)
{
    return fail(machine, WEIR_ERR_INVALID, "%s needs %s, but there is %s", machine->name, what,
                pickle_kind_name(value));
}

/* --- input --- */

static size_t left(const struct machine *machine)
{
    return (size_t)(machine->end - machine->at);
}

/* Returns the next `size` bytes; NULL, with an error, if the input is too short. */
static const unsigned char *take(struct machine *machine, uint64_t size)
{
    if (size > left(machine)) {
        fail_short(machine);
        return NULL;
    }
    const unsigned char *bytes = machine->at;
    machine->at += size;
    return bytes;
}

/* Reads an unsigned little-endian number of `size` bytes. */
static bool take_number(struct machine *machine, unsigned size, uint64_t *out)
{
    const unsigned char *bytes = take(machine, size);
    if (bytes == NULL) {
        return false;
    }
    uint64_t number = 0;
    for (unsigned i = size; i > 0; i--) {
        number = number << 8 | bytes[i - 1];
    }
    *out = number;
    return true;
}

/* Reads a line of the text protocol and returns it without its newline. */
static const char *take_line(struct machine *machine, size_t *length)
{
    const unsigned char *newline = left(machine) > 0 ? memchr(machine->at, '\n', left(machine)) : NULL;
    if (newline == NULL) {
        fail_short(machine);
        return NULL;
    }
    const char *line = (const char *)machine->at;
    *length = (size_t)(newline - machine->at);
    machine->at = newline + 1;
    return line;
}

/* --- values --- */

static struct pickle_value *make(struct machine *machine, enum pickle_kind kind)
{
    struct pickle_value *value = arena_alloc(machine->arena, sizeof(*value));
    if (value == NULL) {
        fail_memory(machine);
        return NULL;
    }
    memset(value, 0, sizeof(*value));
    value->kind = kind;
    return value;
}

static bool push(struct machine *machine, struct pickle_value *value)
{
    if (value == NULL) {
        return false;
    }
    struct pickle_value **stack =
        grow_array(machine->stack, machine->stack_count, &machine->stack_capacity, VALUE_POINTER);
    if (stack == NULL) {
        return fail_memory(machine);
    }
    machine->stack = stack;
    stack[machine->stack_count++] = value;
    return true;
}

static bool push_none(struct machine *machine)
{
    if (machine->none == NULL) {
        machine->none = make(machine, PICKLE_NONE);
    }
    return push(machine, machine->none);
}

static bool push_bool(struct machine *machine, bool truth)
{
    if (machine->truth[truth] == NULL) {
        machine->truth[truth] = make(machine, PICKLE_BOOL);
        if (machine->truth[truth] != NULL) {
            machine->truth[truth]->as.boolean = truth;
        }
    }
    return push(machine, machine->truth[truth]);
}

static bool push_int(struct machine *machine, int64_t integer)
{
    bool small = integer >= 0 && integer < (int64_t)SMALL_INTS;
    struct pickle_value *value = small ? machine->small[integer] : NULL;
    if (value == NULL) {
        value = make(machine, PICKLE_INT);
        if (value == NULL) {
            return false;
        }
        value->as.integer = integer;
        if (small) {
            machine->small[integer] = value;
        }
    }
    return push(machine, value);
}

static bool push_uint(struct machine *machine, uint64_t integer)
{
    if (integer <= INT64_MAX) {
        return push_int(machine, (int64_t)integer);
    }
    struct pickle_value *value = make(machine, PICKLE_UINT);
    if (value == NULL) {
        return false;
    }
    value->as.unsigned_integer = integer;
    return push(machine, value);
}

static bool push_float(struct machine *machine, double real)
{
    struct pickle_value *value = make(machine, PICKLE_FLOAT);
    if (value == NULL) {
        return false;
    }
    value->as.real = real;
    return push(machine, value);
}

static bool push_text(struct machine *machine, enum pickle_kind kind, const char *text, uint64_t length)
{
    if (length > MOST_ITEMS) {
        return fail(machine, WEIR_ERR_LIMIT, "%s of %" PRIu64 " bytes is too long", machine->name, length);
    }
    struct pickle_value *value = make(machine, kind);
    if (value == NULL) {
        return false;
    }
    value->count = (uint32_t)length;
    value->as.text = text;
    return push(machine, value);
}

/* Makes a tuple or list of the values above `from` on the stack. */
static struct pickle_value *collect(struct machine *machine, enum pickle_kind kind, size_t from)
{
    size_t count = machine->stack_count - from;
    struct pickle_value *value = make(machine, kind);
    if (value == NULL || count > MOST_ITEMS) {
        return NULL;
    }
    if (count > 0) {
        value->as.items = arena_alloc(machine->arena, count * VALUE_POINTER);
        if (value->as.items == NULL) {
            fail_memory(machine);
            return NULL;
        }
        memcpy(value->as.items, machine->stack + from, count * VALUE_POINTER);
    }
    value->count = (uint32_t)count;
    value->room = (uint32_t)count;
    machine->stack_count = from;
    return value;
}

/* Makes room for `more` items. Doubles the room, so that old copies in the arena take less memory than the items. */
static bool make_room(struct machine *machine, struct pickle_value *value, size_t more)
{
    uint64_t need = (uint64_t)value->count + more;
    if (need <= value->room) {
        return true;
    }
    uint64_t room = value->room == 0 ? need : (uint64_t)value->room * 2;
    room = room < need ? need : room;
    if (room > MOST_ITEMS) {
        return fail(machine, WEIR_ERR_LIMIT, "%s makes too long a container", machine->name);
    }
    struct pickle_value **items = arena_alloc(machine->arena, (size_t)room * VALUE_POINTER);
    if (items == NULL) {
        return fail_memory(machine);
    }
    if (value->count > 0) {
        memcpy(items, value->as.items, value->count * VALUE_POINTER);
    }
    value->as.items = items;
    value->room = (uint32_t)room;
    return true;
}

/* Appends the values above the stack position `from` to the container right below them. */
static bool move_into(struct machine *machine, enum pickle_kind kind, size_t from)
{
    struct pickle_value *container = machine->stack[from - 1];
    size_t count = machine->stack_count - from;
    if (container->kind != kind) {
        return fail_type(machine, kind == PICKLE_LIST ? "a list" : "a dict", container);
    }
    if (!make_room(machine, container, count)) {
        return false;
    }
    if (count > 0) {
        memcpy(container->as.items + container->count, machine->stack + from, count * VALUE_POINTER);
    }
    container->count += (uint32_t)count;
    machine->stack_count = from;
    return true;
}

/* --- stack, marks, memo --- */

/* Returns the lowest stack position that an opcode may use unless it pops a mark. */
static size_t floor_of(const struct machine *machine)
{
    return machine->mark_count > 0 ? machine->marks[machine->mark_count - 1] : 0;
}

static bool need(struct machine *machine, size_t count)
{
    if (machine->stack_count - floor_of(machine) < count) {
        return fail(machine, WEIR_ERR_INVALID, "%s finds too few values on the stack", machine->name);
    }
    return true;
}

static bool pop_mark(struct machine *machine, size_t *from)
{
    if (machine->mark_count == 0) {
        return fail(machine, WEIR_ERR_INVALID, "%s finds no mark on the stack", machine->name);
    }
    *from = machine->marks[--machine->mark_count];
    return true;
}

/* Pops a stack mark, which must have a list or a dict right below it. */
static bool pop_mark_above_container(struct machine *machine, size_t *from)
{
    if (!pop_mark(machine, from)) {
        return false;
    }
    if (*from == 0 || *from - 1 < floor_of(machine)) {
        return fail(machine, WEIR_ERR_INVALID, "%s finds no container below its mark", machine->name);
    }
    return true;
}

static bool push_mark(struct machine *machine)
{
    size_t *marks = grow_array(machine->marks, machine->mark_count, &machine->mark_capacity, sizeof(*marks));
    if (marks == NULL) {
        return fail_memory(machine);
    }
    machine->marks = marks;
    marks[machine->mark_count++] = machine->stack_count;
    return true;
}

/* Grows the memo to hold `index`, which must be below the number of input bytes: Python numbers entries densely. */
static bool reach_memo(struct machine *machine, uint64_t index)
{
    if (index < machine->memo_count) {
        return true;
    }
    uint64_t size = (uint64_t)(machine->end - machine->start);
    if (index >= size) {
        return fail(machine, WEIR_ERR_INVALID, "%s with memo index %" PRIu64 ", more than the pickle has bytes",
                    machine->name, index);
    }
    uint64_t count = machine->memo_count < 64 ? 64 : (uint64_t)machine->memo_count * 2;
    count = count <= index ? index + 1 : count;
    struct pickle_value **memo = realloc(machine->memo, (size_t)count * VALUE_POINTER);
    if (memo == NULL) {
        return fail_memory(machine);
    }
    memset(memo + machine->memo_count, 0, ((size_t)count - machine->memo_count) * VALUE_POINTER);
    machine->memo = memo;
    machine->memo_count = (size_t)count;
    return true;
}

static bool put_memo(struct machine *machine, uint64_t index)
{
    if (!need(machine, 1) || !reach_memo(machine, index)) {
        return false;
    }
    assert(machine->stack != NULL); /* the stack holds a value */
    machine->memo_set += machine->memo[index] == NULL;
    machine->memo[index] = machine->stack[machine->stack_count - 1];
    return true;
}

static bool get_memo(struct machine *machine, uint64_t index)
{
    if (index >= machine->memo_count || machine->memo[index] == NULL) {
        return fail(machine, WEIR_ERR_INVALID, "%s with memo index %" PRIu64 ", which nothing has set", machine->name,
                    index);
    }
    return push(machine, machine->memo[index]);
}

/* --- numbers in their several encodings --- */

/* Pushes a two's complement number of `size` bytes, little end first. */
static bool push_long(struct machine *machine, uint64_t size)
{
    const unsigned char *bytes = take(machine, size);
    if (bytes == NULL) {
        return false;
    }
    bool negative = size > 0 && (bytes[size - 1] & 0x80) != 0;
    uint64_t number = negative ? UINT64_MAX : 0;
    bool fits = true;
    for (uint64_t i = size; i > 0; i--) {
        if (i > 8) {
            fits = fits && bytes[i - 1] == (negative ? 0xff : 0);
        } else {
            number = number << 8 | bytes[i - 1];
        }
    }
    if (negative && number <= INT64_MAX) {
        fits = false;
    }
    if (!fits) {
        return fail(machine, WEIR_ERR_LIMIT, "%s of %" PRIu64 " bytes does not fit in 64 bits", machine->name, size);
    }
    return negative ? push_int(machine, -(int64_t)(UINT64_MAX - number) - 1) : push_uint(machine, number);
}

static bool scan_decimal(const char *text, size_t length, bool *negative, uint64_t *number)
{
    size_t i = 0;
    *negative = length > 0 && text[0] == '-';
    i += *negative;
    if (i == length) {
        return false;
    }
    *number = 0;
    for (; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return !*negative || *number <= (uint64_t)INT64_MAX + 1;
}

/* Pushes the number that the next line holds: INT "42", LONG "42L" and, in protocol 1, the booleans "00" and "01". */
static bool push_decimal_line(struct machine *machine, bool booleans)
{
    size_t length = 0;
    const char *line = take_line(machine, &length);
    if (line == NULL) {
        return false;
    }
    if (booleans && length == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) {
        return push_bool(machine, line[1] == '1');
    }
    if (length > 0 && line[length - 1] == 'L') {
        length--;
    }
    bool negative;
    uint64_t number;
    if (!scan_decimal(line, length, &negative, &number)) {
        return fail(machine, WEIR_ERR_INVALID, "%s is no decimal number of 64 bits", machine->name);
    }
    if (negative && number > 0) {
        return push_int(machine, -(int64_t)(number - 1) - 1);
    }
    return push_uint(machine, number);
}

static bool push_float_line(struct machine *machine)
{
    size_t length = 0;
    const char *line = take_line(machine, &length);
    char text[64];
    if (line == NULL) {
        return false;
    }
    if (length == 0 || length >= sizeof(text)) {
        return fail(machine, WEIR_ERR_INVALID, "%s is no number", machine->name);
    }
    memcpy(text, line, length);
    text[length] = '\0';
    char *stop = NULL;
    double real = strtod(text, &stop);
    if (stop != text + length) {
        return fail(machine, WEIR_ERR_INVALID, "%s is no number", machine->name);
    }
    return push_float(machine, real);
}

/* Pushes an IEEE 754 number of eight bytes, big end first. */
static bool push_binary_float(struct machine *machine)
{
    const unsigned char *bytes = take(machine, 8);
    if (bytes == NULL) {
        return false;
    }
    uint64_t bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    double real;
    memcpy(&real, &bits, sizeof(real));
    return push_float(machine, real);
}

/* --- text in its several encodings --- */

static bool push_sized_text(struct machine *machine, enum pickle_kind kind, unsigned size_bytes)
{
    uint64_t length;
    if (!take_number(machine, size_bytes, &length)) {
        return false;
    }
    const unsigned char *bytes = take(machine, length);
    return bytes != NULL && push_text(machine, kind, (const char *)bytes, length);
}

/* Reads `digits` hexadecimal digits at text[*i]; returns -1 if there are fewer. */
static int64_t scan_hex(const char *text, size_t length, size_t *i, unsigned digits)
{
    int64_t number = 0;
    for (unsigned d = 0; d < digits; d++) {
        if (*i >= length || hex_digit(text[*i]) < 0) {
            return -1;
        }
        number = number * 16 + hex_digit(text[(*i)++]);
    }
    return number;
}

/* Decodes one escape sequence; its backslash stands before text[*i]. Returns false if it is invalid. An escape sequence
 * is never shorter than its character, so `out` needs no more room than the text. */
static bool put_escape(const char *text, size_t length, size_t *i, bool unicode, char *out, size_t *written)
{
    char c = text[(*i)++];
    int64_t code = -1;
    if (unicode && (c == 'u' || c == 'U')) {
        code = scan_hex(text, length, i, c == 'u' ? 4 : 8);
    } else if (unicode) {
        out[(*written)++] = '\\';
        (*i)--;
        return true;
    } else if (c == 'x') {
        code = scan_hex(text, length, i, 2);
        if (code >= 0) {
            out[(*written)++] = (char)code;
            return true;
        }
    } else {
        static const char from[] = "\\'\"nrtabfv0";
        static const char to[] = "\\'\"\n\r\t\a\b\f\v\0";
        const char *known = c != '\0' ? strchr(from, c) : NULL;
        code = known != NULL ? to[known - from] : -1;
    }
    if (code < 0 || code > 0x10ffff) {
        return false;
    }
    *written += put_utf8(out + *written, (uint32_t)code);
    return true;
}

static bool push_escaped(struct machine *machine, const char *text, size_t length, bool unicode)
{
    char *out = arena_alloc(machine->arena, length + 1);
    if (out == NULL) {
        return fail_memory(machine);
    }
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        char c = text[i++];
        if (c != '\\') {
            out[written++] = c;
        } else if (i >= length || !put_escape(text, length, &i, unicode, out, &written)) {
            return fail(machine, WEIR_ERR_INVALID, "%s with an escape that is none", machine->name);
        }
    }
    return push_text(machine, PICKLE_STR, out, written);
}

/* Pushes the text of a STRING line of protocol 0: Python's notation, in single or double quotes. */
static bool push_string_line(struct machine *machine)
{
    size_t length = 0;
    const char *line = take_line(machine, &length);
    if (line == NULL) {
        return false;
    }
    bool quoted = length >= 2 && (line[0] == '\'' || line[0] == '"') && line[length - 1] == line[0];
    if (!quoted) {
        return fail(machine, WEIR_ERR_INVALID, "%s without its quotes", machine->name);
    }
    return push_escaped(machine, line + 1, length - 2, false);
}

static bool push_unicode_line(struct machine *machine)
{
    size_t length = 0;
    const char *line = take_line(machine, &length);
    return line != NULL && push_escaped(machine, line, length, true);
}

/* --- containers --- */

static bool push_tuple(struct machine *machine, size_t count)
{
    if (!need(machine, count)) {
        return false;
    }
    return push(machine, collect(machine, PICKLE_TUPLE, machine->stack_count - count));
}

static bool push_marked(struct machine *machine, enum pickle_kind kind)
{
    size_t from = 0;
    if (!pop_mark(machine, &from)) {
        return false;
    }
    if (kind == PICKLE_DICT && (machine->stack_count - from) % 2 != 0) {
        return fail(machine, WEIR_ERR_INVALID, "%s finds a key without a value", machine->name);
    }
    return push(machine, collect(machine, kind, from));
}

static bool append_marked(struct machine *machine)
{
    size_t from = 0;
    return pop_mark_above_container(machine, &from) && move_into(machine, PICKLE_LIST, from);
}

static bool set_marked(struct machine *machine)
{
    size_t from = 0;
    if (!pop_mark_above_container(machine, &from)) {
        return false;
    }
    if ((machine->stack_count - from) % 2 != 0) {
        return fail(machine, WEIR_ERR_INVALID, "%s finds a key without a value", machine->name);
    }
    return move_into(machine, PICKLE_DICT, from);
}

static bool pop_value(struct machine *machine)
{
    if (machine->stack_count == floor_of(machine) && machine->mark_count > 0) {
        machine->mark_count--;
        return true;
    }
    if (!need(machine, 1)) {
        return false;
    }
    machine->stack_count--;
    return true;
}

static bool pop_to_mark(struct machine *machine)
{
    return pop_mark(machine, &machine->stack_count);
}

static bool duplicate(struct machine *machine)
{
    if (!need(machine, 1)) {
        return false;
    }
    assert(machine->stack != NULL); /* the stack holds a value */
    return push(machine, machine->stack[machine->stack_count - 1]);
}

/* --- the opcodes --- */

static bool take_protocol(struct machine *machine)
{
    uint64_t protocol;
    if (!take_number(machine, 1, &protocol)) {
        return false;
    }
    if (protocol > 5) {
        return fail(machine, WEIR_ERR_UNSUPPORTED, "pickle protocol %" PRIu64 " is not known; 0 to 5 are", protocol);
    }
    machine->protocol = (unsigned)protocol;
    return true;
}

/* Checks the size in a FRAME opcode. Frames only help readers of a pipe, but a frame that reaches beyond the end of the
 * input reveals a cut file early. */
static bool take_frame(struct machine *machine)
{
    uint64_t size;
    if (!take_number(machine, 8, &size)) {
        return false;
    }
    return size <= left(machine) || fail_short(machine);
}

static bool take_memo_index(struct machine *machine, unsigned size_bytes, uint64_t *index)
{
    if (size_bytes > 0) {
        return take_number(machine, size_bytes, index);
    }
    size_t length = 0;
    const char *line = take_line(machine, &length);
    if (line == NULL) {
        return false;
    }
    bool negative;
    if (!scan_decimal(line, length, &negative, index) || negative) {
        return fail(machine, WEIR_ERR_INVALID, "%s with an index that is no number", machine->name);
    }
    return true;
}

static bool put_indexed(struct machine *machine, unsigned size_bytes)
{
    uint64_t index = 0;
    return take_memo_index(machine, size_bytes, &index) && put_memo(machine, index);
}

static bool get_indexed(struct machine *machine, unsigned size_bytes)
{
    uint64_t index = 0;
    return take_memo_index(machine, size_bytes, &index) && get_memo(machine, index);
}

/* The MEMOIZE opcode, as in Python: stores the top value at the next memo index, the number of stored entries. */
static bool memoize(struct machine *machine)
{
    return put_memo(machine, machine->memo_set);
}

static bool push_sized_int(struct machine *machine, unsigned size_bytes)
{
    uint64_t number;
    if (!take_number(machine, size_bytes, &number)) {
        return false;
    }
    bool negative = size_bytes == 4 && number > INT32_MAX;
    return push_int(machine, negative ? (int64_t)number - ((int64_t)1 << 32) : (int64_t)number);
}

static bool push_sized_long(struct machine *machine, unsigned size_bytes)
{
    uint64_t size;
    if (!take_number(machine, size_bytes, &size)) {
        return false;
    }
    if (size_bytes == 4 && size > INT32_MAX) {
        return fail(machine, WEIR_ERR_INVALID, "%s of a negative size", machine->name);
    }
    return push_long(machine, size);
}

/* X(byte, NAME, action): the pickle opcodes of plain data. */
#define PLAIN_OPCODES(X)                                                                                               \
    X('(', MARK, push_mark(machine))                                                                                   \
    X('0', POP, pop_value(machine))                                                                                    \
    X('1', POP_MARK, pop_to_mark(machine))                                                                             \
    X('2', DUP, duplicate(machine))                                                                                    \
    X('N', NONE, push_none(machine))                                                                                   \
    X(0x88, NEWTRUE, push_bool(machine, true))                                                                         \
    X(0x89, NEWFALSE, push_bool(machine, false))                                                                       \
    X('I', INT, push_decimal_line(machine, true))                                                                      \
    X('L', LONG, push_decimal_line(machine, false))                                                                    \
    X('J', BININT, push_sized_int(machine, 4))                                                                         \
    X('K', BININT1, push_sized_int(machine, 1))                                                                        \
    X('M', BININT2, push_sized_int(machine, 2))                                                                        \
    X(0x8a, LONG1, push_sized_long(machine, 1))                                                                        \
    X(0x8b, LONG4, push_sized_long(machine, 4))                                                                        \
    X('F', FLOAT, push_float_line(machine))                                                                            \
    X('G', BINFLOAT, push_binary_float(machine))                                                                       \
    X('S', STRING, push_string_line(machine))                                                                          \
    X('V', UNICODE, push_unicode_line(machine))                                                                        \
    X('U', SHORT_BINSTRING, push_sized_text(machine, PICKLE_STR, 1))                                                   \
    X('T', BINSTRING, push_sized_text(machine, PICKLE_STR, 4))                                                         \
    X(0x8c, SHORT_BINUNICODE, push_sized_text(machine, PICKLE_STR, 1))                                                 \
    X('X', BINUNICODE, push_sized_text(machine, PICKLE_STR, 4))                                                        \
    X(0x8d, BINUNICODE8, push_sized_text(machine, PICKLE_STR, 8))                                                      \
    X('C', SHORT_BINBYTES, push_sized_text(machine, PICKLE_BYTES, 1))                                                  \
    X('B', BINBYTES, push_sized_text(machine, PICKLE_BYTES, 4))                                                        \
    X(0x8e, BINBYTES8, push_sized_text(machine, PICKLE_BYTES, 8))                                                      \
    X(0x96, BYTEARRAY8, push_sized_text(machine, PICKLE_BYTES, 8))                                                     \
    X(']', EMPTY_LIST, push(machine, make(machine, PICKLE_LIST)))                                                      \
    X('l', LIST, push_marked(machine, PICKLE_LIST))                                                                    \
    X('a', APPEND, need(machine, 2) && move_into(machine, PICKLE_LIST, machine->stack_count - 1))                      \
    X('e', APPENDS, append_marked(machine))                                                                            \
    X('}', EMPTY_DICT, push(machine, make(machine, PICKLE_DICT)))                                                      \
    X('d', DICT, push_marked(machine, PICKLE_DICT))                                                                    \
    X('s', SETITEM, need(machine, 3) && move_into(machine, PICKLE_DICT, machine->stack_count - 2))                     \
    X('u', SETITEMS, set_marked(machine))                                                                              \
    X(')', EMPTY_TUPLE, push_tuple(machine, 0))                                                                        \
    X(0x85, TUPLE1, push_tuple(machine, 1))                                                                            \
    X(0x86, TUPLE2, push_tuple(machine, 2))                                                                            \
    X(0x87, TUPLE3, push_tuple(machine, 3))                                                                            \
    X('t', TUPLE, push_marked(machine, PICKLE_TUPLE))                                                                  \
    X('g', GET, get_indexed(machine, 0))                                                                               \
    X('h', BINGET, get_indexed(machine, 1))                                                                            \
    X('j', LONG_BINGET, get_indexed(machine, 4))                                                                       \
    X('p', PUT, put_indexed(machine, 0))                                                                               \
    X('q', BINPUT, put_indexed(machine, 1))                                                                            \
    X('r', LONG_BINPUT, put_indexed(machine, 4))                                                                       \
    X(0x94, MEMOIZE, memoize(machine))                                                                                 \
    X(0x80, PROTO, take_protocol(machine))                                                                             \
    X(0x95, FRAME, take_frame(machine))                                                                                \
    X('.', STOP, (machine->stopped = true))

/* X(byte, NAME): pickle opcodes that name, import, build or call an object, or hold data that a snapshot cannot
 * contain. */
#define REFUSED_OPCODES(X)                                                                                             \
    X('c', GLOBAL)                                                                                                     \
    X(0x93, STACK_GLOBAL)                                                                                              \
    X('R', REDUCE)                                                                                                     \
    X('b', BUILD)                                                                                                      \
    X('i', INST)                                                                                                       \
    X('o', OBJ)                                                                                                        \
    X(0x81, NEWOBJ)                                                                                                    \
    X(0x92, NEWOBJ_EX)                                                                                                 \
    X(0x82, EXT1)                                                                                                      \
    X(0x83, EXT2)                                                                                                      \
    X(0x84, EXT4)                                                                                                      \
    X('P', PERSID)                                                                                                     \
    X('Q', BINPERSID)                                                                                                  \
    X(0x8f, EMPTY_SET)                                                                                                 \
    X(0x90, ADDITEMS)                                                                                                  \
    X(0x91, FROZENSET)                                                                                                 \
    X(0x97, NEXT_BUFFER)                                                                                               \
    X(0x98, READONLY_BUFFER)

static bool refuse(struct machine *machine, const char *name)
{
    return fail(machine, WEIR_ERR_UNSUPPORTED,
                "opcode %s (0x%02x) is refused; a memory snapshot is plain data and nothing is executed", name,
                (unsigned)*machine->opcode);
}

static bool run_opcode(struct machine *machine, unsigned char opcode)
{
    switch (opcode) {
#define PLAIN_CASE(byte, opcode_name, action)                                                                          \
    case byte:                                                                                                         \
        machine->name = #opcode_name;                                                                                  \
        return action;
        PLAIN_OPCODES(PLAIN_CASE)
#undef PLAIN_CASE
#define REFUSED_CASE(byte, opcode_name)                                                                                \
    case byte:                                                                                                         \
        return refuse(machine, #opcode_name);
        REFUSED_OPCODES(REFUSED_CASE)
#undef REFUSED_CASE
    default:
        return fail(machine, WEIR_ERR_INVALID, "0x%02x is no pickle opcode", (unsigned)opcode);
    }
}

static bool run(struct machine *machine)
{
    while (!machine->stopped) {
        machine->opcode = machine->at;
        const unsigned char *opcode = take(machine, 1);
        if (opcode == NULL || !run_opcode(machine, *opcode)) {
            return false;
        }
    }
    if (machine->stack_count == 0) {
        return fail(machine, WEIR_ERR_INVALID, "STOP finds no value on the stack");
    }
    if (left(machine) > 0) {
        machine->opcode = machine->at;
        return fail(machine, WEIR_ERR_INVALID, "%zu bytes follow the end of the pickle", left(machine));
    }
    return true;
}

bool pickle_parse(const struct trace_source *source, struct pickle *out, struct trace_error *error)
{
    memset(out, 0, sizeof(*out));
    out->arena.limit = ARENA_BASE + ARENA_PER_BYTE * (uint64_t)source->size;
    struct machine machine = {
        .start = source->bytes,
        .at = source->bytes,
        .end = source->bytes + source->size,
        .opcode = source->bytes,
        .path = source->path,
        .error = error,
        .arena = &out->arena,
    };
    bool done = run(&machine);
    if (done) {
        out->root = machine.stack[machine.stack_count - 1];
        out->protocol = machine.protocol;
    } else {
        pickle_free(out);
    }
    free(machine.stack);
    free(machine.marks);
    free(machine.memo);
    return done;
}

void pickle_free(struct pickle *pickle)
{
    arena_free(&pickle->arena);
    pickle->root = NULL;
}

/* --- reading values --- */

bool pickle_is_text(const struct pickle_value *value, const char *text)
{
    size_t length = strlen(text);
    return value != NULL && value->kind == PICKLE_STR && value->count == length &&
           memcmp(value->as.text, text, length) == 0;
}

struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    if (dict == NULL || dict->kind != PICKLE_DICT) {
        return NULL;
    }
    for (uint32_t i = dict->count; i >= 2; i -= 2) {
        if (pickle_is_text(dict->as.items[i - 2], key)) {
            return dict->as.items[i - 1];
        }
    }
    return NULL;
}

bool pickle_is_sequence(const struct pickle_value *value)
{
    return value != NULL && (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE);
}

bool pickle_number(const struct pickle_value *value, uint64_t *out)
{
    if (value == NULL) {
        return false;
    }
    switch (value->kind) {
    case PICKLE_INT:
        if (value->as.integer < 0) {
            return false;
        }
        *out = (uint64_t)value->as.integer;
        return true;
    case PICKLE_UINT:
        *out = value->as.unsigned_integer;
        return true;
    case PICKLE_FLOAT:
        if (!(value->as.real >= 0 && value->as.real < 9.2e18)) {
            return false;
        }
        *out = (uint64_t)value->as.real;
        return true;
    default:
        return false;
    }
}

bool pickle_get_number(const struct pickle_value *dict, const char *key, uint64_t *out)
{
    return pickle_number(pickle_get(dict, key), out);
}

uint64_t pickle_get_number_or(const struct pickle_value *dict, const char *key, uint64_t otherwise)
{
    uint64_t number = otherwise;
    (void)pickle_get_number(dict, key, &number);
    return number;
}

bool pickle_walk_spend(struct pickle_walk *walk, uint64_t steps)
{
    if (steps > walk->steps) {
        return trace_say(walk->error, WEIR_ERR_LIMIT, walk->path,
                         "byte 0: the snapshot repeats the same objects more often than its size allows");
    }
    walk->steps -= steps;
    return true;
}

const char *pickle_kind_name(const struct pickle_value *value)
{
    static const char *const names[] = {
        "None", "a bool", "an int", "an int", "a float", "a str", "a bytes", "a list", "a tuple", "a dict",
    };
    return value == NULL ? "nothing" : names[value->kind];
}
