"""Records a heap, and compares the allocators that could have served it."""
import weir

with weir.Heap() as heap, heap.record("run.wtr"):
    for step in range(50):
        arrays = [heap.array(100_000 * (1 + (step + i) % 5)) for i in range(10)]
    del arrays

run = weir.replay("run.wtr", strategies=["caching", "pytorch", "direct"])[0]
for result in run.results:
    print(f"{result.strategy:8} {result.peak_reserved_bytes / run.peak_live_bytes:5.2f} {result.device_calls:5} device calls")
