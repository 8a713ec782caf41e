/* trace_kineto_test.c: the import of the JSON that torch.profiler writes. Events are written in the form of the
 * profiler, and a test compares the whole trace as text. */
#include "rig/wtr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define PID 100
#define HOST 0
#define CUDA 1

/* --- writing a profile --- */

static char file[1 << 20];
static size_t used;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(file + used, sizeof(file) - used, format, arguments);
    va_end(arguments);
    assert_true(used < sizeof(file));
}

static void begin(void)
{
    used = 0;
    put("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"A\", "
        "\"totalGlobalMem\": 34089730048\n    }\n  ],\n  \"profile_memory\": 1,\n  \"displayTimeUnit\": \"ms\",\n"
        "  \"baseTimeNanoseconds\": 1700000000000000000,\n  \"traceEvents\": [\n");
}

static void end(void)
{
    put("  {\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    "
        "\"pid\": \"\", \"tid\": \"\", \"ts\": 99\n"
        "  }\n  ],\n  \"traceName\": \"t.json\"\n}\n");
}

static void memory(int pid, int tid, const char *ts, int type, int device, uint64_t address, int64_t bytes,
                   uint64_t allocated, uint64_t reserved)
{
    put("  {\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n"
        "    \"pid\": %d, \"tid\": %d,\n    \"ts\": %s,\n    \"args\": {\n      \"Total Reserved\": %" PRIu64
        ", \"Total Allocated\": %" PRIu64 ", \"Bytes\": %" PRId64 ", \"Addr\": %" PRIu64
        ", \"Device Id\": %d, \"Device Type\": %d, \"Ev Idx\": 7\n    }\n  },\n",
        pid, tid, ts, reserved, allocated, bytes, address, device, type);
}

static void cuda(const char *ts, uint64_t address, int64_t bytes)
{
    put("  {\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n"
        "    \"pid\": %d, \"tid\": %d,\n    \"ts\": %s,\n    \"args\": {\n      \"Bytes\": %" PRId64
        ", \"Addr\": %" PRIu64 ", \"Device Id\": 0, \"Device Type\": 1\n    }\n  },\n",
        PID, PID, ts, bytes, address);
}

static void span(const char *cat, const char *name, const char *pid, int tid, const char *ts, const char *dur,
                 const char *args)
{
    put("  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %s, \"tid\": "
        "%d,\n    \"ts\": %s, \"dur\": "
        "%s,\n    \"args\": {\n      %s\n    }\n  },\n",
        cat, name, pid, tid, ts, dur, args);
}

static void op(const char *name, int tid, const char *ts, const char *dur)
{
    span("cpu_op", name, "100", tid, ts, dur, "\"External id\": 5,\"Record function id\": 0, \"Ev Idx\": 0");
}

static void call(const char *name, int tid, const char *ts, int correlation)
{
    char args[100];
    snprintf(args, sizeof(args), "\"External id\": 5,\"cbid\": 211, \"correlation\": %d", correlation);
    span("cuda_runtime", name, "100", tid, ts, "5", args);
}

static void kernel(const char *name, int device, int stream, const char *ts, const char *dur, int correlation)
{
    char args[200];
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", device);
    snprintf(args, sizeof(args),
             "\"External id\": 5,\"queued\": 0, \"device\": %d, \"context\": 1,\n      "
             "\"stream\": %d, \"correlation\": %d,\n"
             "      \"grid\": [24, 1, 1],\n      \"est. achieved occupancy %%\": 2",
             device, stream, correlation);
    span("kernel", name, pid, stream, ts, dur, args);
}

static void waits(const char *kind, int stream, const char *ts, int correlation, int wait_stream, int record)
{
    char args[300];
    snprintf(args, sizeof(args),
             "\"cuda_sync_kind\": \"%s\",\n      \"wait_on_stream\": %d,\n      "
             "\"wait_on_cuda_event_record_corr_id\": %d,\n      \"wait_on_cuda_event_id\": 3,\n      \"stream\": %d, "
             "\"correlation\": %d,\n      \"device\": 0, \"context\": 1",
             kind, wait_stream, record, stream, correlation);
    span("cuda_sync", kind, "0", stream, ts, "1", args);
}

/* --- checks --- */

static weir_status read_file(const struct trace_limits *limits, struct trace **trace, struct trace_error *error)
{
    return read_exactly("dir/t.json", file, used, limits, trace, error);
}

static void check_trace(const char *expected)
{
    struct trace *trace = trace_of_bytes("dir/t.json", file, used);
    is_written_as(trace, expected);
    trace_free(trace);
}

static void check_refused(weir_status status, const char *message)
{
    is_refused("dir/t.json", file, used, status, message);
}

#define HEAD "#wtr 1\n#src kineto t.json\n#clock ns\n"
#define NOTE_SIZES                                                                                                     \
    "#note sizes are those of the recorded allocator, after rounding; the file does not say which blocks a kernel "    \
    "touches, so it has no uses across streams\n"
#define NOTE_STREAM(count)                                                                                             \
    "#note " count " allocations have no stream in the file: each is on the stream of the next work that its thread "  \
    "launches, else of the last, else of most work\n"

#define NOTE_BEFORE(bytes)                                                                                             \
    "#note " bytes " bytes were live before the recording and have no records: the totals of the file show them\n"
#define BEFORE "@0 (live before the recording)\n"

#define NOTE_MAIN(count)                                                                                               \
    "#note " count " allocations have no stream in the file: each is on the stream of its device that runs most "      \
    "work\n"

/* --- files that are read --- */

TEST(test_a_step)
{
    begin();
    op("autograd::engine::evaluate_function: MmBackward0", 101, "10", "80");
    op("aten::mm", 101, "20", "40");
    op("aten::empty_strided", 101, "21", "3");
    memory(PID, 101, "22.125", CUDA, 0, 4096, 1024, 1536, 2097152);
    call("cudaLaunchKernel", 101, "30", 9);
    kernel("void gemm<float>(int)", 0, 7, "95", "12.500", 9);
    memory(PID, 101, "70", CUDA, 0, 4096, -1024, 512, 2097152);
    end();
    check_trace(HEAD NOTE_SIZES NOTE_BEFORE("512") "#note streams of the file: 0 = 7\n" NOTE_STREAM("1") BEFORE
                "p 0 512 0 @0\n"
                "@1 aten::mm\n"
                "a 0 1 1024 0 0 addr=0x1000 @1\n"
                "v 0 2097152 1536\n"
                "@2 void gemm<float>(int)\n"
                "w 7875 0 12500 @2\n"
                "f 47875 1 0 0\n");
}

/* The totals count the blocks too that the file frees. A total of the host, whose reserved bytes are 0, counts nothing;
 * nor do totals of several devices. */
TEST(test_memory_from_before)
{
    begin();
    memory(PID, 101, "1", CUDA, 0, 4096, -1024, 8192, 16384);
    memory(PID, 101, "2", CUDA, 0, 4096, 512, 8704, 16384);
    memory(PID, 101, "3", CUDA, 0, 8192, -4096, 4608, 16384);
    end();
    check_trace(
        HEAD NOTE_SIZES "#note 2 blocks of 5120 bytes were live before the window and freed in it\n" NOTE_BEFORE(
            "4096") "#note streams of the file: 0 = 0\n" NOTE_MAIN("1") "p 0 1024 0 0x1000\n"
                                                                        "p 1 4096 0 0x2000\n" BEFORE "p 2 4096 0 @0\n"
                                                                        "f 0 0 0 0\n"
                                                                        "v 0 16384 8192\n"
                                                                        "a 1000 3 512 0 0 addr=0x1000\n"
                                                                        "f 2000 1 0 0\n");
    begin();
    memory(PID, 101, "1", HOST, 0, 4096, 512, 8192, 0);
    end();
    check_trace(HEAD "#note the file has memory events of the host only: device 0 is the host\n" NOTE_SIZES
                     "#note streams of the file: 0 = 0\n" NOTE_MAIN("1") "a 0 0 512 0 0 addr=0x1000\nv 0 0 8192\n");
}

/* A total that falls by more than the file frees shows when the rest of the memory was freed. */
TEST(test_memory_from_before_that_goes)
{
    begin();
    memory(PID, 101, "1", CUDA, 0, 4096, 512, 8704, 16384);
    memory(PID, 101, "2", CUDA, 0, 8192, 512, 5120, 16384);
    end();
    check_trace(HEAD NOTE_SIZES NOTE_BEFORE("8192") "#note streams of the file: 0 = 0\n" NOTE_MAIN("2") BEFORE
                "p 0 4096 0 @0\np 1 4096 0 @0\n"
                "a 0 2 512 0 0 addr=0x1000\n"
                "v 0 16384 8704\n"
                "a 1000 3 512 0 0 addr=0x2000\n"
                "f 1000 0 0 1\n");
}

TEST(test_tags)
{
    begin();
    op("outer", PID, "10", "90");
    op("inner ", PID, "20", "10"); /* a tag has no trailing blanks */
    op("second", PID, "40", "10");
    op(" ", PID, "100", "10"); /* a blank name gives no tag */
    op("elsewhere", 101, "0", "200");
    cuda("5", 4096, 512);
    cuda("25", 8192, 512);
    cuda("35", 12288, 512);
    cuda("45", 16384, 512);
    cuda("60", 20480, 512);
    cuda("101", 24576, 512);
    end();
    check_trace(HEAD NOTE_SIZES "#note streams of the file: 0 = 0\n" NOTE_MAIN("6") "a 0 0 512 0 0 addr=0x1000\n"
                                                                                    "@0 inner\n"
                                                                                    "a 20000 1 512 0 0 addr=0x2000 @0\n"
                                                                                    "@1 outer\n"
                                                                                    "a 30000 2 512 0 0 addr=0x3000 @1\n"
                                                                                    "@2 second\n"
                                                                                    "a 40000 3 512 0 0 addr=0x4000 @2\n"
                                                                                    "a 55000 4 512 0 0 addr=0x5000 @1\n"
                                                                                    "a 96000 5 512 0 0 addr=0x6000\n");
}

TEST(test_streams_of_allocations)
{
    begin();
    memory(PID, 101, "1", CUDA, 0, 4096, 512, 512, 0); /* this thread launches on stream 7 next */
    memory(PID, 102, "1", CUDA, 0, 8192, 512, 512, 0); /* this thread launches on stream 20 next */
    call("cudaLaunchKernel", 101, "2", 1);
    call("cudaLaunchKernel", 102, "3", 2);
    /* no launch follows, so the allocation gets the stream of the last launch */
    memory(PID, 102, "4", CUDA, 0, 16384, 512, 512, 0);
    /* this thread launches nothing, so the allocation gets the stream with most work */
    memory(PID, 103, "5", CUDA, 0, 32768, 512, 512, 0);
    call("cudaLaunchKernel", 101, "6", 3);
    kernel("a", 0, 7, "10", "1", 1);
    kernel("b", 0, 20, "11", "1", 2);
    kernel("c", 0, 7, "12", "1", 3);
    kernel("lost", 0, 7, "2.5", "1", 77); /* its launch is not in the file */
    end();
    check_trace(HEAD NOTE_SIZES "#note streams of the file: 0 = 7, 1 = 20\n" NOTE_STREAM(
        "4") "#note 1 kernels and copies without their launch: each is at the time at which it ran\n"
             "a 0 0 512 0 0 addr=0x1000\n"
             "v 0 0 512\n"
             "a 0 1 512 1 1 addr=0x2000\n"
             "@0 a\n"
             "w 1000 0 1000 @0\n"
             "@1 lost\n"
             "w 1500 0 1000 @1\n"
             "@2 b\n"
             "w 2000 1 1000 @2\n"
             "a 3000 2 512 1 1 addr=0x4000\n"
             "a 4000 3 512 0 2 addr=0x8000\n"
             "@3 c\n"
             "w 5000 0 1000 @3\n");
}

TEST(test_order_of_streams)
{
    begin();
    cuda("1", 4096, 512);
    call("cudaLaunchKernel", PID, "2", 1);
    call("cudaEventRecord", PID, "3", 2);
    call("cudaStreamWaitEvent", PID, "4", 3);
    call("cudaLaunchKernel", PID, "5", 4);
    call("cudaEventSynchronize", PID, "6", 5);
    call("cudaStreamSynchronize", PID, "7", 6);
    call("cudaDeviceSynchronize", PID, "8", 7);
    kernel("a", 0, 7, "20", "1", 1);
    kernel("b", 0, 14, "22", "1", 4);
    waits("Stream Wait Event", 14, "21", 3, 7, 2);
    waits("Event Sync", -1, "23", 5, 7, 2);
    waits("Stream Sync", 14, "23", 6, -1, -1);
    waits("Context Sync", -1, "24", 7, -1, -1);
    waits("Stream Wait Event", 14, "25", 8, -1, -1); /* recorded before the window */
    end();
    check_trace(HEAD NOTE_SIZES
                "#note 1 waits left out whose event the file does not describe (recorded before the window, "
                "or by an old version)\n"
                "#note streams of the file: 0 = 7, 1 = 14\n" NOTE_STREAM("1") "a 0 0 512 0 0 addr=0x1000\n"
                                                                              "@0 a\n"
                                                                              "w 1000 0 1000 @0\n"
                                                                              "e 2000 0 0\n"
                                                                              "x 3000 0 1\n"
                                                                              "@1 b\n"
                                                                              "w 4000 1 1000 @1\n"
                                                                              "y 5000 e0\n"
                                                                              "y 6000 1\n"
                                                                              "y 7000 *\n");
}

TEST(test_blocks_that_contradict)
{
    begin();
    cuda("1", 8192, -256); /* live before the window */
    cuda("2", 4096, -512);
    cuda("3", 4096, -512); /* freed already */
    cuda("4", 4096, 1024);
    cuda("5", 4096, 2048); /* its free is lost */
    cuda("6", 4096, -2048);
    cuda("7", 4096, -2048); /* again */
    cuda("8", 0, 512);
    cuda("9", 4096, 0);
    end();
    check_trace(HEAD NOTE_SIZES
                "#note 2 memory events of 0 bytes left out\n"
                "#note 2 blocks of 768 bytes were live before the window and freed in it\n"
                "#note streams of the file: 0 = 0\n" NOTE_MAIN(
                    "2") "#note 1 frees added where an address was handed out while its block was live\n"
                         "#note 2 frees of blocks that were not live left out\n"
                         "p 0 512 0 0x1000\n"
                         "p 1 256 0 0x2000\n"
                         "f 0 1 0 0\n"
                         "f 1000 0 0 0\n"
                         "a 3000 2 1024 0 0 addr=0x1000\n"
                         "f 4000 2 0 0\n"
                         "a 4000 3 2048 0 0 addr=0x1000\n"
                         "f 5000 3 0 0\n");
}

TEST(test_devices_and_processes)
{
    begin();
    memory(1, 1, "1", CUDA, 0, 4096, 512, 512, 512);
    memory(1, 1, "2", CUDA, 1, 4096, 512, 512, 512);
    memory(2, 1, "3", CUDA, 0, 4096, 512, 512, 512); /* another process: another block */
    memory(1, 1, "4", HOST, -1, 4096, 64, 64, 64);
    memory(1, 1, "5", CUDA, 0, 4096, -512, 0, 512);
    kernel("a", 1, 7, "6", "1", 0);
    kernel("b", 3, 7, "7", "1", 0);
    end();
    check_trace(HEAD NOTE_SIZES
                "#note 1 events of host memory left out\n"
                "#note streams of the file: 0 = 0, 1 = 7\n" NOTE_MAIN(
                    "3") "#note 2 kernels and copies without their launch: each is at the time at which it ran\n"
                         "#note 1 kernels, copies and waits left out: their stream is of a device "
                         "without memory events, or of one "
                         "of several devices and without allocations\n"
                         "a 0 0 512 0 0 addr=0x1000\n"
                         "a 1000 1 512 1 0 d=1 addr=0x1000\n"
                         "a 2000 2 512 0 1 addr=0x1000\n"
                         "f 4000 0 0 0\n"
                         "@0 a\n"
                         "w 5000 1 1000 @0\n");
}

TEST(test_host_memory_alone)
{
    begin();
    memory(1, 1, "1", HOST, -1, 4096, 64, 64, 64);
    memory(1, 1, "2", HOST, -1, 4096, -64, 0, 64);
    end();
    check_trace(HEAD "#note the file has memory events of the host only: device 0 is the host\n" NOTE_SIZES
                     "#note streams of the file: 0 = 0\n" NOTE_MAIN("1") "a 0 0 64 0 0 addr=0x1000\n"
                                                                         "v 0 64 64\n"
                                                                         "f 1000 0 0 0\n");
}

TEST(test_times)
{
    begin();
    cuda("2.5e1", 4096, 512); /* Python writes exponents */
    cuda("-3.250", 8192, 512);
    cuda("\"7\"", 12288, 512);
    cuda("10.0009999", 16384, 512);
    end();
    check_trace(HEAD NOTE_SIZES "#note streams of the file: 0 = 0\n" NOTE_MAIN("4") "a 0 0 512 0 0 addr=0x2000\n"
                                                                                    "a 10250 1 512 0 0 addr=0x3000\n"
                                                                                    "a 13250 2 512 0 0 addr=0x4000\n"
                                                                                    "a 28250 3 512 0 0 addr=0x1000\n");
}

TEST(test_texts_and_keys)
{
    begin();
    op("\\u0041\\ud83d\\ude00\\n\xff\\\"\\\\", PID, "0", "10");
    put("  {\"ph\": \"i\", \"name\": \"other\", \"name\": \"[memory]\", \"pid\": 100, \"tid\": 100, \"ts\": 5, "
        "\"args\": {\"Bytes\": NaN, \"Bytes\": 512, \"Addr\": 4096, \"Device Type\": 20, \"Device Id\": 0, "
        "\"more\": [[{\"a\": [-Infinity, true, false, null, 1e5]}], {}]}},\n");
    end();
    check_trace(HEAD NOTE_SIZES
                "#note streams of the file: 0 = 0\n" NOTE_MAIN("1") "@0 A\xf0\x9f\x98\x80\\x0a\\xff\"\\\n"
                                                                    "a 0 0 512 0 0 addr=0x1000 @0\n");
}

TEST(test_a_bare_list)
{
    used = 0;
    put("[");
    cuda("1", 4096, 512);
    used -= 2; /* the comma and the newline */
    put("]\n");
    check_trace(HEAD NOTE_SIZES "#note streams of the file: 0 = 0\n" NOTE_MAIN("1") "a 0 0 512 0 0 addr=0x1000\n");
}

TEST(test_gzip)
{
    static unsigned char packed[1 << 16];
    struct trace *trace = NULL;
    struct trace_error error;
    begin();
    cuda("1", 4096, 512);
    end();
    z_stream stream = {
        .next_in = (unsigned char *)file, .avail_in = (uInt)used, .next_out = packed, .avail_out = sizeof(packed)};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t size = sizeof(packed) - stream.avail_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    assert_int_equal(trace_read_memory("t.json.gz", packed, size, NULL, &trace, &error), WEIR_OK);
    assert_int_equal(trace->event_count, 1);
    trace_free(trace);
}

/* --- files that are refused --- */

static void text(const char *json)
{
    used = 0;
    put("%s", json);
}

#define MEMORY_BEGIN "[{\"name\": \"[memory]\", \"ph\": \"i\", \"pid\": 1, \"tid\": 1, "

/* Numbers of kernels that differ from those of memory are joined if each names one device only. */
TEST(test_agents)
{
    for (int second = 0; second < 2; second++) {
        struct trace *trace = NULL;
        begin();
        memory(PID, PID, "1.000", CUDA, 0, 4096, 512, 512, 2097152);
        call("hipLaunchKernel", PID, "2.000", 7);
        kernel("k", 2, 0, "10.000", "500", 7);
        if (second != 0) {
            kernel("k", 3, 0, "20.000", "500", 8);
        }
        end();
        trace = trace_of_bytes("dir/t.json", file, used);
        uint64_t works = 0;
        for (size_t i = 0; i < trace->event_count; i++) {
            works += trace->events[i].event.kind == WEIR_TRACE_WORK;
        }
        assert_int_equal(works, second == 0 ? 1 : 0);
        assert_int_equal(trace->device, 0);
        trace_free(trace);
    }
}

TEST(test_refused)
{
    static const struct {
        const char *json;
        weir_status status;
        const char *message;
    } rows[] = {
        {"{", WEIR_ERR_INVALID, "dir/t.json: byte 1: the JSON ends too early; expected a name in quotes"},
        {"{\"a\"", WEIR_ERR_INVALID, "dir/t.json: byte 4: the JSON ends too early; expected \":\""},
        {"{\"a\": 1", WEIR_ERR_INVALID, "dir/t.json: byte 7: the JSON ends too early; expected \",\" or \"}\""},
        {"{\"a\": 1}", WEIR_ERR_UNSUPPORTED,
         "dir/t.json: is JSON without \"traceEvents\"; expected a trace that torch.profiler exported "
         "(export_chrome_trace)"},
        {"{\"segments\": [], \"device_traces\": []}", WEIR_ERR_UNSUPPORTED,
         "dir/t.json: is JSON of a memory snapshot; a snapshot is read from the pickle that "
         "torch.cuda.memory._dump_snapshot writes"},
        {"{\"traceEvents\": {}}", WEIR_ERR_UNSUPPORTED,
         "dir/t.json: is JSON without \"traceEvents\"; expected a trace that torch.profiler exported "
         "(export_chrome_trace)"},
        {"{\"traceEvents\": []}", WEIR_ERR_INVALID,
         "dir/t.json: the profile has no [memory] events; expected one of "
         "torch.profiler.profile(profile_memory=True)"},
        {"[1, \"two\", [3]]", WEIR_ERR_INVALID,
         "dir/t.json: the profile has no [memory] events; expected one of "
         "torch.profiler.profile(profile_memory=True)"},
        {"[[1000, 1, [\"key\", 0], 1048576, 2], [2000, 3, [\"key\", 0], 1048576, 2]]", WEIR_ERR_UNSUPPORTED,
         "dir/t.json: is a memory timeline (export_memory_timeline), which has no streams and not all blocks; "
         "expected the profile itself (export_chrome_trace, profile_memory=True) or a memory snapshot "
         "(torch.cuda.memory._dump_snapshot)"},
        {"\xef\xbb\xbf{\"a\"", WEIR_ERR_INVALID, "dir/t.json: byte 7: the JSON ends too early; expected \":\""},
        {"{\"traceEvents\": []} x", WEIR_ERR_INVALID, "dir/t.json: byte 20: expected the end of the JSON, got \"x\""},
        {"{\"traceEvents\": [,]}", WEIR_ERR_INVALID, "dir/t.json: byte 17: expected a value, got \",\""},
        {"{\"traceEvents\": [{},]}", WEIR_ERR_INVALID, "dir/t.json: byte 20: expected a value, got \"]\""},
        {"{\"traceEvents\": [{}}", WEIR_ERR_INVALID, "dir/t.json: byte 19: expected \",\" or \"]\", got \"}\""},
        {"{'a': 1}", WEIR_ERR_INVALID, "dir/t.json: byte 1: expected a name in quotes, got \"'\""},
        {"{\"a\": 01x}", WEIR_ERR_INVALID, "dir/t.json: byte 8: expected \",\" or \"}\", got \"x\""},
        {"{\"a\": -}", WEIR_ERR_INVALID, "dir/t.json: byte 7: expected a digit, got \"}\""},
        {"{\"a\": 1.}", WEIR_ERR_INVALID, "dir/t.json: byte 8: expected a digit, got \"}\""},
        {"{\"a\": 1e+}", WEIR_ERR_INVALID, "dir/t.json: byte 9: expected a digit, got \"}\""},
        {"{\"a\": tru}", WEIR_ERR_INVALID, "dir/t.json: byte 6: expected a value, got \"t\""},
        {"{\"a\": \"x\\\"}", WEIR_ERR_INVALID, "dir/t.json: byte 6: the string has no end"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Bytes\": 512}}]", WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the [memory] event has no \"Addr\", which old versions of "
         "PyTorch did not write; without it "
         "frees cannot be joined with allocations"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096}}]", WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has no \"Bytes\""},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, \"Bytes\": NaN}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"Bytes\" that is out of range or no number: NaN"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, \"Bytes\": 1e30}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"Bytes\" that is out of range or no number: 1e30"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": -1, \"Bytes\": 1}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"Addr\" that is out of range or no number: -1"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Device Id\": 4096, \"Addr\": 1, \"Bytes\": 1}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"Device Id\" that is out of range or no number: 4096"},
        {MEMORY_BEGIN "\"ts\": 1, \"args\": {\"Device Type\": 1, \"Addr\": 1, \"Bytes\": 1}}]", WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has no \"Device Id\""},
        {MEMORY_BEGIN "\"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1, \"Bytes\": 1}}]", WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has no \"ts\""},
        {MEMORY_BEGIN "\"ts\": null, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1, \"Bytes\": 1}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"ts\" that is out of range or no number: null"},
        {MEMORY_BEGIN "\"ts\": 9223372036854775807, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 1, "
                      "\"Bytes\": 1}}]",
         WEIR_ERR_INVALID,
         "dir/t.json: byte 1: the event \"[memory]\" has a \"ts\" that is out of range or "
         "no number: 9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text(rows[i].json);
        check_refused(rows[i].status, rows[i].message);
    }
}

TEST(test_deep_nesting)
{
    text("{\"a\": ");
    for (unsigned i = 0; i < 512; i++) {
        put("[");
    }
    for (unsigned i = 0; i < 512; i++) {
        put("]");
    }
    put("}");
    check_refused(WEIR_ERR_UNSUPPORTED,
                  "dir/t.json: is JSON without \"traceEvents\"; expected a trace that torch.profiler "
                  "exported (export_chrome_trace)");
    text("{\"a\": ");
    for (unsigned i = 0; i < 100000; i++) {
        put(i % 2 == 0 ? "[" : "{\"x\":");
    }
    check_refused(WEIR_ERR_LIMIT, "dir/t.json: byte 1542: values are nested more than 512 deep, which is the limit");
}

TEST(test_limits)
{
    struct trace *trace = NULL;
    struct trace_error error;
    begin();
    cuda("1", 4096, 512);
    cuda("2", 4096, -512);
    end();
    const struct trace_limits one = {.max_events = 1};
    assert_int_equal(read_file(&one, &trace, &error), WEIR_ERR_LIMIT);
    assert_string_equal(error.message, "dir/t.json: more than 1 events, which is the limit");
    begin();
    for (int i = 0; i < 4097; i++) {
        put("{\"name\":\"[memory]\",\"pid\":%d,\"ts\":1,\"args\":{\"Bytes\":1,\"Addr\":1,\"Device Id\":0}},\n", i);
    }
    end();
    assert_int_equal(read_file(NULL, &trace, &error), WEIR_ERR_LIMIT);
    assert_string_equal(error.message,
                        "dir/t.json: more than 4096 pairs of a process and a device, which is the limit");
}

/* Every beginning of a file is refused. */
TEST(test_cut_files)
{
    begin();
    op("aten::mm", PID, "0", "10");
    memory(PID, PID, "1", CUDA, 0, 4096, 512, 512, 512);
    call("cudaLaunchKernel", PID, "2", 1);
    kernel("a", 0, 7, "3", "1", 1);
    waits("Stream Wait Event", 14, "21", 3, 7, 2);
    end();
    const size_t whole = used - 1; /* without the newline at the end */
    for (used = 0; used < whole; used++) {
        struct trace *trace = NULL;
        struct trace_error error;
        assert_int_equal(read_file(NULL, &trace, &error), WEIR_ERR_INVALID);
    }
}
