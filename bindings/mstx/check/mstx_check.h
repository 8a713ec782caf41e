/* bindings/mstx/check/mstx_check.h: what libweir_mstx_check.so exports beside its entry point: questions for tests, and what
 * whoever knows may tell about real memory. A program finds these with dlsym. All are thread-safe. */
#ifndef WEIR_MSTX_CHECK_H
#define WEIR_MSTX_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEIR_MSTX_CHECK_API __attribute__((visibility("default")))
#else
#define WEIR_MSTX_CHECK_API
#endif

/* Whether each byte of [address, address + size) lies in exactly one region of a heap (of any, in domains without heaps), all
 * domains and devices taken together. size is not 0. */
WEIR_MSTX_CHECK_API bool weir_mstx_check_covers(const void *address, uint64_t size);

/* Findings so far, of one kind ("region-overlap", see README.md) or of all (NULL). */
WEIR_MSTX_CHECK_API uint64_t weir_mstx_check_findings(const char *kind);

/* What is announced now. */
WEIR_MSTX_CHECK_API void weir_mstx_check_announced(uint64_t *heaps, uint64_t *regions);

/* The runtime has given this memory; it is about to take back what starts there; it has refused to. Preloaded, the tool
 * hears it of ACL by itself (memory.c). Heaps in memory that nobody told of are not judged by it. */
WEIR_MSTX_CHECK_API void weir_mstx_check_given(const void *address, uint64_t size);
WEIR_MSTX_CHECK_API void weir_mstx_check_taken(const void *address);
WEIR_MSTX_CHECK_API void weir_mstx_check_kept(const void *address);

#endif
