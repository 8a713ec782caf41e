/* acl/acl_dump.h: dumps of arguments, which are not simulated. */
#ifndef WEIR_ACL_ACL_DUMP_H
#define WEIR_ACL_ACL_DUMP_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif
#endif
