// ge_error_codes.h: the guard and one code of the graph engine's own header (CANN's ge/ge_error_codes.h), which a
// program may include beside acl/acl.h.
#ifndef INC_EXTERNAL_GE_GE_ERROR_CODES_H_
#define INC_EXTERNAL_GE_GE_ERROR_CODES_H_

#include <cstdint>

static const uint32_t ACL_ERROR_GE_PARAM_INVALID = 145000U;

#endif
