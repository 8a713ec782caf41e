/* column.c: see column.h. */
#include "column.h"

#include <string.h>

static void write_base64(FILE *out, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[16384];
    size_t length = 0;
    for (size_t i = 0; i < size; i += 3) {
        const size_t present = size - i < 3 ? size - i : 3;
        const uint32_t bits = (uint32_t)bytes[i] << 16 | (present > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (present > 2 ? bytes[i + 2] : 0);
        text[length++] = digits[bits >> 18];
        text[length++] = digits[bits >> 12 & 63];
        text[length++] = present > 1 ? digits[bits >> 6 & 63] : '=';
        text[length++] = present > 2 ? digits[bits & 63] : '=';
    }
    (void)fwrite(text, 1, length, out);
}

/* Deflates the numbers so far, and writes each full buffer of packed bytes; with Z_FINISH, also the last buffer, which
 * may be partly filled. */
static void pack(struct column *column, int flush)
{
    z_stream *zlib = &column->zlib;
    zlib->next_in = column->numbers;
    zlib->avail_in = (uInt)column->filled;
    column->filled = 0;
    while (!column->failed) {
        const int result = deflate(zlib, flush);
        column->failed = result == Z_STREAM_ERROR;
        if (zlib->avail_out > 0 && result != Z_STREAM_END) {
            return; /* all numbers are taken */
        }
        write_base64(column->out, column->packed, sizeof(column->packed) - zlib->avail_out);
        zlib->next_out = column->packed;
        zlib->avail_out = sizeof(column->packed);
        if (result == Z_STREAM_END) {
            return;
        }
    }
}

void column_begin(struct column *column, FILE *out, const char *name)
{
    column->out = out;
    column->filled = 0;
    memset(&column->zlib, 0, sizeof(column->zlib));
    column->zlib.next_out = column->packed;
    column->zlib.avail_out = sizeof(column->packed);
    column->failed = deflateInit(&column->zlib, 9) != Z_OK;
    (void)fprintf(out, "<script type=\"text/plain\" id=\"%s\">", name);
}

void column_put(struct column *column, uint64_t value)
{
    if (sizeof(column->numbers) - column->filled < 10) {
        pack(column, Z_NO_FLUSH);
    }
    for (; value >= 128; value >>= 7) {
        column->numbers[column->filled++] = (unsigned char)(value | 128);
    }
    column->numbers[column->filled++] = (unsigned char)value;
}

bool column_end(struct column *column)
{
    pack(column, Z_FINISH);
    (void)deflateEnd(&column->zlib);
    (void)fputs("</script>\n", column->out);
    return !column->failed;
}
