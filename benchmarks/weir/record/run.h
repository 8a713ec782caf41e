/* run.h: runs an unchanged program with the recording library in front of its C library and device runtime. */
#ifndef WEIR_RECORD_RUN_H
#define WEIR_RECORD_RUN_H

#include "collect.h"

#include <signal.h>
#include <sys/types.h>

/* Exit status of the command if the program cannot be run, as those of shells. */
enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* Finds a program like execvp. A path with a slash is found even if the file is not executable, so that the message of
 * exec gives that reason. */
bool run_find(const char *name, char *path, size_t size);

/* Returns why the calls of a program cannot be interposed; NULL if they can. */
const char *run_why_not(const char *path);

/* Adds the library in front of an existing LD_PRELOAD. Returns false when out of host memory. */
bool run_preload(const char *library);

/* Starts the program with the current environment and `file_size` as its action for SIGXFSZ. Until the program ends,
 * signals of the terminal are ignored and others are forwarded to the program. `to` gets its process id; NULL: none.
 * Returns the process id, or -1 with errno if the program cannot be run. */
pid_t run_start(char **arguments, const struct sigaction *file_size, struct channel *to);

/* Reads the program's events until it has ended; with NULL only waits. Returns its wait status. */
int run_collect(struct collector *collector, pid_t child);

#endif
