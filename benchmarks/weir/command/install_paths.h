/* install_paths.h: finds the files that are installed with the command.
 *
 * Idea: files are found relative to the executable's folder. So an installed tree can be moved, unpacked anywhere or
 * put under a package manager, and the program contains no path of the build. The build tree has the layout of an
 * installed prefix (CMakeLists.txt), so one rule serves both. The command never searches other folders.
 */
#ifndef WEIR_COMMAND_INSTALL_PATHS_H
#define WEIR_COMMAND_INSTALL_PATHS_H

enum place {
    PLACE_TRACES,    /* PREFIX/share/weir/traces: recordings */
    PLACE_LIBRARIES, /* PREFIX/lib/weir: libraries that other programs load */
};

/* Returns the absolute path of a folder, from malloc. The folder need not exist.
 * NULL when out of host memory or without /proc. */
char *place_folder(enum place place);

/* Returns "folder/name" from malloc; NULL when out of host memory. */
char *place_join(const char *folder, const char *name);

/* Returns the absolute path of the file `name` in the folder `place`, from malloc. NULL if there is no readable file,
 * or if place_folder returns NULL. */
char *place_file(enum place place, const char *name);

#endif
