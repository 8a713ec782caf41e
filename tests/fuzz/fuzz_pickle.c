/* fuzz_pickle.c: any bytes as a pickle to the import of snapshots. An input that does not begin as one is given a
 * protocol opcode, so that no run is spent on looking for it. What is imported must survive being written and read. */
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
