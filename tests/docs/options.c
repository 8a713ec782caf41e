/* options.c: stands in front of a command's getopt_long and, instead of parsing, prints what the command would accept: one
 * option a line, "-s" or "--strategy". Whatever a help text says, this is the table that the parser has. */
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
