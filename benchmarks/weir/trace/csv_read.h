/* csv_read.h: the readers of CSV files. csv_read.c chooses the reader by the columns. */
#ifndef WEIR_BENCHMARKS_CSV_READ_H
#define WEIR_BENCHMARKS_CSV_READ_H

#include "csv_import.h"

/* Reads all records after the header line into the builder. */
typedef bool csv_reader(struct csv_import *import);

csv_reader memory_record_read;
csv_reader memscope_read;
csv_reader operator_memory_read;
csv_reader plan_read;
csv_reader rmm_log_read;

#endif
