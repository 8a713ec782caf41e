/* core/src/memory/asleep.h: the records of sleeping blocks, and the plan of a sleep. */
#ifndef WEIR_CORE_ASLEEP_H
#define WEIR_CORE_ASLEEP_H

#include <weir/sleep.h>

#include "memory/memory.h"

/* Host memory with the copies of some sleeping blocks. */
struct sleep_copy {
    char *host; /* NULL: the entry is unused */
    uint64_t size;
    uint64_t filled; /* bytes in use while the copies are laid out */
    size_t blocks;   /* sleeping blocks that have a copy in it */
    weir_sleep_store store;
};

/* A sleeping block, or a run of committed units of a reserved block, which sleeps while one of its runs does. */
struct asleep {
    weir_block *block;
    uint64_t address;
    uint64_t size;
    char *host;  /* its copy; NULL: none */
    size_t copy; /* index of the struct sleep_copy */
    uint64_t at; /* the copy's offset there */
    weir_tag tag;
    uint8_t policy; /* a weir_sleep_policy */
    bool bare;      /* some of its memory is gone, or in a plan: is to go */
    bool follows;   /* the run before it in the list is one of the same block */
    bool slept;     /* in a plan: it slept before */
    bool apart;     /* in a plan that has failed: the block stays asleep */
    bool told;      /* observers know that it sleeps */
};

/* The sleeping blocks of a pool, in the order of their addresses. Changed under the pool's lock by the thread that has
 * the turn to grow; such a thread may read the records without the lock. */
struct pool_sleep {
    struct asleep *blocks;
    size_t count;
    size_t room;
    struct sleep_copy *copies;
    size_t copy_count;
    size_t copy_room;
};

/* The plan of a sleep: blocks that fall asleep, handles that go. */
struct sleep_plan {
    const uint8_t *policies; /* by tag */
    struct asleep *blocks;
    size_t count;
    size_t room;
    uint64_t *handles; /* first addresses */
    size_t handle_count;
    size_t handle_room;
    bool *waits; /* by lane: streams whose work may touch the memory */
    size_t lanes;
    bool unsettled;       /* a block beside a sleeping one is on its way to be free: the plan has to be made again */
    const char *obstacle; /* why the pool cannot sleep; NULL: it can */
    uint64_t at;          /* the address of the obstacle */
    struct sleep_range *ranges; /* of the strategy */
    size_t range_count;
    size_t range_room;
};

/* Plans a sleep: marks the blocks as sleeping, and withholds the free memory beside them. Returns WEIR_ERR_NO_MEMORY
 * when out of host memory. After a failure, and if the plan is unsettled or has an obstacle, nothing sleeps, but
 * withheld memory has to be settled. The turn to grow is taken; all locks held. */
weir_status weir__sleep_plan_locked(weir_pool *pool, struct sleep_plan *plan);
/* Makes the blocks of the plan live again, but those that slept before. Pool lock held. */
void weir__sleep_undo_plan_locked(struct sleep_plan *plan);
void weir__sleep_plan_fini(struct sleep_plan *plan);

/* Makes a block live or sleeping. */
void weir__sleep_set_asleep(weir_block *block, bool asleep);

/* Bytes of sleeping blocks whose memory is gone. */
struct absent {
    uint64_t live;              /* as handed out */
    uint64_t requested;         /* as requested */
    uint64_t by_tag[WEIR_TAGS]; /* the same, by tag */
};

/* Sums up the sleeping blocks whose memory is gone, some of it or all. Pool lock held. */
void weir__sleep_absent_locked(const weir_pool *pool, struct absent *absent);
/* Returns the pool's records, or NULL when out of host memory. Pool lock held. */
struct pool_sleep *weir__sleep_records_locked(weir_pool *pool);
/* Finds the records of a block: returns the number of the first one, and stores how many there are. Pool lock held, or
 * the turn to grow is taken. */
size_t weir__sleep_find(const struct pool_sleep *sleep, const weir_block *block, size_t *count);
/* Ends a sleeping block, which is counted as freed: its addresses serve again when they have memory, or at once as a
 * hole. The turn to grow is taken. Pool lock held. */
void weir__sleep_free_locked(weir_pool *pool, weir_block *block);
/* Makes a sleeping block live that may have no memory, and gives its host copies up. The turn to grow is taken. Pool
 * lock held. */
void weir__sleep_forget_locked(weir_pool *pool, weir_block *block);
/* Gives host copies back that no sleeping block has any more. No lock held; the calling thread has the turn to grow, or
 * the pool is being destroyed. */
void weir__sleep_give_copies(weir_pool *pool, bool all);
void weir__sleep_fini(weir_pool *pool);

#endif
