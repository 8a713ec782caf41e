/* complain.h: the exit status of `weir`, and its messages on standard error. */
#ifndef WEIR_COMPLAIN_H
#define WEIR_COMPLAIN_H

#include <stdbool.h>

/* 0: done; 1: hazards were found; 2: bad usage or input. */
enum exit_status { EXIT_DONE = 0, EXIT_HAZARDS = 1, EXIT_USAGE = 2 };

/* Prints one line on standard error, "weir SUBCOMMAND: ...", with a hint at --help if `usage` is set. Returns
 * EXIT_USAGE. */
int complain(const char *subcommand, bool usage, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
