/* command.h: what the subcommands of `weir` share. Exit status: 0 done, 1 hazards were found, 2 bad usage or input. */
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

/* One line on standard error, "weir SUBCOMMAND: ...", ended by a hint at --help when `usage` is set. Returns
 * EXIT_USAGE. */
int complain(const char *subcommand, bool usage, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The action of SIGXFSZ from before the command began to ignore the signal: a program that the command starts gets it back. */
const struct sigaction *usual_file_size_action(void);

#endif
