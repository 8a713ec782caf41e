/* fuzz_wtr.c: arbitrary bytes for the reader of traces. An accepted trace must survive being written and read again. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace_bytes("fuzz.wtr", data, size);
    return 0;
}
