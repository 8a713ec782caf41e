"""weir_heap.py: a weir heap from Python, through ctypes. For arrays that a program fills itself.

    heap = weir_heap.Heap(limit_bytes=8 << 30)
    floats = numpy.frombuffer(heap.array(4 * count), dtype=numpy.float32)

An array is a ctypes array of bytes; its block goes back to the heap when the array and all objects that use its memory are
gone. The heap lives as long as any of its arrays. Out of memory: MemoryError with the heap's reason. Any thread may use a
heap.
"""
import ctypes
import ctypes.util
import weakref

_weir = ctypes.CDLL(ctypes.util.find_library("weir") or "libweir.so")
_weir.weir_heap_alloc_aligned.restype = ctypes.c_void_p
_weir.weir_heap_alloc_aligned.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
_weir.weir_heap_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_weir.weir_heap_explain.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
_weir.weir_heap_set_limit.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
_weir.weir_heap_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_weir.weir_heap_destroy.argtypes = [ctypes.c_void_p]
_weir.weir_last_error.restype = ctypes.c_char_p


class Heap:
    def __init__(self, limit_bytes=0):
        self.handle = ctypes.c_void_p()
        if _weir.weir_heap_create(None, ctypes.byref(self.handle)) != 0:
            raise MemoryError(_weir.weir_last_error().decode())
        weakref.finalize(self, _weir.weir_heap_destroy, self.handle)
        _weir.weir_heap_set_limit(self.handle, limit_bytes)

    def array(self, size):
        """Returns `size` bytes, at least 1, contents undefined, at a multiple of 64."""
        if size < 1:
            raise ValueError("an array needs at least one byte")
        block = _weir.weir_heap_alloc_aligned(self.handle, size, 64)
        if not block:
            reason = ctypes.create_string_buffer(1024)
            _weir.weir_heap_explain(self.handle, reason, len(reason))
            raise MemoryError(reason.value.decode())
        array = (ctypes.c_ubyte * size).from_address(block)
        weakref.finalize(array, self._free, block)  # refers to the heap, so the heap outlives the array
        return array

    def _free(self, block):
        _weir.weir_heap_free(self.handle, block)
