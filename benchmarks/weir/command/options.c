/* options.c: see options.h. */
#include "options.h"

#include "complain.h"
#include "suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { code_of_first = 256 }; /* the code that getopt_long returns for row 0; each further row has the next number */

/* Writes the option as the help shows it: "  -o, --output OUT". Returns its width. */
static int show_option(const struct option_row *row, char *text, size_t size)
{
    const char letter[] = {'-', row->letter, ',', '\0'};
    const char *blank = row->value == NULL || row->value[0] == '[' ? "" : " ";
    return snprintf(text, size, "  %-3s --%s%s%s", row->letter != 0 ? letter : "", row->name, blank,
                    row->value != NULL ? row->value : "");
}

static void print_help(const struct subcommand *command, const struct option_row *rows)
{
    char shown[64];
    int width = 0;
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        const int needs = show_option(row, shown, sizeof(shown));
        width = needs > width ? needs : width;
    }
    (void)fputs(command->head, stdout);
    if (command->middle != NULL) {
        command->middle();
    }
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        (void)show_option(row, shown, sizeof(shown));
        for (const char *line = row->text; line != NULL; line = strchr(line, '\n'), line += line != NULL) {
            (void)printf("%-*s  %.*s\n", width, line == row->text ? shown : "", (int)strcspn(line, "\n"), line);
        }
    }
    (void)fputs(command->tail, stdout);
}

static const struct option_row *row_of(const struct option_row *rows, int code)
{
    if (code >= code_of_first) {
        return &rows[code - code_of_first];
    }
    while (rows->letter != code) {
        rows++;
    }
    return rows;
}

static int apply(const struct option_row *row, void *settings, const char *value)
{
    if (row->flag != NULL) {
        *row->flag = true;
    } else if (row->word != NULL) {
        *row->word = value;
    }
    return row->parse != NULL ? row->parse(row->ctx != NULL ? row->ctx : settings, value) : EXIT_DONE;
}

/* Refuses an option that is not in the table, and names the one that was probably meant. */
static int say_unknown(const struct subcommand *command, const struct option_row *rows, const char *option)
{
    const bool is_long = strncmp(option, "--", 2) == 0;
    struct suggestion search = {.word = is_long ? option + 2 : "", .length = is_long ? strcspn(option + 2, "=") : 0};
    for (const struct option_row *row = rows; row->name != NULL && is_long; row++) {
        suggest(&search, row->name);
    }
    return search.meant == NULL
               ? complain(command->name, true, "unknown option %s", option)
               : complain(command->name, true, "unknown option %s; did you mean --%s?", option, search.meant);
}

/* Prints the options for the shell's completion, one on a line; an option that needs a value ends with "=". */
static void list_options(const struct option_row *rows)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        (void)printf("--%s%s\n", row->name, row->value != NULL && row->value[0] != '[' ? "=" : "");
    }
}

int read_options(const struct subcommand *command, const struct option_row *rows, void *settings, int argc, char **argv)
{
    struct option names[most_options] = {{NULL, 0, NULL, 0}};
    char letters[2 * most_options + 3] = "";
    char *letter = stpcpy(letters, command->stops ? "+:" : ":");
    for (int i = 0; rows[i].name != NULL; i++) {
        const int takes = rows[i].value == NULL     ? no_argument
                          : rows[i].value[0] == '[' ? optional_argument
                                                    : required_argument;
        names[i] = (struct option){rows[i].name, takes, NULL, code_of_first + i};
        if (rows[i].letter != 0) {
            *letter++ = rows[i].letter;
            letter = stpcpy(letter, takes == no_argument ? "" : ":");
        }
    }
    int code;
    if (argc == 2 && strcmp(argv[1], OPTIONS_FOR_COMPLETION) == 0) {
        list_options(rows);
        return -1;
    }
    opterr = 0;
    while ((code = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        if (code == ':') {
            return complain(command->name, true, "%s needs a value", argv[optind - 1]);
        }
        if (code == '?') {
            return say_unknown(command, rows, argv[optind - 1]);
        }
        const struct option_row *row = row_of(rows, code);
        if (row->letter == 'h') {
            print_help(command, rows);
            return -1;
        }
        const int status = apply(row, settings, optarg);
        if (status != EXIT_DONE) {
            return status;
        }
    }
    return EXIT_DONE;
}
