"""weir.torch: a weir heap under PyTorch's tensors on the CPU.

    import weir
    heap = weir.torch.enable()          # once, best before the first tensor
    ...
    print(heap.stats().peak_held_bytes)

PyTorch takes an allocator in C++, so there is a small library for each release of it: build() compiles it where a C++ compiler
and PyTorch's headers are. For devices PyTorch has a pluggable allocator of its own: libweir_torch.so and libweir_torch_cuda.so.
"""
import ctypes
import os
import shutil
import subprocess
from typing import List, Optional

from . import _c
from ._heap import Heap

_heap: Optional[Heap] = None

_SOURCE = """#include "weir_c10.hpp"
extern "C" __attribute__((visibility("default"))) void weir_c10_install(weir_heap *heap)
{
    weir::c10_allocator::install(heap);
}
"""


def _torch():
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError as why:
        raise _c.UnsupportedError(f"PyTorch is not installed: {why}") from why
    return torch


def library(folder: Optional[str] = None) -> str:
    """Returns the path at which build() puts the library for the installed PyTorch: in `folder`, or in the user's cache."""
    version = _torch().__version__.replace("+", "_").replace("/", "_")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(folder or os.path.join(cache, "weir"), f"libweir_c10-{_c.lib.weir_version().decode()}-torch-{version}.so")


def build(folder: Optional[str] = None, *, include: Optional[List[str]] = None) -> str:
    """Compiles the library for the installed PyTorch, and returns its path. `include`: folders with PyTorch's headers, if it
    does not bring them. Raises UnsupportedError if there is no compiler, and Error with its messages if it fails."""
    torch = _torch()
    from torch.utils import cpp_extension  # pylint: disable=import-outside-toplevel

    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise _c.UnsupportedError("no C++ compiler: install g++, or run the program with `weir run -- python3 ...`")
    path = library(folder)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    headers = [*(include or cpp_extension.include_paths()), os.path.join(_c.PREFIX, "include"),
               os.path.join(_c.PREFIX, "share", "weir")]
    partial = f"{path}.{os.getpid()}"
    command = [*compiler.split(), "-std=c++17", "-O2", "-fPIC", "-shared", "-x", "c++", "-", "-o", partial,
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",  # pylint: disable=protected-access
               *(word for header in headers for word in ("-isystem", header)),
               *(f"-L{folder}" for folder in cpp_extension.library_paths()), f"-L{_c.LIBRARIES}", "-l:libweir.so.0.1", "-lc10",
               f"-Wl,-rpath,{_c.LIBRARIES}"]
    done = subprocess.run(command, input=_SOURCE, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise _c.Error(f"{command[0]} cannot build the library for torch {torch.__version__}:\n{done.stderr[-2000:]}")
    os.replace(partial, path)
    return path


def enable(limit_bytes: int = 0, *, folder: Optional[str] = None, decay_thread: bool = False) -> Heap:
    """Gives PyTorch's tensors on the CPU memory of a heap, from the next tensor on and until the process ends. Returns the
    heap; a second call returns the same one. At the limit PyTorch raises RuntimeError with the heap's reason.

    Raises UnsupportedError if build() has not been called for the installed PyTorch."""
    global _heap  # pylint: disable=global-statement
    if _heap is not None:
        return _heap
    path = library(folder)
    if not os.path.exists(path):
        raise _c.UnsupportedError(f"no library for torch {_torch().__version__}: weir.torch.build() compiles {path}; "
                                  "`weir run -- python3 ...` needs none")
    adapter = ctypes.CDLL(path)
    adapter.weir_c10_install.argtypes = [ctypes.c_void_p]
    adapter.weir_c10_install.restype = None
    heap = Heap(limit_bytes, name="torch", decay_thread=decay_thread)
    adapter.weir_c10_install(heap._life.acquire())  # pylint: disable=protected-access # never released: PyTorch keeps the heap
    _heap = heap
    return heap
