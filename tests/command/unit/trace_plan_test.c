/* trace_plan_test.c: plans of MiniMalloc and idealloc as CSV. */
#include "foreign_text.h"

#define HEAD                                                                                                           \
    "#src MiniMalloc CSV\n#clock logical\n#note a plan in logical time: no streams, threads, operators or times; "     \
    "[lower, upper) is taken as half open, which the file itself does not tell\n"

/* Lines in any order; at one time frees come before allocs. */
TEST(test_plan)
{
    becomes("id,lower,upper,size\n"
            "b2,3,9,4\n"
            "b1,0,3,4\n"
            "b3,0,9,6\n",
            HEAD "@1 b1\n"
                 "a 0 0 4 0 0 @1\n"
                 "@2 b3\n"
                 "a 0 1 6 0 0 @2\n"
                 "f 3 0 0 0\n"
                 "@0 b2\n"
                 "a 3 2 4 0 0 @0\n"
                 "f 9 2 0 0\n"
                 "f 9 1 0 0\n");
}

/* The older form: `end` is the last time at which the buffer is live. */
TEST(test_old_form)
{
    static const char *const heads[] = {"buffer_id,start,end,size", "buffer,begin,end,size", "id,lower,end,size"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s\n0,0,2,4\n1,3,3,4\n", heads[i]);
        becomes(text, HEAD "@0 0\na 0 0 4 0 0 @0\nf 3 0 0 0\n@1 1\na 3 1 4 0 0 @1\nf 4 1 0 0\n");
    }
}

TEST(test_further_columns)
{
    becomes("id,lower,upper,size,alignment,gaps,offset\n"
            "a,0,4,8,64,1-2@0:4,0\n"
            "b,0,4,8,1,,8\n"
            "c,0,4,8,3,,16\n"
            "d,0,4,0,,,24\n",
            HEAD "#note the offsets of a solution are left out\n"
                 "#note 1 buffers have gaps, in which they count as live here\n"
                 "#note 1 alignments are not powers of two and are left out\n"
                 "@0 a\na 0 0 8 0 0 al=64 @0\n"
                 "@1 b\na 0 1 8 0 0 @1\n"
                 "@2 c\na 0 2 8 0 0 @2\n"
                 "@3 d\na 0 3 1 0 0 @3\n"
                 "f 4 0 0 0\nf 4 1 0 0\nf 4 2 0 0\nf 4 3 0 0\n");
}

TEST(test_times)
{
    becomes(
        "id,lower,upper,size\na,-5,-2,1\nb,5,5,2\nc,0,4611686018427387902,3\n",
        "#src MiniMalloc CSV\n#clock logical\n"
        "#note times begin at -5 in the file and at 0 here\n"
        "#note a plan in logical time: no streams, threads, operators or times; [lower, upper) is taken as half open, "
        "which the file itself does not tell\n"
        "#note 1 buffers with an empty lifetime are left out\n"
        "@0 a\na 0 0 1 0 0 @0\nf 3 0 0 0\n@2 c\na 5 1 3 0 0 @2\nf 4611686018427387907 1 0 0\n");
    /* Two rows may have the same id, or no id: each row is a buffer of its own. */
    becomes("id,lower,upper,size\na,0,2,1\na,1,3,1\n,1,3,1\n",
            HEAD "@0 a\na 0 0 1 0 0 @0\na 1 1 1 0 0 @0\na 1 2 1 0 0\nf 2 0 0 0\nf 3 1 0 0\nf 3 2 0 0\n");
}

TEST(test_refused)
{
    static const char *const cases[][2] = {
        {"a,3,2,1", "t.csv:2: field 3 (upper): expected an end that is not before the begin, got \"2\""},
        {"a,,2,1", "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"\""},
        {"a,-,2,1", "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"-\""},
        {"a,1.5,2,1", "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"1.5\""},
        {"a,1,4611686018427387903,1",
         "t.csv:2: field 3 (upper): expected a whole number below 2^62, got \"4611686018427387903\""},
        {"a,-4611686018427387903,1,1",
         "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"-4611686018427387903\""},
        {"a,1,2,-1", "t.csv:2: field 4 (size): expected a number of bytes, got \"-1\""},
        {"a,1,2,18446744073709551616",
         "t.csv:2: field 4 (size): expected a number of bytes, got \"18446744073709551616\""},
        {"a,1,2,1e3", "t.csv:2: field 4 (size): expected a number of bytes, got \"1e3\""},
        {"a,1,2,0x10", "t.csv:2: field 4 (size): expected a number of bytes, got \"0x10\""},
        {"a,1,2,1\nb,1,2,?", "t.csv:3: field 4 (size): expected a number of bytes, got \"?\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused_lines("id,lower,upper,size", cases[i][0], cases[i][1]);
    }
    refused_lines("id,lower,upper,size,alignment", "a,1,2,3,x",
                  "t.csv:2: field 5 (alignment): expected an alignment in bytes, got \"x\"");
}
