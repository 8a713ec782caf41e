/* program.h: parts of the subcommands that run another program (record, run). `command` is the subcommand, for
 * messages. */
#ifndef WEIR_COMMAND_PROGRAM_H
#define WEIR_COMMAND_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the program like execvp and writes its path. With `interposed` refuses a program whose calls of malloc cannot
 * be interposed. Returns EXIT_DONE, or the exit status of the command after a message. */
int program_find(const char *command, const char *name, bool interposed, char *path, size_t size);

/* Says that the program cannot be run, with the errno `why`. Returns the exit status, as shells do. */
int program_cannot_run(const char *command, const char *name, int why);

/* Returns the absolute path of a library that is loaded into programs, from malloc. NULL after a message. */
char *program_library(const char *command, const char *name);

/* Makes a path absolute, because the program may change its folder. Returns false with errno if it is too long. */
bool program_absolute(const char *path, char *absolute, size_t size);

/* Ends the command like the program of that wait status: raises the same signal, or returns the same exit status. */
int program_end_like(int status);

#endif
