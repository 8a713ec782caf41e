/* Recorded malloc traffic of a phone's process through the host pool, on as many threads as the process had: frees of
 * other threads' blocks, 391 thread ends, sizes up to 272 KiB. The test checks the contents of each block when it is
 * freed.
 *
 *   test_stress_host_trace...    the whole recording; under a thread sanitizer a shortened form
 *
 * The recording (see benchmarks/README.md) is not part of weir: without it the test is skipped. A thread waits for
 * another thread only if it frees a block that the other thread has not yet allocated.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include <weir/host.h>
#if defined(HOST_ENGINE_HEADER)
#include HOST_ENGINE_HEADER
#endif

#if defined(__SANITIZE_THREAD__)
enum { MOST_EVENTS = 60000 };
#elif defined(__SANITIZE_ADDRESS__)
enum { MOST_EVENTS = 300000 };
#else
enum { MOST_EVENTS = 1 << 20 };
#endif
enum { TABLE = 1 << 21, MOST_THREADS = 1024 };

/* An alloc or a free of one block; a realloc is one event of each kind. */
struct event {
    uint32_t block;
    uint32_t size; /* 0: free */
    uint32_t next; /* the next event of the same thread; 0: none */
};

struct player {
    weir_host_pool *pool;
    uint32_t name;
    uint32_t first;
    uint32_t last;
    const char *failure;
};

static struct event events[2 * MOST_EVENTS + 1];
static uint32_t event_count = 1;
static uint32_t block_count = 1;
static _Atomic(unsigned char *) blocks[2 * MOST_EVENTS + 1];
static uint32_t sizes[2 * MOST_EVENTS + 1];
static struct player players[MOST_THREADS];
static size_t player_count;
static atomic_bool is_over; /* set if a thread failed: other threads stop waiting */

static void require(bool fine, const char *what)
{
    if (!fine) {
        (void)fprintf(stderr, "%s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* --- the recording: a zip file with one member --- */

static uint32_t number_at(const unsigned char *bytes, size_t count)
{
    uint32_t value = 0;
    for (size_t i = count; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)printf("skipped: no recording %s\n", path);
        exit(77);
    }
    require(fseek(file, 0, SEEK_END) == 0, "cannot read the recording");
    *size = (size_t)ftell(file);
    unsigned char *bytes = malloc(*size);
    require(bytes != NULL && fseek(file, 0, SEEK_SET) == 0 && fread(bytes, 1, *size, file) == *size,
            "cannot read the recording");
    (void)fclose(file);
    return bytes;
}

/* Inflates the archive's member. The sizes are in the directory at the end, which begins with "PK\1\2". */
static char *inflate_member(const unsigned char *zip, size_t size)
{
    size_t at = size < 46 ? 0 : size - 46;
    while (at > 0 && memcmp(zip + at, "PK\1\2", 4) != 0) {
        at--;
    }
    require(at > 0 && memcmp(zip, "PK\3\4", 4) == 0, "the recording is no zip file");
    const uint32_t packed = number_at(zip + at + 20, 4);
    const uint32_t plain = number_at(zip + at + 24, 4);
    const size_t start = 30 + number_at(zip + 26, 2) + number_at(zip + 28, 2);
    char *text = malloc((size_t)plain + 1);
    z_stream stream = {0};
    require(text != NULL && start + packed <= size && inflateInit2(&stream, -15) == Z_OK,
            "cannot unpack the recording");
    stream.next_in = (unsigned char *)zip + start;
    stream.avail_in = packed;
    stream.next_out = (unsigned char *)text;
    stream.avail_out = plain;
    require(inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out == plain, "cannot unpack the recording");
    (void)inflateEnd(&stream);
    text[plain] = '\0';
    return text;
}

/* --- from addresses to numbers of blocks --- */

static struct {
    uint64_t address;
    uint32_t block;
} live[TABLE];

static size_t place_of(uint64_t address)
{
    size_t i = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 43;
    while (live[i].address != 0 && live[i].address != address) {
        i = (i + 1) % TABLE;
    }
    return i;
}

static void add_event(struct player *p, uint32_t block, uint32_t size)
{
    events[event_count] = (struct event){.block = block, .size = size};
    if (p->first == 0) {
        p->first = event_count;
    } else {
        events[p->last].next = event_count;
    }
    p->last = event_count++;
}

static void add_alloc(struct player *p, uint64_t address, uint64_t size)
{
    if (address != 0) {
        const size_t place = place_of(address);
        live[place].address = address;
        live[place].block = block_count;
        sizes[block_count] = (uint32_t)(size > 0 ? size : 1);
        add_event(p, block_count, sizes[block_count]);
        block_count++;
    }
}

static void add_free(struct player *p, uint64_t address)
{
    const size_t place = place_of(address);
    if (address != 0 && live[place].address == address && live[place].block != 0) {
        add_event(p, live[place].block, 0);
        live[place].block = 0;
    }
}

static struct player *player_named(uint32_t name)
{
    for (size_t i = 0; i < player_count; i++) {
        if (players[i].name == name) {
            return &players[i];
        }
    }
    require(player_count < MOST_THREADS, "too many threads in the recording");
    players[player_count] = (struct player){.name = name};
    return &players[player_count++];
}

static void read_line(const char *line)
{
    unsigned thread = 0;
    char what[16] = "";
    unsigned long long a = 0;
    unsigned long long b = 0;
    unsigned long long c = 0;
    const int words = sscanf(line, "%u: %15s %llx %lli %lli", &thread, what, &a, (long long *)&b, (long long *)&c);
    if (words < 3) {
        return;
    }
    struct player *p = player_named(thread);
    if (strcmp(what, "malloc") == 0) {
        add_alloc(p, a, b);
    } else if (strcmp(what, "calloc") == 0) {
        add_alloc(p, a, b * c);
    } else if (strcmp(what, "memalign") == 0) {
        add_alloc(p, a, c);
    } else if (strcmp(what, "realloc") == 0) {
        add_free(p, b);
        add_alloc(p, a, c);
    } else if (strcmp(what, "free") == 0) {
        add_free(p, a);
    }
}

static void read_events(char *text)
{
    char *rest = NULL;
    size_t lines = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && lines < MOST_EVENTS;
         line = strtok_r(NULL, "\n", &rest)) {
        read_line(line);
        lines++;
    }
}

/* --- playing --- */

static unsigned char *wait_for(uint32_t block)
{
    const struct timespec moment = {.tv_nsec = 50000};
    unsigned char *ptr = NULL;
    while ((ptr = atomic_load_explicit(&blocks[block], memory_order_acquire)) == NULL && !atomic_load(&is_over)) {
        (void)nanosleep(&moment, NULL);
    }
    return ptr;
}

static unsigned char mark_of(uint32_t block)
{
    return (unsigned char)(block * 2654435761u >> 24);
}

static const char *play(struct player *p, const struct event *e)
{
    void *ptr = NULL;
    if (e->size > 0) {
        if (weir_host_alloc(p->pool, e->size, WEIR_HOST_THREAD_NODE, &ptr) != WEIR_OK) {
            return "alloc failed";
        }
        memset(ptr, mark_of(e->block), e->size);
        atomic_store_explicit(&blocks[e->block], ptr, memory_order_release);
        return NULL;
    }
    unsigned char *block = wait_for(e->block);
    if (block == NULL) {
        return NULL; /* another thread has failed */
    }
    for (uint32_t i = 0; i < sizes[e->block]; i++) {
        if (block[i] != mark_of(e->block)) {
            return "a block does not hold what was written";
        }
    }
    return weir_host_free(p->pool, block) == WEIR_OK ? NULL : "free failed";
}

static void *run(void *ctx)
{
    struct player *p = ctx;
    for (uint32_t i = p->first; i != 0 && !atomic_load_explicit(&is_over, memory_order_relaxed); i = events[i].next) {
        p->failure = play(p, &events[i]);
        if (p->failure != NULL) {
            atomic_store(&is_over, true);
        }
    }
    return NULL;
}

/* Frees the blocks that are live at the end of the recording. */
static void free_rest(weir_host_pool *pool)
{
    for (uint32_t i = 1; i < event_count; i++) {
        if (events[i].size == 0) {
            atomic_store(&blocks[events[i].block], NULL);
        }
    }
    for (uint32_t i = 1; i < block_count; i++) {
        require(weir_host_free(pool, atomic_load(&blocks[i])) == WEIR_OK, "a block that was left cannot be freed");
    }
}

int main(void)
{
    size_t size = 0;
    unsigned char *zip = read_file(WEIR_TRACES_DIR "/host/systemui.zip", &size);
    char *text = inflate_member(zip, size);
    read_events(text);
    free(text);
    free(zip);
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.engine = HOST_ENGINE;
    weir_host_pool *pool = NULL;
    require(weir_host_pool_create(&config, &pool) == WEIR_OK, "cannot create the pool");
    static pthread_t threads[MOST_THREADS];
    for (size_t i = 0; i < player_count; i++) {
        players[i].pool = pool;
        require(pthread_create(&threads[i], NULL, run, &players[i]) == 0, "cannot start a thread");
    }
    for (size_t i = 0; i < player_count; i++) {
        require(pthread_join(threads[i], NULL) == 0, "cannot join a thread");
    }
    for (size_t i = 0; i < player_count; i++) {
        require(players[i].failure == NULL, players[i].failure);
    }
    free_rest(pool);
    const char *why = "";
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    require(weir_host_check(pool, &why) == WEIR_OK, why);
    require(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK && stats.live_bytes == 0 &&
                stats.allocs == block_count - 1 && stats.frees == stats.allocs,
            "the statistics are not what was played");
    (void)printf("%zu threads, %u blocks, at most %.1f MiB held\n", player_count, block_count - 1,
                 (double)stats.peak_held_bytes / (1 << 20));
    require(weir_host_pool_destroy(pool) == WEIR_OK, "cannot destroy the pool");
    return EXIT_SUCCESS;
}
