/* cgroup.h: the memory that the process's control groups let it have. A container's limit is one of them. */
#ifndef WEIR_CGROUP_H
#define WEIR_CGROUP_H

#include <stdint.h>

/* UINT64_MAX in a member: no group sets a limit. */
typedef struct weir__cgroup_memory {
    uint64_t limit_bytes; /* the least memory limit of the process's group and of those above it */
    uint64_t swap_bytes;  /* the least swap limit */
    uint64_t
        room_bytes; /* how many more bytes the process can take before a group is full, less a margin; the page cache
                             of a group counts as room, because the kernel drops it when the group is full */
} weir__cgroup_memory;

/* Reads version 2 or version 1 of the control groups from the files below `root`, which is "" for this machine. */
weir__cgroup_memory weir__cgroup_read(const char *root);

#endif
