/* google.h: what the Google Benchmark programs share: their defaults, and a row for what is absent. C++. */
#ifndef WEIR_BENCHMARKS_GOOGLE_H
#define WEIR_BENCHMARKS_GOOGLE_H

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "micro/bench.h"

/* A row that says why it has no figures. */
inline void enter_absent(const std::string &name, const std::string &why)
{
    benchmark::RegisterBenchmark(
        name.c_str(), [why](benchmark::State &state) { state.SkipWithError(why.c_str()); });
}

/* What main does: `defaults` stand in front of the user's own words, of which the last counts. `enter` registers. */
inline int run_benchmarks(int count, char **arguments, std::vector<std::string> defaults,
                          void (*enter)())
{
    bench_mallocs_prepare(arguments);
    bench_second_thread();
    std::vector<char *> words = {arguments[0]};
    for (auto &word : defaults) {
        words.push_back(word.data());
    }
    words.insert(words.end(), arguments + 1, arguments + count);
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
