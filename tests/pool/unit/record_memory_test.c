/* tests/pool/unit/record_memory_test.c: a recorder of which the n-th request for host memory fails, for every n. */
#include "rig/sink.h"
#include "rig/test.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>
#include <weir/trace.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wrapped_malloc.h"

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return refused() ? NULL : __real_aligned_alloc(align, size);
}

static void refuse(unsigned request)
{
    fail_at = request;
    asked = 0;
}

/* --- creation --- */

TEST(test_a_file_that_is_there_stays)
{
    char path[] = "/tmp/weir_record_XXXXXX";
    char text[16] = "";
    weir_recorder *recorder = NULL;
    const int fd = mkstemp(path);
    unsigned failures = 0;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "old", 3), 3);
    for (unsigned n = 1; recorder == NULL; n++) {
        refuse(n);
        const weir_status status = weir_recorder_create_file(path, "a source", &recorder);
        refuse(0);
        assert_int_equal(status, recorder != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY);
        failures += recorder == NULL;
        if (recorder == NULL) {
            assert_int_equal(pread(fd, text, 3, 0), 3);
            assert_memory_equal(text, "old", 3);
        }
    }
    assert_true(failures >= 3); /* requests for the file's state, the recorder and the source */
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_int_equal(pread(fd, text, 6, 0), 6);
    assert_memory_equal(text, "#wtr 1", 6);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* --- events --- */

enum { names = 200 };

static void note(weir_recorder *recorder, weir_trace_kind kind, char mode, uint64_t old_id, uint64_t id)
{
    const weir_trace_event event = {
        .kind = kind, .mode = mode, .old_id = old_id, .id = id, .size = 8, .stream = (uint32_t)(id % 7)};
    weir_recorder_note(recorder, &event);
}

/* Records so many events that each table has to grow. */
static void feed(weir_recorder *recorder)
{
    for (uint64_t name = 1; name <= names; name++) {
        note(recorder, WEIR_TRACE_ALLOC, 0, 0, name);
        note(recorder, WEIR_TRACE_RECORD, 0, 0, name);
    }
    for (uint64_t name = 1; name <= names; name++) {
        note(recorder, WEIR_TRACE_REALLOC, 'B', name, 0);
        note(recorder, WEIR_TRACE_REALLOC, 'E', name, name + 1000);
        note(recorder, WEIR_TRACE_FREE, 0, 0, name + 1000);
    }
}

/* Checks that no line names a block that is not live. */
static void check_lives(const struct kept *kept)
{
    static bool live[4 * names];
    memset(live, 0, sizeof(live));
    const char *line = kept->text;
    while (*line != '\0') {
        unsigned first = 0;
        unsigned second = 0;
        char copy[96];
        const size_t length = (size_t)(strchr(line, '\n') - line);
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)length, line);
        if (sscanf(copy, "a %*u %u", &first) == 1) {
            assert_true(first < 4 * names && !live[first]);
            live[first] = true;
        } else if (sscanf(copy, "r %*u %u %u", &first, &second) == 2) {
            assert_true(first < 4 * names && second < 4 * names && live[first] && !live[second]);
            live[first] = false;
            live[second] = true;
        } else if (sscanf(copy, "f %*u %u", &first) == 1) {
            assert_true(first < 4 * names && live[first]);
            live[first] = false;
        }
        line += length + 1;
    }
}

TEST(test_events_are_lost_and_counted)
{
    static struct kept kept;
    bool refused_one = true;
    unsigned losses = 0;
    for (unsigned n = 1; refused_one; n++) {
        weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
        weir_recorder *recorder = NULL;
        uint64_t lost = 0;
        kept.length = 0;
        config.sink = keep;
        config.sink_ctx = &kept;
        config.ring_events = 4096;
        assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
        refuse(n);
        feed(recorder);
        const weir_status status = weir_recorder_stop(recorder, &lost);
        refused_one = asked >= n;
        refuse(0);
        assert_int_equal(status, WEIR_OK);
        check_lives(&kept);
        assert_int_equal(lost != 0, strstr(kept.text, "#note lost") != NULL);
        losses += lost != 0;
        assert_true(refused_one || lost == 0);
    }
    assert_true(losses >= 4); /* the ring, and tables as they grow */
}

/* --- blocks that were live before the recording --- */

static uint64_t priors_in(const struct kept *kept)
{
    uint64_t count = 0;
    for (const char *line = kept->text; *line != '\0'; line = strchr(line, '\n') + 1) {
        count += *line == 'p';
    }
    return count;
}

/* A block that cannot be listed when the recording begins is a lost event. */
TEST(test_prior_blocks_are_lost_and_counted)
{
    static struct kept kept;
    enum { blocks = 200 };
    weir_sim *sim = NULL;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    bool refused_one = true;
    unsigned losses = 0;
    assert_int_equal(weir_sim_create(NULL, &sim), WEIR_OK);
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    for (int i = 0; i < blocks; i++) {
        weir_block *block = NULL;
        assert_int_equal(weir_pool_alloc(pool, stream, 512, 0, &block), WEIR_OK);
    }
    for (unsigned n = 1; refused_one; n++) {
        weir_recorder_config asked_for = WEIR_RECORDER_CONFIG_INIT;
        weir_recorder *recorder = NULL;
        uint64_t lost = 0;
        kept.length = 0;
        asked_for.sink = keep;
        asked_for.sink_ctx = &kept;
        refuse(n);
        const weir_status status = weir_recorder_start(pool, &asked_for, &recorder);
        refused_one = asked >= n;
        refuse(0);
        assert_int_equal(status, recorder != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY);
        if (recorder != NULL) {
            assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
            if (priors_in(&kept) + lost != blocks) {
                fail_msg("of %d live blocks %u are listed and %u lost", blocks, (unsigned)priors_in(&kept),
                         (unsigned)lost);
            }
            losses += lost != 0;
        }
    }
    assert_true(losses >= 2); /* the list as it grows */
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}
