/* bindings/mstx/src/mstx_tool.h: the tool that listens to this process, if there is one.
 *
 * A tool is found as every announcing library finds it: MSTX_INJECTION_PATH names a shared library with InitInjectionMstx;
 * else, or when that one cannot be loaded, whichever is loaded already (LD_PRELOAD). It is looked for once, at the first
 * call, and stays. A process with another user's rights (set-uid, file capabilities) ignores MSTX_INJECTION_PATH: its caller
 * must not choose the code that runs in it.
 */
#ifndef WEIR_MSTX_TOOL_H
#define WEIR_MSTX_TOOL_H

#include "mstx_abi.h"

/* A function that the tool does not have is NULL; without a tool all are. */
struct weir__mstx_tool {
#define MSTX_MEMBER(slot, id, result, parameters) result(*slot) parameters;
    MSTX_CORE_LIST(MSTX_MEMBER)
    MSTX_DOMAIN_LIST(MSTX_MEMBER)
    MSTX_MEM_LIST(MSTX_MEMBER)
#undef MSTX_MEMBER
};

/* Never NULL. Thread-safe. */
const struct weir__mstx_tool *weir__mstx_tool(void);

#endif
