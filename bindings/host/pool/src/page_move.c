/* page_move.c: see page_move.h. */
#include "page_move.h"

#include "numa_pages.h"

#include "shared/assert.h"
#include "shared/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY /* before Linux 5.11 */
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_PAGEFAULT_FLAG_WP /* before Linux 5.7 */
#define UFFD_FEATURE_PAGEFAULT_FLAG_WP 1
#endif
#ifndef UFFDIO_REGISTER_MODE_WP
#define UFFDIO_REGISTER_MODE_WP 2
#endif

/* Constants of UFFDIO_MOVE, which headers before Linux 6.8 lack. */
#define FEATURE_MOVE (UINT64_C(1) << 16)
#define MOVE_OVER_MISSING_PAGES (UINT64_C(1) << 1)

struct move_order {
    uint64_t to;
    uint64_t from;
    uint64_t size;
    uint64_t mode;
    int64_t moved; /* bytes, or an errno below 0 */
};

#define IOCTL_MOVE _IOWR(UFFDIO, 0x05, struct move_order)

static bool refuse(weir__page_mover *mover)
{
    WEIR_ASSERT(errno != 0);
    atomic_store_explicit(&mover->why, errno, memory_order_relaxed);
    return false;
}

static bool open_file(weir__page_mover *mover)
{
    WEIR_ASSERT(!mover->is_open && !mover->is_tried);
    mover->is_tried = true;
    mover->process = (long)getpid();
    const int file = above_standard((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
    if (file < 0) {
        return refuse(mover);
    }
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_MOVE};
    if (ioctl(file, UFFDIO_API, &api) != 0) {
        (void)refuse(mover);
        (void)close(file);
        return false;
    }
    struct stat facts;
    if (fstat(file, &facts) != 0) {
        (void)refuse(mover);
        (void)close(file);
        return false;
    }
    mover->file = file;
    mover->device = facts.st_dev;
    mover->inode = facts.st_ino;
    mover->is_open = true;
    return true;
}

/* True if the number is still that of the mover's userfaultfd. The program may have closed it, as daemons close all
 * files, and another file may have the number now, for example a userfaultfd of the program. */
static bool is_usable(weir__page_mover *mover)
{
    struct stat facts;
    if (!mover->is_open || mover->process != (long)getpid()) {
        return false;
    }
    errno = EBADF;
    if (fstat(mover->file, &facts) == 0 && facts.st_dev == mover->device && facts.st_ino == mover->inode) {
        return true;
    }
    mover->is_open = false;
    return refuse(mover);
}

bool weir__page_mover_add(weir__page_mover *mover, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0 && (address | size) % weir__numa_page_bytes() == 0);
    if (!mover->is_tried && !open_file(mover)) {
        return false;
    }
    if (!is_usable(mover)) {
        return false;
    }
    struct uffdio_register range = {.range = {.start = address, .len = size}, .mode = UFFDIO_REGISTER_MODE_WP};
    return ioctl(mover->file, UFFDIO_REGISTER, &range) == 0 || refuse(mover);
}

void weir__page_mover_drop(weir__page_mover *mover, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    struct uffdio_range range = {.start = address, .len = size};
    if (is_usable(mover) && ioctl(mover->file, UFFDIO_UNREGISTER, &range) != 0) {
        (void)refuse(mover);
    }
}

uint64_t weir__page_move(weir__page_mover *mover, uint64_t to, uint64_t from, uint64_t size)
{
    WEIR_ASSERT(size != 0 && (to | from | size) % weir__numa_page_bytes() == 0);
    WEIR_ASSERT(to + size <= from || from + size <= to);
    uint64_t done = 0;
    while (done < size && is_usable(mover)) {
        struct move_order order = {.to = to + done, .from = from + done, .size = size - done};
        order.mode = MOVE_OVER_MISSING_PAGES;
        const int failed = ioctl(mover->file, IOCTL_MOVE, &order);
        if (order.moved <= 0) { /* no more pages move, for example because the destination has a page; earlier calls may
                                   have moved a part */
            errno = failed != 0 ? errno : EAGAIN;
            (void)refuse(mover);
            break;
        }
        done += (uint64_t)order.moved;
        WEIR_ASSERT(done <= size);
    }
    return done;
}

void weir__page_mover_fini(weir__page_mover *mover)
{
    if (is_usable(mover)) {
        (void)close(mover->file);
    }
    mover->is_open = false;
}
