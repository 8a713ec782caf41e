/* trace_npu_csv_test.c: operator_memory.csv and memory_record.csv of the profilers of torch_npu, MindSpore and CANN. */
#include "foreign_text.h"

#define COLUMNS                                                                                                        \
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"     \
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"                        \
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\r\n"
#define HEAD                                                                                                           \
    "#src torch_npu operator_memory.csv\n#clock ns\n"                                                                  \
    "#note one row for each block: the file has no requests (sizes are the allocator's, in KB), no addresses, "        \
    "threads or segments, and names no streams that used a block\n"

/* The form of torch_npu: a tab follows each time, and empty fields are times outside the record. */
TEST(test_torch_npu)
{
    becomes(
        COLUMNS
        "aten::mul,12.5,1736412474720984.920\t,1736412474720990.000\t,1736412474720989.730\t,5.080\t,4.810\t,"
        "954.01220703125,1452.0,954.0,954.00048828125,1452.0,953.0,1162636336,NPU:0\r\n"
        "aten::add,0.5,1736412474720985.000\t,,,,,954.0126953125,1452.0,954.0,,,,1162636336,NPU:0\r\n"
        "aten::mul,1.0,1736412474720986.000\t,1736412474720987.000\t,1736412474720999.000\t,1.000\t,13.000\t,"
        "954.013671875,1454.0,954.0,,,,77,NPU:0\r\n"
        "cann::ReduceSum7,64.0,1736412474720987.720\t,1736412474720988.700\t,,0.98,,3.1,74.75,,0.1,74.75,,,NPU:0\r\n",
        HEAD "#note 1000341504 bytes were live before the record and have no rows\n"
             "#note 1 rows (cann::) are of the graph engine: no stream, and pool 0 of their own\n"
             "#note recorded: the totals are those of the framework's allocator, without the graph engine's pool\n"
             "@3 (live before the recording)\np 0 1000341504 0 @3\n"
             "@0 aten::mul\na 0 1 12800 0 0 @0\n"
             "v 0 1522532352 1000354304\n"
             "@1 aten::add\na 80 2 512 0 0 @1\n"
             "a 1080 3 1024 1 0 @0\n"
             "v 1080 1524629504 1000355840\n"
             "@2 cann::ReduceSum7\na 2800 4 65536 2 0 pool=0 @2\n"
             "f 3780 4 2 0\n"
             "f 5080 1 0 0\n"
             "v 5080 1522532352 1000342016\n"
             "f 14080 3 1 0\n");
}

/* The older form has no columns of active times, and its rows may be out of order. If only the release of the block is
 * known, it counts as the free. The second total is 2 KiB below what the rows explain: memory from before was freed. */
TEST(test_older)
{
    becomes("Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),"
            "Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type\n"
            "b,2,30,40,10,1,2,1,2,NPU:3\n"
            "a,1,10,30,20,1,2,1,2,NPU:3\n",
            HEAD "#note 1047552 bytes were live before the record and have no rows\n"
                 "@2 (live before the recording)\np 0 2048 0 d=3 @2\np 1 1045504 0 d=3 @2\n"
                 "@1 a\na 0 2 1024 0 0 d=3 @1\n"
                 "v 0 2097152 1048576\n"
                 "@0 b\na 20000 3 2048 0 0 d=3 @0\n"
                 "f 20000 2 0 0\nf 20000 0 0 0\nf 30000 3 0 0\n");
    becomes(
        "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Device Type\na,1,10,,12,NPU:0\n",
        HEAD "@0 a\na 0 0 1024 0 0 @0\nf 2000 0 0 0\n");
}

/* CANN's own file: no release time but a duration; a negative size is a release of a block from before the record, at
 * the time in the column of the allocation. */
TEST(test_cann)
{
    becomes("Device_id,Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(KB),"
            "Allocation Total Reserved(KB),Release Total Allocated(KB),Release Total Reserved(KB),Device\n"
            "0,ReduceSum,64.0,100.5,10.25,64,128,0,128,NPU:0\n"
            "0,,-8.0,105,,,,0,128,NPU:0\n"
            "0,,-0.0,105,,,,0,128,NPU:0\n",
            HEAD "#note 1 rows without bytes are left out\n"
                 "#note 1 frees are of blocks from before the record; these are live at its start\n"
                 "p 0 8192 0\n"
                 "@0 ReduceSum\na 0 1 65536 0 0 @0\nf 4500 0 0 0\nf 10250 1 0 0\n");
}

/* MindSpore writes N/A for unknown values. A block without an allocation time is live before the first event. */
TEST(test_unknown_times)
{
    becomes(COLUMNS "A,1,N/A,20,N/A,N/A,N/A,N/A,1,1,1,1,1,5,NPU:0\n"
                    "B,2,N/A,N/A,N/A,N/A,N/A,N/A,1,1,1,1,1,5,NPU:0\n"
                    "C,3,10,N/A,N/A,N/A,N/A,N/A,1,1,1,1,1,N/A,N/A\n"
                    "D,0,10,10,N/A,N/A,N/A,N/A,1,1,1,1,1,5,NPU:0\n"
                    "E,1,12,11,N/A,N/A,N/A,N/A,1,1,1,1,1,5,NPU:0\n",
            HEAD "#note 1042432 bytes were live before the record and have no rows\n"
                 "#note 1 rows end before they begin; these blocks stay live\n"
                 "#note 1 frees are of blocks from before the record; these are live at its start\n"
                 "@1 B\n"
                 "p 0 2048 0 @1\n"
                 "@5 (live before the recording)\n"
                 "p 1 1042432 0 @5\n"
                 "@0 A\n"
                 "p 2 1024 0 @0\n"
                 "@2 C\na 0 3 3072 1 0 @2\n"
                 "@3 D\na 0 4 1 0 0 @3\nf 0 4 0 0\n"
                 "v 0 1048576 1048576\n"
                 "@4 E\na 2000 5 1024 0 0 @4\n"
                 "f 10000 2 0 0\n");
}

TEST(test_devices)
{
    static const char text[] =
        COLUMNS "A,1,10,20,,,,,,,,,,5,NPU:0\nB,2,11,,,,,,,,,,,5,NPU:7\nC,3,12,,,,,,,,,,,6,NPU:7\n";
    struct trace *trace = read_foreign(text, sizeof(text) - 1);
    assert_int_equal(trace->stream_count, 3);
    assert_int_equal(trace->device_count, 8);
    assert_int_equal(trace->device, TRACE_NO_INDEX);
    assert_int_equal(trace->stream_device[0], 0);
    assert_int_equal(trace->stream_device[1], 7);
    assert_int_equal(trace->stream_device[2], 7);
    trace_free(trace);
}

TEST(test_refused_rows)
{
    static const char *const cases[][2] = {
        {"A,x,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"x\""},
        {"A,,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"\""},
        {"A,1e3,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"1e3\""},
        {"A,1.,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"1.\""},
        {"A,.5,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \".5\""},
        {"A,1.2.3,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"1.2.3\""},
        {"A,--1,10,20,0", "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"--1\""},
        {"A,18014398509481984,10,20,0",
         "t.csv:2: field 2 (Size(KB)): expected a number of KB, got \"18014398509481984\""},
        {"A,1,-10,20,0", "t.csv:2: field 3 (Allocation Time(us)): expected microseconds, got \"-10\""},
        {"A,1,10,soon,0", "t.csv:2: field 4 (Release Time(us)): expected microseconds, got \"soon\""},
        {"A,1,18446744073709552,20,0",
         "t.csv:2: field 3 (Allocation Time(us)): expected microseconds, got \"18446744073709552\""},
        {"A,1,10,20,NPU:",
         "t.csv:2: field 5 (Device Type): expected a device number below 4096, as in NPU:0, got \"NPU:\""},
        {"A,1,10,20,NPU:4096",
         "t.csv:2: field 5 (Device Type): expected a device number below 4096, as in NPU:0, got \"NPU:4096\""},
        {"A,1,10,20,CPU",
         "t.csv:2: field 5 (Device Type): expected a device number below 4096, as in NPU:0, got \"CPU\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused_lines("Name,Size(KB),Allocation Time(us),Release Time(us),Device Type", cases[i][0], cases[i][1]);
    }
}

/* Fractions are rounded to the nearest byte; the largest numbers fit. */
TEST(test_numbers)
{
    becomes("Name,Size(KB),Allocation Time(us),Release Time(us)\n"
            "a,0.0004,0.0004,0.0006\n"
            "b,1.00048828125,1,2\n"
            "c,18014398509481982.9999999999999999,3,18446744073709550.5\n",
            HEAD "@0 a\na 0 0 1 0 0 @0\nf 1 0 0 0\n"
                 "@1 b\na 1000 1 1025 0 0 @1\nf 2000 1 0 0\n"
                 "@2 c\na 3000 2 18446744073709550592 0 0 @2\nf 18446744073709550500 2 0 0\n");
}

/* --- memory_record.csv --- */

#define RECORD_COLUMNS                                                                                                 \
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\r\n"
#define RECORD_HEAD                                                                                                    \
    "#src torch_npu memory_record.csv\n#clock ns\n"                                                                    \
    "#note totals over time and no blocks: there is nothing to replay; operator_memory.csv of the same folder has "    \
    "the blocks\n"

TEST(test_record)
{
    becomes(RECORD_COLUMNS "APP,1736412474607990.240\t,,2109.6015625,,,NPU:0\r\n"
                           "PTA+GE,1736412474607992.240\t,3,4,1,9,NPU:0\r\n"
                           "PTA,1736412474607994.240\t,0.5,20,1,9,NPU:0\r\n"
                           "PTA,1736412474607993.240\t,,10,1,9,NPU:0\r\n"
                           "PTA,1736412474607993.240\t,1,10,1,9,NPU:1\r\n",
            RECORD_HEAD
            "#note the counters are of one component, PTA; 3 rows of other components or devices are left out\n"
            "v 0 10485760 0\nv 1000 20971520 524288\n");
    becomes("Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device\n0,GE,5,1.5,2,NPU:0\n",
            RECORD_HEAD
            "#note the counters are of one component, GE; 0 rows of other components or devices are left out\n"
            "v 0 2048 1536\n");
    becomes(RECORD_COLUMNS "APP,5,,1,,,NPU:0\n",
            RECORD_HEAD "#note the counters are of one component, the first one; 0 rows of other components or devices "
                        "are left out\nv 0 1048576 0\n");
    becomes(RECORD_COLUMNS,
            RECORD_HEAD "#note the counters are of one component, the first one; 0 rows of other components or devices "
                        "are left out\n");
}

TEST(test_refused_records)
{
    static const char *const cases[][2] = {
        {"PTA,,1,2", "t.csv:2: field 2 (Timestamp(us)): expected microseconds, got \"\""},
        {"PTA,5,-1,2", "t.csv:2: field 3 (Total Allocated(MB)): expected a total of 0 or more, got \"-1\""},
        {"PTA,5,1,x", "t.csv:2: field 4 (Total Reserved(MB)): expected a total of 0 or more, got \"x\""},
        {"PTA,5,1,17592186044416",
         "t.csv:2: field 4 (Total Reserved(MB)): expected a total of 0 or more, got \"17592186044416\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused_lines("Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB)", cases[i][0], cases[i][1]);
    }
}
