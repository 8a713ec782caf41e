"""Arrays of a heap: within a limit, with the reason where one does not fit."""
import weir

with weir.Heap(limit_bytes=64 << 20, name="activations") as heap:
    weights = heap.array(1_000_000, "f", zero=True, long_lived=True)
    weights[7] = 0.5
    for step in range(100):
        layer = heap.array(250_000 + 10_000 * (step % 7), "f")
        layer[0] = weights[7] * step
    del layer
    stats = heap.stats()
    print(f"{stats.allocs} arrays, {stats.peak_held_bytes >> 20} MiB held at the peak")
    try:
        heap.array(100 << 20)
    except weir.OutOfMemoryError as refused:
        print(refused)
print(weights[7])  # an array outlives the `with` block
