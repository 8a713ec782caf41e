/* acl/acl.h: the runtime, operators and models of the ACL interface, as far as weir's simulated runtime offers them. */
#ifndef WEIR_ACL_ACL_H
#define WEIR_ACL_ACL_H

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#endif
