/* google.h: code that the Google Benchmark programs share: defaults, counting instructions, rows without figures. C++.
 *
 *     --pairs=N    plays N pairs once, for callgrind. The names of the functions with the measured loops begin with
 *                  `measured_`, for callgrind's --toggle-collect.
 */
#ifndef WEIR_BENCHMARKS_GOOGLE_H
#define WEIR_BENCHMARKS_GOOGLE_H

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "micro/bench.h"

/* Value of --pairs; 0: not given. */
inline std::int64_t fixed_pairs = 0;

/* Adds a row that has no figures but the reason for that. */
inline void enter_absent(const std::string &name, const std::string &why)
{
    benchmark::RegisterBenchmark(name.c_str(), [why](benchmark::State &state) { state.SkipWithError(why.c_str()); });
}

/* Applies --pairs to an entry. */
inline benchmark::internal::Benchmark *finish_entry(benchmark::internal::Benchmark *entry)
{
    return fixed_pairs > 0 ? entry->Iterations(fixed_pairs) : entry;
}

/* Runs the benchmarks; returns the exit status for main. `defaults` are put before the user's arguments, so that the
 * user's override them. `enter` registers the benchmarks. */
inline int run_benchmarks(int count, char **arguments, std::vector<std::string> defaults, void (*enter)())
{
    static const std::string pairs = "--pairs=";
    mallocs_prepare(arguments);
    bench_second_thread();
    std::vector<char *> words = {arguments[0]};
    for (auto &word : defaults) {
        words.push_back(word.data());
    }
    for (int i = 1; i < count; i++) {
        if (std::string(arguments[i]).rfind(pairs, 0) == 0) {
            fixed_pairs = std::atoll(arguments[i] + pairs.size());
        } else {
            words.push_back(arguments[i]);
        }
    }
    int word_count = static_cast<int>(words.size());
    words.push_back(nullptr);
    benchmark::Initialize(&word_count, words.data());
    if (benchmark::ReportUnrecognizedArguments(word_count, words.data())) {
        return 1;
    }
    enter();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}

#endif
