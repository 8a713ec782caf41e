"""_pool.py: devices, pools and blocks. See Pool."""
import ctypes
import dataclasses
import os
import sys
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from . import _c
from ._c import OutOfMemoryError, check, lib
from ._heap import Recording, _open_recorder, _unsigned
from ._life import Life, Owner

_STRATEGIES = {"caching": lib.weir_caching_strategy, "size_class": lib.weir_size_class_strategy, "bump": lib.weir_bump_strategy}
_GROWTHS = {"balanced": 0, "grow_first": 1, "wait_first": 2}
_ADVICE = ("raise_limit", "device_room", "free_blocks", "wait", "ask_less", "end_graph", "unpin")


# --- devices ---


class Device(Owner):
    """A device: memory, streams and their order."""

    def _error(self) -> bytes:
        return _c.sentence_of(lambda code, text: lib.weir_device_error(self._life.handle, code, text))


class SimulatedDevice(Device):
    """A simulated device in this process, in virtual time, whose auditor finds races, early reuse and leaks.

    capacity_bytes   memory of the device; 0: 64 GiB, or 1 GiB with `backed`
    backed           the memory has real bytes; else it has addresses only
    virtual_memory   the device can map memory
    """

    def __init__(self, capacity_bytes: int = 0, *, backed: bool = False, virtual_memory: bool = True, audit: bool = True):
        sim = ctypes.c_void_p()
        config = _c.new(_c.SimConfig, mode=int(backed), capacity_bytes=_unsigned(capacity_bytes, "capacity_bytes"),
                        no_virtual_memory=not virtual_memory, no_audit=not audit)
        check(lib.weir_sim_create(ctypes.byref(config), ctypes.byref(sim)), "weir_sim_create")
        self._sim = sim.value or 0
        self._own(Life("device", lib.weir_sim_device(sim), _destroy_device))

    def stream(self) -> int:
        """Creates a stream, and returns its handle for Pool.stream. It lives as long as the device."""
        stream = ctypes.c_void_p()
        with self._life:
            check(lib.weir_sim_stream_create(self._sim, ctypes.byref(stream)), "weir_sim_stream_create")
        return stream.value or 0

    def fill(self, address: int, size: int, value: int = 0, stream: Optional[int] = None, what: str = "fill") -> None:
        """Queues a fill on a stream (None: the default one). It runs when virtual time gets there: sync()."""
        with self._life:
            check(lib.weir_sim_fill(self._sim, stream, address, _unsigned(size, "size"), value & 255, what.encode()),
                  "weir_sim_fill")

    def copy(self, to: int, source: int, size: int, stream: Optional[int] = None, what: str = "copy") -> None:
        """Queues a copy between two ranges of the device."""
        with self._life:
            check(lib.weir_sim_copy(self._sim, stream, to, source, _unsigned(size, "size"), what.encode()), "weir_sim_copy")

    def sync(self) -> None:
        """Lets all queued work run."""
        with self._life:
            check(lib.weir_sim_sync(self._sim), "weir_sim_sync")

    def bytes(self, address: int, size: int) -> bytes:
        """Returns a copy of the bytes at an address of a backed device."""
        with self._life:
            at = lib.weir_sim_bytes(self._sim, address, size)
            if not at:
                raise _c.InvalidError(f"there are no {size} bytes at 0x{address:x}")
            return ctypes.string_at(at, size)

    def findings(self) -> List[str]:
        """Returns the auditor's findings, each a sentence."""
        found = []
        finding = _c.SimFinding()
        with self._life:
            while lib.weir_sim_finding_at(self._sim, len(found), ctypes.byref(finding)):
                found.append(finding.text.decode(errors="replace"))
        return found


class AscendDevice(Device):
    """An Ascend device by its number, over the ACL runtime of CANN. Raises UnsupportedError where that is not installed."""

    def __init__(self, device_id: int = 0, *, virtual_memory: bool = True):
        device = ctypes.c_void_p()
        acl = _c.load_acl()
        config = _c.new(_c.AclDeviceConfig, device_id=device_id, flags=0 if virtual_memory else 1)
        check(acl.weir_acl_device_create(ctypes.byref(config), ctypes.byref(device)), "weir_acl_device_create",
              lambda: _c.sentence_of(acl.weir_acl_error))
        self._own(Life("device", device.value or 0, _destroy_device))


class CudaDevice(Device):
    """An NVIDIA GPU by its number, over the CUDA driver. Raises UnsupportedError where there is none."""

    def __init__(self, ordinal: int = 0, *, virtual_memory: bool = True):
        device = ctypes.c_void_p()
        cuda = _c.load_cuda()
        config = _c.new(_c.CudaDeviceConfig, ordinal=ordinal, flags=0 if virtual_memory else 1)
        check(cuda.weir_cuda_device_create(ctypes.byref(config), ctypes.byref(device)), "weir_cuda_device_create",
              lambda: _c.sentence_of(cuda.weir_cuda_error))
        self._own(Life("device", device.value or 0, _destroy_device))


def _destroy_device(device: int) -> None:
    check(lib.weir_device_destroy(device), "weir_device_destroy")


# --- records ---


@dataclasses.dataclass(frozen=True)
class PoolStats:
    """Figures of a pool: weir_pool_stats of weir/pool.h. `served` counts requests by the way that served them, `sizes` by
    the power of two of their size."""
    allocs: int
    frees: int
    failures: int
    requested_bytes: int
    live_bytes: int
    cached_bytes: int
    pending_bytes: int
    free_bytes: int
    reserved_bytes: int
    peak_requested_bytes: int
    peak_live_bytes: int
    peak_reserved_bytes: int
    largest_free_bytes: int
    external_fragmentation: float
    regions: int
    streams: int
    served: Dict[str, int]
    waits: int
    syncs: int
    events_recorded: int
    region_allocs: int
    region_frees: int
    device_failures: int
    device_ns: int
    sizes: Dict[int, int]
    vm_creates: int
    vm_destroys: int
    vm_maps: int
    vm_unmaps: int
    vm_moved_bytes: int
    limit_bytes: int
    soft_limit_bytes: int
    soft_limit_growths: int
    pressure_calls: int
    tags: int
    pinned_bytes: int
    uncommitted_bytes: int


@dataclasses.dataclass(frozen=True)
class SleepReport:
    """The work of Pool.sleep or Pool.wake; docs of the members are in weir/sleep.h."""
    blocks: int
    bytes: int
    device_bytes: int
    host_bytes: int
    kept_bytes: int
    asleep_blocks: int
    asleep_bytes: int
    left_bytes: int
    copies: int
    copied_bytes: int
    waits: int
    missing_bytes: int
    others_bytes: int


def _sleep_report(report: _c.SleepReport) -> SleepReport:
    return SleepReport(*(getattr(report, field.name) for field in dataclasses.fields(SleepReport)))


@dataclasses.dataclass(frozen=True)
class TagStats:
    """Figures of the blocks of one tag."""
    allocs: int
    frees: int
    blocks: int
    requested_bytes: int
    peak_requested_bytes: int


@dataclasses.dataclass(frozen=True)
class Holder:
    """The live blocks of one tag."""
    name: str
    requested_bytes: int
    blocks: int


@dataclasses.dataclass(frozen=True)
class Advice:
    """A change that would have made the request succeed. `kind`: raise_limit, device_room, free_blocks, wait, ask_less,
    end_graph or unpin."""
    kind: str
    bytes: int
    blocks: int
    address: int
    size: int
    stream: int


@dataclasses.dataclass(frozen=True)
class OomRecord:
    """Why a request failed. `text` is the cause in a sentence, `report` the whole report."""
    size: int
    tag: str
    limit_bytes: int
    reserved_bytes: int
    requested_bytes: int
    live_bytes: int
    free_bytes: int
    largest_free_bytes: int
    usable_bytes: int
    text: str
    report: str
    holders: Tuple[Holder, ...]
    advice: Tuple[Advice, ...]


def _oom_record(record: _c.OomRecord) -> OomRecord:
    same = ("size", "limit_bytes", "reserved_bytes", "requested_bytes", "live_bytes", "free_bytes", "largest_free_bytes",
            "usable_bytes")
    return OomRecord(
        **{name: getattr(record, name) for name in same}, tag=record.tag_name.decode(errors="replace"),
        text=record.text.decode(errors="replace"),
        report=_c.text_of(lambda text, size: lib.weir_oom_explain(ctypes.byref(record), text, size)),
        holders=tuple(Holder(h.name.decode(errors="replace"), h.requested_bytes, h.blocks)
                      for h in record.holders[:record.holder_count]),
        advice=tuple(Advice(_ADVICE[a.kind] if a.kind < len(_ADVICE) else str(a.kind), a.bytes, a.blocks, a.address, a.size,
                            a.stream) for a in record.advice[:record.advice_count]))


# --- pools ---


class Stream:
    """A pool's handle of a stream. It lives as long as the pool, or until retire()."""

    def __init__(self, pool: "Pool", handle: int, native: Optional[int]):
        self.pool = pool
        self.native = native
        self._handle = handle

    def retire(self) -> None:
        """Waits for the stream's work and forgets the stream. Call it before the vendor's stream is destroyed."""
        with self.pool._life as pool:  # pylint: disable=protected-access
            check(lib.weir_stream_retire(pool, self._handle), "weir_stream_retire")
            self.pool._streams.pop(self.native, None)  # pylint: disable=protected-access
        self._handle = 0

    def synced(self) -> None:
        """Tells the pool that the host has waited for all work queued on the stream."""
        with self.pool._life as pool:  # pylint: disable=protected-access
            check(lib.weir_stream_synced(pool, self._handle), "weir_stream_synced")


class Block:
    """A block of a pool: address, size and the stream of its alloc. free(), the end of a `with` block, or Python's collector
    frees it in the order of that stream; work of other streams is announced by use()."""

    def __init__(self, stream: Stream, handle: int, size: int, tag: Optional[str]):
        self.stream = stream
        self.size = size
        self.tag = tag
        self.address: int = lib.weir_block_address(handle)
        self.capacity: int = lib.weir_block_capacity(handle)
        self._handle = handle
        self._end = weakref.finalize(self, _free_block, stream.pool._life, handle, [stream])  # pylint: disable=protected-access
        self._end.atexit = False

    @property
    def freed(self) -> bool:
        """True after free()."""
        return not self._end.alive

    @property
    def asleep(self) -> bool:
        """True while the block sleeps (Pool.sleep): it has no memory."""
        if self.freed:
            raise _c.InvalidError("this block is freed")
        with self.stream.pool._life:  # pylint: disable=protected-access
            return bool(lib.weir_block_is_asleep(self._handle))

    def use(self, stream: Stream) -> None:
        """States that another stream touches the block too, before it is freed."""
        if self.freed:
            raise _c.InvalidError("this block is freed")
        with self.stream.pool._life as pool:  # pylint: disable=protected-access
            check(lib.weir_pool_use(pool, self._handle, stream._handle), "weir_pool_use")  # pylint: disable=protected-access

    def free(self, stream: Optional[Stream] = None) -> None:
        """Frees the block in the order of `stream` (None: that of the alloc): work queued on it so far may still use the
        block. Never waits. Raises InvalidError if the block is free already."""
        found = self._end.detach()  # of two threads, one gets it
        if found is None:
            raise _c.InvalidError("this block is freed")
        life = self.stream.pool._life  # pylint: disable=protected-access
        status = _free_block(life, self._handle, [stream or self.stream])
        check(status, "weir_pool_free")

    def __enter__(self) -> "Block":
        return self

    def __exit__(self, *unused) -> None:
        if not self.freed:
            self.free()

    def __repr__(self) -> str:
        return f"<weir.Block of {self.size} bytes {'freed' if self.freed else f'at 0x{self.address:x}'}>"


class ReservedBlock(Block):
    """A block of addresses (Pool.reserve), of which parts have memory. `unit` divides each offset and each size."""

    def __init__(self, stream: Stream, handle: int, size: int, tag: Optional[str]):
        super().__init__(stream, handle, size, tag)
        self.unit = self._info().unit_bytes

    def _info(self) -> _c.ReserveInfo:
        if self.freed:
            raise _c.InvalidError("this block is freed")
        info = _c.new(_c.ReserveInfo)
        with self.stream.pool._life as pool:  # pylint: disable=protected-access
            check(lib.weir_pool_get_reserve(pool, self._handle, ctypes.byref(info)), "weir_pool_get_reserve")
        return info

    @property
    def committed_bytes(self) -> int:
        """Bytes that have memory."""
        return self._info().committed_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes that were decommitted, and are still with the pool because work may use them."""
        return self._info().pending_bytes

    def commit(self, offset: int, size: int, stream: Optional[Stream] = None) -> None:
        """Puts memory under a part, for work that will be queued on `stream` (None: that of the block). Raises
        OutOfMemoryError, and has changed nothing then."""
        self._part(lib.weir_pool_commit, "weir_pool_commit", offset, size, stream)

    def decommit(self, offset: int, size: int, stream: Optional[Stream] = None) -> None:
        """Gives the memory of a part back, in the order of `stream`: work queued on it so far may still use it."""
        self._part(lib.weir_pool_decommit, "weir_pool_decommit", offset, size, stream)

    def _part(self, call, what: str, offset: int, size: int, stream: Optional[Stream]) -> None:
        if self.freed:
            raise _c.InvalidError("this block is freed")
        of = self.stream.pool
        stream = stream or self.stream
        with of._life as pool:  # pylint: disable=protected-access
            status = call(pool, self._handle, _unsigned(offset, "offset"), _unsigned(size, "size"),
                          stream._handle)  # pylint: disable=protected-access
        if status == _c.Status.NO_MEMORY:
            record = of.oom()
            raise OutOfMemoryError(record.report.strip() if record else f"no memory for {size} bytes", record)
        check(status, what, of.device._error if status == _c.Status.DEVICE else None)  # pylint: disable=protected-access

    def committed(self) -> List[Tuple[int, int]]:
        """Returns the parts that have memory: their offsets and sizes."""
        found: List[Tuple[int, int]] = []
        offset, size = ctypes.c_uint64(0), ctypes.c_uint64(1)
        if self.freed:
            raise _c.InvalidError("this block is freed")
        while size.value != 0:
            start = offset.value + size.value if found else 0
            with self.stream.pool._life as pool:  # pylint: disable=protected-access
                check(lib.weir_pool_find_committed(pool, self._handle, start, ctypes.byref(offset), ctypes.byref(size)),
                      "weir_pool_find_committed")
            if size.value != 0:
                found.append((offset.value, size.value))
        return found


def _free_block(life: Life, handle: int, streams: List[Stream]) -> int:
    if life._process != os.getpid():  # pylint: disable=protected-access
        return 0
    status = lib.weir_pool_free(life.handle, handle, streams[0]._handle)  # pylint: disable=protected-access
    life.release()
    return status


class Pool(Owner):
    """A pool of device memory in stream order.

        device = weir.SimulatedDevice()
        with weir.Pool(device, limit_bytes=1 << 30) as pool:
            block = pool.alloc(3 << 20, tag="activations")
            ...                                        # queue work that uses block.address
            block.free()                               # at once: reuse waits for the work

    strategy            "caching", "size_class" or "bump"
    limit_bytes         the most bytes that the pool may reserve; 0: no limit
    soft_limit_bytes    above it the pool first waits, returns idle memory, and calls on_pressure
    growth              "balanced", "grow_first" or "wait_first"
    virtual_memory      False: regions of the device in the place of mapped memory
    on_oom              called with an OomRecord before a request fails; returns True for another try
    on_pressure         called with the bytes above the soft limit; returns True for another try. An exception in either is
                        reported and counts as False
    """

    def __init__(self, device: Device, strategy: str = "caching", *, limit_bytes: int = 0, soft_limit_bytes: int = 0,
                 growth: str = "balanced", virtual_memory: bool = True, front_cache: bool = True,
                 on_oom: Optional[Callable[[OomRecord], bool]] = None, on_pressure: Optional[Callable[[int], bool]] = None):
        for word, words, name in ((strategy, _STRATEGIES, "strategy"), (growth, _GROWTHS, "growth")):
            if word not in words:
                raise _c.InvalidError(f"{name} {word!r}: it is {', '.join(words)}")
        if not isinstance(device, Device):
            raise TypeError(f"device is a weir.Device, not {type(device).__name__}")
        oom = _c.OOM_CALLBACK(_oom_caller(on_oom)) if on_oom is not None else _c.OOM_CALLBACK()
        pressure = _c.PRESSURE_CALLBACK(_pressure_caller(on_pressure)) if on_pressure is not None else _c.PRESSURE_CALLBACK()
        handle = ctypes.c_void_p()
        with device._life as native:  # pylint: disable=protected-access
            config = _c.new(_c.PoolConfig, device=native, strategy=_STRATEGIES[strategy](), growth=_GROWTHS[growth],
                            limit_bytes=_unsigned(limit_bytes, "limit_bytes"),
                            soft_limit_bytes=_unsigned(soft_limit_bytes, "soft_limit_bytes"), oom_callback=oom,
                            pressure_callback=pressure, flags=(0 if front_cache else 2) | (0 if virtual_memory else 8))
            check(lib.weir_pool_create(ctypes.byref(config), ctypes.byref(handle)), "weir_pool_create")
            kept: List[Any] = [oom, pressure]

            def end(pool):
                check(lib.weir_pool_destroy(pool), "weir_pool_destroy")
                del kept[:]

            self._own(Life("pool", handle.value or 0, end, device._life))  # pylint: disable=protected-access
        self.device = device
        self._streams: Dict[Optional[int], Stream] = {}
        self._tags: Dict[str, int] = {}

    def stream(self, native: Optional[int] = None) -> Stream:
        """Returns the pool's handle of a vendor's stream (None: the default stream), the same one every time."""
        known = self._streams.get(native)
        if known is not None:
            return known
        stream = ctypes.c_void_p()
        with self._life as pool:
            check(lib.weir_pool_stream(pool, native, ctypes.byref(stream)), "weir_pool_stream")
        return self._streams.setdefault(native, Stream(self, stream.value or 0, native))

    def _tag(self, name: Optional[str]) -> int:
        if name is None:
            return 0
        known = self._tags.get(name)
        if known is None:
            tag = ctypes.c_uint32()
            with self._life as pool:
                check(lib.weir_pool_tag(pool, name.encode(), ctypes.byref(tag)), "weir_pool_tag")
            known = self._tags[name] = tag.value
        return known

    def _numbered(self, name: str) -> int:
        """Returns the number of a tag; 0 for "untagged", as tags() names blocks without a tag."""
        return 0 if name == "untagged" else self._tag(name)

    def alloc(self, size: int, stream: Optional[Stream] = None, *, align: int = 0, tag: Optional[str] = None) -> Block:
        """Returns a block of `size` bytes, for work that will be queued on `stream` (None: the default stream). `tag` names
        its user in reports. Raises OutOfMemoryError, whose record has the holders and what would have helped."""
        stream = stream or self.stream()
        number = self._tag(tag)
        block = ctypes.c_void_p()
        pool = self._life.acquire()
        try:
            status = lib.weir_pool_alloc_tagged(pool, stream._handle, _unsigned(size, "size"),  # pylint: disable=protected-access
                                                _unsigned(align, "align"), number, ctypes.byref(block))
            if status in (_c.Status.NO_MEMORY, _c.Status.LIMIT):
                record = self.oom()
                raise OutOfMemoryError(record.report.strip() if record else f"no memory for {size} bytes", record)
            check(status, "weir_pool_alloc", self.device._error if status == _c.Status.DEVICE else None)  # pylint: disable=protected-access
            return Block(stream, block.value or 0, size, tag)
        except BaseException:
            self._life.release()
            raise

    def reserve(self, size: int, stream: Optional[Stream] = None, *, unit: int = 0, tag: Optional[str] = None) -> ReservedBlock:
        """Returns a block of addresses without memory: commit() puts memory under parts of it, in units of `unit` bytes (0: a
        page of the device)."""
        stream = stream or self.stream()
        number = self._tag(tag)
        block = ctypes.c_void_p()
        pool = self._life.acquire()
        try:
            status = lib.weir_pool_reserve(pool, stream._handle, _unsigned(size, "size"),  # pylint: disable=protected-access
                                           _unsigned(unit, "unit"), number, ctypes.byref(block))
            check(status, "weir_pool_reserve", self.device._error if status == _c.Status.DEVICE else None)  # pylint: disable=protected-access
            return ReservedBlock(stream, block.value or 0, size, tag)
        except BaseException:
            self._life.release()
            raise

    def sleep(self, *, discard: Iterable[str] = (), zero: Iterable[str] = (), stay: Iterable[str] = ()) -> SleepReport:
        """Gives the memory of all blocks back; addresses stay. The blocks of the tags named by `discard` and `zero` lose their
        contents, those of `stay` stay awake ("untagged": blocks without a tag); the contents of all others are kept in host
        memory. Waits for the streams of the blocks. Raises BusyError for pinned blocks and captured streams."""
        policies = [(name, policy) for policy, names in ((1, discard), (2, zero), (3, stay)) for name in names]
        rules = (_c.SleepRule * len(policies))(*((self._numbered(name), policy) for name, policy in policies))
        config = _c.new(_c.SleepConfig, rules=rules, rule_count=len(policies))
        report = _c.new(_c.SleepReport)
        with self._life as pool:
            status = lib.weir_pool_sleep(pool, ctypes.byref(config), ctypes.byref(report))
        check(status, "weir_pool_sleep", self.device._error if status == _c.Status.DEVICE else None)  # pylint: disable=protected-access
        return _sleep_report(report)

    def wake(self, *tags: str) -> SleepReport:
        """Brings the blocks of the tags back, or all without a name. Raises OutOfMemoryError if memory lacks; the text says how
        much, and the blocks sleep on."""
        chosen = (ctypes.c_uint32 * len(tags))(*(self._numbered(name) for name in tags))
        report = _c.new(_c.SleepReport)
        with self._life as pool:
            status = lib.weir_pool_wake(pool, chosen if tags else None, len(tags), ctypes.byref(report))
        if status in (_c.Status.NO_MEMORY, _c.Status.LIMIT):
            raise OutOfMemoryError(f"{report.missing_bytes} bytes are missing to wake; others hold {report.others_bytes} bytes "
                                   "of the device")
        check(status, "weir_pool_wake", self.device._error if status == _c.Status.DEVICE else None)  # pylint: disable=protected-access
        return _sleep_report(report)

    def stats(self) -> PoolStats:
        """Returns the current figures."""
        stats = _c.new(_c.PoolStats)
        with self._life as pool:
            check(lib.weir_pool_get_stats(pool, ctypes.byref(stats)), "weir_pool_get_stats")
        values = {field.name: getattr(stats, field.name) for field in dataclasses.fields(PoolStats)}
        values["served"] = {lib.weir_rung_name(i).decode(): n for i, n in enumerate(stats.served) if n}
        values["sizes"] = {1 << i: n for i, n in enumerate(stats.sizes) if n}
        return PoolStats(**values)

    def tags(self) -> Dict[str, TagStats]:
        """Returns the figures of each tag that was used, "untagged" included."""
        found = {}
        with self._life as pool:
            for name, tag in [("untagged", 0), *self._tags.items()]:
                stats = _c.new(_c.TagStats)
                check(lib.weir_pool_get_tag_stats(pool, tag, ctypes.byref(stats)), "weir_pool_get_tag_stats")
                found[name] = TagStats(*(getattr(stats, field.name) for field in dataclasses.fields(TagStats)))
        return found

    def set_limits(self, *, soft_limit_bytes: int = 0, limit_bytes: int = 0) -> None:
        """Changes both limits; 0: none. Idle memory above them goes back."""
        with self._life as pool:
            check(lib.weir_pool_set_limits(pool, _unsigned(soft_limit_bytes, "soft_limit_bytes"),
                                           _unsigned(limit_bytes, "limit_bytes")), "weir_pool_set_limits")

    def would_fit(self, size: int, count: int = 1, stream: Optional[Stream] = None) -> int:
        """Returns how many of `count` blocks of `size` bytes would now certainly succeed."""
        stream = stream or self.stream()
        fit = ctypes.c_uint64()
        with self._life as pool:
            check(lib.weir_pool_would_fit(pool, stream._handle, _unsigned(size, "size"),  # pylint: disable=protected-access
                                          _unsigned(count, "count"), ctypes.byref(fit)), "weir_pool_would_fit")
        return fit.value

    def trim(self, keep_bytes: int = 0, *, wait: bool = False) -> int:
        """Returns idle memory to the device until at most `keep_bytes` are reserved; with `wait` also memory that queued
        work may touch, after it. Returns the bytes returned."""
        released = ctypes.c_uint64()
        with self._life as pool:
            check(lib.weir_pool_trim(pool, _unsigned(keep_bytes, "keep_bytes"), int(wait), ctypes.byref(released)),
                  "weir_pool_trim")
        return released.value

    def oom(self) -> Optional[OomRecord]:
        """Returns the record of the last failed request; None if none has failed."""
        record = _c.new(_c.OomRecord)
        with self._life as pool:
            check(lib.weir_pool_get_oom(pool, ctypes.byref(record)), "weir_pool_get_oom")
        return _oom_record(record) if record.failure != 0 else None

    def check(self) -> None:
        """Checks the invariants. Raises Error if one is broken."""
        why = ctypes.c_char_p()
        with self._life as pool:
            status = lib.weir_pool_check(pool, ctypes.byref(why))
        check(status, "weir_pool_check", (lambda: why.value) if why.value else None)

    def record(self, path: Union[str, "os.PathLike[str]"], source: str = "python") -> Recording:
        """Records every request to a trace (.wtr) until the end of the `with` block. No other thread may use the pool at
        that moment."""
        recorder = ctypes.c_void_p()
        pool = self._life.acquire()
        try:
            _open_recorder(lib.weir_recorder_start_file(pool, os.fsencode(path), source.encode(), ctypes.byref(recorder)), path)
        except BaseException:
            self._life.release()
            raise

        def stop() -> int:
            lost = ctypes.c_uint64()
            try:
                check(lib.weir_recorder_stop(recorder, ctypes.byref(lost)), "weir_recorder_stop")
            finally:
                self._life.release()
            return lost.value

        return Recording(stop)


def _oom_caller(on_oom: Callable[[OomRecord], bool]):
    def call(_ctx, _pool, record):
        try:
            return bool(on_oom(_oom_record(_c.OomRecord.from_address(record))))
        except BaseException:  # pylint: disable=broad-except # C code has no exceptions
            sys.excepthook(*sys.exc_info())
            return False
    return call


class _Pressure(ctypes.Structure):
    c_name = "weir_pressure"
    _fields_ = [("struct_size", ctypes.c_size_t), ("size", ctypes.c_uint64), ("stream", ctypes.c_uint32),
                ("reserved_bytes", ctypes.c_uint64), ("over_bytes", ctypes.c_uint64), ("soft_limit_bytes", ctypes.c_uint64),
                ("limit_bytes", ctypes.c_uint64)]


def _pressure_caller(on_pressure: Callable[[int], bool]):
    def call(_ctx, _pool, pressure):
        try:
            return bool(on_pressure(_Pressure.from_address(pressure).over_bytes))
        except BaseException:  # pylint: disable=broad-except # C code has no exceptions
            sys.excepthook(*sys.exc_info())
            return False
    return call
