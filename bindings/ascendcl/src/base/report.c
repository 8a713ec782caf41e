/* report.c: the report at aclFinalize or at the end of the process. */
#include "base/report.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { WARNINGS = 32 };

static struct {
    const char *sentence;
    uint64_t count;
} warnings[WARNINGS];
static size_t warning_count;
static uint64_t left_bytes;
static uint64_t left_pieces;
static bool printed;
static uint64_t printed_findings;

/* --- findings about host memory --- */

enum { HOST_TEXTS = 16 };
static char host_texts[HOST_TEXTS][160];
static uint64_t host_findings;

void acl__report_host_memory(const char *call, uint64_t start, uint64_t size, const char *why)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(call != NULL && size > 0);
    if (!acl__rt.config.audit) {
        return;
    }
    if (host_findings < HOST_TEXTS) {
        (void)snprintf(host_texts[host_findings], sizeof(host_texts[0]),
                       "host_memory: %s of 0x%" PRIx64 " (%" PRIu64 " bytes) %s", call, start, size, why);
    }
    host_findings++;
}

uint64_t acl__report_host_findings(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return host_findings;
}

size_t acl__report_host_texts(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return host_findings < HOST_TEXTS ? (size_t)host_findings : HOST_TEXTS;
}

const char *acl__report_host_text(size_t index)
{
    WEIR_ASSERT(index < acl__report_host_texts());
    return host_texts[index];
}

static uint64_t all_findings(void)
{
    return weir_sim_finding_count(acl__rt.sim, WEIR_SIM_FINDING_KINDS) + host_findings;
}

/* --- warnings and facts --- */

void acl__report_left_behind(uint64_t bytes, uint64_t pieces)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(pieces > 0 && bytes >= pieces);
    left_bytes += bytes;
    left_pieces += pieces;
}

void acl__report_stopped(int32_t stream, const char *awaits)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(awaits != NULL);
    if (strcmp(acl__rt.config.report, "none") != 0) {
        (void)fprintf(stderr, "weir ascendcl: no work is under way: stream %d waits for %s\n", stream, awaits);
    }
}

void acl__report_warning(const char *sentence)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(sentence != NULL);
    size_t i = 0;
    while (i < warning_count && strcmp(warnings[i].sentence, sentence) != 0) {
        i++;
    }
    if (i == warning_count) {
        if (i == WARNINGS) {
            return;
        }
        warnings[warning_count++].sentence = sentence;
    }
    warnings[i].count++;
}

uint64_t acl__report_warnings(const char *part)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(warning_count <= WARNINGS);
    uint64_t count = 0;
    for (size_t i = 0; i < warning_count; i++) {
        count += part == NULL || strstr(warnings[i].sentence, part) != NULL ? warnings[i].count : 0;
    }
    return count;
}

bool acl__report_has_findings(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return all_findings() > 0;
}

static void write_calls(FILE *file)
{
    static const acl__function shown[] = {ACL_FN_aclrtMalloc,         ACL_FN_aclrtMallocAlign32, ACL_FN_aclrtFree,
                                          ACL_FN_aclrtMallocPhysical, ACL_FN_aclrtFreePhysical,  ACL_FN_aclrtMapMem,
                                          ACL_FN_aclrtUnmapMem,       ACL_FN_aclrtMallocHost,    ACL_FN_aclrtFreeHost};
    (void)fprintf(file, "weir ascendcl: %" PRIu64 " calls", acl__calls(ACL_FN_COUNT));
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        if (acl__calls(shown[i]) > 0) {
            (void)fprintf(file, ", %s %" PRIu64, acl__function_name(shown[i]), acl__calls(shown[i]));
        }
    }
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    (void)weir_sim_get_stats(acl__rt.sim, &stats);
    (void)fprintf(file, "; at most %.1f MiB of device memory held; %.3f ms of virtual time\n",
                  (double)stats.peak_held_bytes / 1048576.0, (double)weir_sim_now(acl__rt.sim) / 1e6);
    if (stats.audit_lost > 0) {
        (void)fprintf(file, "weir ascendcl: the auditor ran out of memory and did not judge %" PRIu64 " operations\n",
                      stats.audit_lost);
    }
}

static void write_findings(FILE *file)
{
    const uint64_t count = all_findings();
    if (count == 0) {
        (void)fputs("weir ascendcl: the auditor found nothing\n", file);
        return;
    }
    (void)fprintf(file, "weir ascendcl: the auditor found %" PRIu64 ":\n", count);
    size_t shown = 0;
    for (; shown < acl__report_host_texts(); shown++) {
        (void)fprintf(file, "  %s\n", acl__report_host_text(shown));
    }
    weir_sim_finding finding;
    for (size_t i = 0; weir_sim_finding_at(acl__rt.sim, i, &finding); i++) {
        (void)fprintf(file, "  %s\n", finding.text);
        shown++;
    }
    if (shown < count) {
        (void)fprintf(file, "  and %" PRIu64 " more\n", count - shown);
    }
}

static void write_stopped(FILE *file)
{
    for (const acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        if (stream->held_first != NULL && stream->held_first->ops->awaits != NULL) {
            (void)fprintf(file, "weir ascendcl: stream %d still waits for %s\n", stream->id,
                          stream->held_first->ops->awaits);
        }
    }
}

void acl__report_write(FILE *file)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(file != NULL);
    write_calls(file);
    write_stopped(file);
    for (size_t i = 0; i < warning_count; i++) {
        (void)fprintf(file, "weir ascendcl: warning, %" PRIu64 " times: %s\n", warnings[i].count, warnings[i].sentence);
    }
    if (left_pieces > 0) {
        (void)fprintf(file,
                      "weir ascendcl: %" PRIu64 " bytes in %" PRIu64 " pieces were still held at a device's reset\n",
                      left_bytes, left_pieces);
    }
    if (acl__rt.config.audit) {
        write_findings(file);
    }
}

void acl__report_print(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(acl__rt.config.report != NULL);
    const char *to = acl__rt.config.report;
    if (!printed && acl__rt.config.audit) {
        weir_sim_audit_leaks(acl__rt.sim);
    }
    const uint64_t findings = all_findings();
    if (printed && findings == printed_findings) {
        return;
    }
    printed = true;
    printed_findings = findings;
    if (strcmp(to, "none") == 0) {
        return;
    }
    FILE *file =
        strcmp(to, "stderr") == 0 ? stderr : open_stream_above_standard(to, O_WRONLY | O_CREAT | O_APPEND, "a");
    if (file == NULL) {
        (void)fprintf(stderr, "weir ascendcl: the report cannot be written to %s: %s\n", to, strerror(errno));
        file = stderr;
    }
    acl__report_write(file);
    if (file != stderr) {
        (void)fclose(file);
    }
}
