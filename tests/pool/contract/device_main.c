/* device_main.c: runs the contract suite on one of weir's devices. Macros:
 *   DEVICE_HEADER  the header that describes it, "device_makers.h"
 *   DEVICE         its weir_tested_device, the_sim
 */
#include DEVICE_HEADER

int main(int argc, char **argv)
{
    return weir_device_contract(&DEVICE, argc, argv);
}
