/* options.c: replaces a command's getopt_long. The replacement prints the options that the command accepts and parses
 * nothing. One option a line: "-s" or "--strategy". The output comes from the parser's table, not from a help text. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int getopt_long(int argc, char *const argv[], const char *letters,
                                                       const struct option *options, int *index)
{
    (void)argc, (void)argv, (void)index;
    for (const char *letter = letters; *letter != '\0'; letter++) {
        if (*letter != ':' && *letter != '+' && *letter != '-') {
            (void)printf("-%c\n", *letter);
        }
    }
    for (; options->name != NULL; options++) {
        (void)printf("--%s\n", options->name);
    }
    exit(0);
}
