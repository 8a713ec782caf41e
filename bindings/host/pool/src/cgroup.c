/* cgroup.c: memory limits of control groups, as the kernel documents them (admin-guide/cgroup-v2, cgroup-v1/memory).
 *
 * /proc/self/cgroup names the process's group below the mounted hierarchy. A container may see only its own part of the
 * hierarchy, mounted as if it were the whole. So folders of the group's path that do not exist below the mount are
 * skipped.
 */
#include "cgroup.h"

#include "shared/assert.h"
#include "topology_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MOST = 1024, TEXT_MOST = 8192 };

#define NO_LIMIT UINT64_MAX
#define MIB (UINT64_C(1) << 20)

/* The files of a version. */
struct version {
    const char *line;  /* in /proc/self/cgroup: start of the line of this version, after the number of the hierarchy */
    const char *mount; /* usual mount point (systemd, Docker, Kubernetes) */
    const char *limit;
    const char *swap; /* limit of swap; in version 1, of memory and swap together */
    const char *used;
    const char *cache[2]; /* lines of memory.stat */
    bool swap_has_memory;
};

static const struct version versions[] = {
    {"::",
     "/sys/fs/cgroup",
     "memory.max",
     "memory.swap.max",
     "memory.current",
     {"active_file", "inactive_file"},
     false},
    {":memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.memsw.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"},
     true},
};

struct group {
    const char *root;
    const struct version *version;
    char path[PATH_MOST]; /* path of the group below the mount; "" for the top group */
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool file_text(const struct group *group, const char *name, char *text, size_t size)
{
    char path[PATH_MOST + 128];
    (void)snprintf(path, sizeof(path), "%s%s/%s", group->version->mount, group->path, name);
    return weir__sysfs_text(group->root, path, text, size);
}

/* Returns the number in a file; NO_LIMIT for "max", for a missing file, and for version 1's largest number. */
static uint64_t number_in(const struct group *group, const char *name)
{
    char text[64];
    if (!file_text(group, name, text, sizeof(text)) || strncmp(text, "max", 3) == 0) {
        return NO_LIMIT;
    }
    const uint64_t number = strtoull(text, NULL, 10);
    return number < UINT64_C(1) << 62 ? number : NO_LIMIT;
}

/* Returns the number in the line "key 123" of a text. */
static uint64_t value_of(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *at = strstr(text, key); at != NULL; at = strstr(at + 1, key)) {
        if (at[length] == ' ' && (at == text || at[-1] == '\n')) {
            return strtoull(at + length + 1, NULL, 10);
        }
    }
    return 0;
}

/* Returns the room that is left to the kernel: 1/64 of the limit, at least 1 and at most 64 MiB. The kernel charges
 * page tables too, and charges pages in batches for each processor. */
static uint64_t margin_of(uint64_t limit)
{
    const uint64_t part = limit / 64;
    return part < MIB ? MIB : part > 64 * MIB ? 64 * MIB : part;
}

static uint64_t room_of(const struct group *group, uint64_t limit)
{
    WEIR_ASSERT(margin_of(limit) >= MIB);
    char text[TEXT_MOST];
    const uint64_t used = number_in(group, group->version->used);
    if (limit == NO_LIMIT || used == NO_LIMIT) {
        return NO_LIMIT;
    }
    const uint64_t most = limit - least(limit, margin_of(limit));
    uint64_t kept = used;
    for (size_t i = 0; i < 2 && file_text(group, "memory.stat", text, sizeof(text)); i++) {
        kept -= least(kept, value_of(text, group->version->cache[i]));
    }
    return most > kept ? most - kept : 0;
}

static void add_group(const struct group *group, weir__cgroup_memory *memory)
{
    WEIR_ASSERT(group->path[0] == '\0' || group->path[0] == '/');
    const uint64_t limit = number_in(group, group->version->limit);
    uint64_t swap = number_in(group, group->version->swap);
    if (group->version->swap_has_memory && swap != NO_LIMIT) {
        swap = limit != NO_LIMIT && swap > limit ? swap - limit : 0;
    }
    memory->limit_bytes = least(memory->limit_bytes, limit);
    memory->swap_bytes = least(memory->swap_bytes, swap);
    memory->room_bytes = least(memory->room_bytes, room_of(group, limit));
}

/* Finds the process's group in a text of lines "4:memory:/path". */
static bool find_group(struct group *group, const char *text)
{
    WEIR_ASSERT(group->path[0] == '\0');
    const char *at = strstr(text, group->version->line);
    const char *path = at != NULL ? at + strlen(group->version->line) : "";
    const size_t length = strcspn(path, "\n");
    if (path[0] != '/' || length >= sizeof(group->path)) {
        return false;
    }
    memcpy(group->path, path, length);
    group->path[length > 1 ? length : 0] = '\0'; /* the top is "/" */
    return true;
}

weir__cgroup_memory weir__cgroup_read(const char *root)
{
    char text[TEXT_MOST];
    weir__cgroup_memory memory = {NO_LIMIT, NO_LIMIT, NO_LIMIT};
    WEIR_ASSERT(root != NULL);
    if (!weir__sysfs_text(root, "/proc/self/cgroup", text, sizeof(text))) {
        return memory;
    }
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct group group = {.root = root, .version = &versions[i]};
        if (!find_group(&group, text)) {
            continue;
        }
        add_group(&group, &memory);
        while (group.path[0] != '\0') {
            *strrchr(group.path, '/') = '\0';
            add_group(&group, &memory);
        }
    }
    return memory;
}
