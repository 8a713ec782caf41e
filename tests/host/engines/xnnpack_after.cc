/* weir's header after XNNPACK's, as C++. */
#include <xnnpack.h>

#include <weir/xnnpack.h>

#include "xnnpack_header.h"
