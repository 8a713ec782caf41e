/* weir/sleep.h: gives device memory back for a while and loses nothing: addresses stay, contents come back.
 *
 * An engine sleeps between two uses of its device: a trainer, or another model, gets the memory meanwhile. Sleep acts
 * on live blocks by their tags (weir/budget.h). Each tag has a policy: copy the contents to host memory, let them go,
 * or leave the blocks as they are. A sleeping block keeps its address, its size and its handle; only its memory is
 * gone. After a wake every pointer that the program holds is valid again, also in captured graphs.
 *
 *     weir_sleep_rule rules[] = {{weights, WEIR_SLEEP_KEEP}, {kv_cache, WEIR_SLEEP_DISCARD}};
 *     weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
 *     config.rules = rules;
 *     config.rule_count = 2;                                 blocks without a rule, and without a tag, are kept
 *     weir_pool_sleep(pool, &config, &report);
 *     ...                                                    the memory serves another program
 *     weir_pool_wake(pool, &weights, 1, &report);            some tags first, in any order,
 *     weir_pool_wake(pool, NULL, 0, &report);                then all that still sleep
 *
 * The calls that a block allows, by its state:
 *
 *     call                          awake    asleep                        during weir_pool_sleep or _wake, by another
 *                                                                          thread
 *     device work on it             yes      no: it has no memory          no
 *     weir_pool_free, _free_idle    yes      yes; no memory comes back     waits for the call, then as before it
 *     weir_pool_use, _use_end      yes      WEIR_ERR_BUSY                 yes if awake, else WEIR_ERR_BUSY
 *     weir_pool_alloc               yes      yes: a new block is awake     yes; growth waits for the call
 *     weir_pool_sleep               sleeps   stays asleep                  waits for the call
 *     weir_pool_wake                no effect  wakes                       waits for the call
 *     weir_pool_trim, _set_limits   yes      yes                           waits for the call
 *     weir_pool_pin                 yes      WEIR_ERR_INVALID: no memory   the same
 *     weir_stream_retire            yes      yes                           yes
 *     weir_pool_destroy             yes      yes; host copies go back      no, as at any time
 *
 * Waiting. A sleep waits, on the host, for the streams on which the sleeping blocks were allocated or are used
 * (weir_pool_use), and for those whose freed memory lies in the same handles; for no other stream. Queue no work on a
 * block that is about to sleep: work that is queued after the call has begun may find no memory. The launches of a
 * captured graph are not known to the pool: let them end first, or tell them with weir_pool_use.
 *
 * Memory goes back by whole handles of the device. A handle in which an awake block lies stays, with all that is in it,
 * and so does a handle with memory of a captured graph that is free between its launches; report.left_bytes counts the
 * sleeping bytes in such handles. Where all tags sleep, nothing is left. Idle memory of the pool goes back, too. Waking
 * takes memory by granules, for the woken blocks alone.
 *
 * Failures. A sleep that fails has put everything back: the pool is awake as before. A wake has two stages: first the
 * blocks with contents (KEEP), then the others. A stage that fails leaves its blocks asleep, with their copies, and the
 * call may be repeated; a first stage that succeeded stays. The host copies of the first stage go back before the
 * second stage takes memory, so that devices that share memory with the host need it once. If the device also fails
 * while a failed call is being undone, blocks may stay asleep, with their contents: weir_pool_wake brings them back.
 *
 * Counting. Sleeping blocks count as live: their bytes are in live_bytes and requested_bytes of the statistics and
 * under their tags, but not in reserved_bytes, nor in the record of a refused request. Idle memory of a stage that has
 * failed, and memory that the device does not take back at the end of a sleep, stays reserved; weir_pool_trim tries
 * again.
 *
 * All functions are thread-safe. The pool needs virtual memory and a device that copies (weir_device_ops.copy).
 */
#ifndef WEIR_SLEEP_H
#define WEIR_SLEEP_H

#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weir_sleep_policy {
    WEIR_SLEEP_KEEP = 0,    /* contents are copied to host memory, and back */
    WEIR_SLEEP_DISCARD = 1, /* contents are undefined after the wake; in checked builds, bytes of 0xdd */
    WEIR_SLEEP_ZERO = 2,    /* contents are zeroes after the wake */
    WEIR_SLEEP_STAY = 3,    /* the blocks stay awake */
} weir_sleep_policy;

typedef struct weir_sleep_rule {
    weir_tag tag; /* 0: blocks without a tag */
    weir_sleep_policy policy;
} weir_sleep_rule;

/* Where host copies are kept. `take` stores memory of `size` bytes in *host and returns WEIR_OK, or WEIR_ERR_NO_MEMORY
 * or WEIR_ERR_LIMIT; `give` takes it back. Any thread calls them, with no lock of the pool held; they must not call the
 * pool. Pinned memory, of a host pool for example, is copied fastest. */
typedef struct weir_sleep_store {
    weir_status (*take)(void *ctx, uint64_t size, void **host);
    void (*give)(void *ctx, void *host, uint64_t size);
    void *ctx;
} weir_sleep_store;

typedef struct weir_sleep_config {
    size_t struct_size;
    const weir_sleep_rule *rules; /* one for each tag that is not kept; the call does not keep the pointer */
    size_t rule_count;
    weir_sleep_store
        store; /* must outlive the wake; all zero: pageable memory of the C library, which devices copy more
                               slowly */
} weir_sleep_config;

#define WEIR_SLEEP_CONFIG_INIT WEIR_STRUCT_INIT(weir_sleep_config)

/* The work of a call, or, after WEIR_ERR_NO_MEMORY and WEIR_ERR_LIMIT, the memory that it lacked. */
typedef struct weir_sleep_report {
    size_t struct_size;
    uint64_t blocks;        /* that fell asleep or woke in this call */
    uint64_t bytes;         /* of these blocks */
    uint64_t device_bytes;  /* given back to the device, or taken from it */
    uint64_t host_bytes;    /* of host copies that the pool holds now */
    uint64_t kept_bytes;    /* of sleeping contents that they hold */
    uint64_t asleep_blocks; /* that sleep now */
    uint64_t asleep_bytes;  /* of these blocks */
    uint64_t left_bytes;    /* of sleeping blocks whose memory has all stayed with the pool, see above */
    uint64_t copies;        /* pieces that the device copied or filled */
    uint64_t copied_bytes;  /* in these pieces */
    uint64_t waits;         /* streams that the call waited for */
    uint64_t missing_bytes; /* wake: device memory that was asked for, less what the pool or the device could give; 0
                                 after success, or if the device does not tell */
    uint64_t others_bytes;  /* wake, then: device memory that other pools, libraries and processes hold */
} weir_sleep_report;

#define WEIR_SLEEP_REPORT_INIT WEIR_STRUCT_INIT(weir_sleep_report)

/* Puts all live blocks but those of a STAY tag to sleep. Blocks that sleep already stay asleep, with the policy that
 * they had. `config` NULL: all blocks, kept, in pageable memory. `report` may be NULL. Returns
 *   WEIR_ERR_INVALID       the pool is NULL, or a rule names no tag or no policy, or a tag twice; a member of store is
 *                          missing
 *   WEIR_ERR_UNSUPPORTED   the pool has no virtual memory, or the device does not copy
 *   WEIR_ERR_BUSY          a block that would sleep is pinned (weir/pin.h), or its stream is being captured, or other
 *                          threads kept freeing blocks next to it; weir_last_error says which
 *   WEIR_ERR_NO_MEMORY, WEIR_ERR_LIMIT   the store, or host memory for records
 *   WEIR_ERR_DEVICE        a device call failed
 * and has changed nothing then, except as said under "Failures" above. Blocks. */
WEIR_API weir_status weir_pool_sleep(weir_pool *pool, const weir_sleep_config *config, weir_sleep_report *report);

/* Wakes the sleeping blocks of `count` tags (0: blocks without a tag), or all if count is 0; a pool without virtual
 * memory has none. The pool's limits hold:
 * idle memory of the pool goes back first where they or the device ask for it. `report` may be NULL. Returns
 *   WEIR_ERR_INVALID     the pool is NULL, or `tags` is NULL with a count, or names no tag
 *   WEIR_ERR_NO_MEMORY   the device has too little memory (report.missing_bytes), or host memory for records
 *   WEIR_ERR_LIMIT       the pool's limit is too low (report.missing_bytes)
 *   WEIR_ERR_DEVICE      a device call failed
 * Then the stage that failed has changed nothing, except as said under "Failures" above. Blocks. */
WEIR_API weir_status weir_pool_wake(weir_pool *pool, const weir_tag *tags, size_t count, weir_sleep_report *report);

/* Stores how many blocks sleep, and their bytes; the members that count the work of a call are 0. Makes no device call
 * and does not block. */
WEIR_API weir_status weir_pool_get_sleep(weir_pool *pool, weir_sleep_report *report);

/* True if the block sleeps. The block must be live. */
WEIR_API bool weir_block_is_asleep(const weir_block *block);

#ifdef __cplusplus
}
#endif

#endif
