/* tests/project/mutants/mutant.h: the bug that this process has. Every file of a build with WEIR_MUTANTS includes it
 * first.
 *
 * The seeds use MUTANT(S1) where the code of a bug differs. One build holds all bugs and has none of them unless the
 * environment names one: WEIR_MUTANT=S1.
 */
#ifndef WEIR_TESTS_MUTANT_H
#define WEIR_TESTS_MUTANT_H

#include "mutant_list.h" /* generated: MUTANT_LIST(X), an X for each seed */

enum {
    MUTANT_NONE,
#define MUTANT_ENUM(name) MUTANT_##name,
    MUTANT_LIST(MUTANT_ENUM)
#undef MUTANT_ENUM
};

extern int weir__mutant;

#define MUTANT(name) (weir__mutant == MUTANT_##name)

#endif
