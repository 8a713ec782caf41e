/* process.h: what the command changes in its own process: standard descriptors, the signal of the file size limit. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <signal.h>
#include <stdbool.h>

/* Called once, before any file is opened: makes every use of a closed standard descriptor fail, and ignores SIGXFSZ. */
void process_begin(void);

/* Returns the action that SIGXFSZ had before the command began to ignore the signal. Programs that the command starts
 * get this action. */
const struct sigaction *process_usual_file_size_action(void);

/* Closes standard output. Returns true if all printed text was written.
 * A closed standard output is no error if nothing was printed. */
bool process_close_output(void);

#endif
