/* report.h: the runtime's report. */
#ifndef WEIR_ASCENDCL_REPORT_H
#define WEIR_ASCENDCL_REPORT_H

#include "base/runtime.h"

#include <stdio.h>

/* Prints the report where the configuration says. A second call prints only when there are new findings. */
void acl__report_print(void);
void acl__report_write(FILE *file);
bool acl__report_has_findings(void);

/* Counts a finding that the simulator cannot make: work uses host memory that is gone. `why` ends the sentence. The
 * first ones are kept. */
void acl__report_host_memory(const char *call, uint64_t start, uint64_t size, const char *why);
uint64_t acl__report_host_findings(void);
size_t acl__report_host_texts(void);
/* Returns the sentence number `index`, of acl__report_host_texts(). */
const char *acl__report_host_text(size_t index);

/* Counts memory that a device still held when it was reset. */
void acl__report_left_behind(uint64_t bytes, uint64_t pieces);
/* Prints at once that a stream is stopped while no work is under way. `awaits` comes from the stream's first held
 * task. */
void acl__report_stopped(int32_t stream, const char *awaits);
/* Counts a warning of a practice that the vendor tolerates and that can fail later. `sentence` is constant and names
 * the kind. */
void acl__report_warning(const char *sentence);
/* Returns the number of warnings with `part` in their sentence; NULL: all. */
uint64_t acl__report_warnings(const char *part);

#endif
