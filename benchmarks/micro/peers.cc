/* peers.cc: measures one pair of alloc and free of weir's pools and heaps, and of other allocators, in the same run.
 *
 * A case is CELL/ROW. Rows are those of bench.c. Cells:
 *
 *     pair512, pair1M, mix1k, mix100k, mix1M, infer, live10 to live100k
 *                  see workloads.h; every row plays the same operations, generated before the clock starts
 *     infer_touched, mix1k_touched
 *                  the same with a byte written into each page of each block, for rows that hand out memory of the
 *                  process; `resident` is the peak of the process's memory over that of live bytes, which says
 *                  something if the process runs no other case
 *     threadsN     N threads run pair512 at the same time, each on its own stream; per pair and thread
 *     shared2      two threads run pair512 at the same time on one stream; per pair and thread
 *     pc512        one thread allocates blocks of 512 bytes, another frees them on the same stream, with a
 *                  ring buffer of 1,024 between them; per block, processor time of both threads together
 *
 * and for pools alone:
 *
 *     pc512far     pc512 where the second thread frees on its own stream: memory has to return to the first stream
 *     cross512, cross4M
 *                  a block (512 bytes, 4 MiB) is allocated on one stream and freed on another; events order each stream
 *                  after the other, so the block can be used again
 *     plain4M      a block of 4 MiB is allocated on one stream and freed on another, without events
 *     use512       a block is allocated and freed on one stream and used by another
 *     streamsN     pair512 on N streams in turn
 *     enterN       the first N streams of a pool are entered; per stream
 *     farN         a block of 40 MiB is allocated on one stream and freed on each of N streams in turn
 *     regionsN     live1k beside N live blocks of 64 MiB, each in a separate region
 *     growN        beside N such blocks, a pair larger than every free range, by 2 MiB more each time
 *
 * Every figure includes the loop; empty_loop shows its cost. A second thread sleeps all the time, because glibc omits
 * atomic operations while a process has one thread only. Pools have locks and statistics on, over a device that costs
 * nothing. Mallocs, the heap and the host pool leave out cells in which they would have to hold tens of gigabytes of
 * live blocks.
 *
 * The column CPU is processor time, which other programs disturb little; in pc512 it includes waiting for the other
 * thread. Each repetition of a case continues at the end of the previous one; with
 * --benchmark_enable_random_interleaving the blocks of all cases of a run stay allocated.
 */
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "micro/bench.h"
#include "micro/google.h"
#include "micro/rows.h"
#include "micro/workloads.h"

namespace
{

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::int64_t batch = 1000;

/* --- measured loops --- */

template <class row>
[[gnu::noinline]] void measured_pairs(row &own, std::size_t stream, std::uint64_t bytes, std::int64_t pairs)
{
    asm volatile("" : "+r"(stream), "+r"(bytes)); /* keeps the compiler from cloning the function for constants */
    for (std::int64_t i = 0; i < pairs; i++) {
        auto block = own.alloc(stream, bytes);
        asm volatile("" ::: "memory");
        own.free(stream, block);
    }
}

template <class row>
[[gnu::noinline]] void measured_ops(row &own, typename row::block *blocks, const workload_op *ops, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++) {
        if (ops[i].size != 0) {
            blocks[ops[i].slot] = own.alloc(0, ops[i].size);
        } else {
            own.free(0, blocks[ops[i].slot]);
        }
    }
}

template <class row>
[[gnu::noinline]] void measured_touched_ops(row &own, typename row::block *blocks, const workload_op *ops,
                                            std::size_t count)
{
    for (std::size_t i = 0; i < count; i++) {
        if (ops[i].size == 0) {
            own.free(0, blocks[ops[i].slot]);
            continue;
        }
        blocks[ops[i].slot] = own.alloc(0, ops[i].size);
        auto *bytes = reinterpret_cast<volatile char *>(blocks[ops[i].slot]);
        for (std::size_t at = 0; at < ops[i].size; at += 4096) {
            bytes[at] = 1;
        }
    }
}

/* Returns the most bytes of the process that were resident at once. */
double peak_resident()
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) * 1024;
}

/* --- allocators that keep their blocks between repetitions --- */

struct any_session {
    any_session() = default;
    virtual ~any_session() = default;
    any_session(const any_session &) = delete;
    any_session &operator=(const any_session &) = delete;
};

std::string cell_of_sessions;
std::map<const bench_row *, std::unique_ptr<any_session>> sessions;

/* Returns the allocator kept open for this benchmark (cell) and row. Those of another benchmark are closed first. */
template <class kind, class... rest> kind &session_of(const std::string &cell, const bench_row &row, rest... more)
{
    if (cell != cell_of_sessions) {
        sessions.clear();
        cell_of_sessions = cell;
    }
    auto &found = sessions[&row];
    if (!found) {
        found = std::make_unique<kind>(row, more...);
    }
    return static_cast<kind &>(*found);
}

/* Returns a workload, which is generated once per process: a large one takes longer to generate than to play. */
const workload &workload_of(const std::string &name)
{
    static std::map<std::string, workload> made;
    auto found = made.find(name);
    if (found == made.end()) {
        workload fresh = {};
        if (!workload_make(name.c_str(), 1, &fresh)) {
            (void)std::fprintf(stderr, "no workload \"%s\", or no memory\n", name.c_str());
            std::exit(EXIT_FAILURE);
        }
        found = made.emplace(name, fresh).first;
    }
    return found->second;
}

/* Allocates blocks of 64 MiB plus a page, each of which takes a separate region. */
template <class row> void add_regions(row &own, std::size_t count, std::vector<typename row::block> *blocks)
{
    for (std::size_t i = 0; i < count; i++) {
        blocks->push_back(own.alloc(0, 64 * mib + (i % 2) * 4096));
    }
}

template <class row> struct play_session : any_session {
    double resident; /* before it */
    row own;
    const workload &work;
    std::vector<typename row::block> blocks;
    std::vector<bool> live;
    std::vector<typename row::block> regions;
    std::size_t at;

    play_session(const bench_row &r, const char *workload_name, std::size_t region_count)
        : resident((workload_of(workload_name), peak_resident())), own(r, 1), work(workload_of(workload_name)),
          blocks(work.slots), live(work.slots), at(work.start)
    {
        add_regions(own, region_count, &regions);
        const std::size_t warm = work.start != 0 ? work.start : work.count;
        for (std::size_t i = 0; i < warm; i++) {
            set(work.ops[i]);
        }
    }
    ~play_session() override
    {
        for (std::size_t i = 0; i < blocks.size(); i++) {
            if (live[i]) { /* each batch ends with the same slots live as at its start */
                own.free(0, blocks[i]);
            }
        }
        for (auto block : regions) {
            own.free(0, block);
        }
    }
    std::int64_t batch_pairs() const
    {
        return work.pair_bytes != 0 ? batch : static_cast<std::int64_t>(work.batch_pairs);
    }
    void play_batch(bool touch)
    {
        if (work.pair_bytes != 0) {
            measured_pairs(own, 0, work.pair_bytes, batch);
            return;
        }
        (touch ? measured_touched_ops<row> : measured_ops<row>)(own, blocks.data(), work.ops + at, work.batch_ops);
        at += work.batch_ops;
        at = at == work.count ? work.start : at;
    }

  private:
    void set(workload_op op)
    {
        if (op.size != 0) {
            blocks[op.slot] = own.alloc(0, op.size);
        } else {
            own.free(0, blocks[op.slot]);
        }
        live[op.slot] = op.size != 0;
    }
};

template <class row>
void play(benchmark::State &state, const std::string &cell, const bench_row &r, const char *workload_name,
          std::size_t regions, bool touch)
{
    auto &session = session_of<play_session<row>>(cell, r, workload_name, regions);
    while (state.KeepRunningBatch(session.batch_pairs())) {
        session.play_batch(touch);
    }
    if (touch) {
        state.counters["resident"] =
            (peak_resident() - session.resident) / static_cast<double>(session.work.peak_bytes);
    }
}

/* --- threads --- */

/* Allocates 64 blocks and frees every second one, as the workload pair512 does. */
template <class row> std::vector<typename row::block> lay_out(row &own, std::size_t stream)
{
    std::vector<typename row::block> blocks(BENCH_BLOCKS);
    for (auto &block : blocks) {
        block = own.alloc(stream, 512);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        own.free(stream, blocks[i]);
    }
    return blocks;
}

/* The allocator that the threads of the current repetition share. */
template <class row> std::unique_ptr<row> shared;

template <class row> void set_up(const benchmark::State &state)
{
    shared<row> = std::make_unique<row>(bench_rows[state.range(0)], static_cast<std::size_t>(state.threads()));
}

template <class row> void tear_down(const benchmark::State &)
{
    shared<row>.reset();
}

template <class row> void pairs_on_threads(benchmark::State &state, bool one_stream)
{
    const std::size_t stream = one_stream ? 0 : static_cast<std::size_t>(state.thread_index());
    auto blocks = lay_out(*shared<row>, stream);
    while (state.KeepRunningBatch(batch)) {
        measured_pairs(*shared<row>, stream, 512, batch);
    }
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        shared<row>->free(stream, blocks[i]);
    }
}

/* A ring buffer for one producer and one consumer. A thread that finds it full or empty yields to the other thread. */
template <class element> class ring
{
  public:
    void put(element block)
    {
        const std::size_t at = put_.load(std::memory_order_relaxed);
        while (at - taken_.load(std::memory_order_acquire) == places) {
            (void)sched_yield();
        }
        blocks_[at % places] = block;
        put_.store(at + 1, std::memory_order_release);
    }
    element take()
    {
        const std::size_t at = taken_.load(std::memory_order_relaxed);
        while (at == put_.load(std::memory_order_acquire)) {
            (void)sched_yield();
        }
        element block = blocks_[at % places];
        taken_.store(at + 1, std::memory_order_release);
        return block;
    }

  private:
    static constexpr std::size_t places = 1024;
    alignas(64) std::atomic<std::size_t> put_{0};
    alignas(64) std::atomic<std::size_t> taken_{0};
    alignas(64) element blocks_[places] = {};
};

template <class row> void produce(benchmark::State &state, const bench_row &r, std::size_t stream_of_frees)
{
    row own(r, 2);
    ring<typename row::block> between;
    std::thread frees([&] {
        for (auto block = between.take(); block != typename row::block{}; block = between.take()) {
            own.free(stream_of_frees, block);
        }
    });
    for (auto _ : state) {
        between.put(own.alloc(0, 512));
    }
    between.put({});
    frees.join();
}

/* --- streams and regions of a pool --- */

struct pool_session : any_session {
    pool_row own;
    std::vector<weir_block *> blocks;
    std::size_t streams;
    std::size_t turn = 0;

    /* The session allocates and frees a block on each stream first, so that each stream has free memory. */
    pool_session(const bench_row &r, std::size_t stream_count, std::uint64_t first_bytes, std::size_t regions)
        : own(r, stream_count), streams(stream_count)
    {
        for (std::size_t i = 0; i < streams && first_bytes != 0; i++) {
            own.free(i, own.alloc(i, first_bytes));
        }
        add_regions(own, regions, &blocks);
    }
    ~pool_session() override
    {
        for (auto *block : blocks) {
            own.free(0, block);
        }
    }
    std::size_t next_stream()
    {
        turn = turn + 1 == streams ? 0 : turn + 1;
        return turn;
    }
};

[[gnu::noinline]] void measured_round(pool_session &session, std::int64_t pairs)
{
    for (std::int64_t i = 0; i < pairs; i++) {
        const std::size_t stream = session.next_stream();
        session.own.free(stream, session.own.alloc(stream, 512));
    }
}

void round_of_streams(benchmark::State &state, const std::string &cell, const bench_row &row, std::size_t streams)
{
    auto &session = session_of<pool_session>(cell, row, streams, std::uint64_t{512}, std::size_t{0});
    while (state.KeepRunningBatch(batch)) {
        measured_round(session, batch);
    }
}

void free_far(benchmark::State &state, const std::string &cell, const bench_row &row, std::size_t streams)
{
    auto &session = session_of<pool_session>(cell, row, streams, 3 * mib, std::size_t{0});
    for (auto _ : state) {
        session.own.free(session.next_stream(), session.own.alloc(0, 40 * mib));
    }
}

void enter_streams(benchmark::State &state, const bench_row &row)
{
    pool_row own(row, 0);
    std::size_t native = 0;
    for (auto _ : state) {
        own.enter(native++);
    }
}

void grow(benchmark::State &state, const std::string &cell, const bench_row &row, std::size_t regions)
{
    auto &session = session_of<pool_session>(cell, row, std::size_t{1}, std::uint64_t{0}, regions);
    for (auto _ : state) {
        session.own.free(0, session.own.alloc(0, (65 + 2 * ++session.turn) * mib));
    }
}

void cross(benchmark::State &state, const std::string &cell, const bench_row &row, std::uint64_t bytes, bool ordered)
{
    pool_row &own = session_of<pool_session>(cell, row, std::size_t{2}, std::uint64_t{0}, std::size_t{0}).own;
    for (auto _ : state) {
        weir_block *block = own.alloc(0, bytes);
        if (ordered) {
            own.order(0, 1);
        }
        own.free(1, block);
        if (ordered) {
            own.order(1, 0);
        }
    }
}

void use(benchmark::State &state, const std::string &cell, const bench_row &row)
{
    pool_row &own = session_of<pool_session>(cell, row, std::size_t{2}, std::uint64_t{0}, std::size_t{0}).own;
    for (auto _ : state) {
        weir_block *block = own.alloc(0, 512);
        own.use(block, 1);
        own.free(0, block);
    }
}

/* --- cases --- */

using body = std::function<void(benchmark::State &, const std::string &cell, const bench_row &row)>;

benchmark::internal::Benchmark *enter(const std::string &cell, const bench_row &row, const body &run)
{
    return finish_entry(benchmark::RegisterBenchmark((cell + "/" + row.name).c_str(),
                                                     [=, &row](benchmark::State &state) { run(state, cell, row); }));
}

template <class row>
void enter_play(const std::string &cell, const bench_row &r, const char *workload, std::size_t regions,
                bool touch = false)
{
    enter(cell, r, [=](auto &state, auto &name, auto &own) { play<row>(state, name, own, workload, regions, touch); });
}

template <class row> void enter_threads(const std::string &cell, const bench_row &r, int threads, bool one_stream)
{
    enter(cell, r, [=](auto &state, auto &, auto &) { pairs_on_threads<row>(state, one_stream); })
        ->Arg(&r - bench_rows)
        ->Setup(set_up<row>)
        ->Teardown(tear_down<row>)
        ->Threads(threads);
}

template <class row> void enter_produce(const std::string &cell, const bench_row &r, std::size_t stream_of_frees)
{
    enter(cell, r, [=](auto &state, auto &, auto &own) { produce<row>(state, own, stream_of_frees); })
        ->MeasureProcessCPUTime()
        ->UseRealTime();
}

/* True if the row's allocator only computes addresses. Any other allocator would take gigabytes of host memory. */
bool has_room(const bench_row &row)
{
    return row.kind == BENCH_EMPTY || row.kind == BENCH_POOL || row.kind == BENCH_TLSF || row.kind == BENCH_TLSF_SPIN;
}

template <class row> void enter_common(const bench_row &r)
{
    for (const char *name : {"pair512", "pair1M", "infer"}) {
        enter_play<row>(name, r, name, 0);
    }
    if (has_room(r) || r.kind == BENCH_MALLOC || r.kind == BENCH_HEAP) {
        enter_play<row>("mix1k", r, "mix1k", 0);
    }
    if (r.kind == BENCH_MALLOC || r.kind == BENCH_HEAP) {
        enter_play<row>("infer_touched", r, "infer", 0, true);
        enter_play<row>("mix1k_touched", r, "mix1k", 0, true);
    }
    for (const char *name : {"mix100k", "mix1M", "live10", "live100", "live1k", "live10k", "live100k"}) {
        if (has_room(r)) {
            enter_play<row>(name, r, name, 0);
        }
    }
    if (bench_row_locks(&r)) {
        for (int threads : {1, 2, 4, 8}) {
            enter_threads<row>("threads" + std::to_string(threads), r, threads, false);
        }
        enter_threads<row>("shared2", r, 2, true);
        if (r.kind != BENCH_EMPTY) {
            enter_produce<row>("pc512", r, 0);
        }
    }
}

void enter_pool(const bench_row &row)
{
    enter_common<pool_row>(row);
    if (bench_row_locks(&row)) {
        enter_produce<pool_row>("pc512far", row, 1);
    }
    enter("cross512", row, [](auto &state, auto &cell, auto &own) { cross(state, cell, own, 512, true); });
    enter("cross4M", row, [](auto &state, auto &cell, auto &own) { cross(state, cell, own, 4 * mib, true); });
    enter("plain4M", row, [](auto &state, auto &cell, auto &own) { cross(state, cell, own, 4 * mib, false); });
    enter("use512", row, use);
    for (const std::size_t count : {1u, 10u, 100u, 1000u, 4000u}) {
        const std::string number = std::to_string(count);
        enter("streams" + number, row,
              [=](auto &state, auto &cell, auto &own) { round_of_streams(state, cell, own, count); });
        enter("far" + number, row, [=](auto &state, auto &cell, auto &own) { free_far(state, cell, own, count); });
        enter("enter" + number, row, [](auto &state, auto &, auto &own) {
            enter_streams(state, own);
        })->Iterations(static_cast<std::int64_t>(count));
    }
    for (const std::size_t count : {1u, 10u, 100u, 1000u, 10000u}) {
        const std::string number = std::to_string(count);
        enter_play<pool_row>("regions" + number, row, "live1k", count);
        enter("grow" + number, row, [=](auto &state, auto &cell, auto &own) {
            grow(state, cell, own, count);
        })->Iterations(20);
    }
}

void enter_row(const bench_row &row)
{
    malloc_functions ignored;
    const char *why = "";
    switch (row.kind) {
    case BENCH_EMPTY:
        return enter_common<empty_row>(row);
    case BENCH_POOL:
        return enter_pool(row);
    case BENCH_HEAP:
        return enter_common<heap_row>(row);
    case BENCH_HOST:
        return enter_common<host_row>(row);
    case BENCH_TLSF:
        return enter_common<tlsf_row<no_lock>>(row);
    case BENCH_TLSF_SPIN:
        return enter_common<tlsf_row<spin_lock>>(row);
    case BENCH_MALLOC:
        if (mallocs_find(row.name, &ignored, &why)) {
            return enter_common<malloc_row>(row);
        }
        return enter_absent(std::string("absent/") + row.name, std::string("absent: ") + why);
    }
}

void enter_all()
{
    for (const bench_row &row : bench_rows) {
        enter_row(row);
    }
}

} // namespace

int main(int count, char **arguments)
{
    const int status = run_benchmarks(
        count, arguments,
        {"--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1"},
        enter_all);
    sessions.clear();
    return status;
}
