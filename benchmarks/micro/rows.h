/* rows.h: each kind of bench_row as a class, so that the compiler can inline the calls of an allocator into the loop.
 * C++.
 *
 * Each class has a constructor from a bench_row and a number of streams; a type `block`; alloc(stream, bytes), which
 * ends the program if a request is refused; and free(stream, block).
 * A row without streams ignores the stream.
 */
#ifndef WEIR_BENCHMARKS_ROWS_H
#define WEIR_BENCHMARKS_ROWS_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <weir/heap.h>
#include <weir/host.h>

#include "micro/bench.h"
#include "micro/tlsf.h"

[[noreturn]] inline void row_failed(const bench_row &row, const char *what)
{
    (void)std::fprintf(stderr, "%s: %s\n", row.name, what);
    std::exit(EXIT_FAILURE);
}

class empty_row
{
  public:
    using block = std::uint64_t;
    empty_row(const bench_row &, std::size_t) {}
    block alloc(std::size_t, std::uint64_t bytes)
    {
        asm volatile("" : "+r"(bytes));
        return bytes;
    }
    void free(std::size_t, block own) { asm volatile("" : "+r"(own)); }
};

class pool_row
{
  public:
    using block = weir_block *;
    pool_row(const bench_row &row, std::size_t streams) : row_(row) { bench_pool_open(&bench_, &row, 0, streams); }
    ~pool_row() { bench_pool_close(&bench_); }
    pool_row(const pool_row &) = delete;
    pool_row &operator=(const pool_row &) = delete;
    block alloc(std::size_t stream, std::uint64_t bytes)
    {
        block made = nullptr;
        require(weir_pool_alloc(bench_.pool, bench_.streams[stream], bytes, 0, &made));
        return made;
    }
    void free(std::size_t stream, block own) { require(weir_pool_free(bench_.pool, own, bench_.streams[stream])); }
    void enter(std::size_t native)
    {
        weir_stream *ignored = nullptr;
        require(weir_pool_stream(bench_.pool, reinterpret_cast<void *>(native + 1), &ignored));
    }
    /* Orders later work on `to` after the work that is queued on `from`. */
    void order(std::size_t from, std::size_t to)
    {
        require(weir_stream_recorded(bench_.pool, &events_[from], bench_.streams[from]));
        require(weir_stream_waited(bench_.pool, bench_.streams[to], &events_[from]));
    }
    void use(block own, std::size_t stream) { require(weir_pool_use(bench_.pool, own, bench_.streams[stream])); }

  private:
    void require(weir_status status)
    {
        if (__builtin_expect(status != WEIR_OK, 0)) {
            row_failed(row_, weir_status_text(status));
        }
    }
    const bench_row &row_;
    bench_pool bench_ = {};
    char events_[2] = {};
};

class heap_row
{
  public:
    using block = void *;
    heap_row(const bench_row &row, std::size_t) : row_(row)
    {
        if (weir_heap_create(nullptr, &heap_) != WEIR_OK) {
            row_failed(row, "cannot make a heap");
        }
    }
    ~heap_row() { (void)weir_heap_destroy(heap_); }
    heap_row(const heap_row &) = delete;
    heap_row &operator=(const heap_row &) = delete;
    block alloc(std::size_t, std::uint64_t bytes)
    {
        block made = weir_heap_alloc(heap_, bytes);
        if (__builtin_expect(made == nullptr, 0)) {
            row_failed(row_, "a request was refused");
        }
        return made;
    }
    void free(std::size_t, block own)
    {
        if (__builtin_expect(weir_heap_free(heap_, own) != WEIR_OK, 0)) {
            row_failed(row_, "cannot free a block");
        }
    }

  private:
    const bench_row &row_;
    weir_heap *heap_ = nullptr;
};

class host_row
{
  public:
    using block = void *;
    host_row(const bench_row &row, std::size_t) : row_(row)
    {
        weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
        config.flags = WEIR_HOST_ALLOW_UNPINNED;
        if (weir_host_pool_create(&config, &pool_) != WEIR_OK) {
            row_failed(row, "cannot make a host pool");
        }
    }
    ~host_row() { (void)weir_host_pool_destroy(pool_); }
    host_row(const host_row &) = delete;
    host_row &operator=(const host_row &) = delete;
    block alloc(std::size_t, std::uint64_t bytes)
    {
        block made = nullptr;
        if (__builtin_expect(weir_host_alloc(pool_, bytes, WEIR_HOST_THREAD_NODE, &made) != WEIR_OK, 0)) {
            row_failed(row_, "a request was refused");
        }
        return made;
    }
    void free(std::size_t, block own)
    {
        if (__builtin_expect(weir_host_free(pool_, own) != WEIR_OK, 0)) {
            row_failed(row_, "cannot free a block");
        }
    }

  private:
    const bench_row &row_;
    weir_host_pool *pool_ = nullptr;
};

class no_lock
{
  public:
    void lock() {}
    void unlock() {}
};

class spin_lock
{
  public:
    void lock()
    {
        while (taken_.test_and_set(std::memory_order_acquire)) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
    void unlock()
    {
        taken_.clear(std::memory_order_release);
    }

  private:
    alignas(64) std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

template <class lock> class tlsf_row
{
  public:
    using block = std::uint32_t;
    tlsf_row(const bench_row &row, std::size_t) : row_(row)
    {
        if (!tlsf_open(&tlsf_, tlsf_span_bytes, tlsf_ranges)) {
            row_failed(row, "no memory");
        }
    }
    ~tlsf_row() { tlsf_close(&tlsf_); }
    tlsf_row(const tlsf_row &) = delete;
    tlsf_row &operator=(const tlsf_row &) = delete;
    block alloc(std::size_t, std::uint64_t bytes)
    {
        lock_.lock();
        const block made = tlsf_alloc(&tlsf_, bytes);
        lock_.unlock();
        if (__builtin_expect(made == 0, 0)) {
            row_failed(row_, "a request was refused");
        }
        return made;
    }
    void free(std::size_t, block own)
    {
        lock_.lock();
        tlsf_free(&tlsf_, own);
        lock_.unlock();
    }

  private:
    /* Enough for the largest workloads: a TiB of blocks, or a million live blocks. */
    static constexpr std::uint64_t tlsf_span_bytes = std::uint64_t{1} << 40;
    static constexpr std::uint32_t tlsf_ranges = 1u << 22;
    const bench_row &row_;
    tlsf tlsf_ = {};
    lock lock_;
};

class malloc_row
{
  public:
    using block = void *;
    malloc_row(const bench_row &row, std::size_t) : row_(row)
    {
        const char *why = "";
        if (!mallocs_find(row.name, &functions_, &why)) {
            row_failed(row, why);
        }
    }
    block alloc(std::size_t, std::uint64_t bytes)
    {
        block made = functions_.alloc(bytes);
        if (__builtin_expect(made == nullptr, 0)) {
            row_failed(row_, "a request was refused");
        }
        return made;
    }
    void free(std::size_t, block own) { functions_.free(own); }

  private:
    const bench_row &row_;
    malloc_functions functions_ = {};
};

#endif
