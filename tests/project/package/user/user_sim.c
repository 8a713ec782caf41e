/* The simulated ACL runtime alone, with its functions beyond ACL. */
#include <weir/ascendcl.h>

int main(void)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000;
    return aclrtSetDevice(0) != ACL_SUCCESS || weir_ascendcl_launch(NULL, &kernel) != ACL_SUCCESS ||
           aclrtSynchronizeStream(NULL) != ACL_SUCCESS || weir_ascendcl_calls(NULL) != 2;
}
