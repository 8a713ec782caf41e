/* config.h: the environment variables: the simulated machine, and the calls that fail. */
#ifndef WEIR_ASCENDCL_CONFIG_H
#define WEIR_ASCENDCL_CONFIG_H

#include "base/runtime.h"

/* Reads the environment variables WEIR_ASCENDCL_<NAME>: the runtime's settings into `config`, the simulator's into
 * `sim`. Returns false, with a sentence on stderr, if a value cannot be parsed. */
bool acl__config_read(acl__config *config, weir_sim_config *sim);

/* Reads the faults from WEIR_ASCENDCL_FAULTS: a list of NAME:N, NAME:N-M (calls N to M of that name) and NAME:N+ (the
 * N-th and all later ones), each with =CODE or without; `any` names every function. */
bool acl__faults_read(const char *text);
/* Replaces all faults; see weir_ascendcl_fail. */
uint64_t acl__faults_set(const char *name, uint64_t nth, uint64_t count);
bool acl__faults_any(void);
/* Returns the error that call number `nth` of `function`, which is call number `overall` of all calls, has to
 * return. */
aclError acl__faults_strike(acl__function function, uint64_t nth, uint64_t overall);

#endif
