/* core/shared/trace_fields.h: the fields of each kind of line of a trace, for the writer of lines and for their reader.
 *
 * A field is a letter; the fields stand on the line in this order, after the letter of the kind. A lower-case letter
 * (and '+') is always written. An upper-case letter is left out if the event has no value for it. A, S and U are known
 * by their place; all other upper-case letters are options with a key, which a reader takes in any order.
 *
 *   t time     n id of a new block        i id of a live block      o id of the block that a realloc replaces
 *   e event    z request, 0 is read as 1  b bytes, at least 1       q any number, into `size`    x any number, into
 *              `extra`
 *   s stream   f stream or '-'            h host thread             p private or capture pool    a address
 *   y object of a host wait               m phase and name          + '+' or '-'
 *   k B, E or R of a capture
 *   A address  S stream                   U r or w                  L al=   P pool=   V adv=   D d=   R addr=   G @N
 */
#ifndef WEIR_SHARED_TRACE_FIELDS_H
#define WEIR_SHARED_TRACE_FIELDS_H

#include <weir/trace.h>

typedef struct weir__trace_line {
    const char *fields; /* NULL: no kind of line */
    const char *syntax; /* the line as error messages show it; its words name the fields */
} weir__trace_line;

static const weir__trace_line weir__trace_lines[128] = {
    [WEIR_TRACE_PRIOR] = {"nbsADG", "p ID SIZE S [ADDR] [d=DEV] [@N]"},
    [WEIR_TRACE_ALLOC] = {"tnzshLPVDRG", "a T ID SIZE S TH [al=N] [pool=P] [adv=short|step|long|persistent] [d=DEV] "
                                         "[addr=A] [@N]"},
    [WEIR_TRACE_FREE] = {"tifh", "f T ID S TH"},
    [WEIR_TRACE_REALLOC] = {"tonzh", "r T OLD NEW SIZE TH"},
    [WEIR_TRACE_USE] = {"tisU", "u T ID S [r|w]"},
    [WEIR_TRACE_WORK] = {"tsqG", "w T S DUR [@N]"},
    [WEIR_TRACE_RECORD] = {"tes", "e T EV S"},
    [WEIR_TRACE_WAIT] = {"tes", "x T EV S"},
    [WEIR_TRACE_SYNC] = {"ty", "y T *|S|eEV"},
    [WEIR_TRACE_TRIM] = {"tS", "c T [S]"},
    [WEIR_TRACE_CAPACITY] = {"tq", "l T CAP"},
    [WEIR_TRACE_MARK] = {"tm", "m T B|E|I name"},
    [WEIR_TRACE_POOL] = {"t+p", "q T +|- P"},
    [WEIR_TRACE_CAPTURE] = {"tkpS", "g T B|E|R P [S]"},
    [WEIR_TRACE_SEGMENT] = {"t+abSD", "s T +|- ADDR SIZE [S] [d=DEV]"},
    [WEIR_TRACE_MAPPING] = {"t+abSD", "z T +|- ADDR SIZE [S] [d=DEV]"},
    [WEIR_TRACE_OOM] = {"tqxD", "o T SIZE FREE [d=DEV]"},
    [WEIR_TRACE_COUNTERS] = {"tqx", "v T RESERVED ALLOCATED"},
};

#endif
