/* bindings/ascend/mstx/src/mstx_tool.c: finds the tool and keeps the functions that it injects; see mstx_tool.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "mstx_tool.h"

#include "shared/assert.h"
#include "shared/cancel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The function pointers that the tool writes ([0] is unused), and the tables that point to them. */
static mstxFuncPointer core[MSTX_CORE_IDS + 1];
static mstxFuncPointer domain[MSTX_DOMAIN_IDS + 1];
static mstxFuncPointer mem[MSTX_MEM_IDS + 1];
/* One extra NULL entry, as in the vendor's tables. */
static mstxFuncPointer *core_table[MSTX_CORE_IDS + 2];
static mstxFuncPointer *domain_table[MSTX_DOMAIN_IDS + 2];
static mstxFuncPointer *mem_table[MSTX_MEM_IDS + 2];

static struct weir__mstx_tool tool;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void point_at(mstxFuncPointer **table, mstxFuncPointer *slots, unsigned ids)
{
    WEIR_ASSERT(ids > 0 && table[ids + 1] == NULL);
    for (unsigned id = 1; id <= ids; id++) {
        table[id] = &slots[id];
    }
}

static int get_table(mstxFuncModule module, mstxFuncTable *table, unsigned int *size)
{
    if (table == NULL || size == NULL) {
        return MSTX_FAIL;
    }
    switch (module) {
    case MSTX_API_MODULE_CORE:
        *table = core_table;
        *size = MSTX_CORE_IDS + 1;
        return MSTX_SUCCESS;
    case MSTX_API_MODULE_CORE_DOMAIN:
        *table = domain_table;
        *size = MSTX_DOMAIN_IDS + 1;
        return MSTX_SUCCESS;
    case MSTX_API_MODULE_CORE_MEM:
        *table = mem_table;
        *size = MSTX_MEM_IDS + 1;
        return MSTX_SUCCESS;
    case MSTX_API_MODULE_FORCE_INT:
        break;
    }
    return MSTX_FAIL;
}

/* The copy turns dlsym's object pointer into a function pointer: POSIX permits that, ISO C has no conversion. */
static mstxInitInjectionFunc find_entry_point(void)
{
    const char *path = secure_getenv("MSTX_INJECTION_PATH");
    void *library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *symbol = dlsym(library != NULL ? library : RTLD_DEFAULT, "InitInjectionMstx");
    mstxInitInjectionFunc entry_point = NULL;
    memcpy(&entry_point, &symbol, sizeof(entry_point));
    return entry_point;
}

static void load(void)
{
    point_at(core_table, core, MSTX_CORE_IDS);
    point_at(domain_table, domain, MSTX_DOMAIN_IDS);
    point_at(mem_table, mem, MSTX_MEM_IDS);
    const mstxInitInjectionFunc init = find_entry_point();
    if (init == NULL || init(get_table) != MSTX_SUCCESS) {
        return;
    }
#define MSTX_CORE_SLOT(slot, id, result, parameters) tool.slot = (result(*) parameters)core[id];
#define MSTX_DOMAIN_SLOT(slot, id, result, parameters) tool.slot = (result(*) parameters)domain[id];
#define MSTX_MEM_SLOT(slot, id, result, parameters) tool.slot = (result(*) parameters)mem[id];
    MSTX_CORE_LIST(MSTX_CORE_SLOT)
    MSTX_DOMAIN_LIST(MSTX_DOMAIN_SLOT)
    MSTX_MEM_LIST(MSTX_MEM_SLOT)
}

const struct weir__mstx_tool *weir__mstx_tool(void)
{
    (void)UNCANCELLED(pthread_once(&once, load));
    return &tool;
}
