/* bindings/ascend/mstx/ms_tools_ext/ms_tools_ext.c: libms_tools_ext.so, the functions of mstx as plain symbols.
 * Programs that were compiled with MSTX_NO_IMPL link this library, instead of the inline functions of the mstx headers.
 * Where CANN is installed, its own library of that name serves. Every call goes to the tool. Without a tool it does
 * nothing and returns NULL or 0. */
#include "../src/mstx_tool.h"

#define EXPORT __attribute__((visibility("default")))

/* GIVES and DOES (without a result) define a function that calls the tool's function `slot`, if there is a tool. */
#define GIVES(name, slot, result, parameters, arguments)                                                               \
    EXPORT result name parameters;                                                                                     \
    result name parameters                                                                                             \
    {                                                                                                                  \
        const struct weir__mstx_tool *tool = weir__mstx_tool();                                                        \
        return tool->slot != NULL ? tool->slot arguments : 0;                                                          \
    }

#define DOES(name, slot, parameters, arguments)                                                                        \
    EXPORT void name parameters;                                                                                       \
    void name parameters                                                                                               \
    {                                                                                                                  \
        const struct weir__mstx_tool *tool = weir__mstx_tool();                                                        \
        if (tool->slot != NULL) {                                                                                      \
            tool->slot arguments;                                                                                      \
        }                                                                                                              \
    }

DOES(mstxMarkA, mark, (const char *message, mstx_stream stream), (message, stream))
GIVES(mstxRangeStartA, range_start, mstxRangeId, (const char *message, mstx_stream stream), (message, stream))
DOES(mstxRangeEnd, range_end, (mstxRangeId id), (id))

GIVES(mstxDomainCreateA, domain_create, mstxDomainHandle_t, (const char *name), (name))
DOES(mstxDomainDestroy, domain_destroy, (mstxDomainHandle_t domain), (domain))
DOES(mstxDomainMarkA, domain_mark, (mstxDomainHandle_t domain, const char *message, mstx_stream stream),
     (domain, message, stream))
GIVES(mstxDomainRangeStartA, domain_range_start, mstxRangeId,
      (mstxDomainHandle_t domain, const char *message, mstx_stream stream), (domain, message, stream))
DOES(mstxDomainRangeEnd, domain_range_end, (mstxDomainHandle_t domain, mstxRangeId id), (domain, id))

GIVES(mstxMemHeapRegister, heap_register, mstxMemHeapHandle_t,
      (mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc), (domain, desc))
DOES(mstxMemHeapUnregister, heap_unregister, (mstxDomainHandle_t domain, mstxMemHeapHandle_t heap), (domain, heap))
DOES(mstxMemRegionsRegister, regions_register, (mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc),
     (domain, desc))
DOES(mstxMemRegionsUnregister, regions_unregister,
     (mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc), (domain, desc))
DOES(mstxMemPermissionsAssign, permissions_assign,
     (mstxDomainHandle_t domain, const mstxMemPermissionsAssignBatch_t *desc), (domain, desc))

EXPORT void mstxGetToolId(uint64_t *id);

/* Stores the tool's id in *id; 0 without a tool, or if the tool stores none. */
void mstxGetToolId(uint64_t *id)
{
    const struct weir__mstx_tool *tool = weir__mstx_tool();
    if (id != NULL) {
        *id = 0;
    }
    if (tool->get_tool_id != NULL) {
        tool->get_tool_id(id);
    }
}
