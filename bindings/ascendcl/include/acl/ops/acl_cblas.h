/* acl/ops/acl_cblas.h: types of the matrix functions. The functions are not simulated. */
#ifndef WEIR_ACL_OPS_ACL_CBLAS_H
#define WEIR_ACL_OPS_ACL_CBLAS_H

#include "../acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum aclTransType { ACL_TRANS_N = 0, ACL_TRANS_T = 1, ACL_TRANS_NZ = 2, ACL_TRANS_NZ_T = 3 } aclTransType;

typedef enum aclComputeType { ACL_COMPUTE_HIGH_PRECISION = 0, ACL_COMPUTE_LOW_PRECISION = 1 } aclComputeType;

#ifdef __cplusplus
}
#endif
#endif
