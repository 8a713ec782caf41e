/* acl/acl.h: everything of the ACL interface that weir's simulated runtime offers. */
#ifndef WEIR_ACL_ACL_H
#define WEIR_ACL_ACL_H

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#endif
