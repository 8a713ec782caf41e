/* report.h: what the runtime says at the end. */
#ifndef WEIR_ASCENDCL_REPORT_H
#define WEIR_ASCENDCL_REPORT_H

#include "runtime.h"

#include <stdio.h>

/* Prints where the configuration says; a second time only when more was found since. */
void acl__report_print(void);
void acl__report_write(FILE *file);
bool acl__report_has_findings(void);

/* Memory that a device still held when it was reset. */
void acl__report_left_behind(int32_t device, uint64_t bytes, uint64_t pieces);
/* Things that the vendor tolerates and that go wrong one day; counted by kind, a constant sentence. */
void acl__report_warning(const char *sentence);
/* How many contain a text; NULL: all. */
uint64_t acl__report_warnings(const char *part);

#endif
