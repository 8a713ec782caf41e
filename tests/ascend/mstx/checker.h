/* tests/ascend/mstx/checker.h: weir's checking tool, loaded as mstx loads a tool, and functions that query it. */
#ifndef TESTS_MSTX_CHECKER_H
#define TESTS_MSTX_CHECKER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool (*check_covers)(const void *address, uint64_t size);
static uint64_t (*check_findings)(const char *kind);
static void (*check_announced)(uint64_t *heaps, uint64_t *regions);
static void (*check_given)(const void *address, uint64_t size);
static void (*check_taken)(const void *address);
static void (*check_kept)(const void *address);

static inline void find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        (void)fprintf(stderr, "no %s in %s\n", name, CHECKER);
        exit(1);
    }
    memcpy(function, &symbol, sizeof(symbol));
}

/* Loads the tool. Called before the first call of mstx. If `report` is NULL, findings go to stderr. */
static inline void load_checker(const char *report)
{
    (void)setenv("MSTX_INJECTION_PATH", CHECKER, 1);
    if (report != NULL) {
        (void)setenv("WEIR_MSTX_CHECK_REPORT", report, 1);
    } else {
        (void)unsetenv("WEIR_MSTX_CHECK_REPORT");
    }
    void *library = dlopen(CHECKER, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    find_symbol(library, "weir_mstx_check_covers", &check_covers);
    find_symbol(library, "weir_mstx_check_findings", &check_findings);
    find_symbol(library, "weir_mstx_check_announced", &check_announced);
    find_symbol(library, "weir_mstx_check_given", &check_given);
    find_symbol(library, "weir_mstx_check_taken", &check_taken);
    find_symbol(library, "weir_mstx_check_kept", &check_kept);
}

#endif
