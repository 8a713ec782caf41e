/* sqlite_read.c: reads the databases of profilers. The names of the tables tell which profiler wrote the database; the
 * reader for that profiler is called.
 */
#include "sqlite_read.h"

bool sqlite_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                  struct trace_error *error)
{
    struct sqlite_file *file;
    if (!sqlite_file_open(&file, source, error)) {
        return false;
    }
    bool is_ascend = false;
    bool is_nsys = false;
    bool is_memscope = false;
    bool is_leaks = false;
    bool done = sqlite_file_has(file, "OP_MEMORY", &is_ascend) &&
                sqlite_file_has(file, "CUDA_GPU_MEMORY_USAGE_EVENTS", &is_nsys) &&
                sqlite_file_has(file, "memscope_dump", &is_memscope) && sqlite_file_has(file, "leaks_dump", &is_leaks);
    if (done && is_ascend) {
        done = ascend_db_parse(file, source, limits, out, error);
    } else if (done && is_nsys) {
        done = nsys_parse(file, source, limits, out, error);
    } else if (done && (is_memscope || is_leaks)) {
        done = memscope_db_parse(file, is_memscope ? "memscope_dump" : "leaks_dump", source, limits, out, error);
    } else if (done) {
        done =
            trace_say(error, WEIR_ERR_UNSUPPORTED, source->path,
                      "is a SQLite database without the table OP_MEMORY (torch_npu's profiler with "
                      "profile_memory=True), CUDA_GPU_MEMORY_USAGE_EVENTS (nsys profile --cuda-memory-usage=true) or "
                      "memscope_dump (msMemScope)");
    }
    sqlite_file_close(file);
    return done;
}
