/* clean_text.c: see clean_text.h. */
#include "trace/clean_text.h"

#include <stdlib.h>
#include <string.h>

enum { most_piece = 4 };

/* Returns the length of the character that begins with `first`, 0 if no character does. *least and *most bound the
 * second byte: a byte outside them makes an overlong form, a surrogate, a number beyond U+10FFFF or a C1 control. */
static unsigned shape(unsigned char first, unsigned char *least, unsigned char *most)
{
    *least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Returns the length in bytes of the printable character at `at`; 0 if there is no printable character. */
static unsigned character(const unsigned char *at, size_t left)
{
    unsigned char least = 0;
    unsigned char most = 0;
    const unsigned bytes = shape(at[0], &least, &most);
    if (bytes == 1) {
        return at[0] >= 0x20 && at[0] != 0x7f;
    }
    if (bytes == 0 || bytes > left || at[1] < least || at[1] > most) {
        return 0;
    }
    for (unsigned i = 2; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return bytes;
}

/* Writes the next character, or the next byte as \xHH, to `piece`. Returns the length of the piece; *taken is the
 * number of bytes taken from the text. */
static unsigned next_piece(char piece[most_piece], const char *text, size_t left, unsigned *taken)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char first = (unsigned char)text[0];
    const unsigned bytes = character((const unsigned char *)text, left);
    if (bytes != 0) {
        memcpy(piece, text, bytes);
        *taken = bytes;
        return bytes;
    }
    memcpy(piece, (const char[]){'\\', 'x', digits[first >> 4], digits[first & 15]}, most_piece);
    *taken = 1;
    return most_piece;
}

size_t clean_text(char *out, size_t size, const char *text, size_t length)
{
    char piece[most_piece];
    unsigned taken = 0;
    size_t whole = 0;
    size_t written = 0;
    for (size_t i = 0; i < length; i += taken) {
        const unsigned bytes = next_piece(piece, text + i, length - i, &taken);
        if (written == whole && size > bytes && written < size - bytes) {
            memcpy(out + written, piece, bytes);
            written += bytes;
        }
        whole += bytes;
    }
    if (size > 0) {
        out[written] = '\0';
    }
    return whole;
}

char *clean_copy(const char *text, size_t length)
{
    const size_t size = clean_text(NULL, 0, text, length) + 1;
    char *const copy = malloc(size);
    if (copy != NULL) {
        (void)clean_text(copy, size, text, length);
    }
    return copy;
}

void clean_print(FILE *out, const char *text, size_t length)
{
    char piece[most_piece];
    unsigned taken = 0;
    for (size_t i = 0; i < length; i += taken) {
        const unsigned bytes = next_piece(piece, text + i, length - i, &taken);
        (void)fwrite(piece, 1, bytes, out);
    }
}
