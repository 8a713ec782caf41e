"""_c.py: the C interface: structs, functions and errors of the libraries that this package carries.

A struct has the name and the members of the C struct (tests/python/layout.py compares each offset with the headers). All calls
release Python's lock while they run, so other threads go on. `check` turns a status into an exception with weir's own sentence.
"""
import ctypes
import enum
import os
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, \
    c_uint64, c_void_p
from typing import Optional

PREFIX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_prefix")
LIBRARIES = os.path.join(PREFIX, "lib")

SIZE_BUCKETS = 48
TAG_NAME_BYTES = 64
OOM_ENTRIES = 6
OOM_ADVICE = 5
RUNGS = 15


class Status(enum.IntEnum):
    """Results of the C functions."""
    OK = 0
    NO_MEMORY = -1
    INVALID = -2
    UNSUPPORTED = -3
    LIMIT = -4
    BUSY = -5
    DEVICE = -6
    INTERNAL = -7


# --- structs ---


class HostPoolSource(Structure):
    """Of weir/heap.h."""
    c_name = "weir_heap_source"
    _fields_ = [("host_pool", c_void_p), ("pool", c_void_p), ("stream", c_void_p), ("node", c_int32)]


RECLAIM = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_uint64, c_uint32)


class HeapConfig(Structure):
    """Of weir/heap.h."""
    c_name = "weir_heap_config"
    _fields_ = [("struct_size", c_size_t), ("flags", c_uint32), ("source", HostPoolSource), ("long_lived", HostPoolSource),
                ("align", c_uint64), ("slack_bytes", c_uint64), ("limit_bytes", c_uint64), ("reclaim", RECLAIM),
                ("reclaim_ctx", c_void_p), ("name", c_char_p), ("decay_ms", c_int64), ("shared_limit", c_void_p)]


class HeapStats(Structure):
    """Of weir/heap.h."""
    c_name = "weir_heap_stats"
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in (
        "allocs", "frees", "reallocs", "moves", "failures", "reclaims", "bad_frees", "live_blocks", "live_bytes",
        "peak_live_bytes", "long_lived_bytes", "largest_bytes", "held_bytes", "peak_held_bytes", "limit_bytes",
        "decayed_bytes", "decays", "decay_failures", "moved_bytes", "remade_bytes")]


class SimCosts(Structure):
    """Of weir/sim.h: all zero means the documented prices."""
    c_name = "weir_sim_costs"
    CALLS = 16
    _fields_ = [("call_ns", c_uint64 * CALLS)] + [(name, c_uint64) for name in (
        "region_alloc_ns_per_mib", "region_free_ns_per_mib", "vm_create_ns_per_mib", "launch_ns", "transfer_ns",
        "device_copy_ns_per_mib", "host_copy_ns_per_mib", "fill_ns_per_mib")]


class SimConfig(Structure):
    """Of weir/sim.h."""
    c_name = "weir_sim_config"
    _fields_ = [("struct_size", c_size_t), ("mode", c_int), ("capacity_bytes", c_uint64),
                ("region_granularity_bytes", c_uint64), ("page_bytes", c_uint64), ("seed", c_uint64),
                ("address_base", c_uint64), ("costs", SimCosts), ("no_audit", c_bool), ("no_virtual_memory", c_bool),
                ("no_ordering", c_bool), ("max_findings", c_uint32), ("direct_access", c_bool), ("shared_limit", c_void_p)]


class SimOperation(Structure):
    """Of weir/sim.h."""
    c_name = "weir_sim_operation"
    _fields_ = [("what", c_char_p), ("tag", c_char * 48), ("stream", c_uint32), ("tick", c_uint64), ("start_ns", c_uint64),
                ("end_ns", c_uint64), ("number", c_uint64)]


class SimFinding(Structure):
    """Of weir/sim.h."""
    c_name = "weir_sim_finding"
    _fields_ = [("kind", c_int), ("address", c_uint64), ("size", c_uint64), ("earlier", SimOperation),
                ("later", SimOperation), ("in_flight", c_bool), ("text", c_char * 448)]


class AclDeviceConfig(Structure):
    """Of weir/acl.h."""
    c_name = "weir_acl_device_config"
    _fields_ = [("struct_size", c_size_t), ("device_id", c_int32), ("memory", c_int), ("pages", c_int), ("flags", c_uint32)]


class CudaDeviceConfig(Structure):
    """Of weir/cuda.h."""
    c_name = "weir_cuda_device_config"
    _fields_ = [("struct_size", c_size_t), ("ordinal", c_int32), ("flags", c_uint32), ("handle_type", c_int),
                ("peers", POINTER(c_int32)), ("peer_count", c_size_t)]


OOM_CALLBACK = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)
PRESSURE_CALLBACK = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)


class PoolConfig(Structure):
    """Of weir/pool.h."""
    c_name = "weir_pool_config"
    _fields_ = [("struct_size", c_size_t), ("device", c_void_p), ("strategy", c_void_p), ("strategy_config", c_void_p),
                ("limit_bytes", c_uint64), ("growth", c_int), ("flags", c_uint32), ("oom_callback", OOM_CALLBACK),
                ("oom_ctx", c_void_p), ("soft_limit_bytes", c_uint64), ("pressure_callback", PRESSURE_CALLBACK),
                ("pressure_ctx", c_void_p)]


class PoolStats(Structure):
    """Of weir/pool.h."""
    c_name = "weir_pool_stats"
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in (
        "allocs", "frees", "failures", "requested_bytes", "live_bytes", "cached_bytes", "pending_bytes", "free_bytes",
        "reserved_bytes", "peak_requested_bytes", "peak_live_bytes", "peak_reserved_bytes", "largest_free_bytes")] + [
        ("external_fragmentation", c_double), ("regions", c_uint64), ("streams", c_uint64), ("served", c_uint64 * RUNGS)] + [
        (name, c_uint64) for name in ("waits", "syncs", "events_recorded", "region_allocs", "region_frees", "device_failures",
                                      "device_ns")] + [("sizes", c_uint64 * SIZE_BUCKETS)] + [
        (name, c_uint64) for name in ("vm_creates", "vm_destroys", "vm_maps", "vm_unmaps", "vm_moved_bytes", "limit_bytes",
                                      "soft_limit_bytes", "soft_limit_growths", "pressure_calls", "tags", "pinned_bytes",
                                      "uncommitted_bytes")]


class TagStats(Structure):
    """Of weir/budget.h."""
    c_name = "weir_tag_stats"
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in (
        "allocs", "frees", "blocks", "requested_bytes", "peak_requested_bytes")]


class OomHolder(Structure):
    """Of weir/pool.h."""
    c_name = "weir_oom_holder"
    _fields_ = [("tag", c_uint32), ("name", c_char * TAG_NAME_BYTES), ("requested_bytes", c_uint64), ("blocks", c_uint64)]


class OomLane(Structure):
    """Of weir/pool.h."""
    c_name = "weir_oom_lane"
    _fields_ = [("stream", c_uint32), ("free_bytes", c_uint64), ("largest_bytes", c_uint64), ("waits_for", c_uint64),
                ("of_graph", c_bool)]


class OomRegion(Structure):
    """Of weir/pool.h."""
    c_name = "weir_oom_region"
    _fields_ = [(name, c_uint64) for name in ("address", "size", "free_bytes", "largest_bytes", "blocks")]


class OomAdvice(Structure):
    """Of weir/pool.h."""
    c_name = "weir_oom_advice"
    _fields_ = [("kind", c_int), ("stream", c_uint32), ("bytes", c_uint64), ("blocks", c_uint64), ("address", c_uint64),
                ("size", c_uint64), ("tag", c_uint32)]


class OomRecord(Structure):
    """Of weir/pool.h."""
    c_name = "weir_oom_record"
    _fields_ = [("struct_size", c_size_t), ("failure", c_uint64), ("size", c_uint64), ("align", c_uint64), ("stream", c_uint32)] + [
        (name, c_uint64) for name in ("limit_bytes", "reserved_bytes", "requested_bytes", "live_bytes", "cached_bytes",
                                      "pending_bytes", "free_bytes", "largest_free_bytes", "idle_region_bytes",
                                      "region_asked_bytes")] + [
        ("device_status", c_int), ("text", c_char * 512), ("regions", c_uint64), ("usable_bytes", c_uint64), ("tag", c_uint32),
        ("tag_name", c_char * TAG_NAME_BYTES), ("holder_count", c_uint32), ("lane_count", c_uint32), ("region_count", c_uint32),
        ("advice_count", c_uint32), ("holders", OomHolder * OOM_ENTRIES), ("lanes", OomLane * OOM_ENTRIES),
        ("worst", OomRegion * OOM_ENTRIES), ("advice", OomAdvice * OOM_ADVICE), ("pinned_idle_bytes", c_uint64),
        ("cause", c_int), ("free_pieces", c_uint64), ("usable_free_bytes", c_uint64), ("device_free_bytes", c_uint64),
        ("device_total_bytes", c_uint64), ("in_the_way", c_char * TAG_NAME_BYTES), ("virtual_memory_would_do", c_bool)]


class SleepRule(Structure):
    """Of weir/sleep.h."""
    c_name = "weir_sleep_rule"
    _fields_ = [("tag", c_uint32), ("policy", c_int)]


class SleepStore(Structure):
    """Of weir/sleep.h: all zero means pageable memory."""
    c_name = "weir_sleep_store"
    _fields_ = [("take", c_void_p), ("give", c_void_p), ("ctx", c_void_p)]


class SleepConfig(Structure):
    """Of weir/sleep.h."""
    c_name = "weir_sleep_config"
    _fields_ = [("struct_size", c_size_t), ("rules", POINTER(SleepRule)), ("rule_count", c_size_t), ("store", SleepStore)]


class SleepReport(Structure):
    """Of weir/sleep.h."""
    c_name = "weir_sleep_report"
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in (
        "blocks", "bytes", "device_bytes", "host_bytes", "kept_bytes", "asleep_blocks", "asleep_bytes", "left_bytes", "copies",
        "copied_bytes", "waits", "missing_bytes", "others_bytes")]


class ReserveInfo(Structure):
    """Of weir/reserve.h."""
    c_name = "weir_reserve_info"
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in ("unit_bytes", "committed_bytes", "pending_bytes")]


STRUCTS = (HostPoolSource, HeapConfig, HeapStats, SimCosts, SimConfig, SimOperation, SimFinding, AclDeviceConfig,
           CudaDeviceConfig, PoolConfig, PoolStats, TagStats, OomHolder, OomLane, OomRegion, OomAdvice, OomRecord,
           SleepRule, SleepStore, SleepConfig, SleepReport, ReserveInfo)


def new(kind, **members):
    """Returns a size-first struct with these members; all others are zero, which means the default."""
    return kind(struct_size=ctypes.sizeof(kind), **members)


# --- functions ---

_P = c_void_p
_OUT = POINTER(c_void_p)
_TEXT = POINTER(c_char_p)

# name: (result, parameters). A result of None is a weir_status, which `check` looks at.
_WEIR = {
    "weir_version": (c_char_p, []),
    "weir_last_error": (c_char_p, []),
    "weir_status_text": (c_char_p, [c_int]),
    "weir_rung_name": (c_char_p, [c_int]),
    "weir_heap_create": (c_int, [POINTER(HeapConfig), _OUT]),
    "weir_heap_destroy": (c_int, [_P]),
    "weir_heap_alloc_aligned": (c_void_p, [_P, c_size_t, c_size_t]),
    "weir_heap_alloc_long_lived": (c_void_p, [_P, c_size_t, c_size_t]),
    "weir_heap_free": (c_int, [_P, _P]),
    "weir_heap_usable_size": (c_size_t, [_P, _P]),
    "weir_heap_trim": (c_int, [_P, c_uint64, POINTER(c_uint64)]),
    "weir_heap_set_limit": (c_int, [_P, c_uint64]),
    "weir_heap_get_stats": (c_int, [_P, POINTER(HeapStats)]),
    "weir_heap_explain": (c_size_t, [_P, c_char_p, c_size_t]),
    "weir_heap_check": (c_int, [_P, POINTER(c_char_p)]),
    "weir_heap_record": (c_int, [_P, _P]),
    "weir_recorder_create_file": (c_int, [c_char_p, c_char_p, _OUT]),
    "weir_recorder_start_file": (c_int, [_P, c_char_p, c_char_p, _OUT]),
    "weir_recorder_stop": (c_int, [_P, POINTER(c_uint64)]),
    "weir_sim_create": (c_int, [POINTER(SimConfig), _OUT]),
    "weir_sim_device": (c_void_p, [_P]),
    "weir_sim_sync": (c_int, [_P]),
    "weir_sim_stream_create": (c_int, [_P, _OUT]),
    "weir_sim_stream_destroy": (c_int, [_P, _P]),
    "weir_sim_fill": (c_int, [_P, _P, c_uint64, c_uint64, c_uint8, c_char_p]),
    "weir_sim_copy": (c_int, [_P, _P, c_uint64, c_uint64, c_uint64, c_char_p]),
    "weir_sim_bytes": (c_void_p, [_P, c_uint64, c_uint64]),
    "weir_sim_now": (c_uint64, [_P]),
    "weir_sim_block_alloc": (None, [_P, c_uint64, c_uint64, _P, c_char_p]),
    "weir_sim_block_free": (None, [_P, c_uint64, _P, c_char_p]),
    "weir_sim_default_stream": (c_void_p, [_P]),
    "weir_sim_finding_at": (c_bool, [_P, c_size_t, POINTER(SimFinding)]),
    "weir_sim_finding_name": (c_char_p, [c_int]),
    "weir_device_destroy": (c_int, [_P]),
    "weir_device_error": (c_int, [_P, POINTER(c_int64), _TEXT]),
    "weir_caching_strategy": (c_void_p, []),
    "weir_size_class_strategy": (c_void_p, []),
    "weir_bump_strategy": (c_void_p, []),
    "weir_pool_create": (c_int, [POINTER(PoolConfig), _OUT]),
    "weir_pool_destroy": (c_int, [_P]),
    "weir_pool_stream": (c_int, [_P, _P, _OUT]),
    "weir_stream_retire": (c_int, [_P, _P]),
    "weir_stream_synced": (c_int, [_P, _P]),
    "weir_pool_alloc_tagged": (c_int, [_P, _P, c_uint64, c_uint64, c_uint32, _OUT]),
    "weir_pool_free": (c_int, [_P, _P, _P]),
    "weir_pool_use": (c_int, [_P, _P, _P]),
    "weir_block_address": (c_uint64, [_P]),
    "weir_block_capacity": (c_uint64, [_P]),
    "weir_pool_trim": (c_int, [_P, c_uint64, c_uint32, POINTER(c_uint64)]),
    "weir_pool_check": (c_int, [_P, POINTER(c_char_p)]),
    "weir_pool_get_stats": (c_int, [_P, POINTER(PoolStats)]),
    "weir_pool_tag": (c_int, [_P, c_char_p, POINTER(c_uint32)]),
    "weir_pool_tag_name": (c_char_p, [_P, c_uint32]),
    "weir_pool_get_tag_stats": (c_int, [_P, c_uint32, POINTER(TagStats)]),
    "weir_pool_set_limits": (c_int, [_P, c_uint64, c_uint64]),
    "weir_pool_would_fit": (c_int, [_P, _P, c_uint64, c_uint64, POINTER(c_uint64)]),
    "weir_pool_get_oom": (c_int, [_P, POINTER(OomRecord)]),
    "weir_pool_sleep": (c_int, [_P, POINTER(SleepConfig), POINTER(SleepReport)]),
    "weir_pool_wake": (c_int, [_P, POINTER(c_uint32), c_size_t, POINTER(SleepReport)]),
    "weir_pool_get_sleep": (c_int, [_P, POINTER(SleepReport)]),
    "weir_block_is_asleep": (c_bool, [_P]),
    "weir_pool_reserve": (c_int, [_P, _P, c_uint64, c_uint64, c_uint32, _OUT]),
    "weir_pool_commit": (c_int, [_P, _P, c_uint64, c_uint64, _P]),
    "weir_pool_decommit": (c_int, [_P, _P, c_uint64, c_uint64, _P]),
    "weir_pool_get_reserve": (c_int, [_P, _P, POINTER(ReserveInfo)]),
    "weir_pool_find_committed": (c_int, [_P, _P, c_uint64, POINTER(c_uint64), POINTER(c_uint64)]),
    "weir_oom_explain": (c_size_t, [POINTER(OomRecord), c_char_p, c_size_t]),
}
_ACL = {"weir_acl_device_create": (c_int, [POINTER(AclDeviceConfig), _OUT]), "weir_acl_error": (c_int, [POINTER(c_int), _TEXT])}
_CUDA = {"weir_cuda_device_create": (c_int, [POINTER(CudaDeviceConfig), _OUT]), "weir_cuda_error": (c_int, [POINTER(c_int), _TEXT])}


def _load(name, functions):
    library = ctypes.CDLL(os.path.join(LIBRARIES, name), use_errno=True)
    for function, (result, parameters) in functions.items():
        entry = getattr(library, function)
        entry.restype = result
        entry.argtypes = parameters
    return library


lib = _load("libweir.so.0.1", _WEIR)


def load_acl():
    """Returns weir's library for Ascend. Raises UnsupportedError if CANN's runtime is not found."""
    try:
        return _load("libweir_acl.so.0.1", _ACL)
    except OSError as why:
        raise UnsupportedError(f"no Ascend: {why} (CANN's set_env.sh names the folder of libascendcl.so)") from why


def load_cuda():
    """Returns weir's library for NVIDIA GPUs, which opens the driver itself."""
    try:
        return _load("libweir_cuda.so.0.1", _CUDA)
    except OSError as why:
        raise UnsupportedError(f"no CUDA: {why}") from why


# --- errors ---


class Error(Exception):
    """A call of weir has failed. `status` is a Status; the text is weir's sentence."""
    status: Status = Status.INTERNAL


class InvalidError(Error, ValueError):
    """A wrong argument, or an object that is closed."""
    status = Status.INVALID


class UnsupportedError(Error):
    """The machine, or this version, does not have it."""
    status = Status.UNSUPPORTED


class BusyError(Error):
    """Something is still in use."""
    status = Status.BUSY


class DeviceError(Error):
    """A call of the device has failed."""
    status = Status.DEVICE


class OutOfMemoryError(Error, MemoryError):
    """No memory. `record` is the OomRecord of a pool; for a heap it is None. The text names the remedies."""
    status = Status.NO_MEMORY

    def __init__(self, text: str, record: Optional[object] = None):
        super().__init__(text)
        self.record = record


_ERRORS = {Status.INVALID: InvalidError, Status.UNSUPPORTED: UnsupportedError, Status.BUSY: BusyError,
           Status.DEVICE: DeviceError, Status.NO_MEMORY: OutOfMemoryError, Status.LIMIT: OutOfMemoryError}


def check(status: int, what: str, sentence=None) -> None:
    """Raises the exception of a status that is not OK. The sentence is that of this thread's last refusal."""
    if status == Status.OK:
        return
    said = b""
    if status in (Status.INVALID, Status.UNSUPPORTED, Status.BUSY) or sentence is not None:
        said = (sentence or lib.weir_last_error)()
    text = said.decode(errors="replace") if said else f"{what}: {lib.weir_status_text(status).decode()}"
    try:
        kind = _ERRORS.get(Status(status), Error)
    except ValueError:
        kind = Error
    error = kind(text)
    error.status = Status(status) if status in set(Status) else Status.INTERNAL
    raise error


def sentence_of(ask) -> bytes:
    """Returns the text of a function like weir_cuda_error: ask(code, text)."""
    text = c_char_p()
    return text.value or b"" if ask(None, ctypes.byref(text)) == 0 else b""


def text_of(write) -> str:
    """Returns the text that a function like snprintf writes: write(buffer, size)."""
    size = 2048
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = write(buffer, size)
        if length < size:
            return buffer.value.decode(errors="replace")
        size = length + 1
