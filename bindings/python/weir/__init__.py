"""weir: memory allocators for AI accelerators, from Python.

    Heap             host memory with a limit and statistics; its arrays are memoryviews
    Pool             device memory in stream order, over SimulatedDevice, AscendDevice or CudaDevice
    replay, frame    what other allocators would have held for a recorded program
    run              any program with a heap in the place of its malloc
    torch.enable     a heap under PyTorch on CPU

The package carries its libraries and the `weir` command. docs/python.md in the sources is the guide.
"""
from . import torch
from ._c import BusyError, DeviceError, Error, InvalidError, OutOfMemoryError, Status, UnsupportedError, lib as _lib
from ._command import Replay, Result, frame, replay, run
from ._heap import AT_ONCE, NEVER, Heap, HeapStats, Recording
from ._pool import Advice, AscendDevice, Block, CudaDevice, Device, Holder, OomRecord, Pool, PoolStats, ReservedBlock, \
    SimulatedDevice, SleepReport, Stream, TagStats

__version__: str = _lib.weir_version().decode()

__all__ = ["AT_ONCE", "NEVER", "Advice", "AscendDevice", "Block", "BusyError", "CudaDevice", "Device", "DeviceError", "Error",
           "Heap", "HeapStats", "Holder", "InvalidError", "OomRecord", "OutOfMemoryError", "Pool", "PoolStats", "Recording",
           "Replay", "ReservedBlock", "Result", "SimulatedDevice", "SleepReport", "Status", "Stream", "TagStats", "UnsupportedError", "frame", "replay", "run",
           "torch"]
