"""_heap.py: heaps of host memory. See Heap."""
import ctypes
import dataclasses
import os
import sys
import weakref
from typing import Callable, Optional, Union

from . import _c
from ._c import OutOfMemoryError, check, lib
from ._life import Life, Owner

NEVER = -1
AT_ONCE = -2


@dataclasses.dataclass(frozen=True)
class HeapStats:
    """Figures of a heap's blocks: weir_heap_stats of weir/heap.h."""
    allocs: int
    frees: int
    reallocs: int
    moves: int
    failures: int
    reclaims: int
    bad_frees: int
    live_blocks: int
    live_bytes: int
    peak_live_bytes: int
    long_lived_bytes: int
    largest_bytes: int
    held_bytes: int
    peak_held_bytes: int
    limit_bytes: int
    decayed_bytes: int
    decays: int
    decay_failures: int
    moved_bytes: int
    remade_bytes: int


def _free(life: Life, address: int) -> None:
    """Gives a block back, when nothing refers to its array any more."""
    if life._process == os.getpid():  # pylint: disable=protected-access
        lib.weir_heap_free(life.handle, address)
        life.release()


class Recording:
    """A recording in progress; the end of a `with` block, or stop(), completes the file. `lost` counts lost events."""

    def __init__(self, stop: Callable[[], int]):
        self._stop: Optional[Callable[[], int]] = stop
        self.lost = 0

    def stop(self) -> int:
        """Completes the file, and returns how many events were lost. A second call does nothing."""
        stop, self._stop = self._stop, None
        if stop is not None:
            self.lost = stop()
        return self.lost

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *unused) -> None:
        self.stop()


class Heap(Owner):
    """A heap of memory of the process: little more memory than the peak of live bytes, and a limit.

        with weir.Heap(limit_bytes=8 << 30) as heap:
            floats = heap.array(1000, "f")             # a memoryview; numpy.frombuffer(floats, "f4") shares it

    Any thread may use a heap. An array goes back to the heap when nothing refers to its memory any more, also after close().

    limit_bytes   the most bytes that the heap may hold; 0: no limit
    align         of every array, a power of two from 16 to 2 MiB
    decay_ms      idle memory goes back to the system after so long; 0: one second; weir.NEVER, weir.AT_ONCE
    decay_thread  a thread of the heap looks after idle memory, so it goes back while the program makes no call
    reclaim       called with the size of a request before it fails; returns True if it is worth another try. It may free
                  arrays. An exception in it is reported and counts as False
    name          for messages
    """

    def __init__(self, limit_bytes: int = 0, *, align: int = 64, decay_ms: int = 0, decay_thread: bool = False,
                 reclaim: Optional[Callable[[int], bool]] = None, name: str = "heap"):
        handle = ctypes.c_void_p()

        def call(_ctx, _heap, size, _attempt):
            try:
                return bool(reclaim(size))
            except BaseException:  # pylint: disable=broad-except # C code has no exceptions
                sys.excepthook(*sys.exc_info())
                return False

        callback = _c.RECLAIM(call) if reclaim is not None else _c.RECLAIM()
        config = _c.new(_c.HeapConfig, flags=4 if decay_thread else 0, align=_unsigned(align, "align"),
                        limit_bytes=_unsigned(limit_bytes, "limit_bytes"), reclaim=callback, name=name.encode(),
                        decay_ms=decay_ms)
        check(lib.weir_heap_create(ctypes.byref(config), ctypes.byref(handle)), "weir_heap_create")

        def end(heap):
            check(lib.weir_heap_destroy(heap), "weir_heap_destroy")
            del callback_kept[:]

        callback_kept = [callback]
        self._own(Life("heap", handle.value or 0, end))

    def array(self, count: int, format: str = "B", *, align: int = 0, zero: bool = False,  # pylint: disable=redefined-builtin
              long_lived: bool = False) -> memoryview:
        """Returns an array of `count` items, at least 1, of a format of the struct module ("B" bytes, "f" floats, "d"
        doubles, "i", "q" ...), as a memoryview that can be written. Its contents are undefined unless `zero`.

        long_lived: for weights and tables. They lie apart from short-lived arrays and do not fragment their memory.
        Raises OutOfMemoryError with the heap's reason."""
        count = _unsigned(count, "count")
        item = memoryview(bytearray(8)).cast(format).itemsize  # raises for a format that a memoryview cannot have
        if count == 0:
            raise _c.InvalidError("count is 0: an array has at least one item")
        size = count * item
        heap = self._life.acquire()
        try:
            allocate = lib.weir_heap_alloc_long_lived if long_lived else lib.weir_heap_alloc_aligned
            block = allocate(heap, size, _unsigned(align, "align")) if size < 1 << 63 else None
            if not block:
                raise OutOfMemoryError(self.explain().strip() or f"no memory for {size} bytes")
            array = (ctypes.c_ubyte * size).from_address(block)
            weakref.finalize(array, _free, self._life, block).atexit = False
        except BaseException:
            self._life.release()
            raise
        if zero:
            ctypes.memset(block, 0, size)
        return memoryview(array).cast("B").cast(format)

    def stats(self) -> HeapStats:
        """Returns the current figures."""
        stats = _c.new(_c.HeapStats)
        with self._life as heap:
            check(lib.weir_heap_get_stats(heap, ctypes.byref(stats)), "weir_heap_get_stats")
        return HeapStats(*(getattr(stats, field.name) for field in dataclasses.fields(HeapStats)))

    def set_limit(self, limit_bytes: int) -> None:
        """Changes the limit; 0: none. Idle memory above it goes back at once, live arrays stay."""
        with self._life as heap:
            check(lib.weir_heap_set_limit(heap, _unsigned(limit_bytes, "limit_bytes")), "weir_heap_set_limit")

    def trim(self, keep_bytes: int = 0) -> int:
        """Gives idle memory back until at most `keep_bytes` are held. Returns the bytes given back."""
        released = ctypes.c_uint64()
        with self._life as heap:
            check(lib.weir_heap_trim(heap, _unsigned(keep_bytes, "keep_bytes"), ctypes.byref(released)), "weir_heap_trim")
        return released.value

    def explain(self) -> str:
        """Returns why the last failed request failed; "" if none has."""
        with self._life as heap:
            return _c.text_of(lambda text, size: lib.weir_heap_explain(heap, text, size))

    def check(self) -> None:
        """Checks the invariants. Raises Error if one is broken."""
        why = ctypes.c_char_p()
        with self._life as heap:
            status = lib.weir_heap_check(heap, ctypes.byref(why))
        check(status, "weir_heap_check", (lambda: why.value) if why.value else None)

    def record(self, path: Union[str, "os.PathLike[str]"], source: str = "python") -> Recording:
        """Records every request to a trace (.wtr) until the end of the `with` block:

            with heap.record("run.wtr"):
                ...
            weir.replay("run.wtr")
        """
        recorder = ctypes.c_void_p()
        heap = self._life.acquire()
        try:
            _open_recorder(lib.weir_recorder_create_file(os.fsencode(path), source.encode(), ctypes.byref(recorder)), path)
            status = lib.weir_heap_record(heap, recorder)
            if status != 0:
                lib.weir_recorder_stop(recorder, None)
                check(status, "weir_heap_record")
        except BaseException:
            self._life.release()
            raise

        def stop() -> int:
            lost = ctypes.c_uint64()
            try:
                check(lib.weir_heap_record(heap, None), "weir_heap_record")
                check(lib.weir_recorder_stop(recorder, ctypes.byref(lost)), "weir_recorder_stop")
            finally:
                self._life.release()
            return lost.value

        return Recording(stop)


def _open_recorder(status: int, path) -> None:
    """Raises OSError if the file of a recording cannot be opened."""
    if status == _c.Status.DEVICE:
        raise OSError(ctypes.get_errno() or 5, "the recording cannot be opened", os.fspath(path))
    check(status, "weir_recorder_create_file")


def _unsigned(number: int, name: str) -> int:
    """Refuses a number that ctypes would cut off."""
    if not isinstance(number, int):
        raise TypeError(f"{name} is a whole number, not {type(number).__name__}")
    if not 0 <= number < 1 << 64:
        raise _c.InvalidError(f"{name} {number} is not from 0 to 2^64 - 1")
    return number
