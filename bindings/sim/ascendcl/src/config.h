/* config.h: the environment: what the simulated machine is like, and which calls fail. */
#ifndef WEIR_ASCENDCL_CONFIG_H
#define WEIR_ASCENDCL_CONFIG_H

#include "runtime.h"

/* Reads WEIR_ASCENDCL_...; false, with a sentence on stderr, when something there cannot be understood. `sim` gets what
 * the simulator has to know. */
bool acl__config_read(acl__config *config, weir_sim_config *sim);

/* Faults of calls, from WEIR_ASCENDCL_FAULTS: a list of NAME:N, NAME:N=CODE and NAME:N+ (the n-th call of that name and
 * all later ones), `any` naming every function. */
bool acl__faults_read(const char *text);
bool acl__faults_any(void);
/* The error that call number `nth` of `function`, which is call number `overall` of all, is to return. */
aclError acl__faults_strike(acl__function function, uint64_t nth, uint64_t overall);

#endif
