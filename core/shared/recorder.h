/* core/shared/recorder.h: recorders, for bindings with memory that no pool serves. In libweir, not exported. */
#ifndef WEIR_SHARED_RECORDER_H
#define WEIR_SHARED_RECORDER_H

#include <weir/trace.h>

/* Holds of heaps: a recorder with holds is not stopped. */
void weir__recorder_hold(weir_recorder *recorder);
void weir__recorder_release(weir_recorder *recorder);

/* A recorder fed by hand for the file that the environment variable WEIR_RECORD names, and for FILE.2, FILE.3, ... when that
 * exists already. NULL: the variable is not set, or it could not be done. Ended by weir_recorder_stop. */
weir_recorder *weir__recorder_from_environment(const char *source);

#endif
