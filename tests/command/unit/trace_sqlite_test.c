/* trace_sqlite_test.c: the import of profiles in SQLite databases: torch_npu's and nsys's. The tests make their
 * databases with libsqlite3, with the tables of the profilers. Without libsqlite3 the format is refused by name. */
#include "rig/wtr.h"

#include <stdio.h>
#include <string.h>

#ifdef WEIR_WITH_SQLITE

#include <sqlite3.h>

/* --- making a database --- */

static unsigned char *bytes;
static size_t size;

static int forget(void **state)
{
    (void)state;
    free(bytes);
    bytes = NULL;
    return 0;
}

/* Makes the bytes of a database by these statements. */
static void make(const char *const *statements, size_t count)
{
    sqlite3 *db;
    sqlite3_int64 length = 0;
    (void)forget(NULL);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (size_t i = 0; i < count; i++) {
        if (statements[i] != NULL && sqlite3_exec(db, statements[i], NULL, NULL, NULL) != SQLITE_OK) {
            fail_msg("%s: %s", sqlite3_errmsg(db), statements[i]);
        }
    }
    unsigned char *image = sqlite3_serialize(db, "main", &length, 0);
    assert_non_null(image);
    size = (size_t)length;
    bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, image, size);
    sqlite3_free(image);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define MAKE(...) make((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void check_trace(const char *expected)
{
    struct trace *trace = trace_of_bytes("dir/t.db", bytes, size);
    is_written_as(trace, expected);
    trace_free(trace);
}

static void check_refused(weir_status status, const char *message)
{
    is_refused("dir/t.db", bytes, size, status, message);
}

/* --- torch_npu --- */

#define STRING_IDS                                                                                                     \
    "CREATE TABLE STRING_IDS (id INTEGER, value TEXT);"                                                                \
    "INSERT INTO STRING_IDS VALUES (536870912, 'aten::add'), (536870913, 'PTA'), (536870914, 'WORKSPACE'), (7, "       \
    "'cann::MatMul')"
#define OP_MEMORY                                                                                                      \
    "CREATE TABLE OP_MEMORY (name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, "                \
    "activeReleaseTime INTEGER, duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, "          \
    "allocationTotalReserved INTEGER, allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, "                  \
    "releaseTotalReserved INTEGER, releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER)"
#define MEMORY_RECORD                                                                                                  \
    "CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, "                       \
    "totalReserved INTEGER, "                                                                                          \
    "totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER)"
#define ASCEND_HEAD "#wtr 1\n#src ascend-db t.db\n#clock ns\n"
#define ASCEND_NOTE                                                                                                    \
    "#note sizes are those of the recorded allocator, after rounding; the file has no addresses and no host threads, " \
    "and does not say which stream a kernel ran on by the same number\n"
#define ROW(name, size, begin, end, idle, stream, device)                                                              \
    "INSERT INTO OP_MEMORY VALUES (" name "," size "," begin "," end "," idle                                          \
    ",NULL,NULL,0,0,0,NULL,NULL,NULL," stream "," device ")"

TEST(test_ascend)
{
    MAKE(
        STRING_IDS, OP_MEMORY, MEMORY_RECORD,
        ROW("536870912", "512", "1700000000000001000", "1700000000000005000", "1700000000000004000", "187650001", "0"),
        ROW("536870912", "1024", "1700000000000002000", "1700000000000003000", "1700000000000009000", "187650002", "0"),
        ROW("7", "2048", "1700000000000002500", "NULL", "NULL", "NULL", "0"),
        ROW("99", "4096", "NULL", "1700000000000006000", "NULL", "187650001", "0"),
        ROW("7", "0", "1", "2", "NULL", "NULL", "0"),
        "INSERT INTO MEMORY_RECORD VALUES (536870914, 1, 9, 9, 9, 0, 0), (536870913, 1700000000000001000, 4608, 20480, "
        "0, 0, 0), (536870913, 1700000000000002000, 5632, 20480, 0, 0, 0), (536870913, "
        "1700000000000003000, 5632, 40960, "
        "0, 0, 0)");
    check_trace(
        ASCEND_HEAD ASCEND_NOTE
        "#note 1 blocks of 0 bytes left out\n"
        "#note 1 blocks of 4096 bytes were live before the window and freed in it\n"
        "#note streams of the file: 0 = 187650001, 1 = 187650002\n"
        "#note 1 allocations have no stream in the file: each is on the stream of its device that runs most work\n"
        "p 0 4096 0\n"
        "@0 aten::add\n"
        "a 0 1 512 0 0 @0\n"
        "v 0 20480 4608\n"
        "a 1000 2 1024 1 0 @0\n"
        "@1 cann::MatMul\n"
        "a 1500 3 2048 0 0 @1\n"
        "v 2000 40960 5632\n"
        "f 4000 1 0 0\n"
        "f 5000 0 0 0\n"
        "f 8000 2 1 0\n");
}

/* Memory from before the recording: from the totals beside the blocks, or else from the first total of PTA. A row
 * without a stream is of the graph engine and has totals of its own. */
TEST(test_ascend_before)
{
#define TOTAL_ROW(size, begin, end, total, total_after, stream)                                                        \
    "INSERT INTO OP_MEMORY VALUES (7," size "," begin "," end "," end ",NULL,NULL," total ",65536,0," total_after      \
    ",65536,0," stream ",0)"
    MAKE(OP_MEMORY, TOTAL_ROW("512", "1000", "3000", "8704", "4096", "5"),
         TOTAL_ROW("64", "1500", "1600", "64", "0", "NULL"));
    check_trace(ASCEND_HEAD ASCEND_NOTE
                "#note 8192 bytes were live before the recording and have no records: the totals of the file show "
                "them\n"
                "#note streams of the file: 0 = 5\n"
                "#note 1 allocations have no stream in the file: each is on the stream of its device that runs most "
                "work\n"
                "@0 (live before the recording)\np 0 4096 0 @0\np 1 4096 0 @0\n"
                "a 0 2 512 0 0\na 500 3 64 0 0\nf 600 3 0 0\nf 2000 2 0 0\nf 2000 0 0 0\n");
    MAKE(
        STRING_IDS, OP_MEMORY, MEMORY_RECORD, ROW("7", "512", "1000", "NULL", "NULL", "5", "0"),
        "INSERT INTO MEMORY_RECORD VALUES (536870913, 900, 4096, 65536, 0, 0, 0), (536870913, 1000, 4608, 65536, 0, 0, "
        "0)");
    check_trace(ASCEND_HEAD ASCEND_NOTE
                "#note 4096 bytes were live before the recording and have no records: the totals of the file show "
                "them\n"
                "#note streams of the file: 0 = 5\n"
                "@0 (live before the recording)\np 0 4096 0 @0\n"
                "v 0 65536 4096\n"
                "@1 cann::MatMul\na 100 1 512 0 0 @1\n");
}

TEST(test_ascend_devices)
{
    MAKE(OP_MEMORY, ROW("NULL", "512", "10", "NULL", "NULL", "5", "0"),
         ROW("NULL", "512", "'20'", "30", "NULL", "5", "1"));
    check_trace(ASCEND_HEAD ASCEND_NOTE "#note streams of the file: 0 = 5, 1 = 5\n"
                                        "a 0 0 512 0 0\n"
                                        "a 10 1 512 1 0 d=1\n"
                                        "f 20 1 1 0\n");
}

/* --- msMemScope --- */

#define MEMSCOPE(table)                                                                                                \
    "CREATE TABLE " table " (ID INTEGER, Event TEXT, 'Event Type' TEXT, Name TEXT, 'Timestamp(ns)' INTEGER, "          \
    "'Process Id' INTEGER, 'Thread Id' INTEGER, 'Device Id' TEXT, Ptr TEXT, Attr TEXT, 'Call Stack(Python)' TEXT, "    \
    "'Call Stack(C)' TEXT)"
#define MEMSCOPE_HEAD                                                                                                  \
    "#wtr 1\n#src msMemScope\n#clock ns\n"                                                                             \
    "#note blocks of the framework's pools; the file names no streams: each device has one here\n"

/* The rows of the database are those of the CSV file: attributes as JSON, quotes around names and stacks, numbers as
 * numbers. Memory of the host is left out. */
TEST(test_memscope)
{
    MAKE(
        MEMSCOPE("memscope_dump"),
        "INSERT INTO memscope_dump VALUES (1, 'SYSTEM', 'START_TRACE', 'N/A', 1000, 11, 11, 'N/A', 'N/A', '{}', '', '')",
        "INSERT INTO memscope_dump VALUES (3, 'MALLOC', 'PTA', 'N/A', 1300, 11, 12, '0', '0x3039', "
        "'{\"allocation_id\":\"2\",\"addr\":\"0x3039\",\"size\":\"512\",\"total\":\"2097152\",\"used\":\"1024\","
        "\"owner\":\"PTA@ops@a, b\"}', '', '')",
        "INSERT INTO memscope_dump VALUES (2, 'MALLOC', 'PTA', 'N/A', 1200, 11, 11, '0', '0x2000', "
        "'{\"allocation_id\":\"1\", \"addr\": \"0x2000\", \"size\": \"512\", \"total\":2097152, \"used\":512}', "
        "'\"train.py(10): \"\"step\nmain.py(3): main\n\"', '')",
        "INSERT INTO memscope_dump VALUES (4, 'MSTX', 'Mark', '\"step, 1 \"', 1360, 11, 11, '0', 'N/A', '{}', '', '')",
        "INSERT INTO memscope_dump VALUES (5, 'MALLOC', 'HOST', 'N/A', 1365, 11, 11, 'cpu', '0x9', "
        "'{\"size\":\"9\"}', '', '')",
        "INSERT INTO memscope_dump VALUES (6, 'FREE', 'PTA', 'N/A', 1400, 11, 11, '0', '0x3039', "
        "'{\"size\":\"512\",\"total\":\"4194304\",\"used\":\"512\"}', NULL, NULL)");
    check_trace(MEMSCOPE_HEAD "#note 1 events of host memory or of unknown kinds of memory are left out\n"
                              "m 0 I START_TRACE\n"
                              "@1 train.py(10): \"\"step\n"
                              "a 200 0 512 0 1 addr=0x2000 @1\n"
                              "v 200 2097152 512\n"
                              "@0 PTA@ops@a, b\n"
                              "a 300 1 512 0 0 addr=0x3039 @0\n"
                              "m 360 I step, 1\n"
                              "f 400 1 0 1\n"
                              "v 400 4194304 512\n");
    MAKE(MEMSCOPE("leaks_dump"),
         "INSERT INTO leaks_dump VALUES (1, 'MALLOC', 'PTA', '', 5, 1, 1, '0', '16', '{\"size\":\"64\"}', '', '')");
    check_trace(MEMSCOPE_HEAD "a 0 0 64 0 0 addr=0x10\n");
    MAKE(MEMSCOPE("memscope_dump"),
         "INSERT INTO memscope_dump VALUES (1, 'MALLOC', 'PTA', '', 5, 1, 1, '0', 'x', '{}', '', '')");
    check_refused(WEIR_ERR_INVALID, "dir/t.db:2: field 4 (Ptr): expected an address, got \"x\"");
    MAKE("CREATE TABLE memscope_dump (\"Event\" TEXT)");
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table memscope_dump has no column Event Type");
}

TEST(test_ascend_refused)
{
    MAKE(OP_MEMORY);
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: the table OP_MEMORY is empty; expected a profile with profile_memory=True");
    MAKE("CREATE TABLE OP_MEMORY (name INTEGER, size INTEGER)");
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY has no column allocationTime");
    MAKE(OP_MEMORY, ROW("1", "512", "1", "2", "3", "5", "0"), ROW("1", "'many'", "1", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY, row 2, size: expected an integer");
    MAKE(OP_MEMORY, ROW("1", "NULL", "1", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY, row 1, size: expected an integer, got NULL");
    MAKE(OP_MEMORY, ROW("1", "-1", "1", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY, row 1, size: expected a number of bytes");
    MAKE(OP_MEMORY, ROW("1", "9e999", "1", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY, row 1, size: expected an integer");
    MAKE(OP_MEMORY, ROW("1", "x'00'", "1", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY, row 1, size: expected an integer");
    MAKE(OP_MEMORY, ROW("1", "1", "9", "2", "3", "5", "0"));
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: table OP_MEMORY, row 1, releaseTime: the block is released before its allocation");
    MAKE(OP_MEMORY, ROW("1", "1", "1", "2", "3", "5", "-1"));
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: table OP_MEMORY, row 1, deviceId: expected the number of a device, below 4096");
    MAKE(OP_MEMORY, "CREATE TABLE STRING_IDS (id INTEGER, value TEXT)", "INSERT INTO STRING_IDS VALUES (NULL, 'x')");
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table STRING_IDS, row 1, id: expected an integer, got NULL");
}

/* --- nsys --- */

#define NSYS                                                                                                           \
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT);"                                            \
    "INSERT INTO StringIds VALUES (1, 'cudaMalloc_v3020'), (2, 'cudaLaunchKernel_v7000'), (3, "                        \
    "'gemm'), (4, 'cudaFree_v3020'), "                                                                                 \
    "(5, 'layer 1')",                                                                                                  \
        "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT "                    \
        "NULL, deviceId INTEGER "                                                                                      \
        "NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes "                  \
        "INTEGER NOT NULL, "                                                                                           \
        "memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT, correlationId "                    \
        "INTEGER, streamId "                                                                                           \
        "INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, "                           \
        "localMemoryPoolSize INTEGER, "                                                                                \
        "localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, "                                     \
        "importedMemoryPoolProcessId INTEGER)",                                                                        \
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, "                     \
        "eventClass INTEGER NOT "                                                                                      \
        "NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, "      \
        "callchainId INTEGER)",                                                                                        \
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, "                      \
        "deviceId INTEGER NOT "                                                                                        \
        "NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "      \
        "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL)",                                                 \
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, "                      \
        "deviceId INTEGER NOT "                                                                                        \
        "NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL)",          \
        "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT "                   \
        "NULL, deviceId INTEGER "                                                                                      \
        "NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "                     \
        "globalPid INTEGER, "                                                                                          \
        "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL)",                                                        \
        "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER NOT NULL, contextId INTEGER "                   \
        "NOT NULL, streamId "                                                                                          \
        "INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL)",                       \
        "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, "                  \
        "text TEXT, globalTid "                                                                                        \
        "INTEGER, textId INTEGER)"

#define NSYS_HEAD                                                                                                      \
    "#wtr 1\n#src nsys t.db\n#clock ns\n"                                                                              \
    "#note the blocks are those of the CUDA driver (cudaMalloc, cudaMallocAsync); an allocator above it, such as "     \
    "PyTorch's, hides its own blocks\n"                                                                                \
    "#note the file does not say which blocks a kernel touches, so it has no uses across streams\n"
#define NSYS_STREAM                                                                                                    \
    " allocations have no stream in the file: each is on the stream of the next work that its thread launches, else "  \
    "of the last, else of most work\n"

/* globalPid of process 1 and globalTid of its thread 2 */
#define P1 "16777216"
#define T2 "16777218"

TEST(test_nsys)
{
    MAKE(
        NSYS,
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 110, 0, " T2 ", 1, 1, 0, NULL), (200, 210, 0, " T2
        ", 2, 2, 0, NULL), (250, 260, 0, " T2 ", 3, 2, 0, NULL), (300, 310, 0, " T2
        ", 4, 4, 0, NULL), (400, 410, 0, " T2 ", 5, 2, 0, NULL), (150, 151, 0, " T2
        ", 6, 1, 0, NULL), (450, 451, 0, " T2 ", 8, 2, 0, NULL), (460, 461, 0, " T2 ", 9, 2, 0, NULL)",
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "
        "memoryOperationType, correlationId, streamId, localMemoryPoolAddress) VALUES (105, " P1
        ", 0, 1, 4096, 0, 2097152, 2, 0, 1, 0, NULL), (155, " P1 ", 0, 1, 8388608, 0, 512, 2, 0, 6, 14, 77), (305, " P1
        ", 0, 1, 4096, 0, 2097152, 2, 1, 4, 0, NULL), (156, " P1 ", 0, 1, 99, 0, 512, 1, 0, 6, 0, 0)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 600, 0, 1, 7, 2, " P1 ", 3, 3)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (610, 650, 0, 14, 5, " P1 ", 4096)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 3, " P1 ", 11), (0, 1, 7, 999, " P1 ", 12)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (260, 261, 0, 1, 14, 0, " P1
        ", 2, 11), (450, 451, 0, 1, 7, 8, " P1 ", 3, 0), (1, 2, 0, 1, 4294967295, 9, " P1
        ", 4, 4294967295), (470, 471, "
        "0, 1, 0, 0, " P1 ", 1, 11), (480, 481, 0, 1, 0, 0, " P1 ", 9, 0)",
        "INSERT INTO NVTX_EVENTS VALUES (140, 160, 59, NULL, " T2 ", 5), (141, 159, 59, 'inner', " T2
        ", NULL), (142, 143, 59, 'closed', " T2 ", NULL), (90, NULL, 59, 'open', " T2
        ", NULL), (90, 900, 60, 'other', " T2 ", NULL)");
    check_trace(NSYS_HEAD "#note 1 events of host memory left out\n"
                          "#note 1 waits of unknown types left out\n"
                          "#note streams of the file: 0 = 7, 1 = 14\n"
                          "#note 1" NSYS_STREAM "@0 cudaMalloc_v3020\n"
                          "a 0 0 2097152 0 0 addr=0x1000 @0\n"
                          "@1 inner\n"
                          "a 50 1 512 1 0 addr=0x800000 @1\n"
                          "@2 gemm\n"
                          "w 95 0 100 @2\n"
                          "e 145 0 0\n"
                          "x 155 0 1\n"
                          "f 200 0 0 0\n"
                          "@3 MEMCPY\n"
                          "w 295 1 40 @3\n"
                          "y 345 0\n"
                          "y 355 *\n"
                          "y 365 e0\n");
}

TEST(test_nsys_processes)
{
    MAKE(
        NSYS,
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "
        "memoryOperationType) VALUES (1, " P1
        ", 0, 1, 4096, 0, 512, 2, 0), (2, 33554432, 0, 1, 4096, 0, 512, 2, 0), (3, "
        "33554432, 0, 1, 4096, 0, 512, 2, 1)");
    check_trace(NSYS_HEAD
                "#note streams of the file: 0 = 0\n"
                "#note 2 allocations have no stream in the file: each is on the stream of its device that runs "
                "most work\n"
                "a 0 0 512 0 0 addr=0x1000\n"
                "a 1 1 512 0 0 addr=0x1000\n"
                "f 2 1 0 0\n");
}

/* Kernels and allocations without their host calls belong to no common thread. */
TEST(test_nsys_without_calls)
{
    MAKE(
        NSYS,
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "
        "memoryOperationType) VALUES (1, " P1 ", 0, 1, 4096, 0, 512, 2, 0)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2, 3, 0, 1, 20, 0, " P1 ", 3, 3), (4, 5, 0, 1, 7, 0, " P1
        ", 3, 3), (6, 7, 0, 1, 7, 0, " P1 ", 3, 3)");
    check_trace(NSYS_HEAD
                "#note streams of the file: 0 = 7, 1 = 20\n"
                "#note 1 allocations have no stream in the file: each is on the stream of its device that runs "
                "most work\n"
                "#note 3 kernels and copies without their launch: each is at the time at which it ran\n"
                "a 0 0 512 0 0 addr=0x1000\n"
                "@0 gemm\n"
                "w 1 1 1 @0\n"
                "w 3 0 1 @0\n"
                "w 5 0 1 @0\n");
}

TEST(test_nsys_refused)
{
#define EVENT(address, bytes, kind, operation)                                                                         \
    "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "   \
    "memoryOperationType) VALUES (1, 1, 0, 1, " address ", 0, " bytes ", " kind ", " operation ")"
    MAKE(NSYS);
    check_refused(WEIR_ERR_INVALID, "dir/t.db: the table CUDA_GPU_MEMORY_USAGE_EVENTS names no memory of a device; "
                                    "expected a profile of nsys profile --cuda-memory-usage=true");
    MAKE(NSYS, EVENT("4096", "512", "2", "2"));
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: table CUDA_GPU_MEMORY_USAGE_EVENTS, row 1, memoryOperationType: expected 0 "
                  "(allocation) or 1 (deallocation)");
    MAKE(NSYS, EVENT("-1", "512", "2", "0"));
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: table CUDA_GPU_MEMORY_USAGE_EVENTS, row 1, address: expected an address below 2^63");
    MAKE(NSYS, EVENT("4096", "-5", "2", "0"));
    check_refused(WEIR_ERR_INVALID,
                  "dir/t.db: table CUDA_GPU_MEMORY_USAGE_EVENTS, row 1, bytes: expected a number of bytes");
    MAKE(NSYS, EVENT("4096", "'x'", "2", "0"));
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table CUDA_GPU_MEMORY_USAGE_EVENTS, row 1, bytes: expected an integer");
}

/* --- databases that are no profiles, or hostile --- */

#define OTHER                                                                                                          \
    "dir/t.db: is a SQLite database without the table OP_MEMORY (torch_npu's profiler with profile_memory=True), "     \
    "CUDA_GPU_MEMORY_USAGE_EVENTS (nsys profile --cuda-memory-usage=true) or memscope_dump (msMemScope)"

TEST(test_other_databases)
{
    MAKE("CREATE TABLE t (a)");
    check_refused(WEIR_ERR_UNSUPPORTED, OTHER);
    MAKE("CREATE VIEW OP_MEMORY AS SELECT 1 AS size, 1 AS allocationTime, 2 AS releaseTime");
    check_refused(WEIR_ERR_UNSUPPORTED, OTHER);
    MAKE("CREATE TABLE t (a); CREATE INDEX OP_MEMORY ON t (a)");
    check_refused(WEIR_ERR_UNSUPPORTED, OTHER);
}

/* A database that was in use with a write-ahead log is read as it is, if no log lies beside it. */
TEST(test_write_ahead_mode)
{
    MAKE(STRING_IDS, OP_MEMORY, ROW("7", "512", "1", "2", "3", "5", "0"));
    struct trace *before = trace_of_bytes("dir/t.db", bytes, size);
    bytes[18] = bytes[19] = 2;
    struct trace *after = trace_of_bytes("dir/t.db", bytes, size);
    assert_int_equal(bytes[18], 2); /* the caller's bytes are unchanged */
    assert_int_equal(after->event_count, before->event_count);
    assert_true(after->event_count > 0);
    trace_free(before);
    trace_free(after);
}

/* A damaged list of tables is named as such, and not as a database without a table. */
TEST(test_damaged_schema)
{
    MAKE(OP_MEMORY);
    bytes[100] = 0; /* the kind of the first page */
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table sqlite_schema: database disk image is malformed");
    MAKE(OP_MEMORY);
    memset(bytes + 16, 0, 84);
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table sqlite_schema: file is not a database");
}

TEST(test_code_in_a_database)
{
    MAKE("CREATE TABLE OP_MEMORY (a INTEGER, size INTEGER AS (abs(a)), allocationTime INTEGER, releaseTime INTEGER)",
         "INSERT INTO OP_MEMORY VALUES (1, 2, 3)");
    check_refused(WEIR_ERR_INVALID, "dir/t.db: table OP_MEMORY has columns that are no plain data");
    MAKE("CREATE VIRTUAL TABLE OP_MEMORY USING fts5(size, allocationTime, releaseTime)");
    check_refused(WEIR_ERR_UNSUPPORTED, OTHER);
    MAKE(OP_MEMORY, "CREATE TABLE STRING_IDS (id INTEGER, value TEXT)",
         "INSERT INTO STRING_IDS VALUES (1, printf('%*s', 2000000, 'x'))");
    check_refused(WEIR_ERR_LIMIT,
                  "dir/t.db: table STRING_IDS, row 1: a value of more than 1048576 bytes, which is the limit");
}

/* Lets every child of an interior page of 512 bytes be `child`. */
static void redirect(unsigned page, unsigned child)
{
    unsigned char *at = bytes + (size_t)(page - 1) * 512;
    const unsigned char number[4] = {0, 0, (unsigned char)(child >> 8), (unsigned char)child};
    const unsigned cells = (unsigned)at[3] << 8 | at[4];
    assert_int_equal(at[0], 5);
    for (unsigned i = 0; i < cells; i++) {
        memcpy(at + ((unsigned)at[12 + 2 * i] << 8 | at[13 + 2 * i]), number, 4);
    }
    memcpy(at + 8, number, 4);
}

/* Files in which interior pages of a table's tree point to the same page many times, or to themselves. */
TEST(test_damaged_trees)
{
    struct trace *trace = NULL;
    struct trace_error error;
    unsigned interior[3];
    unsigned found = 0;
    MAKE("PRAGMA page_size = 512", OP_MEMORY,
         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO OP_MEMORY (size, "
         "allocationTime) SELECT 512, i FROM n");
    assert_int_equal(trace_read_memory("dir/t.db", bytes, size, NULL, &trace, &error), WEIR_OK);
    assert_int_equal(trace->event_count, 20000);
    trace_free(trace);
    trace = NULL;
    for (unsigned page = 3; (size_t)page * 512 <= size && found < 3; page++) {
        if (bytes[(size_t)(page - 1) * 512] == 5) {
            interior[found++] = page;
        }
    }
    assert_int_equal(found, 3);
    /* Page 2 is the root. All children of a page now lead to one page of the level below, which is thus read many
     * times: millions of rows. */
    redirect(2, interior[0]);
    redirect(interior[0], interior[1]);
    redirect(interior[1], interior[2]);
    assert_int_equal(trace_read_memory("dir/t.db", bytes, size, NULL, &trace, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, ": more rows than the size of the database allows"));
    redirect(2, 2);
    assert_int_equal(trace_read_memory("dir/t.db", bytes, size, NULL, &trace, &error), WEIR_ERR_INVALID);
    assert_null(trace);
}

/* Every beginning of a database is refused, and so are bytes behind a damaged one. */
TEST(test_cut_databases)
{
    MAKE("PRAGMA page_size = 512", STRING_IDS, OP_MEMORY, ROW("7", "512", "1", "2", "3", "5", "0"));
    for (size_t part = 16; part < size; part++) {
        struct trace *trace = NULL;
        struct trace_error error;
        unsigned char *exact = malloc(part);
        assert_non_null(exact);
        memcpy(exact, bytes, part);
        if (trace_read_memory("dir/t.db", exact, part, NULL, &trace, &error) != WEIR_ERR_INVALID ||
            strstr(error.message, "dir/t.db: is a SQLite database that is cut off") == NULL) {
            fail_msg("%zu bytes of %zu: %s", part, size, error.message);
        }
        free(exact);
    }
}

#else

static int forget(void **state)
{
    (void)state;
    return 0;
}

TEST(test_without_sqlite)
{
    struct trace *trace = NULL;
    struct trace_error error;
    assert_int_equal(trace_read_memory("t.db", "SQLite format 3\0....", 20, NULL, &trace, &error),
                     WEIR_ERR_UNSUPPORTED);
    assert_string_equal(error.message,
                        "t.db: is a SQLite database; this weir was built without SQLite (on Debian: libsqlite3-dev)");
}

#endif

ALL_TESTS(NULL, forget)
