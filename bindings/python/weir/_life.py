"""_life.py: how long the C object behind a Python object lives.

An object is closed by close(), by the end of its `with` block, or when Python collects it. From then on it takes no new calls.
Its C object ends when the last call, block, array or dependent object that uses it is gone: so closing never pulls memory from
under another thread or a memoryview, and never waits. Nothing is ended at the interpreter's exit: the process's end frees all
memory, and threads may still run. In a child of fork nothing is called: there the C library allows no more than to leave the
objects alone.
"""
import os
import threading
import weakref
from typing import Callable, Optional

from ._c import InvalidError


class Life:
    """The C object: its handle, the number of its users, and its end."""

    def __init__(self, what: str, handle: int, end: Callable[[int], None], parent: "Optional[Life]" = None):
        self.what = what
        self.handle = handle
        self._end = end
        self._parent = parent
        self._lock = threading.RLock()  # the collector may end another user in the middle
        self._users = 0
        self._closed = False
        self._process = os.getpid()
        if parent is not None:
            parent.acquire()

    def acquire(self) -> int:
        """Begins a use. Returns the handle. Raises InvalidError if the object is closed or belongs to another process."""
        if self._process != os.getpid():
            raise InvalidError(f"this {self.what} was made by process {self._process}, before a fork: make one in this process")
        with self._lock:
            if self._closed:
                raise InvalidError(f"this {self.what} is closed")
            self._users += 1
        return self.handle

    def release(self) -> None:
        """Ends a use."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._users -= 1
            is_last = self._closed and self._users == 0
        if is_last:
            self._finish()

    def close(self) -> None:
        """Takes no new calls. Ends the C object if nothing uses it."""
        if self._process != os.getpid():
            return
        with self._lock:
            ends = not self._closed and self._users == 0
            self._closed = True
        if ends:
            self._finish()

    def _finish(self) -> None:
        try:
            self._end(self.handle)
        finally:
            if self._parent is not None:
                self._parent.release()

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *unused) -> None:
        self.release()

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._closed


class Owner:
    """A Python object with a C object of its own."""

    _life: Life

    def _own(self, life: Life) -> None:
        self._life = life
        weakref.finalize(self, _collect, life).atexit = False

    def close(self) -> None:
        """Takes no new calls. The memory goes back when nothing uses it any more. A second call does nothing."""
        self._life.close()

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._life.closed

    def __enter__(self):
        if self._life.closed:
            raise InvalidError(f"this {self._life.what} is closed")
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._life.closed else f"at 0x{self._life.handle:x}"
        return f"<weir.{type(self).__name__} {state}>"


def _collect(life: Life) -> None:
    try:
        life.close()
    except Exception:  # pylint: disable=broad-except # the collector has no caller
        pass
