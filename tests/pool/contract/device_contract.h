/* device_contract.h: tells the contract suite of devices about a device, and runs it.
 *
 * The suite (device_contract.c) holds a device to every rule of weir/device.h. It makes the device anew for each case,
 * fills it up to its capacity, puts a pool over it, and lets the pool's calls fail one after another. It is one source
 * file, which needs the installed headers, libweir and threads. A program that runs it:
 *
 *     #include "device_contract.h"
 *     #include "my_device.h"
 *
 *     int main(int argc, char **argv)
 *     {
 *         const weir_tested_device mine = { .name = "mine", .create = my_device_create };
 *         return weir_device_contract(&mine, argc, argv);
 *     }
 *
 * To build it, by hand or in CMake:
 *
 *     suites=$(pkg-config --variable=prefix weir)/share/weir/contract
 *     cc -pthread -I$suites my_contract.c my_device.c $suites/device_contract.c $(pkg-config --cflags --libs weir)
 *
 *     find_package(weir REQUIRED COMPONENTS contract)
 *     target_link_libraries(my_contract PRIVATE weir::device_contract)
 *
 * The order of streams can only be tested with work on them: `stream_create`, `stream_destroy` and `queue` put it
 * there. Without them the cases of stream order are skipped, and the suite says so.
 */
#ifndef WEIR_DEVICE_CONTRACT_H
#define WEIR_DEVICE_CONTRACT_H

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tested_device {
    const char *name;

    /* Makes a device with at least `capacity_bytes` of memory. Its memory must hold 32 regions of its granularity, and
     * 32 pages if it has virtual memory. The suite has one device at a time, but a case that fails leaves its device,
     * its streams and their work behind; that work may end during later cases. */
    weir_status (*create)(uint64_t capacity_bytes, weir_device **device);
    /* Destroys the device. If this slot is NULL, the suite calls weir_device_destroy. */
    weir_status (*destroy)(weir_device *device);

    /* Returns the address at which the host reads and writes the device memory [address, address + size). Returns NULL
     * if the device does not have all of this memory. The suite uses the pointer only before its next call. If the host
     * may touch device memory by its address, use weir_tested_bytes_in_place. Without this slot the suite does not test
     * the contents of memory. */
    void *(*bytes)(weir_device *device, uint64_t address, uint64_t size);

    /* --- work: three slots, all or none; a device with WEIR_DEVICE_ORDERED should have them --- */
    /* Creates a native stream beside the default one (NULL). Work on two such streams runs at the same time. */
    weir_status (*stream_create)(weir_device *device, void **native_stream);
    weir_status (*stream_destroy)(weir_device *device, void *native_stream);
    /* Queues work that takes `units` units of time. When it is over, it calls ended(ctx), from any thread. One unit is
     * the same for all streams and long compared with a few host calls: an hour if time is virtual, about 20 ms if it
     * is real. The work ends by itself; a host that waits for it need not call anything. The suite passes at most 40
     * units. */
    weir_status (*queue)(weir_device *device, void *native_stream, unsigned units, void (*ended)(void *ctx), void *ctx);
} weir_tested_device;

/* May serve as `bytes`: returns `address` itself, or NULL if the host cannot read the first and the last byte of the
 * memory. */
void *weir_tested_bytes_in_place(weir_device *device, uint64_t address, uint64_t size);

/* Runs every case, or those with argv[1] in their names. Prints a line for each. Returns the program's exit status: not
 * 0 if a case failed or none passed. */
int weir_device_contract(const weir_tested_device *tested, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
