// tests/host/unit/heap_pmr_test.cc: a heap as a std::pmr::memory_resource.
#include <weir/pmr.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace
{

int failures;

void expect(bool fine, const char *what)
{
    if (!fine) {
        static_cast<void>(std::fprintf(stderr, "%s\n", what));
        failures++;
    }
}

weir_heap_stats stats_of(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    expect(weir_heap_get_stats(heap, &stats) == WEIR_OK, "no statistics");
    return stats;
}

void containers(weir_heap *heap)
{
    weir::heap_resource resource(heap);
    {
        std::pmr::vector<double> numbers(&resource);
        for (int i = 0; i < 100000; i++) {
            numbers.push_back(i);
        }
        std::pmr::map<int, std::pmr::string> names(&resource);
        for (int i = 0; i < 1000; i++) {
            names.emplace(i, std::string(100, static_cast<char>('a' + i % 26)).c_str());
        }
        expect(stats_of(heap).live_blocks == 1 + 2 * 1000, "a vector, 1000 nodes and 1000 strings");
        expect(numbers[77777] == 77777 && names.at(25)[99] == 'z', "containers keep what they hold");
    }
    expect(stats_of(heap).live_bytes == 0, "containers give everything back");
}

void alignment_and_equality(weir_heap *heap, weir_heap *other)
{
    weir::heap_resource first(heap);
    weir::heap_resource second(heap);
    weir::heap_resource third(other);
    expect(first.is_equal(second) && !first.is_equal(third), "resources are equal by their heap");
    expect(!first.is_equal(*std::pmr::new_delete_resource()), "and to no other kind");
    expect(first.heap() == heap, "a resource knows its heap");
    for (std::size_t align = 1; align <= 4096; align *= 2) {
        void *block = first.allocate(1000, align);
        expect(reinterpret_cast<std::uintptr_t>(block) % align == 0, "blocks are aligned");
        second.deallocate(block, 1000, align);
    }
    void *nothing = first.allocate(0, 1);
    void *no_less = first.allocate(0, 1);
    expect(nothing != nullptr && nothing != no_less, "of size 0 each block is its own");
    first.deallocate(nothing, 0, 1);
    first.deallocate(no_less, 0, 1);
    expect(stats_of(heap).live_bytes == 0, "and is given back");
}

void failure()
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = 1 << 20;
    weir_heap *heap = nullptr;
    expect(weir_heap_create(&config, &heap) == WEIR_OK, "no heap");
    weir::heap_resource resource(heap);
    bool thrown = false;
    try {
        std::pmr::vector<char> large(2 << 20, &resource);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    expect(thrown && stats_of(heap).failures == 1, "out of memory is std::bad_alloc");
    std::pmr::vector<char> little(1000, &resource);
    expect(little.size() == 1000, "and what is there is given");
    little = std::pmr::vector<char>(&resource);
    little.shrink_to_fit();
    expect(weir_heap_destroy(heap) == WEIR_OK, "the heap ends");
}

} // namespace

int main()
{
    weir_heap *heap = nullptr;
    weir_heap *other = nullptr;
    if (weir_heap_create(nullptr, &heap) != WEIR_OK || weir_heap_create(nullptr, &other) != WEIR_OK) {
        return 1;
    }
    containers(heap);
    alignment_and_equality(heap, other);
    failure();
    expect(weir_heap_destroy(heap) == WEIR_OK && weir_heap_destroy(other) == WEIR_OK, "the heaps end");
    return failures == 0 ? 0 : 1;
}
