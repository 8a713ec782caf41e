/* command.h: the subcommands of `weir`. Each returns an exit_status. */
#ifndef WEIR_COMMAND_H
#define WEIR_COMMAND_H

#include "complain.h"

int command_replay(int argc, char **argv);
int command_advise(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_import(int argc, char **argv);
int command_info(int argc, char **argv);
int command_record(int argc, char **argv);
int command_run(int argc, char **argv);
int command_topo(int argc, char **argv);

#endif
