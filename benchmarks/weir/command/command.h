/* command.h: declarations that the subcommands of `weir` share.
 * Exit status: 0 done, 1 hazards were found, 2 bad usage or input. */
#ifndef WEIR_COMMAND_H
#define WEIR_COMMAND_H

#include <signal.h>
#include <stdbool.h>

enum exit_status { EXIT_DONE = 0, EXIT_HAZARDS = 1, EXIT_USAGE = 2 };

int command_replay(int argc, char **argv);
int command_import(int argc, char **argv);
int command_info(int argc, char **argv);
int command_record(int argc, char **argv);
int command_topo(int argc, char **argv);

/* Prints one line on standard error, "weir SUBCOMMAND: ...", with a hint at --help if `usage` is set. Returns
 * EXIT_USAGE. */
int complain(const char *subcommand, bool usage, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns the action that SIGXFSZ had before the command began to ignore the signal. Programs that the command starts
 * get this action. */
const struct sigaction *usual_file_size_action(void);

#endif
