/* convert.c: writes the blocks of a trace, in any format that weir reads, as CSV: life, size, stream and tag.
 *   convert FILE      prints the blocks that were freed
 *   convert FILE OUT  writes the trace as .wtr to OUT instead; OUT.xz and OUT.gz are compressed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/trace_file.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "convert: %s\n", weir_last_error());
    exit(1);
}

struct block {
    uint64_t born_ns;
    uint64_t size;
    uint32_t stream;
    const char *tag;
};

static void print_block(const struct block *block, uint64_t freed_ns)
{
    printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",\"%s\"\n", block->born_ns, freed_ns, block->size,
           block->stream, block->tag != NULL ? block->tag : "");
}

static void print_blocks(const weir_trace *trace, const weir_trace_info *info)
{
    struct block *blocks = calloc(info->blocks + 1, sizeof(*blocks)); /* a trace numbers its blocks from 0 */
    if (blocks == NULL) exit(1);
    puts("born_ns,freed_ns,bytes,stream,tag");
    for (uint64_t i = 0; i < info->events; i++) {
        weir_trace_view view = WEIR_TRACE_VIEW_INIT;
        check(weir_trace_get_event(trace, i, &view));
        const weir_trace_event *event = view.event;
        switch (event->kind) {
        case WEIR_TRACE_REALLOC:
            print_block(&blocks[view.old_block], event->time_ns);
            blocks[view.block] = (struct block){event->time_ns, event->size, blocks[view.old_block].stream, view.tag};
            break;
        case WEIR_TRACE_PRIOR: /* live before the first event */
        case WEIR_TRACE_ALLOC:
            blocks[view.block] = (struct block){event->time_ns, event->size, event->stream, view.tag};
            break;
        case WEIR_TRACE_FREE:
            print_block(&blocks[view.block], event->time_ns);
            break;
        default: /* work, waits, marks, and the memory of the recorded allocator */
            break;
        }
    }
    free(blocks);
}

int main(int argc, char **argv)
{
    weir_trace *trace;
    weir_trace_info info = WEIR_TRACE_INFO_INIT;
    if (argc < 2) return 2;
    check(weir_trace_read(argv[1], NULL, &trace));
    check(weir_trace_get_info(trace, &info));
    for (uint64_t i = 0; i < info.notes; i++) fprintf(stderr, "note: %s\n", weir_trace_note(trace, i));
    if (argc > 2) {
        check(weir_trace_write(trace, argv[2]));
    } else {
        print_blocks(trace, &info);
    }
    weir_trace_free(trace);
    return 0;
}
