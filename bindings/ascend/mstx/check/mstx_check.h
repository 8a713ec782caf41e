/* bindings/ascend/mstx/check/mstx_check.h: the functions that libweir_mstx_check.so exports beside its entry point:
 * queries for tests, and functions by which a program reports real memory to the tool. A program finds them with dlsym.
 * All functions are thread-safe. */
#ifndef WEIR_MSTX_CHECK_H
#define WEIR_MSTX_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEIR_MSTX_CHECK_API __attribute__((visibility("default")))
#else
#define WEIR_MSTX_CHECK_API
#endif

/* Returns true if each byte of [address, address + size) lies in exactly one region of a heap (of any region, in
 * domains without heaps), counting all domains and devices together. size is not 0. */
WEIR_MSTX_CHECK_API bool weir_mstx_check_covers(const void *address, uint64_t size);

/* Returns the number of findings so far, of one kind ("region-overlap", see README.md) or of all kinds (NULL). */
WEIR_MSTX_CHECK_API uint64_t weir_mstx_check_findings(const char *kind);

/* Returns the numbers of heaps and regions announced now. */
WEIR_MSTX_CHECK_API void weir_mstx_check_announced(uint64_t *heaps, uint64_t *regions);

/* The caller reports to the tool that the runtime has given this memory (_given), is about to take back the memory that
 * starts there (_taken), or has refused to take it back (_kept). A preloaded tool observes ACL's calls itself
 * (memory.c). Unless it does, the tool does not check a heap in memory that was not reported to it. */
WEIR_MSTX_CHECK_API void weir_mstx_check_given(const void *address, uint64_t size);
WEIR_MSTX_CHECK_API void weir_mstx_check_taken(const void *address);
WEIR_MSTX_CHECK_API void weir_mstx_check_kept(const void *address);

/* The tool itself saw the runtime give memory of a device (NO_DEVICE: not known, or memory of the host). From then on
 * it knows all memory. */
enum { NO_DEVICE = -1 };
void weir__mstx_check_saw(const void *address, uint64_t size, int64_t device);

#endif
