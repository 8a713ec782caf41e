/* The smallest use of weir::trace. Functions of this program have names that the library uses inside: a static library
 * must not have them too. */
#include <stdio.h>
#include <string.h>
#include <weir/trace_file.h>

int grow_array(void);
int trace_read(void);
int replay_run(void);
int grow_array(void)
{
    return 1;
}
int trace_read(void)
{
    return 2;
}
int replay_run(void)
{
    return 3;
}

int main(void)
{
    static const char text[] = "#wtr 1\na 0 0 1048576 0 0\nf 1 0 0 0\n";
    static const char packed[] = "SQLite format 3";
    weir_trace *trace;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    if (grow_array() + trace_read() + replay_run() != 6) return 1;
    if (weir_trace_read_memory("text", text, strlen(text), NULL, &trace) != WEIR_OK) return 2;
    if (weir_trace_replay(trace, NULL, &figures) != WEIR_OK || figures.peak_live_bytes != 1048576) return 3;
    if (weir_trace_write(trace, "user_trace.wtr.xz") != WEIR_OK) return 4;
    weir_trace_free(trace);
    if (weir_trace_read("user_trace.wtr.xz", NULL, &trace) != WEIR_OK) return 5;
    weir_trace_free(trace);
    if (remove("user_trace.wtr.xz") != 0) return 6;
    if (weir_trace_read_memory("database", packed, sizeof(packed), NULL, &trace) == WEIR_OK) return 7;
    printf("weir %s\n", weir_version());
    return 0;
}
