/* tests/conformance/interpose.c: stands in front of every public ACL function, as a tool does, and counts.
 *
 * For LD_PRELOAD. Each function of functions.h is defined here as a few instructions that count the call and go on to
 * the next library's function, which dlsym(RTLD_NEXT, ...) finds; arguments and results pass untouched. At the end of
 * the process the counts must be those of the runtime's own (it counts on entry: what it called by another way than the
 * public name was not seen here), and no call may have come from inside the runtime. Else the process ends with exit
 * code 3.
 */
#define _GNU_SOURCE
#include "../../bindings/sim/ascendcl/src/functions.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the trampolines are written for x86-64"
#endif

#define COUNTER(name, priority)                                                                    \
    __attribute__((visibility("hidden"))) uint64_t count_##name;                                   \
    __attribute__((visibility("hidden"))) void *next_##name;
ACL_FUNCTION_LIST(COUNTER)

/* Where the runtime's code lies, and the calls whose return address is in there. */
__attribute__((visibility("hidden"))) uintptr_t runtime_start;
__attribute__((visibility("hidden"))) uintptr_t runtime_size;
__attribute__((visibility("hidden"))) uint64_t calls_from_inside;

/* r11 belongs to nobody between a call and the function it calls. */
#define TRAMPOLINE(name, priority)                                                                 \
    __asm__(".text\n"                                                                              \
            ".globl " #name "\n"                                                                   \
            ".type " #name ", @function\n" #name ":\n"                                             \
            "    mov (%rsp), %r11\n"                                                               \
            "    sub runtime_start(%rip), %r11\n"                                                  \
            "    cmp runtime_size(%rip), %r11\n"                                                   \
            "    jae 1f\n"                                                                         \
            "    lock incq calls_from_inside(%rip)\n"                                              \
            "1:  lock incq count_" #name "(%rip)\n"                                                \
            "    jmp *next_" #name "(%rip)\n"                                                      \
            ".size " #name ", . - " #name "\n");
ACL_FUNCTION_LIST(TRAMPOLINE)

static const struct {
    const char *name;
    uint64_t *count;
    void **next;
} functions[] = {
#define ROW(name, priority) {#name, &count_##name, &next_##name},
    ACL_FUNCTION_LIST(ROW)
#undef ROW
};

enum { function_count = sizeof functions / sizeof functions[0] };

/* POSIX lets an object pointer stand for a function's; ISO C has no conversion. */
static uint64_t (*calls_of_runtime(void))(const char *)
{
    void *symbol = dlsym(RTLD_DEFAULT, "weir_ascendcl_calls");
    uint64_t (*calls)(const char *) = NULL;
    memcpy(&calls, &symbol, sizeof calls);
    return calls;
}

static void compare(void)
{
    uint64_t (*const calls)(const char *) = calls_of_runtime();
    int differing = calls == NULL;
    uint64_t all = 0;
    for (size_t i = 0; i < function_count && calls != NULL; i++) {
        const uint64_t theirs = calls(functions[i].name);
        all += theirs;
        if (theirs != *functions[i].count) {
            fprintf(stderr, "interpose: %s: seen %" PRIu64 " times, called %" PRIu64 " times\n",
                    functions[i].name, *functions[i].count, theirs);
            differing++;
        }
    }
    if (calls_from_inside > 0) {
        fprintf(stderr, "interpose: %" PRIu64 " calls came from inside the runtime\n",
                calls_from_inside);
        differing++;
    }
    if (differing > 0) {
        fflush(NULL);
        _exit(3);
    }
    fprintf(stderr, "interpose: %" PRIu64 " calls, all seen\n", all);
}

/* The loaded library that contains `functions[0]`'s next: from its first to its last byte. */
static int measure(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const uintptr_t inside = (uintptr_t)*functions[0].next;
    uintptr_t first = UINTPTR_MAX;
    uintptr_t last = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t end = start + info->dlpi_phdr[i].p_memsz;
        if (start < first) first = start;
        if (end > last) last = end;
    }
    if (inside < first || inside >= last) return 0;
    runtime_start = first;
    runtime_size = last - first;
    return 1;
}

__attribute__((constructor)) static void find(void)
{
    for (size_t i = 0; i < function_count; i++) {
        *functions[i].next = dlsym(RTLD_NEXT, functions[i].name);
        if (*functions[i].next == NULL) {
            fprintf(stderr, "interpose: no library after this one has %s\n", functions[i].name);
            _exit(3);
        }
    }
    if (dl_iterate_phdr(measure, NULL) != 1 || atexit(compare) != 0) _exit(3);
}
