/* page_move.h: moves pages of the process to other addresses, where the kernel can (Linux 6.8, UFFDIO_MOVE).
 *
 * A page that moves keeps its bytes and is neither zeroed nor charged anew, so that a move costs a fifth of a release
 * and a new page. The kernel asks for a userfaultfd that the target is registered with; the first move opens it. The
 * mode of the registration, write protection of pages that are never protected, changes no fault. Kernels, sandboxes
 * and limits may refuse all of it; the caller then makes pages anew.
 */
#ifndef WEIR_HOST_PAGE_MOVE_H
#define WEIR_HOST_PAGE_MOVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Moves pages by a userfaultfd, for one thread at a time. If all members are 0, no move has been tried. */
typedef struct weir__page_mover {
    int file;     /* the userfaultfd while `is_open` */
    dev_t device; /* with `inode`: the identity of the userfaultfd, whose number the program may give another file */
    ino_t inode;
    atomic_int why; /* errno of the last refusal; any thread may read it */
    long process;   /* the process that opened the file: in a child of fork the file still moves the parent's pages */
    bool is_open;
    bool is_tried; /* no further attempt to open the file is made: it is open, or was refused for good */
} weir__page_mover;

/* Registers a range that pages will move into. Returns false if the system refuses; then no page can move. */
bool weir__page_mover_add(weir__page_mover *mover, uint64_t address, uint64_t size);
/* Unregisters a range that is about to be unmapped. */
void weir__page_mover_drop(weir__page_mover *mover, uint64_t address, uint64_t size);
/* Moves pages into a registered range without pages. Returns how many bytes from the beginning of the range have moved.
 * A page that is missing in the source stays missing. */
uint64_t weir__page_move(weir__page_mover *mover, uint64_t to, uint64_t from, uint64_t size);
void weir__page_mover_fini(weir__page_mover *mover);

#endif
