/* tests/host/unit/tree.h: a folder of kernel files, as sysfs and proc have them, that a test makes. new_root and
 * remove_root are the set-up and the teardown of a program. */
#ifndef TESTS_UNIT_TREE_H
#define TESTS_UNIT_TREE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static inline int new_root(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/weir-sysfs-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *facts, int flag, struct FTW *where)
{
    (void)facts;
    (void)flag;
    (void)where;
    return remove(path);
}

static inline int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file below the root, and creates its folders. */
static inline void put(const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
