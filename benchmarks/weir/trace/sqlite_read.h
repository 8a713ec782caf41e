/* sqlite_read.h: the readers of the databases of profilers. sqlite_read.c chooses the reader by the tables. */
#ifndef WEIR_BENCHMARKS_SQLITE_READ_H
#define WEIR_BENCHMARKS_SQLITE_READ_H

#include "sqlite_file.h"

bool ascend_db_parse(struct sqlite_file *file, const struct trace_source *source, const struct trace_limits *limits,
                     struct trace **out, struct trace_error *error);
bool memscope_db_parse(struct sqlite_file *file, const char *table, const struct trace_source *source,
                       const struct trace_limits *limits, struct trace **out, struct trace_error *error);
bool nsys_parse(struct sqlite_file *file, const struct trace_source *source, const struct trace_limits *limits,
                struct trace **out, struct trace_error *error);

#endif
