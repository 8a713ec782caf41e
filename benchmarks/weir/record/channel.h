/* benchmarks/weir/record/channel.h: the channel from a recorded program to `weir record`: one ring buffer in shared
 * memory.
 *
 * Idea: the command makes the ring and reads it; the library in the program writes it. The program only fills in 64
 * bytes for each event: it has no thread, no file and no buffer of the recorder. So an event that is written survives
 * any end of the program: exit, _exit, a signal, exec.
 *
 *     turn of slot i    t        free for ticket t (t modulo slots = i)
 *                       t + 1    ticket t is written
 *                       t + slots  read: free for the next round
 *
 * Tickets are the order of the trace: a thread takes the next number (`tail`), fills the slot and publishes its turn.
 * The reader goes by number and waits for a ticket that is taken but not yet published. When the ring is full, writers
 * wait for the reader, so no event is lost. Only when the reader is gone does the program go on unrecorded.
 *
 * Events come from images: an image is a process from its start, or from an exec, to its end. The first image is the
 * program's. Further images are those of its children, if these are recorded too (`children`), and those after an exec.
 *
 * A process that ends while it writes an event, or calls exec while other threads run, leaves tickets that are never
 * published. The reader skips them: if only one process is recorded, when the program has ended or when its next image
 * has begun (`image_first` is that image's first ticket); if several processes are recorded, after some seconds.
 *
 * The library of this folder and the command share this file and are built from one tree: the magic number changes with
 * the layout. Both sides must have the same word size.
 */
#ifndef WEIR_RECORD_CHANNEL_H
#define WEIR_RECORD_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>

#define CHANNEL_MAGIC UINT64_C(0x3230676e69726577)
#define CHANNEL_ENV "WEIR_RECORD_CHANNEL" /* environment variable: the path of the shared memory */

enum { channel_slots = 1 << 18 }; /* 16 MiB */

/* Device numbers of events: pinned and other host memory. NPUs have numbers from 0. */
enum { channel_pinned = 4094, channel_host = 4095 };

enum { channel_records_host = 1, channel_records_device = 2 }; /* bits of channel.what */

enum { channel_image = 'X' }; /* `kind` of a process image's first event; other events have a weir_trace_kind */

struct channel_slot {
    _Alignas(64) _Atomic uint64_t turn;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t id;      /* address of the block, or the event */
    uint64_t size;
    uint64_t extra;  /* ALLOC: alignment. REALLOC: the old address */
    uint64_t stream; /* the device runtime's handle; 0 = the device's default stream; unused for host memory */
    uint32_t thread;
    uint16_t device;
    uint8_t kind;
    char mode;
    uint32_t image; /* number of the process image that wrote the event, from 0 in order of arrival */
};

struct channel {
    uint64_t magic;
    uint64_t least_bytes; /* smaller blocks of host memory are not recorded */
    int32_t program;      /* process id */
    int32_t reader;
    uint32_t what;
    uint32_t children;    /* 1: children of the program are recorded too */
    atomic_uint bypassed; /* process images with a malloc of their own, which bypass the library */
    atomic_uint threads;  /* thread numbers given out */
    atomic_uint images;   /* process images that have joined the channel; 0 = the program did not load the library */
    _Atomic uint64_t image_first;
    _Atomic uint64_t calls;             /* observed calls of the device runtime */
    _Alignas(64) _Atomic uint64_t tail; /* the next free ticket */
    _Alignas(64) struct channel_slot slots[];
};

enum { channel_bytes = sizeof(struct channel) + sizeof(struct channel_slot) * channel_slots };

#endif
