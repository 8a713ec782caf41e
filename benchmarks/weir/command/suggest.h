/* suggest.h: finds the name that the user of a misspelt word probably meant. */
#ifndef WEIR_COMMAND_SUGGEST_H
#define WEIR_COMMAND_SUGGEST_H

#include <stddef.h>

/* A search for the nearest name. Set `word` and `length`, and all other members to zero, before the first suggest
 * call. */
struct suggestion {
    const char *word;
    size_t length;
    const char *meant; /* the nearest name so far; NULL: none is near enough */
    size_t distance;
};

/* Compares one more name. A name is near enough if at most two letters were mistaken, left out, added or exchanged with
 * their neighbour, and fewer than half of the name's letters. */
void suggest(struct suggestion *search, const char *name);

#endif
