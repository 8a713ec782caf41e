/* tests/ascendcl/conformance/interpose.c: a library in front of every public ACL function, as a tool has, that counts
 * the calls.
 *
 * For LD_PRELOAD. For each function of functions.h this file defines a few instructions that count the call and jump to
 * the next library's function, which dlsym(RTLD_NEXT, ...) finds; arguments and results pass unchanged. At the end of
 * the process the counts must equal the runtime's own counts (the runtime counts on entry, so a call that did not use
 * the public name is missing here), and no call may have come from inside the runtime. Otherwise the process ends with
 * exit code 3.
 */
#define _GNU_SOURCE
#include "../../../bindings/ascendcl/src/base/functions.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the trampolines are written for x86-64"
#endif

#define COUNTER(name, priority)                                                                                        \
    __attribute__((visibility("hidden"))) uint64_t count_##name;                                                       \
    __attribute__((visibility("hidden"))) void *next_##name;
ACL_FUNCTION_LIST(COUNTER)

/* The address range of the runtime's code, and the number of calls with a return address in it. */
__attribute__((visibility("hidden"))) uintptr_t runtime_start;
__attribute__((visibility("hidden"))) uintptr_t runtime_size;
__attribute__((visibility("hidden"))) uint64_t calls_from_inside;

/* The trampoline may change register r11: no code expects a value in r11 across a call. */
#define TRAMPOLINE(name, priority)                                                                                     \
    __asm__(".text\n"                                                                                                  \
            ".globl " #name "\n"                                                                                       \
            ".type " #name ", @function\n" #name ":\n"                                                                 \
            "    mov (%rsp), %r11\n"                                                                                   \
            "    sub runtime_start(%rip), %r11\n"                                                                      \
            "    cmp runtime_size(%rip), %r11\n"                                                                       \
            "    jae 1f\n"                                                                                             \
            "    lock incq calls_from_inside(%rip)\n"                                                                  \
            "1:  lock incq count_" #name "(%rip)\n"                                                                    \
            "    jmp *next_" #name "(%rip)\n"                                                                          \
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

enum { function_count = sizeof(functions) / sizeof(functions[0]) };

/* POSIX lets an object pointer hold the address of a function; ISO C has no conversion. */
static uint64_t (*calls_of_runtime(void))(const char *)
{
    void *symbol = dlsym(RTLD_DEFAULT, "weir_ascendcl_calls");
    uint64_t (*calls)(const char *) = NULL;
    memcpy(&calls, &symbol, sizeof(calls));
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
            fprintf(stderr, "interpose: %s: seen %" PRIu64 " times, called %" PRIu64 " times\n", functions[i].name,
                    *functions[i].count, theirs);
            differing++;
        }
    }
    if (calls_from_inside > 0) {
        fprintf(stderr, "interpose: %" PRIu64 " calls came from inside the runtime\n", calls_from_inside);
        differing++;
    }
    if (differing > 0) {
        fflush(NULL);
        _exit(3);
    }
    fprintf(stderr, "interpose: %" PRIu64 " calls, all seen\n", all);
}

/* A dl_iterate_phdr callback: finds the loaded library that contains the next function of `functions[0]`, and stores
 * its address range. */
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

/* In a child of fork: a call that another thread of the parent had begun is seen and never called. */
static void begin_anew(void)
{
    uint64_t (*const calls)(const char *) = calls_of_runtime();
    for (size_t i = 0; i < function_count && calls != NULL; i++) {
        *functions[i].count = calls(functions[i].name);
    }
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
    if (dl_iterate_phdr(measure, NULL) != 1 || atexit(compare) != 0 || pthread_atfork(NULL, NULL, begin_anew) != 0) {
        _exit(3);
    }
}
