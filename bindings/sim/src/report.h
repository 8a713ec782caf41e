/* report.h: the auditor's findings, kept and put into sentences.
 *
 * Guarantee: a pair of operations is reported once for each kind, however many ranges the two have in common. Every
 * finding is counted; the first `max_findings` are kept in full. Cost: nothing until there is a finding.
 */
#ifndef WEIR_SIM_REPORT_H
#define WEIR_SIM_REPORT_H

#include <weir/sim.h>

#define WEIR__SIM_HOST UINT32_MAX /* the "stream" of host operations */

/* The auditor's record of one operation. It lives as long as a segment, read, block or region refers to it. */
typedef struct weir__sim_op {
    /* Every vector clock with at least this tick for `stream` is after the operation. 0: the operation is before
     * everything. */
    uint64_t bound;
    uint32_t stream;     /* WEIR__SIM_HOST: an operation of the host, ordered before all operations recorded later */
    uint32_t references; /* number of segments, reads, blocks and regions that refer to the operation */
    uint64_t tick;       /* as weir_sim_operation.tick */
    uint64_t number;
    uint64_t start_ns;
    uint64_t end_ns;
    const char *what;
    char tag[48];
} weir__sim_op;

typedef struct weir__sim_report {
    uint64_t counts[WEIR_SIM_FINDING_KINDS];
    uint64_t total;
    uint64_t last_pair[WEIR_SIM_FINDING_KINDS][2]; /* the two operations of the latest finding of each kind */
    weir_sim_finding *kept;
    size_t kept_count;
    size_t kept_capacity;
    size_t max_findings;
} weir__sim_report;

void weir__sim_report_fini(weir__sim_report *report);

/* Adds a finding about [address, address + size). `earlier` and `later` may be NULL. `detail` is a phrase for the end
 * of the sentence, "" for none. Drops the finding if the latest finding of its kind is about the same pair of
 * operations. */
void weir__sim_report_add(weir__sim_report *report, weir_sim_finding_kind kind, uint64_t address, uint64_t size,
                          const weir__sim_op *earlier, const weir__sim_op *later, const char *detail);

#endif
