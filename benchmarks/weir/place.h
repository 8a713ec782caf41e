/* place.h: where the files lie that came with the command.
 *
 * Idea: everything is found by where the executable lies, so an installed tree can be moved, unpacked anywhere or put under
 * a package manager, and no path of the build is in the program. The build tree is laid out like an installed prefix
 * (CMakeLists.txt), so there is one rule and not two. Nothing outside these folders is ever looked at.
 */
#ifndef WEIR_COMMAND_PLACE_H
#define WEIR_COMMAND_PLACE_H

enum place {
    PLACE_TRACES,    /* PREFIX/share/weir/traces: recordings */
    PLACE_LIBRARIES, /* PREFIX/lib/weir: libraries that are loaded into other programs */
};

/* The absolute path of a folder, from malloc. It need not exist. NULL without host memory or without /proc. */
char *place_folder(enum place place);

/* "folder/name" from malloc, NULL without host memory. */
char *place_join(const char *folder, const char *name);

/* The absolute path of the file `name` in that folder, from malloc. NULL when there is none that can be read, and when
 * place_folder gives NULL. */
char *place_file(enum place place, const char *name);

#endif
