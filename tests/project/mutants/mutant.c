/* tests/project/mutants/mutant.c: reads the name of this process's bug from the environment. */
#include "mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutant_list.h" /* generated: MUTANT_LIST(X), an X for each seed */

unsigned long weir__mutant;

static const struct {
    const char *name;
    unsigned long number;
} mutants[] = {{"none", 0},
#define MUTANT_NAME(name) {#name, MUTANT_NUMBER(#name)},
               MUTANT_LIST(MUTANT_NAME)
#undef MUTANT_NAME
};

/* If no seeded bug has the name, the process ends. Its exit status differs from that of a passed test (a bug that was
 * not found) and from that of a failed test (a bug that was found). */
__attribute__((constructor)) static void choose(void)
{
    const char *wanted = getenv("WEIR_MUTANT");
    size_t i = 0;
    while (wanted != NULL && i < sizeof(mutants) / sizeof(mutants[0]) && strcmp(mutants[i].name, wanted) != 0) {
        i++;
    }
    if (i == sizeof(mutants) / sizeof(mutants[0])) {
        (void)fprintf(stderr, "no such mutant: %s\n", wanted);
        _Exit(99);
    }
    weir__mutant = mutants[i].number;
}
