/* fuzz_csv.c: arbitrary bytes for the readers of CSV. If the first byte is 1 to 10, it is replaced by a header line, so
 * that the fuzzer reaches the reader of that format. An accepted trace must survive being written and read again. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const headers[] = {
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Stream Ptr,Device Type\n",
    "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Device Type\n",
    "Name,Size(KB),Allocation Time(us),Duration(us),Device\n",
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\n",
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr\n",
    "Event,Event Type,Timestamp(us),Ptr,Attr,Call Stack(Python)\n",
    "Thread,Time,Action,Pointer,Size,Stream\n",
    "id,lower,upper,size\n",
    "id,lower,upper,size,alignment,gaps\n",
    "buffer,start,end,size\n",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t count = sizeof(headers) / sizeof(headers[0]);
    if (size == 0 || data[0] == 0 || data[0] > count) {
        fuzz_trace_bytes("fuzz.csv", data, size);
        return 0;
    }
    const char *header = headers[data[0] - 1];
    const size_t length = strlen(header);
    uint8_t *bytes = malloc(length + size);
    fuzz_require(bytes != NULL, "memory for the file");
    memcpy(bytes, header, length);
    memcpy(bytes + length, data + 1, size - 1);
    fuzz_trace_bytes("fuzz.csv", bytes, length + size - 1);
    free(bytes);
    return 0;
}
