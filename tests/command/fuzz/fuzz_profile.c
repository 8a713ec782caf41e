/* fuzz_profile.c: arbitrary bytes as a profile: JSON of torch.profiler, a zip of torch.save, a SQLite database. An
 * imported trace must survive being written and read. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace_bytes("fuzz.profile", data, size);
    return 0;
}
