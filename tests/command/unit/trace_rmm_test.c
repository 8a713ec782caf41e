/* trace_rmm_test.c: the log of RMM's logging_resource_adaptor. */
#include "foreign_text.h"

#define COLUMNS "Thread,Time,Action,Pointer,Size,Stream"
#define HEAD                                                                                                           \
    "#src RMM log\n#clock ns\n#note the log is of one memory resource and names no device; it does not tell which "    \
    "streams use a block, nor what RMM took from the driver\n"

/* Pointers and streams with 0x, as older versions write them, and without, as newer ones do. */
TEST(test_log)
{
    becomes(COLUMNS "\n"
                    "1401,10:20:30.000100,allocate,0x7f32a8000000,1024,0x0\n"
                    "1402,10:20:30.000105,allocate,7f32a8000400,16,2\n"
                    "1401,10:20:30.000205,free,0x7f32a8000000,1024,0x0\n"
                    "1401,10:20:31,allocate,0x7f32a8000000,2048,0x0\n"
                    "1402,10:20:32.5,free,7F32A8000400,16,2\n",
            HEAD "a 0 0 1024 0 0 addr=0x7f32a8000000\n"
                 "a 5000 1 16 1 1 addr=0x7f32a8000400\n"
                 "f 105000 0 0 0\n"
                 "a 999900000 2 2048 0 0 addr=0x7f32a8000000\n"
                 "f 2499900000 1 1 1\n");
}

/* The order of the lines decides, not their times: a small step back takes no time, and a large one means that midnight
 * has passed. */
TEST(test_time)
{
    becomes(COLUMNS "\n"
                    "1,23:59:59.900000,allocate,0x100,1,0\n"
                    "2,23:59:59.899990,free,0x100,1,0\n"
                    "1,23:59:59.900001,allocate,0x100,2,0\n"
                    "1,00:00:00.000000,free,0x100,2,0\n"
                    "1,12:30:00.000000,allocate,0x100,3,0\n",
            HEAD "a 0 0 1 0 0 addr=0x100\n"
                 "f 0 0 0 1\n"
                 "a 1000 1 2 0 0 addr=0x100\n"
                 "f 100000000 1 0 0\n"
                 "a 45000100000000 2 3 0 0 addr=0x100\n");
}

TEST(test_failure)
{
    becomes(COLUMNS "\n1,10:00:00.0,allocate,0x100,64,0\n1,10:00:01.0,allocate failure,0x0,99,0\n",
            HEAD "#note 1 allocations failed; the log does not tell how much memory was free, and 0 stands for it\n"
                 "a 0 0 64 0 0 addr=0x100\n"
                 "o 1000000000 99 0\n");
}

/* Records that contradict themselves. */
TEST(test_contradictions)
{
    becomes(COLUMNS "\n"
                    "1,10:00:00.0,allocate,0x100,64,0\n"
                    "1,10:00:00.0,allocate,0x100,32,1\n"
                    "1,10:00:00.0,free,0x200,16,0\n"
                    "1,10:00:00.0,free,0x200,16,0\n"
                    "1,10:00:00.0,free,0x300,0,0\n"
                    "1,10:00:00.0,allocate,0x0,0,0\n"
                    "1,10:00:00.0,deallocate,0x0,0,0\n",
            HEAD "#note 2 calls with a null pointer are left out\n"
                 "#note 1 frees are of blocks from before the record; these are live at its start\n"
                 "#note 2 frees of blocks that are not live are left out\n"
                 "#note 1 blocks begin at the address of a live block; the missing free is added\n"
                 "p 0 16 0 0x200\n"
                 "a 0 1 64 0 0 addr=0x100\n"
                 "f 0 1 1 0\n"
                 "a 0 2 32 1 0 addr=0x100\n"
                 "f 0 0 0 0\n");
}

TEST(test_refused)
{
    static const char *const cases[][2] = {
        {"1,10:00:00.0,reallocate,0x1,1,0",
         "t.csv:2: field 3 (Action): expected allocate, free or allocate failure, got \"reallocate\""},
        {"1,10:00:00.0,,0x1,1,0", "t.csv:2: field 3 (Action): expected allocate, free or allocate failure, got \"\""},
        {"1,10:00:00.0,free,0x,1,0", "t.csv:2: field 4 (Pointer): expected an address, got \"0x\""},
        {"1,10:00:00.0,free,-1,1,0", "t.csv:2: field 4 (Pointer): expected an address, got \"-1\""},
        {"1,10:00:00.0,free,0x10000000000000000,1,0",
         "t.csv:2: field 4 (Pointer): expected an address, got \"0x10000000000000000\""},
        {"1,10:00:00.0,free,0x1,12.5,0", "t.csv:2: field 5 (Size): expected a number of bytes, got \"12.5\""},
        {"1,10:00:00.0,free,0x1,99999999999999999999,0",
         "t.csv:2: field 5 (Size): expected a number of bytes, got \"99999999999999999999\""},
        {"1,24:00:00.0,free,0x1,1,0",
         "t.csv:2: field 2 (Time): expected a time of day HH:MM:SS.uuuuuu, got \"24:00:00.0\""},
        {"1,10:60:00.0,free,0x1,1,0",
         "t.csv:2: field 2 (Time): expected a time of day HH:MM:SS.uuuuuu, got \"10:60:00.0\""},
        {"1,10:00:00.,free,0x1,1,0",
         "t.csv:2: field 2 (Time): expected a time of day HH:MM:SS.uuuuuu, got \"10:00:00.\""},
        {"1,10:00:00.0123456789,free,0x1,1,0",
         "t.csv:2: field 2 (Time): expected a time of day HH:MM:SS.uuuuuu, got \"10:00:00.0123456789\""},
        {"1,123456,free,0x1,1,0", "t.csv:2: field 2 (Time): expected a time of day HH:MM:SS.uuuuuu, got \"123456\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused_lines(COLUMNS, cases[i][0], cases[i][1]);
    }
}

/* A thread and a stream are numbered by their text; too many are refused. */
TEST(test_too_many_streams)
{
    const size_t lines = TRACE_MAX_STREAMS + 1;
    char *text = malloc(lines * 48 + 64);
    struct trace *trace = NULL;
    struct trace_error error;
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, COLUMNS "\n");
    for (size_t i = 0; i < lines; i++) {
        used += (size_t)sprintf(text + used, "1,10:00:00,allocate,%zx,1,%zx\n", i + 1, i);
    }
    assert_int_equal(trace_read_memory("t.csv", text, used, NULL, &trace, &error), WEIR_ERR_LIMIT);
    assert_null(trace);
    assert_string_equal(error.message, "t.csv:1048578: more than 1048576 streams, which is the limit");
    free(text);
}
