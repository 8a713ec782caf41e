/* complain.c: see complain.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf */
#endif

#include "complain.h"

#include "trace/clean_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int complain(const char *subcommand, bool usage, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    (void)fprintf(stderr, "weir %s: ", subcommand);
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        clean_print(stderr, text, (size_t)length);
        free(text);
    } else {
        (void)fputs("no host memory", stderr);
    }
    if (usage) {
        (void)fprintf(stderr, " (weir %s --help)", subcommand);
    }
    (void)fputc('\n', stderr);
    return EXIT_USAGE;
}
