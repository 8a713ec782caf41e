"""tests/host/engines/adapters_python.py: weir_heap.py: arrays, their lives, threads, out of memory. Run with the adapter's
folder in PYTHONPATH and libweir.so in LD_LIBRARY_PATH."""
import ctypes
import gc
import threading

import weir_heap


def usable(heap, array):
    size = weir_heap._weir.weir_heap_usable_size
    size.restype = ctypes.c_size_t
    return size(heap.handle, ctypes.c_void_p(ctypes.addressof(array)))


heap = weir_heap.Heap(limit_bytes=16 << 20)
array = heap.array(100000)
assert ctypes.addressof(array) % 64 == 0 and usable(heap, array) >= 100000
view = memoryview(array).cast("B")
view[99999:] = b"\7"
for size, kind in ((64 << 20, MemoryError), (0, ValueError)):
    try:
        heap.array(size)
        raise SystemExit("no error")
    except kind as error:
        assert kind is ValueError or "a configured limit forbids it" in str(error), error


def work():
    for i in range(200):
        heap.array(1000 * (i % 40 + 1))[0] = i % 256


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
handle = heap.handle
del heap, array
gc.collect()
assert view[99999] == 7  # the view keeps the array, and the array keeps the heap
del view
gc.collect()
print("python: arrays of a heap")
