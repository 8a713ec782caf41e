/* core/shared/recorder.h: recorders for bindings with memory that no pool serves. In libweir, not exported. */
#ifndef WEIR_SHARED_RECORDER_H
#define WEIR_SHARED_RECORDER_H

#include <weir/trace.h>

/* Hold and release a recorder, for heaps: a recorder with holds is not stopped. */
void weir__recorder_hold(weir_recorder *recorder);
void weir__recorder_release(weir_recorder *recorder);

/* Creates a recorder for events that the caller notes. It writes the file named by the environment variable
 * WEIR_RECORD, or FILE.2, FILE.3, ... if that file exists already. Returns NULL if the variable is not set or the
 * recorder could not be created. The caller ends it with weir_recorder_stop. */
weir_recorder *weir__recorder_from_environment(const char *source);

#endif
