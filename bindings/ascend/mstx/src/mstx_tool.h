/* bindings/ascend/mstx/src/mstx_tool.h: the tool loaded into this process, if any.
 *
 * A tool is found by the rule of all announcing libraries: MSTX_INJECTION_PATH names a shared library with
 * InitInjectionMstx. If it is not set or cannot be loaded, a library already loaded (LD_PRELOAD) is used. The search
 * happens once, at the first call. A process with another user's rights (set-uid, file capabilities) ignores
 * MSTX_INJECTION_PATH: its caller must not choose the code that runs in it.
 */
#ifndef WEIR_MSTX_TOOL_H
#define WEIR_MSTX_TOOL_H

#include "mstx_abi.h"

/* The tool's functions. A function that the tool lacks is NULL; if no tool is loaded, all functions are NULL. */
struct weir__mstx_tool {
#define MSTX_MEMBER(slot, id, result, parameters) result(*slot) parameters;
    MSTX_CORE_LIST(MSTX_MEMBER)
    MSTX_DOMAIN_LIST(MSTX_MEMBER)
    MSTX_MEM_LIST(MSTX_MEMBER)
#undef MSTX_MEMBER
};

/* Loads the tool at the first call. Never NULL. Thread-safe. */
const struct weir__mstx_tool *weir__mstx_tool(void);

#endif
