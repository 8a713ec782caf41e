/* allocators/src/config.h: a strategy's config struct, as weir/base.h says size-first structs are read. */
#ifndef WEIR_ALLOCATORS_CONFIG_H
#define WEIR_ALLOCATORS_CONFIG_H

#include <weir/base.h>

/* Fills `own`, a size-first struct of `size` bytes, with what `given` holds, and with zero what it lacks; `given` NULL:
 * all of it zero but its size. WEIR_ERR_INVALID when `given` claims to be too short for its own size,
 * WEIR_ERR_UNSUPPORTED when it is longer than `own` and the bytes beyond are not all zero; `own` is then untouched. A
 * refusal's sentence names weir_pool_create, which returns it to the caller, and the struct: `name`. */
weir_status weir__strategy_config(void *own, size_t size, const void *given, const char *name);

#endif
