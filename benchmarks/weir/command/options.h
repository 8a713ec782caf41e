/* options.h: one table of options for each subcommand: getopt_long's tables and the help text are made from it. */
#ifndef WEIR_COMMAND_OPTIONS_H
#define WEIR_COMMAND_OPTIONS_H

#include <stdbool.h>

/* An option. Exactly one of `flag`, `word` and `parse` is set; --help has none of them. */
struct option_row {
    const char *name;  /* long name; NULL ends a table */
    char letter;       /* 0: none */
    const char *value; /* as in the help; NULL: the option takes no value; "[=X]": the value may be left out */
    const char *text;  /* the help; a newline begins another line */
    bool *flag;        /* becomes true */
    const char **word; /* becomes the value */
    int (*parse)(void *ctx, const char *value); /* returns EXIT_DONE, or EXIT_USAGE after complain() */
    void *ctx;                                  /* first argument of `parse`; NULL: the settings of the subcommand */
};

#define OPTION_HELP                                                                                                    \
    {                                                                                                                  \
        .name = "help", .letter = 'h', .text = "print this text"                                                       \
    }

enum { most_options = 32 }; /* the most rows that a table may have, its end row included */

/* The only argument of a subcommand: print the names of its options (completion.bash). */
#define OPTIONS_FOR_COMPLETION "--list-options"

struct subcommand {
    const char *name;
    const char *head;     /* start of the help, before the options */
    void (*middle)(void); /* prints a generated part of the help after `head`; may be NULL */
    const char *tail;     /* end of the help, behind the options */
    bool stops;           /* parsing stops at the first argument that is not an option */
};

/* Reads the options up to `optind`. Returns EXIT_DONE, EXIT_USAGE after a message, or -1 after it has printed the
 * help. */
int read_options(const struct subcommand *command, const struct option_row *rows, void *settings, int argc,
                 char **argv);

#endif
