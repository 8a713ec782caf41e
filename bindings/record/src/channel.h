/* bindings/record/src/channel.h: how a recorded program tells `weir record` what it asks for: one ring in shared memory.
 *
 * Idea: the command makes the ring and reads it; the library in the program writes it. The program itself does no more than
 * fill in 64 bytes: it has no thread, no file and no buffer of the recorder's. So what it has told is told, however it ends:
 * by exit, by _exit, by a signal, by exec.
 *
 *     turn of slot i    t        free for ticket t (t modulo slots = i)
 *                       t + 1    ticket t is written
 *                       t + slots  read: free for the next round
 *
 * Tickets are the order of the trace: a thread takes the next number (`tail`), fills the slot and publishes its turn; the
 * reader goes by number and waits where one is taken and not yet published. When the ring is full, who wants to write waits
 * for the reader: nothing is lost. Only when there is no reader any more the program goes on unrecorded.
 *
 * Who tells is an image: a process from its beginning, or from an exec, to its end. The first is the program's; further ones
 * are its children's, where these are recorded too (`children`), and what the program becomes by exec.
 *
 * A process that ends in the middle, or calls exec while other threads are in it, leaves tickets that nobody will publish.
 * The reader passes over them when the program has ended; where there is one process only, when its next image has begun
 * (`image_first` is that image's first ticket); where there are several, after some seconds.
 *
 * Shared between this folder's library and the command, which are built from one tree: the magic number changes with the
 * layout. Both sides must be of the same word size.
 */
#ifndef WEIR_RECORD_CHANNEL_H
#define WEIR_RECORD_CHANNEL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_MAGIC UINT64_C(0x3230676e69726577)
#define CHANNEL_ENV "WEIR_RECORD_CHANNEL" /* the path of the shared memory */

enum { channel_slots = 1 << 18 }; /* 16 MiB */

/* Device numbers of an event: 0 and up are NPUs. */
enum { channel_pinned = 4094, channel_host = 4095 };

enum { channel_records_host = 1, channel_records_device = 2 }; /* channel.what */

enum { channel_image = 'X' }; /* the kind of an image's first event; else weir_trace_kind */

typedef struct channel_slot {
    _Alignas(64) _Atomic uint64_t turn;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t id;      /* address of the block; the event */
    uint64_t size;
    uint64_t extra;  /* ALLOC: alignment. REALLOC: the old address */
    uint64_t stream; /* the runtime's handle; 0 = the device's default stream; none for host memory */
    uint32_t thread;
    uint16_t device;
    uint8_t kind;
    char mode;
    uint32_t image; /* which of those that have come, from 0 */
} channel_slot;

typedef struct channel {
    uint64_t magic;
    uint64_t least_bytes; /* smaller blocks of host memory are not told */
    int32_t program;      /* process id */
    int32_t reader;
    uint32_t what;
    uint32_t children;   /* those of the program tell too */
    atomic_uint bypassed; /* images that bring a malloc of their own, which is called instead */
    atomic_uint threads;  /* numbers given out */
    atomic_uint images;   /* how many have come to use the channel: 0 = the library was not loaded */
    _Atomic uint64_t image_first;
    _Atomic uint64_t calls; /* of the device runtime that were seen */
    _Alignas(64) _Atomic uint64_t tail; /* the next ticket */
    _Alignas(64) channel_slot slots[];
} channel;

enum { channel_bytes = sizeof(channel) + sizeof(channel_slot) * channel_slots };

#endif
