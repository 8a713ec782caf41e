/* weir's header before XNNPACK's, as C. */
#include <weir/xnnpack.h>

#include <xnnpack.h>

#include "xnnpack_header.h"
