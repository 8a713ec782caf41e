/* fuzz_pickle.c: arbitrary bytes as a pickle for the import of snapshots. The fuzzer puts a protocol opcode before an
 * input that does not begin with one, so that no run is spent on finding it. An imported trace must survive being
 * written and read. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 0x80) {
        fuzz_trace_bytes("fuzz.pickle", data, size);
        return 0;
    }
    uint8_t *bytes = malloc(size + 2);
    if (bytes == NULL) {
        return 0;
    }
    bytes[0] = 0x80;
    bytes[1] = 4;
    if (size > 0) {
        memcpy(bytes + 2, data, size);
    }
    fuzz_trace_bytes("fuzz.pickle", bytes, size + 2);
    free(bytes);
    return 0;
}
