/* suggest.c: see suggest.h. */
#include "suggest.h"

#include <string.h>

enum { most_letters = 32, most_mistakes = 2 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the number of mistakes that turn one word into the other. Both have at most most_letters letters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[most_letters + 1][most_letters + 1];
    for (size_t i = 0; i <= a_length; i++) {
        rows[i][0] = i;
    }
    for (size_t k = 0; k <= b_length; k++) {
        rows[0][k] = k;
    }
    for (size_t i = 1; i <= a_length; i++) {
        for (size_t k = 1; k <= b_length; k++) {
            rows[i][k] = least(rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]), least(rows[i - 1][k], rows[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
            }
        }
    }
    return rows[a_length][b_length];
}

void suggest(struct suggestion *search, const char *name)
{
    const size_t length = strlen(name);
    if (search->length > most_letters || length > most_letters) {
        return;
    }
    const size_t mistakes = distance(search->word, search->length, name, length);
    if (mistakes <= most_mistakes && mistakes * 2 < length && (search->meant == NULL || mistakes < search->distance)) {
        search->meant = name;
        search->distance = mistakes;
    }
}
