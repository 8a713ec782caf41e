#include "memory_pool_ops.h"
