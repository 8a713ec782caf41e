/* tests/project/mutants/mutant.h: the bug that this process has. Every file of a build with WEIR_MUTANTS includes it
 * first.
 *
 * The seeds use MUTANT(S1) where the code of a bug differs. One build holds all bugs and has none of them unless the
 * environment names one: WEIR_MUTANT=S1.
 *
 * A bug's name is compared as a number, its letters, so that a new seed changes no file but those that it names. No
 * header is included: files choose the features of the system's headers after this.
 */
#ifndef WEIR_TESTS_MUTANT_H
#define WEIR_TESTS_MUTANT_H

extern unsigned long weir__mutant; /* 0: none */

#define MUTANT_LETTER(name, i) ((unsigned long)(unsigned char)(name "\0\0\0\0\0\0")[i] << (8 * (i)))
#define MUTANT_NUMBER(name)                                                                                            \
    (MUTANT_LETTER(name, 0) | MUTANT_LETTER(name, 1) | MUTANT_LETTER(name, 2) | MUTANT_LETTER(name, 3) |               \
     MUTANT_LETTER(name, 4) | MUTANT_LETTER(name, 5))
#define MUTANT(name) (weir__mutant == MUTANT_NUMBER(#name))

#endif
