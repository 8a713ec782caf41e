/* memfd_contract.c: runs the contract suite on the device of memfd_device.c. */
#include "memfd_device.h"

#include "device_contract.h"

int main(int argc, char **argv)
{
    const weir_tested_device memfd = {
        .name = "memfd",
        .create = memfd_device_create,
        .bytes = weir_tested_bytes_in_place, /* the host may read and write its memory */
    };
    return weir_device_contract(&memfd, argc, argv);
}
